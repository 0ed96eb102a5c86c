"""Defines what MultiKueue observes, narrowed to the fields that something decides on.

Specs and statuses are bodies, named by hash.
"""

from __future__ import annotations

from typing import Any

from controlplane.kube.conditions import Condition
from controlplane.log.event import Event, Kept, Part
from controlplane.runtime.observations import ObjectObserved, ObjectUnfit, ObjectVanished

_REPLACED = "WorkloadSliceReplaced"


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
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Whether the condition of a type is there and True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"


# --- observations: the management cluster ---------------------------------------------------------------------------


class WorkloadObserved(Conditioned):
    """A Workload of the management cluster. `template` is the body of {labels, annotations, spec}, `spec_key` the hash
    of what a clone must share (the spec without priority, `active` and preemption gates). `elastic`: it is a slice of
    an elastic job; `replaces`: and is to take the place of this one, as `NAMESPACE/NAME`."""

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
    kept: Kept = {}

    @property
    def sliced(self) -> bool:
        """Whether it is one of the Workloads of an elastic job."""
        return self.elastic or bool(self.replaces)

    @property
    def replaced(self) -> bool:
        """Whether another slice took its place: it is Finished, and its job is not."""
        finished = self.condition("Finished")
        return finished is not None and finished.status == "True" and finished.reason == _REPLACED


class WorkloadGone(ObjectGone):
    """The Workload was deleted from the management cluster."""


class JobObserved(Observation):
    """The user's job. `template` is the body of {labels, annotations, spec}, `status` that of the status, `status_key`
    its hash; `inactive` is Kueue's test whether nothing of it runs any more, by the mirrored status; `says_suspended`:
    the status has a true `Suspended` condition; `execution_policy`: the annotation of that name; `synced`: the hash of the
    fields of its spec that follow it to a copy that is there, "" for a kind that has none."""

    kind: str
    managed_by: str = ""
    suspended: bool = False
    finished: bool = False
    inactive: bool = True
    says_suspended: bool = False
    execution_policy: str = ""
    synced: str = ""
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


class AdmissionCheckGone(ObjectGone):
    """An AdmissionCheck was deleted."""


class MultiKueueConfigObserved(Observation):
    """A MultiKueueConfig: the clusters, in its order."""

    clusters: list[str]


class MultiKueueConfigGone(ObjectGone):
    """A MultiKueueConfig was deleted."""


class ClusterQueueObserved(Observation):
    """A ClusterQueue, for the execution policy that its annotation asks for."""

    execution_policy: str = ""


class ClusterQueueGone(ObjectGone):
    """A ClusterQueue was deleted."""


class MultiKueueClusterObserved(Conditioned):
    """A MultiKueueCluster: where its kubeconfig is, and its conditions."""

    location: str = ""
    location_type: str = "Secret"
    cluster_profile: str = ""


class MultiKueueClusterGone(ObjectGone):
    """A MultiKueueCluster was deleted."""


# --- observations: a worker ------------------------------------------------------------------------------------------


class CloneObserved(Conditioned):
    """The Workload's copy on a worker. `bound_to` is the UID of the job that owns it there; `topology` names the pod
    sets that have one assigned."""

    spec_key: str
    active: bool = True
    priority: Priority = Priority()
    finalizers: list[str] = []
    bound_to: str = ""
    topology: list[str] = []


class CloneGone(ObjectGone):
    """A copy of a Workload is no longer on its worker."""


class RemoteJobObserved(Observation):
    """The job's copy on a worker; the fields as in `JobObserved`. `prebuilt` is the Workload that it names."""

    kind: str
    prebuilt: str = ""
    suspended: bool = False
    finished: bool = False
    inactive: bool = True
    synced: str = ""
    status: str
    kept: Kept = {}


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
    CloneObserved,
    CloneGone,
    RemoteJobObserved,
    RemoteJobGone,
    ObservationRefused,
)
