"""Schedules a new pod before what was seen of it is in the log, so that the observation, the reservation and the
binding share a commit (docs/decisions/0059).

In: observations of pods, with the places that they are about to get. Out: what a cycle decided, to be appended with
them. The cycle takes its node in the loop's memory, as every cycle does, and what it proposes stays its proposal: if
the log takes the observation without it, it is proposed again in the ordinary way, on the version that it was decided
on. A pod of which the log has heard before, one of a group, one that others are ahead of, is decided about once it is
folded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from controlplane.controllers.scheduling.binding.assumed import Proposal
from controlplane.controllers.scheduling.binding.pod_scheduling import OwnPods
from controlplane.controllers.scheduling.events import PendingPodObserved
from controlplane.controllers.scheduling.queue.queue import Queue, QueuePlace
from controlplane.controllers.scheduling.snapshot.view import ClusterView
from controlplane.log.event import Append, Recorded
from controlplane.runtime.controller import Decided


class Ahead:
    """The proposals that are to be committed with the first observation of their pod, by its stream."""

    def __init__(self, outbox: deque[Proposal]) -> None:
        self._outbox = outbox
        self._proposals: dict[str, Proposal] = {}

    def __contains__(self, stream: object) -> bool:
        return stream in self._proposals

    def of(self, stream: str) -> Proposal | None:
        """Return the proposal about a pod."""
        return self._proposals.get(stream)

    def take(self, stream: str) -> Proposal | None:
        """Keep what was proposed last, if it is about this pod: it is not sent by itself."""
        if not self._outbox or self._outbox[-1].stream != stream:
            return None
        found = self._proposals[stream] = self._outbox.pop()
        return found

    def folded(self, stream: str) -> None:
        """The log has the observation and what was decided on it, or something else."""
        self._proposals.pop(stream, None)

    def missed(self, stream: str) -> None:
        """The log has the observation alone, as far as it is folded: propose the rest as any other."""
        if (proposal := self._proposals.pop(stream, None)) is not None:
            self._outbox.append(proposal)


class AheadLoop(Protocol):
    """What is asked of the loop."""

    ahead: Ahead
    queue: Queue
    view: ClusterView

    def sync(self, stream: str, now: datetime) -> None:
        """Look what follows from the state of a pod's stream."""


def _is_plain(loop: AheadLoop, pod: PendingPodObserved) -> bool:
    """Whether a pod is in the snapshot, and is of no candidate and of no group."""
    shown = loop.view.pods.get(pod.uid)
    return not pod.candidate and shown is not None and not shown.group


class PodAnticipation:
    """Implements `AnticipatingController` for plain pods. `ready` says whether cycles may run, `cycle(now)` runs the
    next one."""

    def __init__(self, placements: OwnPods) -> None:
        self._placements = placements
        self._loop: AheadLoop | None = None
        self._ready: Callable[[], bool] = lambda: False
        self._cycle: Callable[[datetime], object] = lambda now: None

    def connect(self, loop: AheadLoop, ready: Callable[[], bool], cycle: Callable[[datetime], object]) -> None:
        """Take the loop of a term."""
        self._loop, self._ready, self._cycle = loop, ready, cycle

    def anticipate(self, events: Sequence[Recorded], now: datetime) -> Decided | None:
        """Return what follows once the observations of a pod are folded; None where they have to be folded first."""
        loop, pod = self._loop, events[-1].event
        if loop is None or not isinstance(pod, PendingPodObserved) or not _is_plain(loop, pod) or not self._ready():
            return None
        if pod.node:
            return Decided(version=events[-1].version)
        if len(events) > 1 or events[0].version != 1:
            return None
        return self._decided(loop, events[0], now)

    def _decided(self, loop: AheadLoop, observed: Recorded, now: datetime) -> Decided | None:
        stream = observed.stream
        proposal = loop.ahead.of(stream)
        if proposal is None:
            if self._others_first(loop, observed, now):
                return None
            with self._placements.assumed(observed):
                loop.sync(stream, now)
                self._cycle(now)
            proposal = loop.ahead.take(stream)
        if proposal is None:
            return None
        # The place of the observation may be another one than when it was last asked about.
        events = [msgspec.structs.replace(one, caused_by=observed.position) for one in proposal.append.events]
        proposal.append = Append(events, proposal.append.expected)
        expected = dict(proposal.append.expected or {})
        version = expected.pop(stream)
        return Decided(events, version, others=expected)

    def _others_first(self, loop: AheadLoop, observed: Recorded, now: datetime) -> bool:
        """Whether pods wait that came before this one."""
        pod, due = observed.event, loop.queue.next_due()
        assert isinstance(pod, PendingPodObserved)
        if loop.queue.counts[QueuePlace.ACTIVE] or (due is not None and due <= now.timestamp()):
            return True
        return self._placements.overtakes(pod.uid, loop.ahead)
