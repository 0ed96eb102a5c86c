"""What the source side sees: its pods, and what each candidate's target says of it.

Observations, narrowed to the fields that something decides on. What a target says becomes an event of the type that
names it, so that a source pod's stream reads as a conversation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from controlplane.controllers.candidates.objects import Origin
from controlplane.controllers.candidates.references.decide import NamedObject
from controlplane.kube.conditions import Condition
from controlplane.kube.fields import UNFIT
from controlplane.log.event import Body, Event, Kept, NewEvent, Part
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import ObjectObserved, ObjectUnfit, ObjectVanished

Built = tuple[str, Event, tuple[Body, ...]]
"""A stream, the event that is appended to it, and the bodies that are stored beside it."""


class PlacementOptions(Part):
    """What the annotations of a source pod ask for; None or empty: the policy's own."""

    targets: list[str] = []
    placement: str = ""
    min_candidates: int | None = None
    max_wait_seconds: float | None = None
    max_skew: int | None = None


class SourceObservation(ObjectObserved):
    """What every observed object has."""

    deleting: bool = False


class SourceObjectGone(ObjectVanished):
    """An observed object is no longer there."""


def event_of(
    change: ObjectChange, now: datetime, build: Callable[[], Built | None], refuse: Callable[[Exception], Built]
) -> NewEvent | None:
    """Return the event of one change, None if `build` makes none; an object that does not fit its API is refused."""
    try:
        built = build()
    except UNFIT as error:
        built = refuse(error)
    if built is None:
        return None
    stream, event, bodies = built
    return change.observed(stream, event, now, bodies)


class SourcePodObserved(SourceObservation):
    """A pod of a source cluster that asks for candidates.

    `template` is the body of {labels, annotations, spec} that a candidate is made of, `workload` the UID of the
    controller that owns the pod. `problem` and `problem_message`: why it cannot be elected. `hints`: where it says that
    its delegate is. `references`: the ConfigMaps and Secrets that it names; `needs`: its ServiceAccount, its
    claims, and the Services that it asks for. `group`: the PodGroup that it starts with,
    or not at all. `restarts`: those that it shows, by container. `node`: the virtual Node that it is bound to, ""
    for none; `tolerates`: it stays there while the Node is not ready; `stopping`: its deletion waits for its kubelet;
    `unready`: a node controller took its readiness away. `init`: which of its containers are initContainers; `ended`:
    those that it shows to have ended for good; `gates`: the conditions that its readiness waits for."""

    template: str
    phase: str = "Pending"
    restart_policy: str = "Always"
    containers: list[str] = []
    workload: str = ""
    gated: bool = False
    options: PlacementOptions = PlacementOptions()
    problem: str = ""
    problem_message: str = ""
    conditions: list[Condition] = []
    hints: dict[str, str] = {}
    references: list[NamedObject] = []
    group: str = ""
    priority: int = 0
    restarts: dict[str, int] = {}
    kept: Kept = {}
    needs: list[NamedObject] = []
    node: str = ""
    tolerates: bool = False
    stopping: bool = False
    unready: bool = False
    init: list[str] = []
    ended: list[str] = []
    gates: list[str] = []

    @property
    def others(self) -> list[str]:
        """The containers that are none of its initContainers."""
        return [name for name in self.containers if name not in self.init]


class SourceDeleted(SourceObjectGone):
    """A source pod is gone."""


class CandidateSeen(SourceObservation):
    """A candidate, as its target's API server showed it; the subclass says what its phase is.

    `origin` is the source pod that it is for. `permit` and `withdrawn` are the numbers in its spec, and `template` the
    body of what it is to be made of ("": it was not noted), which we write. All else is the target's: `reservation`
    counts its reservations, `acknowledged` is the withdrawal that it will keep to, `tried` the last permit to preempt
    that it has used, `follows` the kinds of objects that its CandidateSource lets come with it. `sequence` grows with
    each change of the pod's status, whose body `pod_status` is. `scale_up`: what its spec says of the target's
    autoscaler, None if nothing: the target's CRD may not know it. `gates`: what its spec says of the conditions that
    the pod's readiness waits for, None in the same case. `unmarked`: it does not say that our cluster
    made it."""

    origin: Origin
    permit: int = 0
    withdrawn: int = 0
    reservation: int = 0
    acknowledged: int = 0
    tried: int = 0
    why: str = ""
    message: str = ""
    template: str = ""
    kept: Kept = {}
    follows: list[str] = []
    scale_up: bool | None = None
    gates: list[Condition] | None = None
    unmarked: bool = False


class CandidateWaiting(CandidateSeen):
    """The target has taken the candidate, or has not looked at it yet."""


class CandidateRefused(CandidateSeen):
    """The target will not have it: not invited, an invalid pod, a forged mark."""


class CandidateUnschedulable(CandidateSeen):
    """No node there now. `preemptable`: there would be one if pods of lower priority went."""

    preemptable: bool = False


class CandidateReserved(CandidateSeen):
    """A node is held for it until `expires` (the target's clock), or it is being bound there under our permit."""

    node: str
    score: int = 0
    expires: datetime | None = None


class CandidateUnreserved(CandidateSeen):
    """The reservation of this number is given up; `why` says how it came."""


class CandidateBound(CandidateSeen):
    """It is bound, by permit `bound_by`, and its pod has not been heard of yet. `gates_applied`: whether its scheduler
    says that it sets the conditions of readiness gates on the pod; None in records of older versions."""

    node: str = ""
    pod: str = ""
    bound_by: int = 0
    gates_applied: bool | None = None


class DelegateStatus(CandidateBound):
    """The bound candidate's pod says something: the `sequence`-th time. `rejected` is why its kubelet would not start
    it."""

    sequence: int
    pod_status: str
    pod_phase: str = ""
    restarts: dict[str, int] = {}
    rejected: str = ""


class DelegateMissing(CandidateBound):
    """It was bound and its pod is not there any more: evicted, preempted, its node gone, deleted by somebody."""


class CandidateGone(SourceObjectGone):
    """A candidate is not there any more, and with it its pod: the finalizer holds it until then."""


class CandidateObservationRefused(ObjectUnfit):
    """An object does not fit its API; `object` is its body. `pod`: of a Candidate, the name of its source pod, as far
    as that can be read."""

    pod: str = ""


OBSERVATIONS: tuple[type[Event], ...] = (
    SourcePodObserved,
    SourceDeleted,
    CandidateWaiting,
    CandidateRefused,
    CandidateUnschedulable,
    CandidateReserved,
    CandidateUnreserved,
    CandidateBound,
    DelegateStatus,
    DelegateMissing,
    CandidateGone,
    CandidateObservationRefused,
)
