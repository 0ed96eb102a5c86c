"""What MultiKueue records: what was seen, what was decided, and what could not be done.

Observations carry only the fields that something decides on; specs and statuses are bodies, named by hash. Every decision that
means a write names its target: the cluster and whether it is the Workload or the job there. Streams: `workload/NS/NAME` for a
Workload and all its copies, `job/KIND/NS/NAME` for the user's job, `admissioncheck/NAME`, `multikueueconfig/NAME` and
`cluster/NAME` for the rest.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec

from controlplane.connectivity.events import MANAGEMENT
from controlplane.log.event import Event
from controlplane.multikueue.reasons import Reason


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A piece of an observed object."""


class Condition(Part, frozen=True, kw_only=True):
    """A Kubernetes condition; `last_transition_time` as the server wrote it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class CheckState(Part, frozen=True, kw_only=True):
    """One entry of `status.admissionChecks`. `rest` holds the fields that we only hand back."""

    name: str
    state: str = "Pending"
    message: str = ""
    last_transition_time: str = ""
    retry_count: int = 0
    rest: dict[str, Any] = {}


class Owner(Part, frozen=True, kw_only=True):
    """The owner that an adapter is looked up by."""

    api_version: str
    kind: str
    name: str
    uid: str = ""

    @property
    def gvk(self) -> str:
        """Go's spelling, `batch/v1, Kind=Job`."""
        return f"{self.api_version}, Kind={self.kind}"


class Priority(Part, frozen=True, kw_only=True):
    """A Workload's priority and where it comes from."""

    value: int = 0
    class_group: str = ""
    class_kind: str = ""
    class_name: str = ""
    boost: str = ""


class Seen(Event, frozen=True, kw_only=True):
    """What every observed object has."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    deleting: bool = False


class Gone(Event, frozen=True, kw_only=True):
    """An observed object is no longer there (or, on a worker, no longer carries our origin label)."""

    namespace: str = ""
    name: str
    uid: str


class Conditioned(Seen, frozen=True, kw_only=True):
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


class WorkloadObserved(Conditioned, frozen=True, kw_only=True):
    """A Workload of the management cluster. `template` is the body of {labels, annotations, spec}, `spec_key` the hash of what a clone must
    share (the spec without priority, `active` and preemption gates)."""

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


class WorkloadGone(Gone, frozen=True, kw_only=True):
    """The Workload was deleted from the management cluster."""


class JobObserved(Seen, frozen=True, kw_only=True):
    """The user's job. `template` is the body of {labels, annotations, spec}, `status` that of the status, `status_key` its hash;
    `inactive` is Kueue's test whether nothing of it runs any more, by the mirrored status;
    `says_suspended`: the status has a true `Suspended` condition."""

    kind: str
    managed_by: str = ""
    suspended: bool = False
    finished: bool = False
    inactive: bool = True
    says_suspended: bool = False
    template: str
    status: str


class JobGone(Gone, frozen=True, kw_only=True):
    """The user's job was deleted."""

    kind: str


class AdmissionCheckObserved(Conditioned, frozen=True, kw_only=True):
    """An AdmissionCheck, ours or not: only `controller_name` tells."""

    controller_name: str
    parameters: dict[str, str] = {}


class AdmissionCheckGone(Gone, frozen=True, kw_only=True):
    """An AdmissionCheck was deleted."""


class MultiKueueConfigObserved(Seen, frozen=True, kw_only=True):
    """A MultiKueueConfig: the clusters, in its order."""

    clusters: list[str]


class MultiKueueConfigGone(Gone, frozen=True, kw_only=True):
    """A MultiKueueConfig was deleted."""


class MultiKueueClusterObserved(Conditioned, frozen=True, kw_only=True):
    """A MultiKueueCluster: where its kubeconfig is, and its conditions."""

    location: str = ""
    location_type: str = "Secret"
    cluster_profile: str = ""


class MultiKueueClusterGone(Gone, frozen=True, kw_only=True):
    """A MultiKueueCluster was deleted."""


# --- observations: a worker ------------------------------------------------------------------------------------------


class CloneObserved(Conditioned, frozen=True, kw_only=True):
    """The Workload's copy on a worker. `bound_to` is the UID of the job that owns it there; `topology` names the pod sets that
    have one assigned."""

    spec_key: str
    active: bool = True
    priority: Priority = Priority()
    finalizers: list[str] = []
    bound_to: str = ""
    topology: list[str] = []


class CloneGone(Gone, frozen=True, kw_only=True):
    """A copy of a Workload is no longer on its worker."""


class RemoteJobObserved(Seen, frozen=True, kw_only=True):
    """The job's copy on a worker; the fields as in `JobObserved`. `prebuilt` is the Workload that it names."""

    kind: str
    prebuilt: str = ""
    suspended: bool = False
    finished: bool = False
    inactive: bool = True
    status: str


class RemoteJobGone(Gone, frozen=True, kw_only=True):
    """The job's copy is no longer on its worker."""

    kind: str


class ObservationRefused(Event, frozen=True, kw_only=True):
    """An object that cannot be understood: kept as a body, reported on the object, and skipped."""

    kind: str
    namespace: str = ""
    name: str
    uid: str
    resource_version: str
    field: str
    error: str
    object: str


# --- decisions --------------------------------------------------------------------------------------------------------

Where = Literal["Workload", "Job", "MultiKueueCluster", "AdmissionCheck"]


class Decision(Event, frozen=True, kw_only=True):
    """A decision; `reason` is one of the closed set."""

    reason: Reason


class Write(Decision, frozen=True, kw_only=True):
    """A decision that means a write to one object, `where` on `cluster`, based on its `resource_version` ("" for a create)."""

    WHERE: ClassVar[Where] = "Workload"
    cluster: str = MANAGEMENT
    resource_version: str = ""

    @property
    def where(self) -> Where:
        """Which object the write is to."""
        return self.WHERE

    @property
    def target(self) -> str:
        """The key of the object in its stream: at most one write to it is open."""
        return f"{self.cluster}/{self.where}"


class NominationDecided(Write, frozen=True, kw_only=True):
    """Offer the Workload to these clusters: `status.nominatedClusterNames`."""

    attempt: int
    clusters: list[str]


class CloneDecided(Write, frozen=True, kw_only=True):
    """Create the Workload's copy on a worker."""

    attempt: int
    template: str


class WinnerChosen(Decision, frozen=True, kw_only=True):
    """The cluster that gets the job. `among`: every cluster that had admitted it, with the time of its condition."""

    cluster: str
    attempt: int
    among: dict[str, str]


class WinnerReleased(Decision, frozen=True, kw_only=True):
    """The chosen cluster cannot have it after all; the others may try again."""

    cluster: str
    attempt: int
    message: str = ""


class ClusterRefused(Decision, frozen=True, kw_only=True):
    """A cluster is left out of this attempt until `until`: it rejected the copy, or the job cannot be created there."""

    cluster: str
    attempt: int
    message: str
    until: datetime


class JobCreationDecided(Write, frozen=True, kw_only=True):
    """Create the job on the winner, bound to the clone by its prebuilt name."""

    WHERE: ClassVar[Where] = "Job"
    attempt: int
    kind: str
    template: str


class CheckStateDecided(Write, frozen=True, kw_only=True):
    """Set the state of our admission check on the Workload; with `Ready` also the winner's name, and clear the nomination.

    `requeue_after_seconds` slows down a Workload that comes back again and again; Kueue's core keeps to it.
    """

    check: str
    state: str
    message: str
    winner: str = ""
    topology: list[str] = []
    requeue_after_seconds: int = 0


class StatusRelayDecided(Write, frozen=True, kw_only=True):
    """Write a status to the user's job: the winner's, or one in which nothing runs."""

    WHERE: ClassVar[Where] = "Job"
    kind: str
    source: str = ""
    status: str
    mark_suspended: bool = False
    drain: bool = False


class FinishDecided(Write, frozen=True, kw_only=True):
    """Finish the Workload as its copy finished."""

    source: str
    finish_reason: str
    message: str


class NamesClearDecided(Write, frozen=True, kw_only=True):
    """Remove `clusterName` and `nominatedClusterNames`, whoever owns the fields."""


class RemovalDecided(Write, frozen=True, kw_only=True):
    """Delete a copy on a worker, by UID."""

    uid: str
    of: Where = "Workload"
    kind: str = ""

    @property
    def where(self) -> Where:
        """Which object the write is to."""
        return self.of


class FinalizerRemovalDecided(Write, frozen=True, kw_only=True):
    """Take Kueue's `resource-in-use` finalizer off a clone that is to go."""

    uid: str
    finalizers: list[str] = []


class CloneUpdateDecided(Write, frozen=True, kw_only=True):
    """Bring a clone's priority in line with the Workload's."""

    priority: Priority


class DeactivationDecided(Write, frozen=True, kw_only=True):
    """Ask the worker's Kueue to stop a copy whose Workload was evicted on the manager."""

    message: str


class ConditionDecided(Write, frozen=True, kw_only=True):
    """Set the `Active` condition of a MultiKueueCluster or an AdmissionCheck."""

    of: Where
    status: str
    condition_reason: str
    message: str
    generation: int

    @property
    def where(self) -> Where:
        """Which object the write is to."""
        return self.of


class EffectFailed(Event, frozen=True, kw_only=True):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""

    target: str
    action: str
    code: int
    error: str
    message: str
    failures: int
    retry_at: datetime
    reason: str = ""


class EffectUnneeded(Event, frozen=True, kw_only=True):
    """A write changed nothing, by the API server's own answer: the object is as it was wanted, and no watch will show a change."""

    target: str
    action: str
    resource_version: str


EVENTS: tuple[type[Event], ...] = (
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
    CloneObserved,
    CloneGone,
    RemoteJobObserved,
    RemoteJobGone,
    ObservationRefused,
    NominationDecided,
    CloneDecided,
    WinnerChosen,
    WinnerReleased,
    ClusterRefused,
    JobCreationDecided,
    CheckStateDecided,
    StatusRelayDecided,
    FinishDecided,
    NamesClearDecided,
    RemovalDecided,
    FinalizerRemovalDecided,
    CloneUpdateDecided,
    DeactivationDecided,
    ConditionDecided,
    EffectFailed,
    EffectUnneeded,
)
