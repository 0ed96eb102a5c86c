"""Defines what is recorded of quota that is reserved here: the objects that it rests on, what is decided, and the
ledger.

Objects of Kueue's API are recorded as that API has them (v1beta2), reduced to the fields that something is decided on;
of a Workload's pod templates what is counted, and which nodes it fits."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.kube.conditions import Condition
from controlplane.log.event import Event, Part
from controlplane.runtime.observations import ObjectObserved, ObjectUnfit, ObjectVanished
from controlplane.runtime.writes import ObjectWrite, WriteRefused, WriteUnneeded

Amounts = dict[str, dict[str, int]]
"""Amounts by flavor and resource: cpu in thousandths, everything else in whole units."""


class PodSetFacts(Part):
    """Pods that are alike. `requests` are those of one pod, as `Amounts` count; `shape` is equal for templates that are
    scheduled alike. `resources` is what of the pod's spec its requests are made of, for the defaults of LimitRanges and
    RuntimeClasses: of each container `resources` and `restartPolicy`, `overhead`, `runtimeClassName`, the pod's own.
    `topology`: its `topology_request` asks for a placement. `claims`: the entries of the pod's `resourceClaims`.
    `node_terms` and `preferred_node_terms`: what its node affinity requires and prefers."""

    name: str
    count: int
    min_count: int
    requests: dict[str, int] = {}
    node_selector: dict[str, str] = {}
    node_terms: list[dict[str, Any]] = []
    tolerations: list[dict[str, Any]] = []
    shape: str = ""
    topology: bool = False
    topology_request: dict[str, Any] = {}
    excess: list[str] = []
    resources: dict[str, Any] = {}
    claims: list[dict[str, Any]] = []
    preferred_node_terms: list[dict[str, Any]] = []


class Owner(Part):
    """An owner reference of a Workload."""

    api_version: str
    kind: str
    name: str
    uid: str


# --- observations ----------------------------------------------------------------------------------------------------


class AdmissionWorkloadObserved(ObjectObserved):
    """A Workload: what its pods ask for, and its status as the API server has it. `owned`: it has `owners`, which
    events of earlier versions do not name; `of_group`: it is that of a group of pods. `priority_class`: the
    WorkloadPriorityClass that it names, "" for none or for a PriorityClass of pods. `priority_boost`: what its
    annotation adds to its priority, where that counts. `preemption_gates`: the names of the gates that keep it from
    preempting. `replaces`: the namespace and name of the workload slice whose place it is to take, "" for none."""

    generation: int = 0
    deleting: bool = False
    created: str = ""
    owned: bool = False
    owners: list[Owner] = []
    of_group: bool = False
    finalizers: list[str] = []
    job_uid: str = ""
    gated_by: str = ""
    queue: str = ""
    priority: int = 0
    priority_class: str = ""
    priority_boost: int = 0
    preemption_gates: list[str] = []
    active: bool = True
    maximum_execution_seconds: int | None = None
    pod_sets: list[PodSetFacts] = []
    replaces: str = ""
    status: dict[str, Any] = {}


class AdmissionWorkloadGone(ObjectVanished):
    """The Workload was deleted."""


class AdmissionObjectObserved(ObjectObserved):
    """An object that quota rests on; `spec` as its API has it, as far as something is decided on it."""

    generation: int = 0
    deleting: bool = False
    finalizers: list[str] = []
    spec: dict[str, Any] = {}


class AdmissionQueueObserved(AdmissionObjectObserved):
    """An object that quota rests on and whose status is ours."""

    status: dict[str, Any] = {}


class AdmissionClusterQueueObserved(AdmissionQueueObserved):
    """A ClusterQueue."""


class AdmissionClusterQueueGone(ObjectVanished):
    """The ClusterQueue was deleted."""


class AdmissionCohortObserved(AdmissionQueueObserved):
    """A Cohort."""


class AdmissionCohortGone(ObjectVanished):
    """The Cohort was deleted."""


class AdmissionLocalQueueObserved(AdmissionQueueObserved):
    """A LocalQueue."""


class AdmissionLocalQueueGone(ObjectVanished):
    """The LocalQueue was deleted."""


class WorkerUsageObserved(ObjectObserved):
    """A LocalQueue of a worker: what its admitted Workloads use there by resource, as `Amounts` count, those that were
    dispatched to it among them."""

    deleting: bool = False
    used: dict[str, int] = {}


class WorkerUsageGone(ObjectVanished):
    """The worker's LocalQueue was deleted."""


class AdmissionFlavorObserved(AdmissionObjectObserved):
    """A ResourceFlavor."""


class AdmissionFlavorGone(ObjectVanished):
    """The ResourceFlavor was deleted."""


class AdmissionCheckSeen(AdmissionObjectObserved):
    """An AdmissionCheck; `active`: its condition Active is True."""

    active: bool = False


class AdmissionCheckUnseen(ObjectVanished):
    """The AdmissionCheck was deleted."""


class AdmissionNamespaceObserved(ObjectObserved):
    """A namespace with its labels, by which ClusterQueues select it."""

    deleting: bool = False
    labels: dict[str, str] = {}


class AdmissionNamespaceGone(ObjectVanished):
    """The namespace was deleted."""


class AdmissionPriorityClassObserved(ObjectObserved):
    """A WorkloadPriorityClass; Workloads of it get its value as their priority."""

    deleting: bool = False
    value: int = 0


class AdmissionPriorityClassGone(ObjectVanished):
    """The WorkloadPriorityClass was deleted. Workloads keep their priority."""


class AdmissionLimitRangeObserved(AdmissionObjectObserved):
    """A LimitRange: what pods of its namespace get that they do not ask for, and what they may ask for."""


class AdmissionLimitRangeGone(ObjectVanished):
    """The LimitRange was deleted."""


class AdmissionRuntimeClassObserved(AdmissionObjectObserved):
    """A RuntimeClass; of its spec the overhead that each of its pods has."""


class AdmissionRuntimeClassGone(ObjectVanished):
    """The RuntimeClass was deleted."""


class AdmissionInputRefused(ObjectUnfit):
    """An object that quota rests on does not fit its API. What was known of it before counts on."""


# --- decisions -------------------------------------------------------------------------------------------------------


class AdmissionDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: AdmissionReason


class AdmissionWrite(AdmissionDecision, ObjectWrite):
    """A decision that means a write to one object, in the version that it rests on."""

    cluster: str = MANAGEMENT
    uid: str
    resource_version: str


class WorkloadAdmissionWrite(AdmissionWrite):
    """A decision that means a write to a Workload's status: the `conditions` that become other ones, those that are
    `dropped`, and what else changes, as a merge patch."""

    WHAT: ClassVar[str] = "Workload"
    conditions: list[Condition] = []
    dropped: list[str] = []
    changes: dict[str, Any] = {}


class QuotaReservationDecided(WorkloadAdmissionWrite):
    """Reserve quota in a ClusterQueue. `admission` as it is written; `amounts` that are reserved, `borrowed` which of
    them exceed the ClusterQueue's nominal quota; `cycle` counts the scheduling cycles. `penalty`: what it counts for in
    the past usage of its LocalQueue until that is sampled, as quantities; empty where past usage does not count.
    `replaces`: the slice whose place it takes, by namespace and name; that one's quota counts no more, as far as it is
    in `amounts`. `considered`: which flavors were looked at beside those that have the quota, and what was in the way,
    as Kueue tells it."""

    cycle: int
    cluster_queue: str
    admission: dict[str, Any]
    amounts: Amounts = {}
    borrowed: Amounts = {}
    admitted: bool = False
    penalty: dict[str, str] = {}
    replaces: str = ""
    considered: str = ""


class WorkloadInadmissible(WorkloadAdmissionWrite):
    """The Workload has to wait. `why` and `message` are its QuotaReserved condition's; `requeue` is why it goes back
    into its queue, and `tried` how far the search for flavors got at the ClusterQueue's `generation`. `wakes`: the
    number of the change that had woken its queue last. `written`: the condition says something else yet. `short_of`:
    the resources, by flavor, of which others have to give quota back before it is tried again, None where that is not
    all that may help, and in logs of versions that did not say it."""

    cycle: int
    cluster_queue: str
    why: str
    message: str
    requeue: str = ""
    tried: list[dict[str, int]] | None = None
    tried_at: list[int] = []
    wakes: int = 0
    written: bool = False
    victims: list[str] = []
    short_of: dict[str, list[str]] | None = None


class WorkloadPreemptionDecided(WorkloadAdmissionWrite):
    """Preempt a Workload for another one. `amounts` are free once its pods are gone."""

    cycle: int
    cluster_queue: str
    preemptor: str
    preemptor_uid: str
    why: str
    message: str
    amounts: Amounts = {}


class WorkloadStatusDecided(WorkloadAdmissionWrite):
    """Change the status of a Workload otherwise. `evicted`: the reason of its eviction, if it is one."""

    evicted: str = ""
    message: str = ""


class WorkloadSpecDecided(AdmissionWrite):
    """Change the spec of a Workload: deactivate it, or give it the priority of its class; `changes` as a merge
    patch."""

    WHAT: ClassVar[str] = "Workload"
    changes: dict[str, Any] = {}


class WorkloadDeletionDecided(AdmissionWrite):
    """Delete a Workload that has finished, in the version that was seen."""

    WHAT: ClassVar[str] = "Workload"


class ReservationRetried(AdmissionDecision):
    """A Workload whose reservation could not be written is queued again; if it may have been carried out, and nodes are
    not part of it, the same write is sent again."""


class QueueStatusDecided(AdmissionWrite):
    """Change the status of a ClusterQueue, LocalQueue or Cohort; what changes, as a merge patch."""

    WHAT: ClassVar[str] = "status"
    changes: dict[str, Any] = {}


class LocalQueueUsageSampled(AdmissionDecision):
    """What a LocalQueue used in the past, as quantities: `consumed` at `sampled_at`, of which less counts the longer
    ago it was; `used` is what its admitted Workloads use now. `settled`: the Workloads whose entry penalty is in it
    from now on."""

    sampled_at: datetime
    consumed: dict[str, str] = {}
    used: dict[str, str] = {}
    settled: list[str] = []


class FinalizersDecided(AdmissionWrite):
    """Change the finalizers of an object."""

    WHAT: ClassVar[str] = "finalizers"
    finalizers: list[str] = []


class QuotaPosted(AdmissionDecision):
    """The ledger's entry for quota that came or went otherwise than by a reservation of ours: `amounts` are added to
    what the Workload has, negative ones taken from it. `borrowed`: which of what it has then exceed the ClusterQueue's
    nominal quota."""

    cluster_queue: str
    amounts: Amounts = {}
    borrowed: Amounts = {}


class AdmissionWriteFailed(WriteRefused):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""


class AdmissionWriteUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer."""


EVENTS: tuple[type[Event], ...] = (
    AdmissionWorkloadObserved,
    AdmissionWorkloadGone,
    AdmissionClusterQueueObserved,
    AdmissionClusterQueueGone,
    AdmissionCohortObserved,
    AdmissionCohortGone,
    AdmissionLocalQueueObserved,
    AdmissionLocalQueueGone,
    WorkerUsageObserved,
    WorkerUsageGone,
    AdmissionFlavorObserved,
    AdmissionFlavorGone,
    AdmissionCheckSeen,
    AdmissionCheckUnseen,
    AdmissionNamespaceObserved,
    AdmissionNamespaceGone,
    AdmissionPriorityClassObserved,
    AdmissionPriorityClassGone,
    AdmissionLimitRangeObserved,
    AdmissionLimitRangeGone,
    AdmissionRuntimeClassObserved,
    AdmissionRuntimeClassGone,
    AdmissionInputRefused,
    QuotaReservationDecided,
    WorkloadInadmissible,
    WorkloadPreemptionDecided,
    WorkloadStatusDecided,
    WorkloadSpecDecided,
    WorkloadDeletionDecided,
    ReservationRetried,
    QueueStatusDecided,
    LocalQueueUsageSampled,
    FinalizersDecided,
    QuotaPosted,
    AdmissionWriteFailed,
    AdmissionWriteUnneeded,
)
