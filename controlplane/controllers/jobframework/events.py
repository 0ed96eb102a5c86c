"""Defines what is recorded of jobs and their Workloads on the cluster where jobs are submitted: what was seen of them,
and what is decided."""

from __future__ import annotations

from typing import ClassVar

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.jobframework.parts import GroupMember, GroupRole, SliceFacts
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import Json
from controlplane.log.event import Event, Kept, Part
from controlplane.runtime.observations import ObjectObserved, ObjectUnfit, ObjectVanished
from controlplane.runtime.writes import WriteRefused, WriteUnneeded


class PodSetFacts(Part):
    """What of a pod set is compared, and what is put into its template when the job starts. `containers` is a digest;
    of annotations that are not Kueue's the values are digests too. `topology`: its `topology_request` asks for one."""

    name: str
    count: int
    min_count: int | None = None
    containers: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[Json] = []
    gates: list[str] = []
    topology: bool = False
    topology_request: Json = {}


class PodSetInfo(Part):
    """What a pod set was admitted with, to be put into the job (`PodSetInfo` in pkg/podset/podset.go)."""

    name: str
    count: int
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[Json] = []
    gates: list[str] = []


class PodSetAdmission(Part):
    """An entry of `status.admission.podSetAssignments`; `topology`: it names domains, as `domains` has them."""

    name: str
    count: int | None = None
    flavors: dict[str, str] = {}
    topology: bool = False
    domains: Json = {}


class CheckUpdates(Part):
    """An admission check of a Workload: its state, what it says, and what it adds to pod sets."""

    name: str
    state: str
    message: str = ""
    updates: list[Json] = []


class PriorityClassName(Part):
    """A priority class as a Workload names it, and its value."""

    group: str = ""
    kind: str = ""
    name: str = ""


class QueuedOwner(Part):
    """The controller of an object, as its owner reference names it."""

    api_version: str
    kind: str
    name: str
    uid: str


class JobEnding(Part):
    """How a job ended."""

    success: bool
    message: str = ""


# --- observations ----------------------------------------------------------------------------------------------------


class QueuedJobObserved(ObjectObserved):
    """A job that names a queue, or that belongs to another job. `kind` is that of Kubernetes (`jobs.batch`);
    `stopping`: it is being stopped step by step; `started`: it has a start time; `elastic`: it may change its size
    while it runs; `refused`: by its own controller; `problem`: why no pod sets can be made of it. `body` names its
    labels, annotations and spec. `injected`: a digest of what it has of an admission, of a kind that changes at rest.
    `rests_on` names the runtime of its pods, `unresolved` what is read with that, `runtime` the body that it was read
    with last. `sized_by`: the stream of the job made of it that has its sizes, of the generation `sized_at`, or 0."""

    kind: str
    generation: int = 0
    deleting: bool = False
    queue: str = ""
    prebuilt: str = ""
    managed_by: str = ""
    priority_class: str = ""
    pod_priority_class: str = ""
    max_execution_seconds: int | None = None
    gated_by: str = ""
    owner: QueuedOwner | None = None
    suspended: bool = False
    stopping: bool = False
    started: bool = False
    elastic: bool = False
    active: bool = False
    ready: bool = False
    refused: bool = False
    end: JobEnding | None = None
    pod_sets: list[PodSetFacts] = []
    reclaimable: dict[str, int] | None = None
    problem: str = ""
    injected: str = ""
    rests_on: str = ""
    unresolved: Json = {}
    runtime: str = ""
    sized_by: str = ""
    sized_at: int = 0
    body: str = ""
    kept: Kept = {}


class QueuedJobGone(ObjectVanished):
    """The job was deleted."""

    kind: str


class JobWorkloadObserved(ObjectObserved):
    """A Workload. `references`: its owners, if none controls it; `spec` and `status` name its bodies; `slice`: what it
    is of an elastic job."""

    generation: int = 0
    created: str = ""
    deleting: bool = False
    owner: QueuedOwner | None = None
    references: list[Json] = []
    finalizers: list[str] = []
    origin: bool = False
    gated_by: str = ""
    queue: str = ""
    active: bool = True
    priority: int | None = None
    priority_class: PriorityClassName = PriorityClassName()
    max_execution_seconds: int | None = None
    pod_sets: list[PodSetFacts] = []
    conditions: list[Condition] = []
    cluster_queue: str = ""
    assignments: list[PodSetAdmission] = []
    checks: list[CheckUpdates] = []
    reclaimable: dict[str, int] = {}
    accumulated_seconds: int = 0
    unhealthy_nodes: list[str] = []
    slice: SliceFacts | None = None
    spec: str = ""
    status: str = ""
    kept: Kept = {}

    def condition(self, type_: str) -> Condition | None:
        """Return a condition, None if it is not there."""
        return next((one for one in self.conditions if one.type == type_), None)

    def is_true(self, type_: str) -> bool:
        """Whether a condition is True."""
        found = self.condition(type_)
        return found is not None and found.status == "True"


class JobWorkloadGone(ObjectVanished):
    """The Workload was deleted."""


class JobFlavorObserved(ObjectObserved):
    """A ResourceFlavor: what jobs that are admitted to it get."""

    deleting: bool = False
    node_labels: dict[str, str] = {}
    tolerations: list[Json] = []


class JobFlavorGone(ObjectVanished):
    """The ResourceFlavor was deleted."""


class JobPriorityClassObserved(ObjectObserved):
    """A WorkloadPriorityClass or a PriorityClass: `kind` says which (`workloadpriorityclasses.kueue.x-k8s.io`)."""

    kind: str
    deleting: bool = False
    value: int = 0
    global_default: bool = False


class JobPriorityClassGone(ObjectVanished):
    """The priority class was deleted."""

    kind: str


class JobInputRefused(ObjectUnfit):
    """An object that jobs rest on does not fit its API. What was known of it before counts on."""


# --- decisions -------------------------------------------------------------------------------------------------------


class JobDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: JobReason


class JobWrite(JobDecision):
    """A decision that means a write to a job, to a Workload of it, or of an Event."""

    WHAT: ClassVar[str] = "Job"
    cluster: str = MANAGEMENT
    name: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def target(self) -> str:
        """The key of what is written in its stream: at most one write to it is open."""
        return f"{self.WHAT}/{self.name}"


class WorkloadOfJobWrite(JobWrite):
    """A write to a Workload, in the version that it rests on."""

    WHAT: ClassVar[str] = "Workload"


class JobWorkloadCreationDecided(WorkloadOfJobWrite):
    """Create a job's Workload, of what the body has. `priority_class` is named in it, `pods`: how many of each pod set.
    That of a group of pods has the `roles` as its pod sets, the `members` as its owners, and the `labels` on which they
    agree; any other one gets the job's labels and annotations that `label_keys` and `annotation_keys` name.
    `annotations`: the body of the pod of a group that has each. `runtime` names the body of what its pods rest on. A
    `slice` of an elastic job gets the pod sets of the slice before, whose spec `of` names, in the numbers of `pods`;
    without `of` the job's own."""

    job_uid: str
    body: str
    runtime: str = ""
    queue: str
    priority: int = 0
    priority_class: PriorityClassName = PriorityClassName()
    pods: dict[str, int] = {}
    roles: list[GroupRole] = []
    members: list[GroupMember] = []
    labels: dict[str, str] = {}
    label_keys: list[str] = []
    annotations: dict[str, str] = {}
    annotation_keys: list[str] = []
    slice: SliceFacts | None = None
    of: str = ""


class JobWorkloadUpdateDecided(WorkloadOfJobWrite):
    """Change a Workload: its whole spec, by the body or the roles, or only what is named (`queue`, `priority`, `gate`,
    `owner`, `members`, and `counts`: how many `pods` each of its pod sets has). `references` are the owners that it has
    already, or those that it is to have, where these are what is named."""

    what: str
    body: str = ""
    runtime: str = ""
    queue: str = ""
    priority: int = 0
    priority_class: PriorityClassName = PriorityClassName()
    gated_by: str = ""
    active: bool = True
    job_uid: str = ""
    references: list[Json] = []
    roles: list[GroupRole] = []
    members: list[GroupMember] = []
    pods: dict[str, int] = {}


class JobWorkloadRemovalDecided(WorkloadOfJobWrite):
    """Delete a Workload that is not the job's."""


class JobWorkloadReleaseDecided(WorkloadOfJobWrite):
    """Remove Kueue's finalizer from a Workload, so that it can go; `finalizers` stay."""

    finalizers: list[str] = []


class JobWorkloadFinishDecided(WorkloadOfJobWrite):
    """Write the condition Finished to a Workload."""

    finish_reason: str
    message: str = ""


class JobQuotaReleaseDecided(WorkloadOfJobWrite):
    """Clear the admission of an evicted Workload. `requeued`: it is queued again at once."""

    requeued: bool = False
    eviction: str = ""
    message: str = ""


class ReclaimablePodsDecided(WorkloadOfJobWrite):
    """Write which pods of a Workload will not run again."""

    pods: dict[str, int] = {}


class PodsReadyDecided(WorkloadOfJobWrite):
    """Write the condition PodsReady to a Workload."""

    status: str
    condition_reason: str
    message: str


class PodReplacementDecided(WorkloadOfJobWrite):
    """Write whether pods of a group have to be replaced, in the condition WaitingForReplacementPods."""

    status: str
    condition_reason: str
    message: str


class JobStartDecided(JobWrite):
    """Unsuspend a job, with what its pod sets were admitted with; or only put that in (`step`: `prepare`), before."""

    kind: str
    step: str = ""
    body: str
    workload: str
    cluster_queue: str
    pod_sets: list[PodSetInfo] = []


class JobStopDecided(JobWrite):
    """Stop a job: `suspend` it, `reset` its start time, `restore` its templates to those of its Workload, whose spec
    `spec` names; "" if there is none. A kind that needs no steps is suspended and restored at once."""

    kind: str
    step: str
    body: str = ""
    spec: str = ""
    message: str = ""
    quiet: bool = False


class JobDeletionDecided(JobWrite):
    """Delete a job whose Workload was deactivated, and not by its user; `cause`: why the Workload was evicted."""

    kind: str
    workload: str
    cause: str


class JobNoticeDecided(JobWrite):
    """Tell the user something in a Kubernetes Event on the job, of which no object changes. `object`: the pod that it
    is about, if the job is made of pods."""

    WHAT: ClassVar[str] = "Event"
    kind: str
    type: str
    event_reason: str
    note: str
    object: str = ""


class JobWriteFailed(WriteRefused):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""


class JobWriteUnneeded(WriteUnneeded):
    """A write changed nothing, or is settled by its answer: nobody watches Events."""


EVENTS: tuple[type[Event], ...] = (
    *(QueuedJobObserved, QueuedJobGone, JobWorkloadObserved, JobWorkloadGone),
    *(JobFlavorObserved, JobFlavorGone, JobPriorityClassObserved, JobPriorityClassGone, JobInputRefused),
    *(
        JobWorkloadCreationDecided,
        JobWorkloadUpdateDecided,
        JobWorkloadRemovalDecided,
        JobWorkloadReleaseDecided,
        JobWorkloadFinishDecided,
    ),
    *(JobQuotaReleaseDecided, ReclaimablePodsDecided, PodsReadyDecided, PodReplacementDecided),
    *(JobStartDecided, JobStopDecided, JobDeletionDecided, JobNoticeDecided),
    *(JobWriteFailed, JobWriteUnneeded),
)
