"""What PodGroup ownership records: what was seen, what was read, what was decided, and what could not be done.

Streams: `member/NS/NAME` for a pod and its membership, `podgroup/NS/NAME` for a group, `owner/…` for an owner as one
reference names it, `podgroup-rules` for the rules, `podgroup-room` for the cluster's capacity. `OwnerResolved` pins
whose group a pod is in: a rule that is changed later changes nothing for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.podgroups.membership import Amounts, Template
from controlplane.controllers.podgroups.objects import OwnerFacts, OwnerReference, PodFacts
from controlplane.controllers.podgroups.ownership import OwnerAnswer, Resolution, Warned
from controlplane.controllers.podgroups.phases import ClusterCapacity, Phase, Stage
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.controllers.podgroups.rules import Complaint, OwnerRule
from controlplane.kube.kinds import Kind
from controlplane.log.event import Event
from controlplane.runtime.observations import SubjectObserved, SubjectVanished
from controlplane.runtime.streams import streams_of
from controlplane.runtime.writes import ObjectWrite, WriteFailed, WriteUnneeded

RULES_STREAM, ROOM_STREAM = "podgroup-rules", "podgroup-room"


member_stream = streams_of("member")
"""The stream of a pod's membership."""


group_stream = streams_of("podgroup")
"""The stream of a group."""


def owner_stream(namespace: str, owner: OwnerReference) -> str:
    """Return the stream of an owner as a reference names it: one that names it wrongly is another stream."""
    return f"owner/{namespace}/{owner.api_version}/{owner.kind}/{owner.name}/{owner.uid}"


def refused_stream(kind: Kind, namespace: str, name: str) -> str:
    """Return the stream of an object that does not fit its API."""
    return f"refused/{kind.name}/{namespace}/{name}"


# --- observations ----------------------------------------------------------------------------------------------------


class GroupObservation(SubjectObserved):
    """What every observed object has."""

    deleting: bool = False


class MemberObserved(GroupObservation):
    """A pod. `requests` are in billionths; `problem` is what we wrote into its annotation about a group that it cannot
    have.
    """

    facts: PodFacts
    created: str = ""
    stage: Stage = "Pending"
    requests: Amounts = {}
    priority_class: str = ""
    problem: str = ""


class MemberGone(SubjectVanished):
    """A pod was deleted."""


class OwnerObserved(GroupObservation):
    """An owner of a kind that is watched. `template` is what its pods ask for."""

    namespace: str
    owner: OwnerReference
    facts: OwnerFacts
    template: Template | None = None


class OwnerGone(SubjectVanished):
    """An owner of a watched kind was deleted."""


class GroupObserved(GroupObservation):
    """A PodGroup. `owner_uid` is that of its controlling owner, by which it is ours or not; `owner` names it for
    people.
    """

    namespace: str
    name: str
    created: str = ""
    owner_uid: str = ""
    owner: str = ""
    min_member: int = 0
    min_resources: dict[str, str] = {}
    queue: str = ""
    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[dict[str, Any]] = []


class GroupGone(SubjectVanished):
    """A PodGroup was deleted."""


class RulesAccepted(Event):
    """The rules that hold from here on. Without a ConfigMap, which has no UID then, there are none. `note` is what is
    noted on it.
    """

    rules: list[OwnerRule] = []
    uid: str = ""
    resource_version: str = ""
    note: str = ""


class RulesRefused(Event):
    """A document that cannot be used; the rules before it stay in force."""

    complaints: list[Complaint]
    uid: str
    resource_version: str
    note: str = ""


class MemberRefused(Event):
    """An object that does not fit its API: skipped, with the field that is wrong."""

    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field: str
    error: str


class RoomObserved(Event):
    """What the cluster has and what is used, summed up from nodes and pods. Without it no group becomes Inqueue."""

    room: ClusterCapacity


# --- reads -----------------------------------------------------------------------------------------------------------


class OwnerRead(Event):
    """The answer about one owner that is not watched."""

    namespace: str
    owner: OwnerReference
    answer: OwnerAnswer


class OwnerReadFailed(Event):
    """An owner could not be read just now; it is read again, not before `retry_at`."""

    namespace: str
    owner: OwnerReference
    code: int
    error: str
    message: str
    failures: int
    retry_at: datetime


# --- decisions -------------------------------------------------------------------------------------------------------


class GroupDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: PodGroupReason


class OwnerResolved(GroupDecision):
    """Whose group a pod is in, with the chain, the rule and its level: the audit of the walk, and its pin."""

    uid: str
    group: str
    resolution: Resolution


class GroupWrite(GroupDecision, ObjectWrite):
    """A decision that means a write to one object, based on its UID and `resource_version` ("" for a create)."""

    WHAT: ClassVar[str] = "PodGroup"
    cluster: str = MANAGEMENT
    uid: str = ""
    resource_version: str = ""


class GroupCreationDecided(GroupWrite):
    """Create a group, with one owner reference."""

    owner: OwnerReference
    min_member: int
    min_resources: dict[str, str] = {}
    queue: str = ""
    priority_class: str = ""


class GroupUpdateDecided(GroupWrite):
    """Bring the fields of a group that we derive in line; no others are touched. `dropped` are resources that are asked
    for no more.
    """

    min_member: int
    min_resources: dict[str, str] = {}
    dropped: list[str] = []


class GroupStatusDecided(GroupWrite):
    """Write a group's phase, its members' numbers, and its one condition about their owner; with `conditions_only` the
    condition alone: phase and numbers are another scheduler's, and are not written.
    """

    phase: Phase
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    warnings: list[Warned] = []
    conditions_only: bool = False


class OnMember(GroupWrite):
    """A write to a pod."""

    WHAT: ClassVar[str] = "Pod"


class MembershipDecided(OnMember):
    """Write the group's name into the pod's annotation: the group is there."""

    group: str
    warnings: list[Warned] = []


class MemberWarned(OnMember):
    """Note on a pod why it has no group."""

    warning: Warned


class RulesNoted(GroupWrite):
    """Note on the ConfigMap whether its rules hold: `note` is its annotation."""

    WHAT: ClassVar[str] = "ConfigMap"
    note: str


class GroupWriteFailed(WriteFailed):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""


class GroupWriteUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer."""


EVENTS: tuple[type[Event], ...] = (
    MemberObserved,
    MemberGone,
    OwnerObserved,
    OwnerGone,
    GroupObserved,
    GroupGone,
    RulesAccepted,
    RulesRefused,
    MemberRefused,
    RoomObserved,
    OwnerRead,
    OwnerReadFailed,
    OwnerResolved,
    GroupCreationDecided,
    GroupUpdateDecided,
    GroupStatusDecided,
    MembershipDecided,
    MemberWarned,
    RulesNoted,
    GroupWriteFailed,
    GroupWriteUnneeded,
)
