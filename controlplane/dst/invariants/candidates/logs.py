"""What holds of any log: one process writes, positions have no holes, decisions have causes and reasons, writes are
open once.

In: the events of one log, each with the state that the log gave before it. Out: a violation. And invitations: a
candidate is taken, and bound, only while its source is invited into the namespace, by what the log holds (S9 of
docs/explanation/candidates.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from controlplane.app import operate
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source import causes as source_causes
from controlplane.controllers.candidates.source.events import CandidateWrite as SourceWrite
from controlplane.controllers.candidates.source.events import CandidateWriteFailed
from controlplane.controllers.candidates.target import causes
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.events import (
    Admitted,
    BindStarted,
    InvitationGone,
    TargetWrite,
    TargetWriteFailed,
)
from controlplane.controllers.connectivity.events import ClusterForgotten, ServiceStarted
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.scheduling import causes as scheduler_causes
from controlplane.controllers.scheduling.events import SchedulingWrite, SchedulingWriteFailed, VictimChosen
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.decisions import WORD
from controlplane.log.event import Recorded, Unknown
from controlplane.runtime.controller import OpenWrite

_REASONS = frozenset([*CandidateReason, *TargetReason, *SchedulingReason])
_WRITES = (SourceWrite, TargetWrite, SchedulingWrite)
_FAILED = (CandidateWriteFailed, TargetWriteFailed, SchedulingWriteFailed)
_SHORTEST_PAUSE = timedelta(seconds=0.9)
_OVERRIDING = frozenset({"CandidateDropped", "PermitRevoked", "PodRemoved", "FinalizerReleased", "PodFenced"})
_OVERRIDING |= {
    "PodStatusDecided",
    "GangConditionDecided",
}  # what is to be said now takes the place of what was to be said
_LATELY = timedelta(seconds=5)
INVITED = "who is not invited is not taken"
PREEMPTS = "room is made only under a permit"


def _may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on."""
    room = stream.partition("/")[0]
    if room in source_causes.MAY_CAUSE:
        return source_causes.may_cause(cause, stream)
    if room in causes.MAY_CAUSE:
        return causes.may_cause(cause, stream)
    return scheduler_causes.may_cause(cause, stream)


class LogRules:
    """Looks at each event of one log before it is folded. `open_writes(stream)` is of the state before it."""

    def __init__(self, name: str, trace: Trace, open_writes: Callable[[str], Sequence[OpenWrite]]) -> None:
        self._name, self._trace, self._open = name, trace, open_writes
        self._versions: dict[str, int] = {}
        self._position, self._writer = 0, ""
        self._streams = [""]
        self._failed: dict[tuple[str, str, str], datetime] = {}

    def before_fold(self, recorded: Recorded, writer: str) -> None:
        """Look at one event and at the process that appended it."""
        event, what = recorded.event, f"{type(recorded.event).__name__} at {recorded.position} of {self._name}"
        if isinstance(event, ServiceStarted):
            self._writer = writer
        elif writer != self._writer and not isinstance(event, ClusterForgotten):
            self._trace.violate("one process writes", f"{writer}: {what}, while {self._writer} leads")
        expected = self._versions.get(recorded.stream, 0) + 1
        if recorded.position != self._position + 1 or recorded.version != expected:
            place = f"{what}: after {self._position}, version {recorded.version} not {expected} of {recorded.stream}"
            self._trace.violate("positions have no holes", place)
        self._position, self._versions[recorded.stream] = recorded.position, recorded.version
        self._streams.append(recorded.stream)
        if isinstance(event, Unknown):
            self._trace.violate("every event can be read", f"{event.type}: {event.error}")
        elif isinstance(event, _FAILED):
            self._failure(recorded, event)
        elif isinstance(event, _WRITES):
            self._write(recorded, event, what)

    def _write(self, recorded: Recorded, event: SourceWrite | TargetWrite | SchedulingWrite, what: str) -> None:
        if event.reason not in _REASONS:
            self._trace.violate("every decision has a reason", what)
        cause = self._streams[recorded.caused_by] if 0 < recorded.caused_by < recorded.position else ""
        if not cause or not _may_cause(cause, recorded.stream):
            where = f"caused by {recorded.caused_by} on {cause or 'no stream'}"
            self._trace.violate("every decision has a cause", f"{what}: {where}")
        opened = [write for write in self._open(recorded.stream) if write.target == event.target]
        if opened and type(event).__name__ not in _OVERRIDING:
            self._trace.violate("one open write to a target", f"{what}: {opened[0].action} to {event.target} is open")

    def _failure(
        self, recorded: Recorded, event: CandidateWriteFailed | TargetWriteFailed | SchedulingWriteFailed
    ) -> None:
        key = (recorded.stream, event.target, event.action)
        before = self._failed.get(key)
        if event.failures > 1 and before is not None and recorded.recorded_at - before < _SHORTEST_PAUSE:
            self._trace.violate("a refused write waits", f"{event.action} to {event.target}, {event.failures} times")
        self._failed[key] = recorded.recorded_at


class Words:
    """What an operator says: only what he may, of the state that the log then gives. `index` is of the source's log."""

    def __init__(self, trace: Trace, index: WorkloadIndex) -> None:
        self._trace, self._index = trace, index

    def before_fold(self, recorded: Recorded) -> None:
        """Look at one event of the source's log."""
        if isinstance(recorded.event, ClusterForgotten):
            try:
                operate.forgettable(self._index, recorded.stream.partition("/")[2])
            except operate.NotAllowed as why:
                self._trace.violate(WORD, f"at {recorded.position}: {why}")


class Invitations:
    """Who may come into a target. `targets` is the fold of its log."""

    def __init__(self, trace: Trace, targets: TargetController) -> None:
        self._trace, self._targets = trace, targets
        self._ended: dict[str, datetime] = {}

    def before_fold(self, recorded: Recorded) -> None:
        """Look at one event of the target's log."""
        event = recorded.event
        if isinstance(event, InvitationGone):
            known = self._targets.invitations.get(recorded.stream)
            if known is not None:
                self._ended[known.cluster] = recorded.recorded_at
        elif isinstance(event, (Admitted, BindStarted)):
            self._comes(recorded)
        elif isinstance(event, VictimChosen):
            self._preempts(recorded, event)

    def _comes(self, recorded: Recorded) -> None:
        state = self._targets.candidates[recorded.stream]
        cluster = state.seen.origin.cluster if state.seen is not None else ""
        invited = any(known.cluster == cluster for known in self._targets.invitations.values())
        ended = self._ended.get(cluster)
        if not invited and (ended is None or recorded.recorded_at - ended > _LATELY):
            self._trace.violate(INVITED, f"{type(recorded.event).__name__} on {recorded.stream}")

    def _preempts(self, recorded: Recorded, event: VictimChosen) -> None:
        """A candidate takes another's room only under its source's permit to do so."""
        for state in self._targets.candidates.values():
            if state.pod is not None and state.pod.uid == event.preemptor_uid:
                permit = state.seen.permit if state.seen is not None else None
                if permit is None or permit.kind != "Preempt" or permit.number <= state.withdrawn:
                    self._trace.violate(PREEMPTS, f"{event.preemptor} takes the room of {recorded.stream}")
