"""What the source side records: what it decided about one source pod, and what could not be done.

Stream `sourcepod/NS/NAME`: the pods of that name, one after the other, and all their candidates. Each attempt to place
a pod is an epoch; at most one permit is open in it, and whoever is bound ends the choice. What was seen is in
`observations`.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.observations import OBSERVATIONS
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.conditions import Condition
from controlplane.log.event import Event
from controlplane.runtime.writes import ObjectWrite, WriteRefused, WriteUnneeded

PermitKind = Literal["Bind", "Preempt"]


class CandidateDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: CandidateReason


class CandidateWrite(CandidateDecision, ObjectWrite):
    """A decision that means a write to one object on `cluster`, based on its `resource_version` ("" for a create)."""

    cluster: str = MANAGEMENT
    resource_version: str = ""


class OnCandidate(CandidateWrite):
    """A write to the candidate of this name."""

    candidate: str

    @property
    def target(self) -> str:
        """The key of the candidate."""
        return f"{self.cluster}/{self.candidate}"


class Elected(CandidateDecision):
    """An epoch begins: the pod is offered to these targets."""

    uid: str
    epoch: int
    targets: list[str]


class PlacementFound(CandidateDecision):
    """A candidate is `bound`, or may be by permit `number`, and the log, which was lost or put back, did not know. The
    epoch goes on as if it had: `reservation` and `until` are of that permit, as late as they can be; `revoking`: it is
    being taken back."""

    uid: str
    epoch: int
    targets: list[str]
    cluster: str
    candidate: str
    number: int
    bound: bool
    reservation: int
    until: datetime
    revoking: bool = False


class ElectionRefused(CandidateDecision):
    """The pod cannot be placed as it is; `message` says what to do."""

    uid: str
    message: str
    resource_version: str = ""


class CandidateRequested(OnCandidate):
    """Create the candidate in a target. `least`: how many of its PodGroup start together; 0 if it is in none.
    `scale_up`: whether the target's autoscaler may add nodes for it; None leaves that to the target."""

    uid: str
    epoch: int
    template: str
    least: int = 0
    scale_up: bool | None = None


class CandidateAmended(OnCandidate):
    """Give a candidate the pod's new template; `before` is the body of the one that it has."""

    uid: str
    template: str
    before: str

    @property
    def target(self) -> str:
        """The key of the candidate's template: a permit does not wait for it."""
        return amendment_of(self.cluster, self.candidate)


def amendment_of(cluster: str, candidate: str) -> str:
    """Return the key of a candidate's template among the writes of a stream."""
    return f"{cluster}/{candidate}/template"


class AutoscalerChosen(CandidateDecision):
    """No target has a node: this one's autoscaler may add some, and until `until` nobody else's."""

    cluster: str
    until: datetime


class ScaleUpSet(OnCandidate):
    """Tell a target whether its autoscaler may add nodes for the candidate."""

    allowed: bool

    @property
    def target(self) -> str:
        """The key of that word: a permit does not wait for it."""
        return scale_up_of(self.cluster, self.candidate)


def scale_up_of(cluster: str, candidate: str) -> str:
    """Return the key of a candidate's scale-up among the writes of a stream."""
    return f"{cluster}/{candidate}/scaleUp"


class GatesSet(OnCandidate):
    """Tell a target how the conditions stand that the pod's readiness waits for."""

    conditions: list[Condition]

    @property
    def target(self) -> str:
        """The key of that word: a permit does not wait for it."""
        return gates_of(self.cluster, self.candidate)


def gates_of(cluster: str, candidate: str) -> str:
    """Return the key of what a candidate is told of readiness gates among the writes of a stream."""
    return f"{cluster}/{candidate}/gates"


class PermitGranted(OnCandidate):
    """The one candidate that may bind now (or make room), under this reservation, until the lease ends.

    `among`: the scores of all that were ready.
    """

    epoch: int
    number: int
    kind: PermitKind
    reservation: int
    until: datetime
    among: dict[str, int] = {}


class PermitRevoked(OnCandidate):
    """Take the permit back. Nobody else gets one before the target has acknowledged, or cannot use it any more."""

    number: int


class RevokeAcked(CandidateDecision):
    """A permit is dead: `reason` says by what it is known."""

    cluster: str
    candidate: str
    number: int


class CandidateDropped(OnCandidate):
    """Delete a candidate, by UID."""

    uid: str


class DelegateLost(CandidateDecision):
    """The delegate is no more, or counts as such; the epoch ends with it."""

    cluster: str
    candidate: str
    message: str = ""


class EpochClosed(CandidateDecision):
    """Nobody is permitted in this epoch any more. What shows up of it later is only deleted."""

    epoch: int


class StatusShown(CandidateWrite):
    """Write the source pod's status: the delegate's, or why there is none.

    `source` is the candidate that it is of and `sequence` that status' number; `status` its body. `mark` is what our
    own condition says, by which we see that the write arrived. `message` goes into PodScheduled; `failed`: the pod is
    over, since its delegate was lost. `restarts` is added to each container's own count: those of the delegates before;
    `totals` is what is shown then. `obstacles`: which of the ConfigMaps and Secrets that it names, or of its changes,
    cannot follow it, and why."""

    WHAT: ClassVar[str] = "Status"
    uid: str
    epoch: int = 0
    source: str = ""
    sequence: int = 0
    status: str = ""
    phase: str = ""
    mark: str = ""
    message: str = ""
    failed: bool = False
    restarts: dict[str, int] = {}
    totals: dict[str, int] = {}
    obstacles: str = ""


class DelegateHinted(CandidateWrite):
    """Say on the source pod where its delegate is: for `kubectl logs` and `exec` there. `template`: the body of its
    template, if its tolerations are to keep it on a virtual Node that is not ready; "" leaves them."""

    WHAT: ClassVar[str] = "Hint"
    uid: str
    hints: dict[str, str]
    template: str = ""


class SourceBound(CandidateWrite):
    """Bind the source pod to the virtual Node of its delegate's target. It goes nowhere else from then on."""

    WHAT: ClassVar[str] = "Binding"
    uid: str
    node: str
    source: str


class SourceRemoved(CandidateWrite):
    """Remove a source pod that is being deleted, as its kubelet would: its delegate has stopped."""

    WHAT: ClassVar[str] = "Removal"
    uid: str
    node: str


TO_POD = tuple(f"{MANAGEMENT}/{one.WHAT}" for one in (StatusShown, DelegateHinted, SourceBound, SourceRemoved))
"""The keys of what may be on its way to the source pod."""


class CleanupDone(CandidateDecision):
    """Nothing is left of a source pod, on any target."""

    uid: str


class CandidateWriteFailed(WriteRefused):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""


class CandidateWriteUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer."""


EVENTS: tuple[type[Event], ...] = (
    *OBSERVATIONS,
    Elected,
    PlacementFound,
    ElectionRefused,
    CandidateRequested,
    CandidateAmended,
    AutoscalerChosen,
    ScaleUpSet,
    GatesSet,
    PermitGranted,
    PermitRevoked,
    RevokeAcked,
    CandidateDropped,
    DelegateLost,
    EpochClosed,
    StatusShown,
    DelegateHinted,
    SourceBound,
    SourceRemoved,
    CleanupDone,
    CandidateWriteFailed,
    CandidateWriteUnneeded,
)
