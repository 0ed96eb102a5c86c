"""What quota is decided on: Kueue's objects (kueue.x-k8s.io/v1beta2), reduced to the fields that a decision rests on.

Parsed by `parse_queues` and `parse_workloads`; amounts as in `amounts`, moments in seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.controllers.quota.engine.amounts import FlavorResource, Requests
from controlplane.controllers.quota.topology.model import (
    PENDING,
    PodSetUpdate,
    TopologyAssignment,
    TopologyRequest,
)
from controlplane.kube.selectors import LabelSelector, NodeTerm
from controlplane.kube.tolerations import Taint, Toleration

NEVER, ANY, LOWER_PRIORITY = "Never", "Any", "LowerPriority"
LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
TRY_NEXT_FLAVOR, MAY_STOP_SEARCH = "TryNextFlavor", "MayStopSearch"
BORROWING_OVER_PREEMPTION, PREEMPTION_OVER_BORROWING = "BorrowingOverPreemption", "PreemptionOverBorrowing"
STRICT_FIFO, BEST_EFFORT_FIFO = "StrictFIFO", "BestEffortFIFO"
NO_STOP = "None"
DELETING = "Deleting"
"""No stop policy of an API: that of a ClusterQueue that is being deleted, which admits nothing."""
LONGEST_RUN = "LongestRun"
USAGE_BASED = "UsageBasedAdmissionFairSharing"


class ResourceQuota(NamedTuple):
    """What a ClusterQueue or Cohort has of one flavor's resource; a limit of None is no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


Quotas = Mapping[FlavorResource, ResourceQuota]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that are taken from one flavor together, and the flavors in the order in which they are tried."""

    covered: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom a ClusterQueue's workloads may preempt."""

    within_cluster_queue: str = NEVER
    reclaim_within_cohort: str = NEVER
    borrow_within_cohort: str = NEVER
    max_priority_threshold: int | None = None

    @property
    def none(self) -> bool:
        """Whether nobody is ever preempted."""
        return self.within_cluster_queue == NEVER and self.reclaim_within_cohort == NEVER


@dataclass(frozen=True, slots=True)
class FlavorFungibility:
    """When the next flavor is tried, and which is preferred of those that need something."""

    when_can_borrow: str = MAY_STOP_SEARCH
    when_can_preempt: str = TRY_NEXT_FLAVOR
    preference: str = BORROWING_OVER_PREEMPTION


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue's spec. `admission_checks`: each with the flavors that it is for; none means all."""

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Quotas = field(default_factory=dict)
    queueing_strategy: str = BEST_EFFORT_FIFO
    stop_policy: str = NO_STOP
    namespace_selector: LabelSelector = field(default_factory=LabelSelector)
    fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    fair_weight: float = 1.0
    admission_checks: tuple[tuple[str, frozenset[str]], ...] = ()
    admission_mode: str = ""

    @property
    def stopped(self) -> str:
        """Why it admits nothing, by its stop policy; "" if that lets it."""
        if self.stop_policy == NO_STOP:
            return ""
        return "is being deleted" if self.stop_policy == DELETING else "is stopped"

    def group_of(self, resource: str) -> ResourceGroup | None:
        """Return the resource group that covers a resource, or None."""
        return next((group for group in self.groups if resource in group.covered), None)


@dataclass(frozen=True, slots=True)
class Cohort:
    """A Cohort's spec."""

    name: str
    parent: str = ""
    quotas: Quotas = field(default_factory=dict)
    fair_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """A ResourceFlavor's spec. `topology`: it is for topology-aware scheduling only."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A LocalQueue's spec."""

    namespace: str
    name: str
    cluster_queue: str
    stop_policy: str = NO_STOP
    fair_weight: float = 1.0

    @property
    def key(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """An AdmissionCheck: whether it can be used, and by whom it is handled."""

    name: str
    active: bool
    controller: str


@dataclass(frozen=True, slots=True)
class WorkloadPriorityClass:
    """A WorkloadPriorityClass."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class NodeConstraints:
    """Which nodes a pod may be on: `nodeSelector`, the terms of its required node affinity, tolerations. `node_terms`:
    the terms as nodes are asked, by fields too and without the empty ones; None where no affinity is required.
    `preferred`: the weighted terms of its preferred node affinity.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    preferred: tuple[tuple[int, NodeTerm], ...] = ()


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that are alike. `requests` are those of one pod; `shape` is equal for specs that are scheduled alike;
    `excess` is where requests exceed limits, `outside` where they are outside of what LimitRanges allow. `on_node`:
    what one pod takes of a node, None where that is what counts as its quota too; with rules for resources the two
    differ."""

    name: str
    count: int
    min_count: int
    requests: Requests
    nodes: NodeConstraints = NodeConstraints()
    shape: str = ""
    topology: TopologyRequest | None = None
    excess: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    on_node: Requests | None = None

    @property
    def asks_for_topology(self) -> bool:
        """Whether its pods have to be placed by topology."""
        return self.topology is not None and self.topology.explicit

    @property
    def group(self) -> str:
        """Which pod sets it gets one flavor with and is placed together with, "" for none."""
        return self.topology.group if self.topology is not None else ""

    @property
    def pod_on_node(self) -> Requests:
        """What one pod takes of a node."""
        return self.requests if self.on_node is None else self.on_node


@dataclass(frozen=True, slots=True)
class PodSetAssignment:
    """What a pod set was given: a flavor and the usage for each resource, and the number of pods that it is for.
    `topology`: where they are placed. `delayed`: the `delayedTopologyRequest`, `Pending` or `Ready`, "" if it was not
    delayed.
    """

    name: str
    flavors: Mapping[str, str]
    usage: Requests
    count: int
    topology: TopologyAssignment | None = None
    delayed: str = ""


@dataclass(frozen=True, slots=True)
class QuotaAdmission:
    """In which ClusterQueue a workload has reserved quota, and of which flavors."""

    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...]

    def of(self, pod_set: str) -> PodSetAssignment | None:
        """Return what a pod set was given, by its name."""
        return next((given for given in self.pod_sets if given.name == pod_set), None)


@dataclass(frozen=True, slots=True)
class Workload:
    """A Workload. `queued_at` orders its queue; `reserved_at` is when its quota was reserved, None if it is not.

    `held`: something else than quota keeps it from being queued. `requeue_at`: not before that moment; infinite while
    it must not be queued again at all. `eviction`: its Evicted and Requeued conditions, as text. `pods_ready`: its
    condition PodsReady is True. `lost_after`: for how many seconds it had run when it was evicted since its cluster was
    lost, 0 where that is not so or does not count. `admitted`: its condition Admitted is True. `checks_ready`: it has
    admission checks, and all are Ready. `updates`: what those change of its pod sets. `unhealthy_nodes`:
    `status.unhealthyNodes`. `replaces`: the namespace and name of the workload slice whose place it is to take, "" for
    none. `of_pod`: its one owner is a pod, and it is no group's: it is gone once that pod is. `refusal`: why the
    devices that it asks for cannot be counted; it is not queued then.
    """

    namespace: str
    name: str
    uid: str
    queue: str
    priority: int
    pod_sets: tuple[PodSet, ...]
    queued_at: float
    generation: int = 0
    job_uid: str = ""
    admission: QuotaAdmission | None = None
    reserved_at: float | None = None
    evicted: bool = False
    active: bool = True
    finished: bool = False
    held: bool = False
    failed_checks: bool = False
    requeue_at: float = 0.0
    eviction: str = ""
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    pods_ready: bool = False
    lost_after: float = 0.0
    admitted: bool = False
    checks_ready: bool = False
    preemption_gated: bool = False
    updates: tuple[PodSetUpdate, ...] = ()
    unhealthy_nodes: tuple[str, ...] = ()
    replaces: str = ""
    of_pod: bool = False
    refusal: str = ""

    @property
    def key(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def local_queue(self) -> str:
        """Its LocalQueue's namespace and name."""
        return f"{self.namespace}/{self.queue}"

    @property
    def reserves(self) -> bool:
        """Whether its quota counts as used."""
        return self.reserved_at is not None and self.admission is not None and self.active and not self.finished

    @property
    def admissible(self) -> bool:
        """Whether it may be queued."""
        waits = self.reserved_at is None and self.active and not self.finished
        return waits and not self.held and not self.refusal

    @property
    def on_unhealthy_node(self) -> bool:
        """Whether it was admitted, and some of its pods are placed on nodes that are unhealthy."""
        if not self.unhealthy_nodes or not self.admitted or self.admission is None:
            return False
        placed = (given.topology for given in self.admission.pod_sets if given.topology is not None)
        return any(name in self.unhealthy_nodes for found in placed for name in found.lowest)

    @property
    def needs_second_pass(self) -> bool:
        """Whether a workload that has quota is to be considered once more: its placement was delayed until its checks
        are ready, or nodes of it failed (`NeedsSecondPass` in kubernetes-sigs/kueue pkg/workload/workload.go). What
        keeps it from being queued does not count: a group waits for other pods just because they failed with their
        node."""
        if not self.reserves or self.evicted:
            return False
        return self._awaits_topology or self.on_unhealthy_node

    @property
    def _awaits_topology(self) -> bool:
        if not self.checks_ready or self.admitted or self.admission is None:
            return False
        return any(given.topology is None and given.delayed == PENDING for given in self.admission.pod_sets)
