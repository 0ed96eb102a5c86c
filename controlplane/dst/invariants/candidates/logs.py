"""What the events of a source's and a target's log mean for the rules of any log, and what is said in them beside.

In: the events of one log, each with the state that the log gave before it. Out: a violation. And invitations: a
candidate is taken, and bound, only while its source is invited into the namespace, by what the log holds (S9 of
docs/explanation/candidates.md)."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.app import operate
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source import causes as source_causes
from controlplane.controllers.candidates.source.events import CandidateDropped, PermitRevoked
from controlplane.controllers.candidates.source.events import CandidateWrite as SourceWrite
from controlplane.controllers.candidates.target import causes
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.events import (
    Admitted,
    BindStarted,
    FinalizerReleased,
    InvitationGone,
    PodAmended,
    PodFenced,
    PodRemoved,
    TargetWrite,
)
from controlplane.controllers.connectivity.events import ClusterForgotten, ServiceStarted
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.scheduling import causes as scheduler_causes
from controlplane.controllers.scheduling.events import (
    GangConditionDecided,
    PodStatusDecided,
    SchedulingWrite,
    VictimChosen,
)
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.log_rules import EventMeanings, LogRules, by_first_word
from controlplane.dst.invariants.workloads.decisions import WORD
from controlplane.log.event import Recorded

_WRITES = (SourceWrite, TargetWrite, SchedulingWrite)
# What takes the place of what is still open: it undoes that, or says now what was to be said. A Pod is changed anew
# where its Candidate was once more meanwhile: both changes name the Pod's version, so only one of them is made.
_REPLACES = (
    CandidateDropped,
    PermitRevoked,
    PodRemoved,
    FinalizerReleased,
    PodFenced,
    PodAmended,
    PodStatusDecided,
    GangConditionDecided,
)
_LATELY = timedelta(seconds=5)
INVITED = "who is not invited is not taken"
PREEMPTS = "room is made only under a permit"


MEANINGS = EventMeanings(
    decisions=_WRITES,
    writes=_WRITES,
    reasons=frozenset([*CandidateReason, *TargetReason, *SchedulingReason]),
    may_cause=by_first_word(source_causes, causes, scheduler_causes),
    replaces=_REPLACES,
)


class CandidateLogRules(LogRules):
    """The rules of any log, of which an operator may say a word in between."""

    def resume(self, recorded: Recorded) -> None:
        """Take an event of a log that went back for looked at."""
        self._note(recorded)
        if isinstance(recorded.event, ServiceStarted):
            self._writer = recorded.event.holder

    def _may_write(self, recorded: Recorded, writer: str) -> bool:
        return isinstance(recorded.event, ClusterForgotten) or super()._may_write(recorded, writer)


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
