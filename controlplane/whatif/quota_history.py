"""Reads out of a recorded log what quota was decided on, where this service decided about it.

In: the events of admission, in order. Out: the changes of the objects that quota rests on; and of each Workload what it
asked for, how that changed, and how long it took until a reservation was seen. A log of a fleet where Kueue decides has
none of these events, and nothing is known. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.device_objects import WORDS as DEVICE_WORDS
from controlplane.controllers.quota.admission.topologies import NODE_WORDS
from controlplane.controllers.quota.admission.workload_status import WorkloadStatus, as_read
from controlplane.kube.kinds import Json
from controlplane.log.event import Event, Recorded
from controlplane.runtime.observations import ObjectObserved, ObjectVanished

ADMISSION = "admission"
_WORKLOAD = "workload"
_OBJECTS = frozenset(
    {"clusterqueue", "cohort", "localqueue", "flavor", "check", "namespace", "limitrange", "runtimeclass", "topology"}
).union(DEVICE_WORDS)


PREEMPTED = "preempted"
_ONE_AFTER_THE_OTHER = 0.1
"""Scheduling cycles that are no more seconds apart follow from one another."""


def granted(cluster_queue: str, flavors: Iterable[str]) -> str:
    """Return how it is told that a Workload got quota."""
    return f"quota of {cluster_queue} ({', '.join(sorted(set(flavors)))})"


class QuotaRequest:
    """What the log says of one Workload as quota was reserved for it. `first`: as it was seen first; `changes`: what
    was changed of it since; `by_engine`: it had no quota then, so this service decided about it. `choices`: what was
    decided, with its positions. Seconds: from each reservation that was decided until it was seen (`grants`), from each
    eviction until its quota was free again (`drains`). `held`: what it had of which quota since when, where it is not
    simulated, None for nothing."""

    __slots__ = ("by_engine", "changes", "choices", "decided", "drains", "first", "grants", "held", "stopped", "wanted")

    def __init__(self, first: events.AdmissionWorkloadObserved) -> None:
        self.first = self.wanted = first
        self.by_engine = not as_read(first.status).reserved
        self.changes: list[tuple[datetime, events.AdmissionWorkloadObserved]] = []
        self.decided: datetime | None = None
        self.stopped: datetime | None = None
        self.grants: list[float] = []
        self.drains: list[float] = []
        self.choices: list[tuple[int, datetime, str]] = []
        self.held: list[tuple[datetime, events.AdmissionWorkloadObserved | None]] = []


class QuotaHistory:
    """What a log says of quota. `requests` are those of the Workloads, by their streams; `queues` the specs of
    ClusterQueues as they were seen last, by name, and `specs` those that they had before, with since when; `seen` the
    streams of all objects; `cycles` the seconds from a scheduling cycle to the next that followed from it."""

    def __init__(self) -> None:
        self.requests: dict[str, QuotaRequest] = {}
        self.queues: dict[str, events.AdmissionClusterQueueObserved] = {}
        self.specs: dict[str, list[tuple[datetime, Json]]] = {}
        self.seen: set[str] = set()
        self.cycles: list[float] = []
        self._cycle = 0, datetime.min.replace(tzinfo=UTC)
        self._objects: dict[str, Event] = {}

    def take(self, recorded: Recorded, *, simulated: bool) -> bool:
        """Take the next event; return whether it changed an object that quota rests on. `simulated`: its Workload
        is."""
        word = recorded.stream.split("/")[1]
        if word == _WORKLOAD:
            self._workload(recorded, simulated=simulated)
            return False
        if word in NODE_WORDS or isinstance(recorded.event, events.LocalQueueUsageSampled):
            return True
        return word in _OBJECTS and self._object(recorded)

    def specs_after(self, begin: datetime) -> dict[str, list[Json]]:
        """Return the specs that ClusterQueues have in the time that begins then, by name."""
        found = {}
        for name, known in self.specs.items():
            before = sum(at <= begin for at, _ in known)
            found[name] = [spec for _, spec in known[max(before - 1, 0) :]]
        return found

    def _cycled(self, number: int, at: datetime) -> None:
        last, self._cycle = self._cycle, (number, at)
        if number == last[0] + 1 and (seconds := (at - last[1]).total_seconds()) < _ONE_AFTER_THE_OTHER:
            self.cycles.append(seconds)

    def _object(self, recorded: Recorded) -> bool:
        """Take what was seen of an object; return whether something is decided on what changed."""
        event, before = recorded.event, self._objects.get(recorded.stream)
        if isinstance(event, events.AdmissionClusterQueueObserved):
            self.queues[event.name] = event
            known = self.specs.setdefault(event.name, [])
            if not known or known[-1][1] != event.spec:
                known.append((recorded.recorded_at, event.spec))
        if isinstance(event, ObjectVanished):
            self._objects.pop(recorded.stream, None)
            return True
        if not isinstance(event, ObjectObserved) or (before is not None and _rests(before) == _rests(event)):
            return False
        self._objects[recorded.stream] = event
        self.seen.add(recorded.stream)
        return True

    def _workload(self, recorded: Recorded, *, simulated: bool) -> None:
        stream, event, at = recorded.stream.removeprefix(f"{ADMISSION}/"), recorded.event, recorded.recorded_at
        request = self.requests.get(stream)
        if isinstance(event, events.AdmissionWorkloadObserved):
            if request is None:
                request = self.requests[stream] = QuotaRequest(event)
            _seen(request, event, at, simulated=simulated and event.uid == request.first.uid)
        elif isinstance(event, events.WorkloadInadmissible):
            self._cycled(event.cycle, at)
        elif request is not None:
            _decided(request, recorded)


def _decided(request: QuotaRequest, recorded: Recorded) -> None:
    event, at = recorded.event, recorded.recorded_at
    if isinstance(event, events.AdmissionWrite) and event.uid != request.first.uid:
        return  # about another Workload of the name, which is not simulated
    if isinstance(event, events.QuotaReservationDecided):
        if request.decided is not None and request.choices[-1][2] != PREEMPTED:
            request.choices.pop()  # its write was overtaken, and it is decided again
        request.decided = at
        request.choices.append((recorded.position, at, granted(event.cluster_queue, event.amounts)))
    elif isinstance(event, events.WorkloadPreemptionDecided):
        # What is said again since the write was overtaken is one preemption.
        if request.stopped is None:
            request.choices.append((recorded.position, at, PREEMPTED))
        request.stopped = request.stopped or at
    elif isinstance(event, events.AdmissionWorkloadGone) and request.held:
        request.held.append((at, None))


def _rests(event: Any) -> object:
    """Return that of an object on which something is decided: not its status, and nothing of its version."""
    return [
        getattr(event, name, None) for name in ("uid", "spec", "deleting", "active", "labels", "value", "allocatable")
    ]


def _seen(request: QuotaRequest, event: events.AdmissionWorkloadObserved, at: datetime, *, simulated: bool) -> None:
    status = as_read(event.status)
    if simulated and _wanted(event) != _wanted(request.wanted):
        request.wanted = event
        request.changes.append((at, event))
    _time(request, status, at)
    if not (simulated and request.by_engine):
        _hold(request, event, status, at)


def _time(request: QuotaRequest, status: WorkloadStatus, at: datetime) -> None:
    """Note how long it took until what was decided is seen."""
    if status.reserved and request.decided is not None:
        request.grants.append((at - request.decided).total_seconds())
        request.decided = None
    elif status.reserved and status.is_true("Evicted"):
        request.stopped = request.stopped or at
    elif not status.reserved and request.stopped is not None:
        request.drains.append((at - request.stopped).total_seconds())
        request.stopped = None


def _hold(request: QuotaRequest, event: events.AdmissionWorkloadObserved, status: WorkloadStatus, at: datetime) -> None:
    """Note what a Workload has that is not simulated."""
    before = request.held[-1][1] if request.held else None
    given = event.status.get("admission") if status.reserved and not status.is_true("Finished") else None
    if given is None and before is not None:
        request.held.append((at, None))
    elif given is not None and (before is None or before.status["admission"] != given):
        kept = {"conditions": [status.condition("QuotaReserved")], "admission": given}
        request.held.append((at, msgspec.structs.replace(event, status=kept)))


def _wanted(event: events.AdmissionWorkloadObserved) -> object:
    """Return what a Workload asks for, and whether it may be queued."""
    reclaimable = event.status.get("reclaimablePods")
    priority, gates = (event.priority, event.priority_boost), (event.gated_by, event.preemption_gates)
    return event.queue, priority, event.active, gates, event.pod_sets, reclaimable
