"""Every decision has a reason and, if it means a write, one target; and it fits what the log said when it was taken.

In: the events as they reach the log, and the state that the log gave before each. Out: a violation. Decisions are
appended against the version of the state they were taken on, so what is looked at here is exactly what the decider
looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from controlplane.app import operate
from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterForgotten,
    MassOutageAccepted,
    ServiceStarted,
)
from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.causes import may_cause
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.log_rules import EventMeanings, LogRules
from controlplane.dst.invariants.workloads.spread import RULE as SPREAD
from controlplane.dst.invariants.workloads.spread import SpreadRule
from controlplane.dst.scenes.workloads.operators import OPERATOR
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Recorded

_SLACK = timedelta(seconds=5)  # between heartbeats
ORDER = "steps are taken in their order"
WORD = "an operator says what he may"
ONE_NAME = "a cluster is used under one name"
PATIENCE = "a lost cluster is waited for"
MEANINGS = EventMeanings(
    decisions=(events.WorkloadDecision,),
    writes=(events.WorkloadWrite,),
    reasons=frozenset(WorkloadReason),
    may_cause=lambda cause, stream: may_cause(cause, stream, ""),
    nowhere=(),
)


class Decisions(LogRules):
    """The rules of any log, and those of Workloads. `absences` are the times in which no process led."""

    def __init__(
        self, trace: Trace, controller: MultiKueueController, absences: Sequence[tuple[datetime, datetime]] = ()
    ) -> None:
        super().__init__(trace, MEANINGS, controller.open_writes)
        self._index, self._absences, self._spread = controller.index, absences, SpreadRule()

    def resume(self, recorded: Recorded) -> None:
        """Take an event of a log that went back for looked at."""
        self._note(recorded)
        if isinstance(recorded.event, ServiceStarted):
            self._writer = recorded.event.holder

    def before_fold(self, recorded: Recorded, writer: str) -> None:
        """Look at one event, and at which names are in use."""
        super().before_fold(recorded, writer)
        if wrong := self._spread.wrong(self._index, recorded):
            self._trace.violate(SPREAD, f"before {recorded.position}: {wrong}")
        self._spread.moved(recorded, self._index.workloads.get(recorded.stream))
        if isinstance(recorded.event, ClusterConnected):
            name, identity = recorded.stream.partition("/")[2], recorded.event.incarnation
            for other in self._index.connections.values():
                if other.connected and other.name != name and other.incarnation == identity:
                    self._trace.violate(ONE_NAME, f"{name} and {other.name}, at {recorded.position}")

    def _may_write(self, recorded: Recorded, writer: str) -> bool:
        if writer != OPERATOR:
            return super()._may_write(recorded, writer)
        self._word(recorded)
        return True

    def _word(self, recorded: Recorded) -> None:
        """An operator says only what he may, of the state that the log then gives."""
        try:
            if isinstance(recorded.event, ClusterForgotten):
                operate.forgettable(self._index, recorded.stream.partition("/")[2])
            elif isinstance(recorded.event, MassOutageAccepted):
                operate.acceptable(self._index)
            else:
                self._trace.violate(WORD, f"{type(recorded.event).__name__} at {recorded.position}")
        except operate.NotAllowed as why:
            self._trace.violate(WORD, f"{type(recorded.event).__name__} at {recorded.position}: {why}")

    def _decision(self, recorded: Recorded, event: events.WorkloadDecision, what: str) -> None:
        super()._decision(recorded, event, what)
        if isinstance(event, events.CheckStateDecided) and event.reason == WorkloadReason.REMOTE_LOST:
            self._taken(recorded, what)
        if isinstance(event, events.WinnerReleased):
            self._spread.released(recorded, event)
        if isinstance(event, events.WinnerChosen):
            self._spread.chosen(self._index, recorded, event)
        rule = _RULES.get(type(event))
        if rule is not None and (wrong := rule(self._index.workloads.get(recorded.stream), event)):
            self._trace.violate(ORDER, f"{what}: {wrong}")

    def _may_cause(self, cause: str, stream: str) -> bool:
        return may_cause(cause, stream, self._index.stream_of_job(self._index.workloads.get(stream)))

    def _taken(self, recorded: Recorded, what: str) -> None:
        """A Workload is taken from a lost cluster: not during a mass outage, not before somebody has looked for a whole
        grace, and not from one that may still run a job that must not run twice, unless an operator has given the
        cluster up."""
        state = self._index.workloads[recorded.stream]
        cluster = (state.local.cluster_name if state.local is not None else "") or state.winner
        connection, job = self._index.connections.get(cluster), self._index.job_of(state)
        if self._given_up(cluster):
            return
        if self._index.outage.holds:
            self._trace.violate(PATIENCE, f"{what}: most clusters are away")
        if job is not None and job.execution_policy == NEVER_TWICE:
            self._trace.violate(PATIENCE, f"{what}: it may still run on {cluster}, and asks for never-twice")
        if connection is not None and connection.lost_since is not None:
            since = connection.lost_since + self._unwatched(connection.lost_since)
            alone = connection.out_since.get(WORKLOADS.name)  # its copies went out of view before the cluster did
            self._looked_for(recorded, what, cluster, min(since, alone or since))

    def _given_up(self, cluster: str) -> bool:
        forgotten = {name for name, one in self._index.connections.items() if one.forgotten}
        # The next slice of an elastic job may name no cluster, and be taken from the one that has the slice before.
        return cluster in forgotten or (not cluster and bool(forgotten))

    def _looked_for(self, recorded: Recorded, what: str, cluster: str, since: datetime) -> None:
        """`since` is moved on by the time in which nobody led."""
        looked = recorded.recorded_at - since
        if looked < self._index.policy.worker_lost_timeout - _SLACK:
            self._trace.violate(PATIENCE, f"{what}: {cluster} was looked for only {looked.total_seconds():.0f} s")

    def _unwatched(self, since: datetime) -> timedelta:
        """Return for how long nobody has led since a time."""
        return sum((end - max(begin, since) for begin, end in self._absences if end > since), timedelta())


def _wants_a_cluster(state: WorkloadState | None, _: object) -> str:
    """A Workload is offered, cloned and started only while it holds quota and is neither evicted nor done."""
    local = state.local if state is not None else None
    if local is None or local.deleting:
        return "there is no Workload"
    if not local.is_true("QuotaReserved"):
        return "the Workload holds no quota"
    if local.is_true("Evicted"):
        return "the Workload is evicted"
    return "the Workload is finished" if local.is_true("Finished") else ""


def _winner(state: WorkloadState | None, event: events.WinnerChosen) -> str:
    if state is not None and state.winner:
        return f"{state.winner} is the winner already"
    return _wants_a_cluster(state, event)


def _job(state: WorkloadState | None, event: events.JobCreationDecided) -> str:
    if state is not None and state.local is not None and event.cluster not in (state.winner, state.local.cluster_name):
        return f"{event.cluster} is not the winner"
    return _wants_a_cluster(state, event)


def _check(state: WorkloadState | None, event: events.CheckStateDecided) -> str:
    if event.state == "Ready" and (state is None or state.remote(event.winner).job is None):
        return f"there is no job on {event.winner!r} yet"
    return ""


_RULES: dict[type[events.WorkloadDecision], Callable[..., str]] = {
    events.NominationDecided: _wants_a_cluster,
    events.CloneDecided: _wants_a_cluster,
    events.WinnerChosen: _winner,
    events.JobCreationDecided: _job,
    events.CheckStateDecided: _check,
}
