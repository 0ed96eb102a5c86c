"""What the target side records: one stream per candidate, `candidate/NS/NAME`, in the log of the scheduler beside that
API server.

The source's word (`CandidateObserved`: template, permit, withdrawal), the scheduler's (`Reserved`, `Unreserved`,
`BindStarted`), the Pod's, and what was decided of them. Nothing is bound, acknowledged or reported that is not here
first."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from controlplane.controllers.candidates.objects import Origin, PermitSpec
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.observations import SourceObjectGone, SourceObservation
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.conditions import Condition
from controlplane.log.event import Event, Kept, Part
from controlplane.runtime.observations import ObjectUnfit
from controlplane.runtime.writes import ObjectWrite, WriteRefused, WriteUnneeded

HERE = MANAGEMENT  # the API server that the scheduler stands beside


class Reported(Part):
    """`status` of a Candidate: what the source is told. Compared with what is stored, so that nothing is written
    twice. `gates`: that the conditions of its readiness gates are set on the Pod.
    """

    phase: str = ""
    reservation: int = 0
    node: str = ""
    score: int = 0
    expires: datetime | None = None
    acknowledged: int = 0
    tried: int = 0
    preemptable: bool = False
    reason: str = ""
    message: str = ""
    pod: str = ""
    bound_by: int = 0
    sequence: int = 0
    follows: list[str] = []
    gates: bool = False


class Changeable(Part):
    """What of a template a Pod can follow. `marks`: the hashes of its labels and annotations, by `labels/NAME`;
    `images` by `containers/NAME`.
    """

    marks: dict[str, str] = {}
    images: dict[str, str] = {}
    deadlines: dict[str, int] = {}
    tolerations: list[dict[str, Any]] = []


class CandidateObserved(SourceObservation):
    """A Candidate of this cluster. `problem`: why its template cannot become a Pod; `reported` is what its status says,
    `pod_status` the body of the Pod's status in it. `least`: how many of its PodGroup start together, by the source.
    `account` is the ServiceAccount that the Pod runs as, `token`: it asks for a token of that by a volume of its own.
    `beyond_baseline` and `beyond_restricted`: what these levels of the Pod Security Standards forbid of it, the second
    without the first. `changeable` is what its Pod can follow a change of, `fixed` the hash of what not, once the Pod
    is there (None, "": it was not noted). `scale_up`: whether the autoscaler of this cluster may add nodes for it, None
    if its source leaves that to us. `gates`: how the conditions stand, by its source, that the Pod's readiness waits
    for; one that is not among them does not stand there, if it says anything of them at all (`gates_told`).
    `source_uid`: which cluster made it, noted of a pod of a PodGroup: gangs are told apart by it."""

    origin: Origin
    template: str
    priority_class: str = ""
    problem: str = ""
    problem_message: str = ""
    permit: PermitSpec | None = None
    withdrawn: int = 0
    finalizers: list[str] = []
    reported: Reported = Reported()
    pod_status: str = ""
    conditions: list[Condition] = []
    least: int = 0
    account: str = "default"
    token: bool = False
    beyond_baseline: str = ""
    beyond_restricted: str = ""
    kept: Kept = {}
    changeable: Changeable | None = None
    fixed: str = ""
    scale_up: bool | None = None
    gates: list[Condition] = []
    gates_told: bool = False
    source_uid: str = ""


class UnreadCandidateDeleted(SourceObservation):
    """A Candidate of this cluster that does not fit its API is being deleted; `error` says what does not fit. What it
    is kept for is read all the same: its `finalizers`."""

    finalizers: list[str] = []
    error: str = ""


class CandidateVanished(SourceObjectGone):
    """A Candidate is not there any more."""


class CandidatePodObserved(SourceObservation):
    """The Pod of a candidate. `owner` is the UID of the Candidate that controls it, `status` the body of its status.
    `template`: which one it agrees with, `scale_up`: whether the autoscaler may add nodes for it, both by its
    annotations, and so do `source`, the cluster that it comes from ("": it does not say, or is of no PodGroup), and
    `source_uid`, which one of that name. `gates`: how the conditions stand that its readiness waits for. `stopped`: it
    is being deleted, and its end is that of its deletion.
    """

    owner: str
    node: str = ""
    phase: str = "Pending"
    status: str = ""
    kept: Kept = {}
    template: str = ""
    tolerations: list[dict[str, Any]] = []
    scale_up: bool = True
    stopped: bool = False
    source: str = ""
    source_uid: str = ""
    gates: list[Condition] = []


class CandidatePodGone(SourceObjectGone):
    """The Pod of a candidate is not there any more."""


class InvitationObserved(SourceObservation):
    """A CandidateSource: pods of `cluster` may come into its namespace. `user` is who speaks for that cluster.

    `most` bounds how many candidates it may have there (0: any), `priority_classes` which classes they may name (empty:
    any), `service_accounts` as whom their Pods may run (empty: as `default`, without its token). `pod_security` is the
    level of the Pod Security Standards that they have to keep ("": the strictest). `follow`: the kinds of objects
    beside ConfigMaps and Secrets that may come with them."""

    cluster: str
    user: str = ""
    most: int = 0
    priority_classes: list[str] = []
    service_accounts: list[str] = []
    pod_security: str = ""
    follow: list[str] = []


class InvitationGone(SourceObjectGone):
    """A CandidateSource is not there any more."""


class TargetObservationRefused(ObjectUnfit):
    """An object does not fit its API."""


# --- what the scheduler says ------------------------------------------------------------------------------------------


class Reserved(Event):
    """A node is held for the candidate: its `number`-th reservation. It lapses at `expires` unless it is permitted.

    `score` is the sum of `scores`, by plugin and with their weights, among `feasible` nodes.
    """

    number: int
    node: str
    score: int
    expires: datetime
    scores: dict[str, int] = {}
    feasible: int = 0
    reason: TargetReason = TargetReason.NODE_FOUND


class NotSchedulable(Event):
    """No node fits. `preemptable`: one would, without pods of lower priority; `tried`: the permit to preempt that did
    not help.
    """

    message: str
    preemptable: bool = False
    tried: int = 0
    reason: TargetReason = TargetReason.NO_NODE


class Unreserved(Event):
    """The reservation of this number is given up, and with it every permit for it is void."""

    number: int
    reason: TargetReason
    message: str = ""


class BindFailed(Event):
    """An API server did not confirm a binding. It may have been made all the same, until the Pod says otherwise."""

    number: int
    message: str
    reason: TargetReason = TargetReason.BIND_FAILED


# --- decisions --------------------------------------------------------------------------------------------------------


class TargetDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: TargetReason


class TargetWrite(TargetDecision, ObjectWrite):
    """A decision that means a write to the Candidate or its Pod."""

    cluster: str = HERE
    resource_version: str = ""


class OnPod(TargetWrite):
    """A write to the Pod."""

    WHAT: ClassVar[str] = "Pod"


class OnOwnCandidate(TargetWrite):
    """A write to the Candidate."""

    WHAT: ClassVar[str] = "Candidate"


class Admitted(TargetDecision):
    """The candidate is taken: it is invited and its pod can be made."""


class Refused(TargetDecision):
    """The candidate is not taken; `message` says why, and what to do."""

    message: str


class FollowingAllowed(TargetDecision):
    """The kinds of objects that may come with the candidate, beside ConfigMaps and Secrets."""

    kinds: list[str]


class PodMade(OnPod):
    """Make the Pod of a candidate. `token`: that of its ServiceAccount may be mounted."""

    template: str
    token: bool = True


class PodAmended(TargetWrite):
    """Bring the Pod in line with the Candidate's template, as far as a Pod may be changed: labels, annotations, images,
    more tolerations, deadlines. `scale_up`: and with whether the autoscaler may add nodes for it; `source`: and have it
    say which cluster it comes from, `source_uid`: which one of that name."""

    WHAT: ClassVar[str] = "Template"
    uid: str
    template: str
    scale_up: bool | None = None
    source: str = ""
    source_uid: str = ""


class PodGatesSet(TargetWrite):
    """Set the conditions on the Pod that its readiness waits for, as they stand on the source pod. `removed`: the types
    of those that do not stand there any more, and that nobody but us has set on the Pod, at its `resource_version`.
    """

    WHAT: ClassVar[str] = "Gates"
    uid: str
    conditions: list[Condition]
    removed: list[str] = []
    resource_version: str = ""


class AmendmentRefused(TargetDecision):
    """The Candidate's template was changed, and its Pod is not, or not in all: `message` says why."""

    template: str
    message: str


class PermitSeen(TargetDecision):
    """The permit for the reservation that is held has been read: until `until` by the source's clock."""

    number: int
    reservation: int
    until: datetime


class BindStarted(OnPod):
    """Bind the Pod, as it was seen (UID, resourceVersion), to the node that is held; not to be begun after `before`."""

    number: int
    node: str
    uid: str
    before: datetime


class PodFenced(OnPod):
    """Touch the Pod: its resourceVersion moves on, and a binding that is still on its way cannot be made any more."""

    uid: str
    number: int


class Bound(TargetDecision):
    """The Pod is on its node, by this permit."""

    number: int
    node: str
    uid: str


class Withdrawn(TargetDecision):
    """Every permit up to this number is void here, for good: the acknowledgement that the source waits for."""

    number: int


class StatusReported(OnOwnCandidate):
    """Write the Candidate's status; `status` is the body of its pod's, if it is bound."""

    reported: Reported
    status: str = ""


class PodRemoved(OnPod):
    """Delete the Pod."""

    uid: str


class FinalizerReleased(OnOwnCandidate):
    """The Pod is gone: let the Candidate go."""

    uid: str
    finalizers: list[str] = []


class TargetWriteFailed(WriteRefused):
    """The API server said no to a write. It is decided anew, not before `retry_at`."""


class TargetWriteUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer."""


TARGET_EVENTS: tuple[type[Event], ...] = (
    CandidateObserved,
    UnreadCandidateDeleted,
    CandidateVanished,
    CandidatePodObserved,
    CandidatePodGone,
    InvitationObserved,
    InvitationGone,
    TargetObservationRefused,
    Reserved,
    NotSchedulable,
    Unreserved,
    BindFailed,
    Admitted,
    Refused,
    FollowingAllowed,
    PodMade,
    PodAmended,
    PodGatesSet,
    AmendmentRefused,
    PermitSeen,
    BindStarted,
    PodFenced,
    Bound,
    Withdrawn,
    StatusReported,
    PodRemoved,
    FinalizerReleased,
    TargetWriteFailed,
    TargetWriteUnneeded,
)
