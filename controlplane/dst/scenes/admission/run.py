"""One run where this service decides on quota: the plan played, the rules watched, and the end waited for.

In: a plan. Out: an `Outcome`. All that is looked at in the scene `workloads` is looked at here; and, with every commit
and every event, that reservations are within quota, that the ledger is right, and that decisions about quota and jobs
have causes; at the end, that the log of them gives the state, and that the ledger agrees with the cluster's objects."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.controllers.jobframework.controller import JobFrameworkController
from controlplane.controllers.jobframework.events import JobDecision
from controlplane.controllers.jobframework.hosting import policy_of
from controlplane.controllers.multikueue.events import WorkloadDecision
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.events import AdmissionDecision
from controlplane.controllers.quota.admission.hosting import engine_settings
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.invariants.admission import log as log_rules
from controlplane.dst.invariants.admission.ledger import LedgerRules
from controlplane.dst.invariants.admission.ownership import AdmissionOwnership
from controlplane.dst.invariants.admission.quota import ReservedQuota, holders
from controlplane.dst.invariants.workloads.ownership import OwnershipRules
from controlplane.dst.invariants.workloads.replay import RULE as REPLAY
from controlplane.dst.scenes.admission import (
    administrators,
    limits,
    people,
    pod_groups,
    queues,
    rearrangements,
    trouble,
)
from controlplane.dst.scenes.admission.eighth_edition import CHECKS
from controlplane.dst.scenes.admission.ending import unserved
from controlplane.dst.scenes.admission.late_ending import left_behind
from controlplane.dst.scenes.admission.late_rules import LateRules
from controlplane.dst.scenes.admission.plan import SHAPE
from controlplane.dst.scenes.workloads import acts
from controlplane.dst.scenes.workloads.environment import Backup
from controlplane.dst.scenes.workloads.processes import USAGE, settings_of
from controlplane.dst.scenes.workloads.run import WorkloadRun
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.world import CHECK, MANAGEMENT

_ACTS = {**people.ACTS, **administrators.ACTS, **pod_groups.ACTS, **limits.ACTS, **rearrangements.ACTS, **trouble.ACTS}
_LATE = 10  # the edition from which on queues are rearranged, and more is looked at


class AdmissionRun(WorkloadRun):
    """A run under way; it is what its acts act on."""

    most_events = 12_000
    decisions = (WorkloadDecision, AdmissionDecision, JobDecision)

    def __init__(self, plan: Plan) -> None:
        numbers = [trait.removeprefix(SHAPE) for trait in plan.traits if trait.startswith(SHAPE)]
        self.shape = queues.SHAPES[int(numbers[0])]
        self.late: LateRules | None = None
        super().__init__(plan)
        self._settings = settings_of(plan.traits)
        self.ledger = LedgerRules(self.trace)
        self._begin_log()
        store = self.environment.management.store
        queues.define_priorities(store)
        if CHECKS in plan.traits or any(step.kind == "edit-checks" for step in plan.steps):
            queues.define_check(store)
        self._set_up()
        for place in self.environment.workers.values():
            queues.set_up_worker(place.store)

    def _set_up(self) -> None:
        queues.set_up(self.environment.management.store, self.shape, **self._rules)
        if self.plan.edition >= _LATE:
            wanted = queues.objects_of(self.shape, **self._rules)
            rearrangements.set_up(self, self.plan.traits, wanted, queues.cohort_of(self.shape))

    @property
    def _rules(self) -> dict[str, Any]:
        """What ClusterQueues say beside their shape."""
        checks = (CHECK, queues.OTHER_CHECK) if CHECKS in self.plan.traits else (CHECK,)
        return {"checks": checks, "usage": USAGE in self.plan.traits}

    def _begin_log(self) -> None:
        """Fold the log from its beginning, beside the processes."""
        self.admission, self.jobs = self._fresh("shadow")
        self._of_admission = log_rules.of_admission(self.trace, self.admission)
        self._of_jobs = log_rules.of_jobs(self.trace, self.jobs)

    def _fresh(self, identity: str) -> tuple[AdmissionController, JobFrameworkController]:
        jobs = JobFrameworkController(policy_of(self._settings), identity)
        return AdmissionController(engine_settings(self._settings), identity), jobs

    def _rules_of_ownership(self) -> OwnershipRules:
        return AdmissionOwnership(self.trace, self.policy.origin, HOME)

    def _open_accounts(self, name: str) -> None:
        if name != MANAGEMENT:
            super()._open_accounts(name)
            return
        if self.plan.edition < _LATE:
            self._accounts[name] = ReservedQuota(self.trace, self.environment.management, self.shape)
            return
        if self.late is None:
            self.late = LateRules(self.trace, self.loop.time, self.plan.traits)
        self._accounts[name] = self.late.begin(self.environment.management, self.environment.clock.now())

    # --- the run -----------------------------------------------------------------------------------------------------

    def perform(self, step: Step) -> None:
        """Carry a step out."""
        own = _ACTS.get(step.kind)
        if own is None:
            acts.perform(self, step)
            return
        with suppress(ApiError):
            own(self, step)

    def mend(self) -> None:
        """Put right what is wrong in the clusters, queues included."""
        self._set_up()
        people.open_queues(self)
        if self.plan.edition > 7:
            administrators.define_all(self, queues.objects_of(self.shape, **self._rules))
        if self.late is not None:
            self.late.calm_since = self.loop.time()
            rearrangements.end_deletions(self)
            pod_groups.end_serving(self)
            limits.give_up(self)
        super().mend()

    def left(self) -> str:
        """Return what is not settled yet."""
        left = super().left() or unserved(self.environment.management, self.admission, self.jobs)
        return left or (left_behind(self.environment.management) if self.late is not None else "")

    def at_the_end(self) -> None:
        """Compare the log of quota and jobs with the cluster, and a fold of it with what the leader holds."""
        super().at_the_end()
        self.ledger.finish(holders(self.environment.management))
        wrong = log_rules.unlike(self.admission, self.environment.management.store, WORKLOADS)
        if wrong:
            self.trace.violate(log_rules.SEEN, wrong)
        fresh, jobs = self._fresh("replay")
        for recorded in self.database.read(0, 10**9):
            fresh.fold(recorded)
            jobs.fold(recorded)
        for replica in self.replicas.values():
            if replica.leading and replica.hosted is not None:
                self._compare(replica.name, replica.hosted, fresh, jobs)

    def _compare(self, name: str, hosted: Any, fresh: AdmissionController, jobs: JobFrameworkController) -> None:
        wrong = log_rules.difference(hosted.admission, fresh)
        if not wrong and hosted.jobs.index.states != jobs.index.states:
            wrong = "the states of jobs differ"
        if wrong:
            self.trace.violate(REPLAY, f"{name}: {wrong}")

    # --- what is heard -----------------------------------------------------------------------------------------------

    def restore_home(self, backup: Backup) -> None:
        """Put the management cluster's etcd back, and let administrators open again, a little later, what it has
        stopped."""
        super().restore_home(backup)
        self.after(10.0, people.open_queues, self)

    def rebuild(self, cluster: str) -> None:
        """Replace a cluster by one that is empty but for its queues."""
        super().rebuild(cluster)
        queues.set_up_worker(self.environment.places[cluster].store)

    def restore_log(self, put_back: Callable[[], None]) -> None:
        """Put the log back, and the ledger with it."""
        super().restore_log(put_back)
        self.ledger = LedgerRules(self.trace)
        self._begin_log()
        for recorded in self.database.read(0, 10**9):
            self._of_admission.resume(recorded)
            self._of_jobs.resume(recorded)
            self.ledger.appended(recorded)
            self.admission.fold(recorded)
            self.jobs.fold(recorded)

    def look(self) -> None:
        """Look at what cannot be looked at with every change; once all trouble has ended, at who runs for too long."""
        super().look()
        if self.late is not None:
            self.late.look()

    def _on_commit(self, cluster: str, commit: Commit) -> None:
        super()._on_commit(cluster, commit)
        if self.late is not None and cluster == MANAGEMENT:
            self.late.on_commit(commit)
            pod_groups.on_commit(self, commit)
            limits.on_commit(self, commit)

    def _heard(self, recorded: Recorded, writer: str) -> None:
        if self.late is not None:
            self.late.heard(recorded)
        self._of_admission.before_fold(recorded, writer)
        self._of_jobs.before_fold(recorded, writer)
        self.ledger.appended(recorded)
        self.admission.fold(recorded)
        self.jobs.fold(recorded)
