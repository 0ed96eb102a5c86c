"""Orders the pods that wait: which is scheduled next, and what each of the others waits for.

In: pods as they come, change and go, the outcomes of their cycles, and what happens in the cluster
(`hints.ClusterEvent`). Out: the next pod to try. Pure: time is an argument, in seconds, and never goes back. A pod is
in exactly one place:

    gated ──gates gone──▶ active ──pop──▶ in flight ──done──▶ (out of the queue)
                           ▲  ▲              │
                back-off over │ error, or something happened that may help ──▶ back-off
                           │  └── helped, back-off over ── unschedulable ◀── refused
                           └────── five minutes over ─────────┘

What happens while a pod is in flight is kept until its cycle, and its binding, have ended: a node that came during the
very cycle that missed it counts (kubernetes/kubernetes pkg/scheduler/backend/queue/scheduling_queue.go, v1.36)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controlplane.controllers.scheduling.events import Woken
from controlplane.controllers.scheduling.framework.hints import ASKED_ANYWAY, ClusterEvent, Hints
from controlplane.controllers.scheduling.framework.plugin import QueuedPod
from controlplane.controllers.scheduling.framework.status import Status
from controlplane.controllers.scheduling.snapshot.objects import Pod

# Events that are kept for pods in flight; past this, a pod that was in flight all the time is taken to have missed
# something.
_REMEMBERED = 5_000
# What gives a pod another try without anything happening to another object: its long wait, its back-off, a word of the
# loop, itself.
FLUSHED, OVER = Woken(resource="Queue", action="Flush"), Woken(resource="Queue", action="Backoff")
CALLED, CHANGED = Woken(resource="Queue", action="Activate"), Woken(resource="Queue", action="PodChanged")


class QueuePlace(StrEnum):
    """Where a pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


@dataclass(slots=True, eq=False)
class QueueEntry:
    """One pod in the queue. `enqueued` is when it came first; `refused_by` the plugins that refused it last, or the one
    that keeps it outside, `since` when it came here.
    """

    pod: Pod
    enqueued: float
    place: QueuePlace
    since: float
    attempts: int = 0
    backoff_until: float = 0.0
    refused_by: frozenset[str] = frozenset()
    gate: str = ""
    seen: int = 0  # in flight: how many events had happened when the cycle began
    woken: Woken | None = None  # what gave the pod its present try, or the next
    ticket: int = 0  # which line of a heap is this entry's; others are void

    @property
    def queued(self) -> QueuedPod:
        """The entry as a QueueSort plugin sees it."""
        return QueuedPod(self.pod, self.enqueued, self.attempts)


@dataclass(frozen=True, slots=True)
class QueueTiming:
    """Seconds: the first and the longest back-off, and how long a refused pod waits for something to help it."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    flush: float = 300.0

    def backoff(self, attempts: int) -> float:
        """Return the pause after so many attempts."""
        return float(min(self.initial_backoff * 2.0 ** min(max(attempts - 1, 0), 60), self.max_backoff))


class Queue:
    """The scheduling queue. `sort_key` orders it (QueueSort), `pre_enqueue` keeps pods outside (PreEnqueue), `hints`
    say what helps.
    """

    def __init__(
        self,
        sort_key: Callable[[QueuedPod], Any],
        pre_enqueue: Callable[[Pod], Status],
        hints: Hints,
        timing: QueueTiming | None = None,
    ) -> None:
        self._sort_key, self._pre_enqueue, self._hints = sort_key, pre_enqueue, hints
        self._timing = timing or QueueTiming()
        self._entries: dict[str, QueueEntry] = {}
        self._active: list[tuple[Any, int, QueueEntry]] = []
        self._due: list[tuple[float, int, QueueEntry]] = []
        self._refused: dict[frozenset[str], dict[str, QueueEntry]] = {}
        self._flying: dict[str, QueueEntry] = {}
        self._events: list[ClusterEvent] = []
        self._happened = 0  # events so far; the last `len(_events)` of them are kept
        self._tickets = 0
        self.counts: dict[QueuePlace, int] = dict.fromkeys(QueuePlace, 0)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, identity: str) -> bool:
        return identity in self._entries

    def entry(self, identity: str) -> QueueEntry | None:
        """Return a pod's entry."""
        return self._entries.get(identity)

    def __iter__(self) -> Iterator[QueueEntry]:
        return iter(self._entries.values())

    # ---------------------------------------------------------------- pods come, change and go

    def add(self, pod: Pod, now: float, enqueued: float | None = None) -> None:
        """Take a pod in, or take note that it has changed. `enqueued` is when it was first seen, if that was before
        now.
        """
        entry = self._entries.get(pod.identity)
        if entry is not None:
            self._update(entry, pod, now)
            return
        entry = self._entries[pod.identity] = QueueEntry(
            pod, now if enqueued is None else enqueued, QueuePlace.GATED, now
        )
        self.counts[QueuePlace.GATED] += 1
        self._admit(entry, now)

    def remove(self, identity: str) -> None:
        """Forget a pod, wherever it is; one that is not here is no fault."""
        entry = self._entries.pop(identity, None)
        if entry is not None:
            self._leave(entry)
            self.counts[entry.place] -= 1

    # ---------------------------------------------------------------- cycles

    def pop(self, now: float) -> QueueEntry | None:
        """Return the next pod, in flight from now on; None if there is none."""
        self.advance(now)
        while self._active:
            _, ticket, entry = heapq.heappop(self._active)
            if entry.ticket == ticket:
                self._put(entry, QueuePlace.IN_FLIGHT, now)
                entry.attempts += 1
                entry.seen = self._happened
                self._flying[entry.pod.identity] = entry
                return entry
        return None

    def refused(self, identity: str, plugins: frozenset[str], now: float) -> None:
        """The pod in flight found no node, refused by these plugins. Without any, everything may help it."""
        entry = self._flying.get(identity)
        if entry is None:
            return
        missed = self._missed(entry, plugins)
        entry.woken = missed
        entry.refused_by = plugins
        entry.backoff_until = now + self._timing.backoff(entry.attempts)
        self._land(entry, QueuePlace.UNSCHEDULABLE if missed is None else QueuePlace.BACKOFF, now)

    def failed(self, identity: str, now: float) -> None:
        """The pod in flight met an error, or has to be tried again: it backs off and is then tried."""
        entry = self._flying.get(identity)
        if entry is None:
            return
        entry.refused_by, entry.woken = frozenset(), OVER
        entry.backoff_until = now + self._timing.backoff(entry.attempts)
        self._land(entry, QueuePlace.BACKOFF, now)

    def again(self, identity: str, now: float) -> None:
        """The pod in flight was overtaken by a change of its own: its attempt does not count, and it may be tried at
        once.
        """
        entry = self._flying.get(identity)
        if entry is not None:
            entry.attempts -= 1
            self._land(entry, QueuePlace.ACTIVE, now)

    # ---------------------------------------------------------------- what may help

    def move(self, event: ClusterEvent, now: float, among: Callable[[Pod], bool] | None = None) -> int:
        """Something happened in the cluster: the pods that it may help are tried again, `among` those alone for which
        that holds. Return how many.
        """
        if self._flying:
            self._events.append(event)
            if len(self._events) > 2 * _REMEMBERED:
                del self._events[:-_REMEMBERED]
        else:
            self._events.clear()
        self._happened += 1
        helped: list[QueueEntry] = []
        for plugins, entries in self._refused.items():
            if self._hints.concern(plugins, event):
                helped += [entry for entry in entries.values() if self._hints.may_help(plugins, event, entry.pod)]
        if among is not None:
            helped = [entry for entry in helped if among(entry.pod)]
        for entry in helped:
            self._retry(entry, now, _woken(event))
        return len(helped)

    def ask_again(self, identity: str, now: float) -> None:
        """Ask the PreEnqueue plugins again about a pod that one of them keeps outside."""
        entry = self._entries.get(identity)
        if entry is not None and entry.place is QueuePlace.GATED:
            self._admit(entry, now)

    def activate(self, identity: str, now: float, *, at_once: bool = False) -> None:
        """Try a refused pod again, whatever refused it; `at_once` even if it backs off."""
        entry = self._entries.get(identity)
        if entry is None or entry.place not in (QueuePlace.UNSCHEDULABLE, QueuePlace.BACKOFF):
            return
        if at_once:
            entry.woken = CALLED
            self._admit(entry, now)
        elif entry.place is QueuePlace.UNSCHEDULABLE:
            self._retry(entry, now, CALLED)

    def advance(self, now: float) -> None:
        """Let time pass: back-offs end, and who was refused too long ago is tried again."""
        while self._due and self._due[0][0] <= now:
            _, ticket, entry = heapq.heappop(self._due)
            if entry.ticket != ticket:
                continue
            if entry.place is QueuePlace.UNSCHEDULABLE:
                self._retry(entry, now, FLUSHED)
            else:
                self._admit(entry, now)

    def next_due(self) -> float | None:
        """Return when `advance` has something to do; None if nothing waits for time."""
        while self._due and self._due[0][2].ticket != self._due[0][1]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    # ---------------------------------------------------------------- within

    def _update(self, entry: QueueEntry, pod: Pod, now: float) -> None:
        before, entry.pod = entry.pod, pod
        if entry.place is QueuePlace.GATED:
            self._admit(entry, now)
        elif entry.place is QueuePlace.ACTIVE:
            self._admit(entry, now)  # its priority, or its gates, may be others now
        elif entry.place is QueuePlace.UNSCHEDULABLE or entry.place is QueuePlace.BACKOFF:
            status = self._pre_enqueue(pod)
            if not status.ok:
                self._gate(entry, status, now)
            elif entry.place is QueuePlace.UNSCHEDULABLE and self._hints.own_change_helps(
                entry.refused_by, before, pod
            ):
                self._retry(entry, now, CHANGED)
        elif entry.place is QueuePlace.IN_FLIGHT and self._hints.changed(before, pod):
            entry.seen = -1  # whatever the cycle says of the pod as it was, it is tried again as it is

    def _land(self, entry: QueueEntry, place: QueuePlace, now: float) -> None:
        """Put a pod that was in flight where it belongs now, outside if it was changed meanwhile and got a gate."""
        status = self._pre_enqueue(entry.pod) if entry.seen < 0 else None
        if status is None or status.ok:
            self._put(entry, place, now)
        else:
            self._gate(entry, status, now)

    def _admit(self, entry: QueueEntry, now: float) -> None:
        """Put a pod among the active ones, unless a PreEnqueue plugin holds it outside."""
        status = self._pre_enqueue(entry.pod)
        if status.ok:
            entry.gate = ""
            self._put(entry, QueuePlace.ACTIVE, now)
        else:
            self._gate(entry, status, now)

    def _gate(self, entry: QueueEntry, status: Status, now: float) -> None:
        self._leave(entry)
        entry.gate, entry.refused_by = "; ".join(status.reasons), frozenset({status.plugin})
        self._put(entry, QueuePlace.GATED, now)

    def _retry(self, entry: QueueEntry, now: float, woken: Woken) -> None:
        entry.woken = woken
        if entry.backoff_until > now:
            self._put(entry, QueuePlace.BACKOFF, now)
        else:
            self._admit(entry, now)

    def _put(self, entry: QueueEntry, place: QueuePlace, now: float) -> None:
        self._leave(entry)
        self.counts[entry.place] -= 1
        self.counts[place] += 1
        entry.place, entry.since = place, now
        if place is QueuePlace.ACTIVE:
            heapq.heappush(self._active, (self._sort_key(entry.queued), self._ticket(entry), entry))
        elif place is QueuePlace.BACKOFF:
            heapq.heappush(self._due, (entry.backoff_until, self._ticket(entry), entry))
        elif place is QueuePlace.UNSCHEDULABLE:
            self._refused.setdefault(entry.refused_by, {})[entry.pod.identity] = entry
            heapq.heappush(self._due, (now + self._timing.flush, self._ticket(entry), entry))
        elif place is QueuePlace.GATED and not entry.refused_by <= ASKED_ANYWAY:
            self._refused.setdefault(entry.refused_by, {})[entry.pod.identity] = entry

    def _leave(self, entry: QueueEntry) -> None:
        """Take an entry out of its place; its lines in the heaps are void from now on."""
        entry.ticket = 0
        if entry.place is QueuePlace.UNSCHEDULABLE or entry.place is QueuePlace.GATED:
            waiting = self._refused.get(entry.refused_by, {})
            waiting.pop(entry.pod.identity, None)
            if not waiting:
                self._refused.pop(entry.refused_by, None)
        elif entry.place is QueuePlace.IN_FLIGHT:
            self._flying.pop(entry.pod.identity, None)
            if not self._flying:
                self._events.clear()

    def _ticket(self, entry: QueueEntry) -> int:
        self._tickets += 1
        entry.ticket = self._tickets
        return entry.ticket

    def _missed(self, entry: QueueEntry, plugins: frozenset[str]) -> Woken | None:
        """Return what happened since the pod's cycle began that may help it, None if nothing did."""
        if entry.seen < 0:
            return CHANGED
        count = self._happened - entry.seen
        if count > len(self._events):
            return FLUSHED  # more than is remembered
        for event in self._events[len(self._events) - count :]:
            if self._hints.concern(plugins, event) and self._hints.may_help(plugins, event, entry.pod):
                return _woken(event)
        return None


def _woken(event: ClusterEvent) -> Woken:
    """Return what happened as it is recorded."""
    about = event.new if event.new is not None else event.old
    return Woken(
        resource=event.resource, action=event.action, name=str(getattr(about, "key", getattr(about, "name", "")))
    )
