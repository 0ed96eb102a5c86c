"""Why a pod got the group it got, and what was odd on the way: closed sets, whose text is made where people read it.

`PodGroupReason` is on every decision and every line of the dry run; `Oddity` is what is warned of. Both are an
interface: they are in the log, in conditions, in Kubernetes Events and in the JSON of the command line."""

from __future__ import annotations

from enum import StrEnum


class PodGroupReason(StrEnum):
    """The reasons of decisions; parameters are fields of the decision's event."""

    # who owns the group
    RULE_MATCHED = "RuleMatched"
    FIRST_OWNER = "FirstOwner"
    NO_OWNER = "NoOwner"
    # skipped
    OTHER_SCHEDULER = "OtherScheduler"
    ALREADY_GROUPED = "AlreadyGrouped"
    STATIC_POD = "StaticPod"
    # later
    OWNER_UNAVAILABLE = "OwnerUnavailable"
    GROUP_NAME_TAKEN = "GroupNameTaken"
    OWNER_GONE = "OwnerGone"
    # writes
    MEMBER_WITHOUT_GROUP = "MemberWithoutGroup"
    GROUP_EXISTS = "GroupExists"
    MIN_MEMBER_CHANGED = "MinMemberChanged"
    TEMPLATE_CHANGED = "TemplateChanged"
    MEMBERS_CHANGED = "MembersChanged"
    ROOM_FOUND = "RoomFound"
    INQUEUE_EXPIRED = "InqueueExpired"
    RULES_REFUSED = "RulesRefused"
    RULES_ACCEPTED = "RulesAccepted"


class Oddity(StrEnum):
    """What is warned of: on the walk to an owner, and in annotations."""

    OWNER_NOT_FOUND = "OwnerNotFound"
    OWNER_REPLACED = "OwnerReplaced"
    OWNER_FORBIDDEN = "OwnerForbidden"
    OWNER_NOT_SERVED = "OwnerNotServed"
    OWNER_UNREADABLE = "OwnerUnreadable"
    OWNER_CYCLE = "OwnerCycle"
    OWNER_TOO_DEEP = "OwnerTooDeep"
    NODE_OWNER = "NodeOwner"
    MIN_MEMBER_INVALID = "MinMemberInvalid"
    QUEUE_INVALID = "QueueInvalid"
    GROUP_NAME_TAKEN = "GroupNameTaken"
