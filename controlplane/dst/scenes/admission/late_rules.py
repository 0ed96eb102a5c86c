"""What is looked at in plans of the tenth edition and later beside what is looked at in all: conditions, execution
times, quota that is rearranged under load, and who waits for quota that is free.

In: what happens on the management cluster, virtual time. Out: violations."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from datetime import datetime

from controlplane.controllers.quota.admission.events import WorkloadPreemptionDecided
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.admission.execution_time import ExecutionTimeRules
from controlplane.dst.invariants.admission.idle_quota import IdleQuotaRules
from controlplane.dst.invariants.admission.live_quota import ArrangementHistory, LiveQuota
from controlplane.dst.invariants.admission.status import StatusRules
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.dst.scenes.workloads.processes import BLOCKS
from controlplane.kube.kinds import CLUSTER_QUEUES, COHORTS, WORKLOADS
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit

IN_TURN = "nobody is preempted again and again"
_OFTEN, _WITHIN = 40, 60.0


class LateRules:
    """The rules of one run. `calm_since`: when all trouble ended, None before."""

    def __init__(self, trace: Trace, now: Callable[[], float], traits: Collection[str]) -> None:
        self._trace, self._now = trace, now
        self._in_turn = BLOCKS in traits  # nobody is admitted while another one's pods are not ready
        self._arrangements = ArrangementHistory(now)
        self._status, self._idle = StatusRules(trace), IdleQuotaRules(trace)
        self.calm_since: float | None = None
        self._preempted: dict[str, deque[float]] = {}

    def begin(self, place: ClusterEnvironment, clock: datetime) -> LiveQuota:
        """Look at another incarnation of the management cluster from now on; return the accounts of its quota."""
        self._place = place
        self._quota = LiveQuota(self._trace, place, self._arrangements)
        self._hours = ExecutionTimeRules(self._trace, self._now)
        for record in place.store.records(WORKLOADS):
            self._hours.noted(record, clock)
        return self._quota

    def on_commit(self, commit: Commit) -> None:
        """Look at a change on the management cluster."""
        if commit.record.kind in (CLUSTER_QUEUES, COHORTS):
            self._arrangements.note(self._place)
        elif commit.record.kind == WORKLOADS:
            self._status.on_commit(commit)
            self._hours.on_commit(commit)

    def heard(self, recorded: Recorded) -> None:
        """Hear of an event: who is preempted forty times within a minute has quota that goes around and is of use to
        nobody."""
        if isinstance(recorded.event, WorkloadPreemptionDecided):
            times = self._preempted.setdefault(recorded.stream, deque(maxlen=_OFTEN))
            times.append(self._now())
            if len(times) == _OFTEN and times[-1] < times[0] + _WITHIN:
                said = f"{recorded.stream} is preempted {_OFTEN} times in {times[-1] - times[0]:.1f} s"
                self._trace.violate(IN_TURN, f"{said}, last for {recorded.event.preemptor} ({recorded.event.why})")

    def look(self) -> None:
        """Look at what has to come to an end once all trouble has ended."""
        if self.calm_since is None:
            return
        self._hours.look(self.calm_since)
        if not self._in_turn:
            self._idle.look(self._place, self._quota, self._now())
