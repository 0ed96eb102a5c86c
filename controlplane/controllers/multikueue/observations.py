"""Defines what MultiKueue observes, narrowed to the fields that something decides on.

Specs and statuses are bodies, named by hash.
"""

from __future__ import annotations

from typing import Any

from controlplane.kube.conditions import Condition
from controlplane.kube.kueue_names import PREEMPTION_GATE
from controlplane.kube.slices import SLICE_REPLACED
from controlplane.log.event import Event, Kept, Part
from controlplane.runtime.observations import ObjectObserved, ObjectUnfit, ObjectVanished


class CheckState(Part):
    """One entry of `status.admissionChecks`. `rest` holds the fields that we only hand back."""

    name: str
    state: str = "Pending"
    message: str = ""
    last_transition_time: str = ""
    retry_count: int = 0
    rest: dict[str, Any] = {}


class Owner(Part):
    """The owner that an adapter is looked up by."""

    api_version: str
    kind: str
    name: str
    uid: str = ""

    @property
    def gvk(self) -> str:
        """Go's spelling, `batch/v1, Kind=Job`."""
        return f"{self.api_version}, Kind={self.kind}"


class Priority(Part):
    """A Workload's priority and where it comes from."""

    value: int = 0
    class_group: str = ""
    class_kind: str = ""
    class_name: str = ""
    boost: str = ""


class Observation(ObjectObserved):
    """What every observed object has."""

    generation: int = 0
    deleting: bool = False


class ObjectGone(ObjectVanished):
    """An observed object is no longer there (or, on a worker, no longer carries our origin label)."""


class Conditioned(Observation):
    """An observed object with conditions."""

    conditions: list[Condition] = []

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type."""
        for condition in self.conditions:
            if condition.type == kind:
                return condition
        return None

    def is_true(self, kind: str) -> bool:
        """Whether the condition of a type is there and True."""
        # As in `condition`, the first of the type counts; a loop of its own, since every event asks several times.
        for condition in self.conditions:
            if condition.type == kind:
                return condition.status == "True"
        return False


# --- observations: the management cluster ---------------------------------------------------------------------------


class WorkloadObserved(Conditioned):
    """A Workload of the management cluster. `template` is the body of {labels, annotations, spec}; `spec_key` tells
    what a clone must share (the spec without priority, `active` and preemption gates; see `spec_keys`). `elastic`: it
    is a slice of an elastic job; `replaces`: and is to take the place of this one, as `NAMESPACE/NAME`; `size`: then
    also how many pods each pod set has. `owners`: the UIDs of all that own it, if they are several. `component`: which
    one of the Workloads of a job that has several, -1 for any other. `applied`: the body of what Kueue applies with
    every write of the admission and is no field here, "" in records of older versions. `requests`: what each pod set
    takes, by resource, where clusters are scored by their flavors."""

    owner: Owner | None = None
    queue_name: str = ""
    active: bool = True
    priority: Priority = Priority()
    template: str
    spec_key: str
    checks: list[CheckState] = []
    cluster_name: str = ""
    nominated: list[str] = []
    cluster_queue: str = ""
    delayed_topology: list[str] = []
    assignments: list[dict[str, Any]] = []
    elastic: bool = False
    replaces: str = ""
    applied: str = ""
    size: dict[str, int] = {}
    owners: list[str] = []
    component: int = -1
    requests: dict[str, dict[str, str]] = {}
    kept: Kept = {}

    @property
    def sliced(self) -> bool:
        """Whether it is one of the Workloads of an elastic job."""
        return self.elastic or bool(self.replaces)

    @property
    def replaced(self) -> bool:
        """Whether another slice took its place: it is Finished, and its job is not."""
        finished = self.condition("Finished")
        return finished is not None and finished.status == "True" and finished.reason == SLICE_REPLACED

    def lost_name(self, before: WorkloadObserved) -> bool:
        """Whether somebody took the name of its cluster from the Workload since, which is admitted there as it was."""
        kept = self.is_true("Admitted") and self.is_true("QuotaReserved") and not self.is_true("Evicted")
        return (
            self.uid == before.uid
            and bool(before.cluster_name)
            and not self.cluster_name
            and kept
            and not self.is_true("Finished")
        )


class WorkloadGone(ObjectGone):
    """The Workload was deleted from the management cluster."""


class CloneAbsent(Event):
    """A worker was asked for the copy that `clusterName` names and no watch shows: it is not there, by the API server's
    own `message`."""

    namespace: str
    name: str
    message: str = ""


class JobEnd(Part):
    """How the user's job ended, by its status."""

    success: bool
    message: str = ""


class JobObserved(Observation):
    """The user's job. `template` is the body of {labels, annotations, spec}, `status` that of the status, `status_key`
    its hash; `inactive` is Kueue's test whether nothing of it runs any more, by the mirrored status; `says_suspended`:
    the status has a true `Suspended` condition; `execution_policy` and `cluster_selector`: the annotations of those
    names; `labels`: its labels, where clusters are scored by them; `synced`: the hash of the fields of its spec that
    follow it to a copy that is there, "" for a kind that has none; `size`: how many pods each pod set has, of an
    elastic job; `group`: that of a pod which shares its Workload with others, and `role`: the hash of what it asks for,
    as Kueue noted it, "" in records of older versions; `held`: a pod that Kueue does not let go here; `components`: how
    many Workloads it has, of a kind that may have several; `end`: how an elastic job ended, None of one that runs, of
    any other, and in records of older versions."""

    kind: str
    managed_by: str = ""
    suspended: bool = False
    finished: bool = False
    inactive: bool = True
    says_suspended: bool = False
    execution_policy: str = ""
    cluster_selector: str = ""
    labels: dict[str, str] = {}
    synced: str = ""
    size: dict[str, int] = {}
    group: str = ""
    role: str = ""
    held: bool = False
    components: int = 0
    end: JobEnd | None = None
    template: str
    status: str
    kept: Kept = {}


class JobGone(ObjectGone):
    """The user's job was deleted."""

    kind: str


class AdmissionCheckObserved(Conditioned):
    """An AdmissionCheck, ours or not: `controller_name` distinguishes them."""

    controller_name: str
    parameters: dict[str, str] = {}
    manager: str = ""


class AdmissionCheckGone(ObjectGone):
    """An AdmissionCheck was deleted."""


class MultiKueueConfigObserved(Observation):
    """A MultiKueueConfig: the clusters, in its order, and who manages quota."""

    clusters: list[str]
    quota_management: str = ""
    manager: str = ""


class MultiKueueConfigGone(ObjectGone):
    """A MultiKueueConfig was deleted."""


class ClusterQueueObserved(Observation):
    """A ClusterQueue, for the execution policy that its annotation asks for; and `checks`, the names of its admission
    checks, where the webhook of jobs needs them, None elsewhere and in records of older versions."""

    execution_policy: str = ""
    checks: list[str] | None = None
    manager: str = ""


class ClusterQueueGone(ObjectGone):
    """A ClusterQueue was deleted."""


class LocalQueueObserved(Observation):
    """A LocalQueue, for the ClusterQueue that it leads to."""

    cluster_queue: str = ""
    manager: str = ""


class LocalQueueGone(ObjectGone):
    """A LocalQueue was deleted."""


class MultiKueueClusterObserved(Conditioned):
    """A MultiKueueCluster: where its kubeconfig is, its labels, and its conditions."""

    location: str = ""
    location_type: str = "Secret"
    cluster_profile: str = ""
    labels: dict[str, str] = {}
    manager: str = ""


class MultiKueueClusterGone(ObjectGone):
    """A MultiKueueCluster was deleted."""


Configuration = (
    AdmissionCheckObserved
    | MultiKueueConfigObserved
    | ClusterQueueObserved
    | LocalQueueObserved
    | MultiKueueClusterObserved
)
"""By what people configure MultiKueue. `manager`: the field manager that wrote it last, its status apart; "" in records
of older versions."""


# --- observations: a worker ------------------------------------------------------------------------------------------


class PreemptionGate(Part):
    """One entry of `status.preemptionGates`."""

    name: str
    position: str = ""
    last_transition_time: str = ""


class CloneObserved(Conditioned):
    """The Workload's copy on a worker. `bound_to` is the UID of the job that owns it there; `topology` names the pod
    sets that have one assigned; `size` as in `WorkloadObserved`. `gated`: its spec has MultiKueue's preemption gate;
    `gates`: what its status says of all of them. `awaits`: the admission checks of the worker's own that are not Ready,
    with what each says. `unmarked`: it does not say that it was made for this management cluster; `made_for`: the one
    that it says instead."""

    spec_key: str
    active: bool = True
    priority: Priority = Priority()
    finalizers: list[str] = []
    bound_to: str = ""
    topology: list[str] = []
    size: dict[str, int] = {}
    gated: bool = False
    gates: list[PreemptionGate] = []
    awaits: dict[str, str] = {}
    unmarked: bool = False
    made_for: str = ""

    @property
    def gate(self) -> PreemptionGate | None:
        """What its status says of MultiKueue's preemption gate, if that is open."""
        return next((one for one in self.gates if one.name == PREEMPTION_GATE and one.position == "Open"), None)


class CloneGone(ObjectGone):
    """A copy of a Workload is no longer on its worker."""


class RemoteJobObserved(Observation):
    """The job's copy on a worker; the fields as in `JobObserved`. `prebuilt` is the Workload that it names, `sized` the
    body of what is written again with another size, if there is more than that. `shared`: the UID of the user's job, of
    which this is the copy for all its Workloads; `prebuilt` is then the first. Of a pod alone: `role`, `succeeded`, and
    `finalizers`, where only these keep it, and nothing of it runs. `end`: how it ended, if recorded. `unmarked` and
    `made_for` as in `CloneObserved`."""

    kind: str
    prebuilt: str = ""
    suspended: bool = False
    finished: bool = False
    inactive: bool = True
    synced: str = ""
    size: dict[str, int] = {}
    sized: str = ""
    shared: str = ""
    end: JobEnd | None = None
    role: str = ""
    succeeded: bool = False
    finalizers: list[str] = []
    unmarked: bool = False
    made_for: str = ""
    status: str
    kept: Kept = {}

    @property
    def finalizing(self) -> bool:
        """Whether nothing keeps it but its finalizers."""
        return bool(self.finalizers)


class RemoteJobGone(ObjectGone):
    """The job's copy is no longer on its worker."""

    kind: str


class ObservationRefused(ObjectUnfit):
    """An object that cannot be understood: kept as a body, reported on the object, and skipped."""

    namespace: str = ""


OBSERVATIONS: tuple[type[Event], ...] = (
    WorkloadObserved,
    WorkloadGone,
    JobObserved,
    JobGone,
    AdmissionCheckObserved,
    AdmissionCheckGone,
    MultiKueueConfigObserved,
    MultiKueueConfigGone,
    MultiKueueClusterObserved,
    MultiKueueClusterGone,
    ClusterQueueObserved,
    ClusterQueueGone,
    LocalQueueObserved,
    LocalQueueGone,
    CloneObserved,
    CloneGone,
    RemoteJobObserved,
    RemoteJobGone,
    ObservationRefused,
    CloneAbsent,
)
