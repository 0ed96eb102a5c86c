"""Why something was decided about a pod: a closed set. Text for people is made of it at the edge."""

from __future__ import annotations

from enum import StrEnum


class SchedulingReason(StrEnum):
    """The reasons of the scheduler; parameters are fields of the decision's event."""

    # the way to a node
    NODE_FOUND = "NodeFound"
    PERMITTED = "Permitted"
    PRE_BIND = "PreBind"
    BIND = "Bind"
    BIND_AGAIN = "BindAgain"
    # why there is none: the reasons of the condition PodScheduled
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_ERROR = "SchedulerError"
    SCHEDULING_GATED = "SchedulingGated"
    NOT_PLACED = "NotPlaced"
    # why a reservation is given up
    PERMIT_REFUSED = "PermitRefused"
    PERMIT_TIMEOUT = "PermitTimeout"
    BIND_FAILED = "BindFailed"
    PRE_BIND_FAILED = "PreBindFailed"
    PRE_BIND_TIMEOUT = "PreBindTimeout"
    NODE_GONE = "NodeGone"
    POD_GONE = "PodGone"
    PREEMPTED = "Preempted"
    # how far a gang's start has come
    CAME_TOGETHER = "CameTogether"
    TURNED_BACK = "TurnedBack"
    BEGINS_ANEW = "BeginsAnew"
    # what is told, and preemption
    CONDITION_CHANGED = "ConditionChanged"
    LOWER_PRIORITY = "LowerPriority"
