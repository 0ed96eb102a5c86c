"""Why something was decided about a source pod or a candidate: closed sets. Text for people is made of them at the
edge.
"""

from __future__ import annotations

from enum import StrEnum


class CandidateReason(StrEnum):
    """The reasons of the source side; parameters are fields of the decision's event."""

    # election
    OPTED_IN = "OptedIn"
    DELEGATE_WAS_LOST = "DelegateWasLost"
    PERMIT_WAS_OUTLIVED = "PermitWasOutlived"
    TARGETS_CHANGED = "TargetsChanged"
    # why a pod is left alone, or waits
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    NO_TARGETS = "NoTargets"
    UNKNOWN_TARGET = "UnknownTarget"
    INVALID_OPTION = "InvalidOption"
    INVALID_CONSTRAINT = "InvalidConstraint"
    FORGED_ANNOTATION = "ForgedAnnotation"
    BOUND_ELSEWHERE = "BoundElsewhere"
    GATED = "SchedulingGated"
    NOBODY_ANSWERED = "NobodyAnswered"
    UNSCHEDULABLE_EVERYWHERE = "Unschedulable"
    REFUSED_EVERYWHERE = "RefusedEverywhere"
    CANDIDATES_UNREADABLE = "CandidatesUnreadable"
    PREDECESSOR_STOPS = "PredecessorStops"
    PERMIT_OPEN = "PermitOpen"
    AWAITS_ANSWER = "AwaitsAnswer"
    # candidates and permits
    TARGET_OF_EPOCH = "TargetOfEpoch"
    SOURCE_CHANGED = "SourcePodChanged"
    FIRST_READY = "FirstReady"
    ONLY_READY = "OnlyReady"
    BEST_SCORE = "BestScore"
    PREFERRED_TIER = "PreferredTier"
    LEAST_USED = "LeastUsed"
    WINDOW_CLOSED = "WindowClosed"
    AWAITS_CANDIDATES = "AwaitsCandidates"
    AWAITS_TIER = "AwaitsPreferredTier"
    AWAITS_UNTRIED = "AwaitsUntriedTargets"
    SKEW_TOO_LARGE = "SkewTooLarge"
    ROOM_BY_PREEMPTION = "RoomByPreemption"
    NODES_NEEDED = "NodesNeeded"
    NODES_ELSEWHERE = "NodesNeededElsewhere"
    # gangs
    GROUP_MISSING = "GroupMissing"
    TOO_FEW_MEMBERS = "TooFewMembers"
    GANG_RESTS = "GangRests"
    GANG_TARGETS_DIFFER = "GangTargetsDiffer"
    GANG_NEVER_SPREADS = "GangNeverSpreads"
    AWAITS_GANG = "AwaitsGang"
    GANG_FOLLOWS = "GangFollows"
    GANG_FOUND = "GangFound"
    GANG_FORMED = "GangFormed"
    GANG_INCOMPLETE = "GangIncomplete"
    GANG_BOUND_MEANWHILE = "GangBoundMeanwhile"
    GANG_DISSOLVED = "GangDissolved"
    GANG_ENDED = "GangEnded"
    GANG_YIELDS = "GangYields"
    GANG_FITS_NOWHERE = "GangFitsNowhere"
    # the end of a permit
    LEASE_ENDED = "LeaseEnded"
    SOURCE_DELETED = "SourceDeleted"
    SOURCE_TERMINAL = "SourceTerminal"
    ANOTHER_READY = "AnotherReady"
    ACKNOWLEDGED = "Acknowledged"
    UNRESERVED = "Unreserved"
    ANSWERED = "Answered"
    CANDIDATE_GONE = "CandidateGone"
    TARGET_FORGOTTEN = "TargetForgotten"
    # removal
    ANOTHER_TARGET_WON = "AnotherTargetWon"
    OLD_EPOCH = "OldEpoch"
    NOT_A_TARGET = "NotATarget"
    BOUND_WITHOUT_PERMIT = "BoundWithoutPermit"
    FOREIGN_CLAIM = "ForeignClaim"
    # the delegate
    POD_MISSING = "PodMissing"
    POD_REJECTED = "PodRejected"
    TARGET_LOST = "TargetLost"
    STATUS_CHANGED = "StatusChanged"
    STATUS_FINAL = "StatusFinal"
    NOT_PLACED = "NotPlaced"
    DELEGATE_FOUND = "DelegateFound"
    DELEGATE_ACCEPTED = "DelegateAccepted"
    DELEGATE_STOPPED = "DelegateStopped"
    NOTHING_LEFT = "NothingLeft"
    # virtual Nodes
    TARGET_NAMED = "TargetNamed"
    TARGET_SHOWS = "TargetShows"
    TARGET_NOT_NAMED = "TargetNotNamed"
    # what follows a pod
    NAMED_BY_DELEGATE = "NamedByDelegate"
    NOT_NAMED = "NotNamedAnyMore"


class TargetReason(StrEnum):
    """The reasons of the target side."""

    INVITED = "Invited"
    # refusals
    NOT_INVITED = "NotInvited"
    TOO_MANY_CANDIDATES = "TooManyCandidates"
    UNKNOWN_PRIORITY_CLASS = "UnknownPriorityClass"
    PRIORITY_CLASS_NOT_ALLOWED = "PriorityClassNotAllowed"
    INVALID_POD = "InvalidPod"
    FORGED_ANNOTATION = "ForgedAnnotation"
    SERVICE_ACCOUNT_NOT_ALLOWED = "ServiceAccountNotAllowed"
    POD_SECURITY = "PodSecurity"
    POD_NAME_TAKEN = "PodNameTaken"
    POD_REFUSED = "PodRefused"
    POD_NOT_CREATED = "PodNotCreated"
    CANNOT_BE_CHANGED = "CannotBeChanged"
    # the way to a node
    TO_BE_SCHEDULED = "ToBeScheduled"
    SOURCE_CHANGED = "SourcePodChanged"
    SCALE_UP_CHANGED = "ScaleUpChanged"
    NODE_FOUND = "NodeFound"
    NO_NODE = "NoNode"
    PERMITTED = "Permitted"
    # un-reserve
    TIMEOUT = "Timeout"
    REVOKED = "Revoked"
    NODE_GONE = "NodeGone"
    PREEMPTED = "Preempted"
    BIND_FAILED = "BindFailed"
    POD_GONE = "PodGone"
    # removal and report
    DELETED = "Deleted"
    WITHDRAWN = "Withdrawn"
    FENCED = "Fenced"
    POD_STOPPED = "PodStopped"
    REPORT = "Report"
    NOTHING_LEFT = "NothingLeft"
