"""How the engine decides, as Kueue's Configuration says it for a manager."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.controllers.quota.devices.model import NO_MAPPINGS, DeviceRules
from controlplane.controllers.quota.engine.fair_preemption import STRATEGIES
from controlplane.controllers.quota.engine.model import LONGEST_RUN
from controlplane.controllers.quota.engine.resource_rules import AS_ASKED, ResourceRules
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.controllers.quota.topology.model import DEFAULT_RULES, PlacementRules


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`fair_sharing` with its `preemption_strategies`; `admission_fair_sharing`, None if past usage does not count.

    `block_admission`: nobody is admitted while pods of another Workload with quota are not ready.
    `requeuing_timestamp`: whether who was evicted since its pods were not ready queues from its `Eviction` or from its
    `Creation` on. `readmission_order`: whether, of those of a priority, who was evicted since its cluster was lost
    comes before others, the `LongestRun` first, or queues by its `Timestamp` as others do, which is Kueue's order.
    `prioritize_preemptors`: who waits for those that it preempted is considered before others, and what they leave is
    kept for it: Kueue's gate PrioritizePreemptorWorkloads. `resources`: what of the requests of pods counts. `devices`:
    as what devices count. `priority_boost`: the annotation counts that is added to the priority of a Workload.
    `preemption_gates`: who has one that is closed preempts nobody, Kueue's gate MultiKueueOrchestratedPreemption.
    `explicit_status`: who waits is told so before it was tried, which the engine itself leaves to others. `placement`:
    how pods are placed in topologies. `ignore_undeclared`: what a ClusterQueue has no quota of is not asked for there,
    which keeps a Workload waiting otherwise. `try_all_released`: quota that is given back lets all of a Cohort tree be
    tried again, as with Kueue, and not only those that it may help."""

    fair_sharing: bool = False
    preemption_strategies: tuple[str, ...] = STRATEGIES
    admission_fair_sharing: AdmissionFairSharing | None = None
    block_admission: bool = False
    requeuing_timestamp: str = "Eviction"
    readmission_order: str = LONGEST_RUN
    prioritize_preemptors: bool = False
    resources: ResourceRules = AS_ASKED
    devices: DeviceRules = NO_MAPPINGS
    explicit_status: bool = False
    priority_boost: bool = False
    preemption_gates: bool = False
    placement: PlacementRules = DEFAULT_RULES
    ignore_undeclared: bool = False
    try_all_released: bool = False

    @property
    def tries_all(self) -> bool:
        """Whether all are tried again once quota is given back: where shares or past usage decide, any of it may
        help."""
        return self.try_all_released or self.fair_sharing or self.admission_fair_sharing is not None
