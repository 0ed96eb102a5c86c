"""Which event a decision of a target rests on: of all that had to be so, what came last.

In: states of a candidate before and after an event, and later a decision. Out: positions
(`controlplane.runtime.facets`), and a position in the log, for `caused_by`. What only the scheduler saw, such as a
node, is in no log: its events rest on what had it look for one."""

from __future__ import annotations

from controlplane.controllers.candidates.objects import FINALIZER
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.changes import of_group
from controlplane.controllers.candidates.target.report import report_of
from controlplane.controllers.candidates.target.state import AMENDMENT, POD, TargetState
from controlplane.log.event import Event
from controlplane.runtime.facets import ANY, Facets, Table

R = TargetReason


def _asks(seen: events.CandidateObserved) -> tuple[object, ...]:
    """Return what a candidate is judged by."""
    beyond = (seen.beyond_baseline, seen.beyond_restricted)
    return seen.problem, seen.problem_message, seen.priority_class, seen.template, seen.account, seen.token, beyond


def _unsaid(state: TargetState) -> events.Reported | None:
    """Return what the source is to be told and does not know yet."""
    wanted = report_of(state)
    return wanted if state.seen is not None and wanted != state.seen.reported else None


def _is_leaving(state: TargetState) -> bool:
    return state.leaving is not None or (state.seen is not None and state.seen.deleting)


CANDIDATE: Facets[TargetState] = {
    "present": lambda state: state.seen.uid if state.seen else None,
    "deleting": lambda state: _is_leaving(state) or None,
    "finalizer": lambda state: FINALIZER in one.finalizers if (one := state.seen or state.leaving) else None,
    "asks": lambda state: _asks(state.seen) if state.seen else None,
    "permit": lambda state: state.seen.permit if state.seen else None,
    "revoked": lambda state: (state.seen.withdrawn or None) if state.seen else None,
    "report": lambda state: _unsaid(state),
    "scale_up": lambda state: state.seen.scale_up if state.seen else None,
    "scales": lambda state: state.pod.scale_up if state.pod else None,
    "gates": lambda state: state.seen.gates if state.seen else None,
    "ungated": lambda state: state.pod.gates if state.pod else None,
    "grouped": lambda state: (of_group(state.seen) or None) if state.seen else None,
    "unmarked": lambda state: (state.pod.source, state.pod.source_uid) if state.pod else None,
    "maker": lambda state: (state.seen.source_uid or None) if state.seen else None,
    "pod": lambda state: state.pod.uid if state.pod else None,
    "leaving": lambda state: (state.pod.deleting or None) if state.pod else None,
    "node": lambda state: (state.pod.node or None) if state.pod else None,
    "trouble": lambda state: state.trouble.get(POD),
    "agrees": lambda state: state.pod.template if state.pod else None,
    "unfollowed": lambda state: state.trouble.get(AMENDMENT),
    "admitted": lambda state: state.admitted,
    "refused": lambda state: state.refused,
    "held": lambda state: state.held.number if state.held else None,
    "binding": lambda state: state.binding.number if state.binding else None,
    "unsure": lambda state: state.bind_failed or None,
    "bound": lambda state: state.bound.uid if state.bound else None,
}

_INVITED = ("it.present", "it.asks", "invitation")
# What a cycle looks for a node for: the Pod is there, and nothing is held for it.
_WAITS = ("it.admitted", "it.pod", "it.held", "it.binding")
_REFUSALS = {
    **dict.fromkeys((R.INVALID_POD, R.POD_TOO_LARGE, R.FORGED_ANNOTATION), ("it.asks",)),
    **dict.fromkeys((R.POD_NAME_TAKEN, R.POD_REFUSED, R.POD_NOT_CREATED), ("it.trouble", "it.asks")),
    **dict.fromkeys(
        (
            R.NOT_INVITED,
            R.PRIORITY_CLASS_NOT_ALLOWED,
            R.UNKNOWN_PRIORITY_CLASS,
            R.SERVICE_ACCOUNT_NOT_ALLOWED,
            R.POD_SECURITY,
        ),
        _INVITED,
    ),
    R.TOO_MANY_CANDIDATES: (*_INVITED, "others"),
}
CAUSES: Table = {
    events.Admitted: {R.INVITED: (*_INVITED, "it.trouble", "others")},
    events.Refused: {str(reason): keys for reason, keys in _REFUSALS.items()},
    events.FollowingAllowed: {R.INVITED: (*_INVITED,)},
    events.PodMade: {R.TO_BE_SCHEDULED: ("it.admitted", "it.refused", "it.pod")},
    events.PodAmended: {
        R.SOURCE_CHANGED: ("it.asks", "it.agrees", "it.pod", "it.binding", "invitation"),
        R.SOURCE_UNMARKED: ("it.grouped", "it.maker", "it.unmarked", "it.pod", "it.binding", "invitation"),
        R.SCALE_UP_CHANGED: ("it.scale_up", "it.scales", "it.pod", "it.held", "it.binding", "invitation"),
    },
    events.PodGatesSet: {R.GATES_CHANGED: ("it.gates", "it.ungated", "it.bound", "it.pod")},
    events.AmendmentRefused: {
        R.POD_REFUSED: ("it.unfollowed", "it.asks"),
        ANY: ("it.asks", "it.pod", "it.binding", "invitation"),
    },
    events.PodRemoved: {
        R.DELETED: ("it.present", "it.deleting", "it.pod", "unread"),
        ANY: ("it.refused", "it.pod"),
    },
    events.Reserved: {R.NODE_FOUND: _WAITS},
    events.NotSchedulable: {R.NO_NODE: (*_WAITS, "it.permit")},
    events.PermitSeen: {R.PERMITTED: ("it.permit", "it.held")},
    events.BindStarted: {R.PERMITTED: ("it.permit", "it.held", "it.pod")},
    events.PodFenced: {R.FENCED: ("it.revoked", "it.unsure", "it.binding", "it.permit", "it.pod")},
    events.Bound: {R.PERMITTED: ("it.node",)},
    events.Withdrawn: {R.WITHDRAWN: ("it.revoked", "it.binding")},
    events.Unreserved: {
        R.TIMEOUT: ("it.held", "it.permit"),
        R.REVOKED: ("it.revoked", "it.binding"),
        R.POD_GONE: ("it.pod", "it.held"),
        R.DELETED: ("it.deleting", "it.refused", "it.held", "it.binding"),
        ANY: ("it.held",),
    },
    events.StatusReported: {R.REPORT: ("it.report",)},
    events.FinalizerReleased: {R.POD_STOPPED: ("it.deleting", "it.finalizer", "it.pod")},
}
"""What each kind of decision may rest on, by its reason."""

MAY_CAUSE = frozenset(("candidate", "invitation", "refused"))
"""First words of the streams on which there is the cause of what is decided on a candidate's."""


def may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on, by their names: of others' candidates
    that they went.
    """
    first, *rest = cause.split("/")
    namespace = rest[2] if first == "refused" else rest[0]
    return first in MAY_CAUSE and namespace == stream.split("/")[1]


def said(event: Event) -> str:
    """Return the name of the facet that a decision sets by itself, for what is decided with it; "" if it sets none."""
    return "it.refused" if isinstance(event, events.Refused) else ""
