"""Names the event that a scheduler's decision rests on: of all that had to be so, what came last.

In: states before and after an event, and later a decision. Out: positions (`controlplane.runtime.facets`), and a
position in the log, for `caused_by`. Nodes and other schedulers' pods are in no log: what was found, or not found, on
them rests on what had the pod wait for a node. How a group stands rests on the events of its members, whose positions
come in beside the positions: `members` with which event they came to stand as they do, `siblings` with which enough of
them had a node."""

from __future__ import annotations

from operator import attrgetter

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.state import BINDING, PRE_BIND
from controlplane.log.event import Event
from controlplane.runtime.facets import ANY, Parts, Table

R = SchedulingReason

POD = Parts(
    {
        "pod": {
            "it.present": attrgetter("uid"),
            "it.leaving": lambda pod: pod.deleting or pod.over or None,
            "it.gates": lambda pod: pod.gates or None,
            "it.scale_up": lambda pod: pod.scale_up,
            "it.problem": lambda pod: pod.problem or None,
        },
        "held": {"it.held": attrgetter("number")},
        "allowed": {"it.allowed": lambda plugins: plugins or None},
        "pre_bind": {"it.pre_bind": attrgetter("number")},
        "pre_bound": {"it.pre_bound": lambda done: done or None},
        "trouble": {"it.refused": lambda trouble: trouble.get(BINDING) or trouble.get(PRE_BIND)},
        "told": {"it.told": lambda told: told},
    }
)
VICTIM = Parts(
    {"chosen": {"it.chosen": attrgetter("uid")}, "marked": {"it.marked": lambda marked: marked or None}},
)
GANG = Parts(
    {
        "seen": {"it.present": attrgetter("uid")},
        "judged": {"it.judged": lambda judged: judged},
        "start": {"it.start": lambda start: start},
    }
)

# What a cycle looks for a node for: a pod that may be scheduled, for which nothing is held.
_WAITS = ("it.present", "it.gates", "it.held")
# What a pod is to its gang, and to the pods that it displaces: that it waits for a node, has one, or was let go.
STANDING = (*_WAITS, "it.allowed")
_GROUP = ("it.present", "members")
CAUSES: Table = {
    events.NodeReserved: {R.NODE_FOUND: _WAITS},
    events.PermitGiven: {R.PERMITTED: ("it.held", "siblings")},
    events.ReservationDropped: {
        R.POD_GONE: ("it.leaving", "it.held"),
        R.PERMIT_TIMEOUT: ("it.held",),
        R.PRE_BIND_FAILED: ("it.refused", "it.pre_bind"),
        R.PRE_BIND_TIMEOUT: ("it.pre_bind",),
        R.BIND_FAILED: ("it.refused",),
        ANY: ("it.held",),
    },
    events.SchedulingFailed: {
        R.UNSCHEDULABLE: _WAITS,
        R.SCHEDULER_ERROR: (*_WAITS, "it.problem"),
    },
    events.PreBindDecided: {R.PRE_BIND: ("it.held", "it.allowed"), R.BIND_AGAIN: ("it.refused",)},
    events.BindingDecided: {
        R.BIND: ("it.held", "it.allowed", "it.pre_bind", "it.pre_bound"),
        R.BIND_AGAIN: ("it.refused",),
    },
    events.PodStatusDecided: {R.CONDITION_CHANGED: ("it.told", "it.gates", "it.scale_up")},
    events.VictimChosen: {R.LOWER_PRIORITY: STANDING},
    events.VictimMarkDecided: {R.LOWER_PRIORITY: ("it.chosen",)},
    events.VictimRemovalDecided: {R.LOWER_PRIORITY: ("it.chosen", "it.marked")},
    events.GangJudged: {R.CONDITION_CHANGED: _GROUP},
    events.GangStart: {R.CAME_TOGETHER: _GROUP, R.TURNED_BACK: _GROUP, R.BEGINS_ANEW: (*_GROUP, "it.start")},
    events.GangConditionDecided: {R.CONDITION_CHANGED: ("it.present", "it.judged")},
}
"""What each kind of decision may rest on, by its reason."""


def may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on, by their names: what is said of an
    object rests on its own stream, that a pod is a victim on the stream of the pod that displaces it, and what is
    decided about a gang on the streams of the pods of its namespace."""
    (first, namespace), (of, other) = cause.split("/")[:2], stream.split("/")[:2]
    of_a_pod = first in ("pod", "candidate")
    return cause == stream or (of_a_pod and (of == "victim" or (of in ("pod", "gang") and namespace == other)))


def said(event: Event) -> str:
    """Return the name of the facet that a decision sets by itself, for what is decided with it; "" if it sets none."""
    match event:
        case events.NodeReserved() | events.ReservationDropped():
            return "it.held"
        case events.SchedulingFailed():
            return "it.told"
        case _:
            return ""
