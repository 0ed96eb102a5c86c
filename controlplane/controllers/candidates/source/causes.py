"""Which event a decision about a source pod, a gang or a copy rests on: of all that had to be so, what came last.

In: a decision, and positions (`controlplane.controllers.candidates.source.facets`). Out: a position in the log, for
`caused_by`. Pure: one table, and a rule for which streams may cause what."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.references.events import CopyDecided, CopyDropped
from controlplane.controllers.candidates.source import events, gang_events
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.runtime.facets import ANY, Table, Words

R = CandidateReason
# What lets a pod be elected, or keeps it from it: what it is, and of a gang what holds all of its members.
_WHOLE = ("gang.seen", "members.present", "members.gated", "members.problem", "members.options", "members.failed")
_ELECTS = ("pod.present", "pod.gated", "pod.problem", "pod.options", "pod.epoch", "namespace", "targets", *_WHOLE)
_ELECTED: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    (
        R.OPTED_IN,
        R.DELEGATE_WAS_LOST,
        R.PERMIT_WAS_OUTLIVED,
        R.TARGET_FORGOTTEN,
        R.TARGETS_CHANGED,
        R.GANG_INCOMPLETE,
        R.GANG_DISSOLVED,
    ),
    (*_ELECTS, "gang.placed", "gang.rests"),
)
_PROBLEMS = (
    R.INVALID_OPTION,
    R.INVALID_CONSTRAINT,
    R.POD_TOO_LARGE,
    R.FORGED_ANNOTATION,
    R.BOUND_ELSEWHERE,
    R.GANG_NEVER_SPREADS,
)
_REFUSED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_PROBLEMS, ("pod.present", "pod.problem", "pod.epoch")),
    R.NAMESPACE_NOT_ALLOWED: ("pod.present", "pod.problem", "namespace", "pod.epoch"),
    R.GATED: ("pod.present", "pod.gated", "pod.problem", "namespace", "pod.epoch"),
    R.NO_TARGETS: ("pod.present", "pod.gated", "pod.problem", "targets", "namespace", "pod.epoch"),
    R.UNKNOWN_TARGET: ("pod.present", "pod.gated", "pod.problem", "pod.options", "targets", "namespace", "pod.epoch"),
    R.GANG_RESTS: ("pod.present", "gang.rests", "pod.epoch"),
    R.GROUP_MISSING: (*_ELECTS, "unseen"),
    R.TOO_FEW_MEMBERS: _ELECTS,
    R.GANG_TARGETS_DIFFER: _ELECTS,
}
# That nobody else is permitted, and nobody of an earlier attempt runs.
_FREE = ("pod.permit", "pod.epoch", "pod.stopped", "unread")
_CHOSEN = ("{x}.ready", "{c}.view", "{rival}.answer", "{rivals_at}.view", "spread", *_FREE)
_CHOICES = (R.FIRST_READY, R.ONLY_READY, R.BEST_SCORE, R.PREFERRED_TIER, R.WINDOW_CLOSED)
_ANSWERS = ("{mine}.answer", "{every}.view", "{every}.failed", "spread", *_FREE)
# What a deletion waits for, whatever its reason: the candidate, and that its target is in view.
_THERE = ("{x}.there", "{c}.view")
# Why an attempt ended is what its end was decided on, which is in the log by then.
_LOST = (R.POD_MISSING, R.POD_REJECTED, R.TARGET_LOST, R.TARGET_FORGOTTEN, R.GANG_DISSOLVED)
_STOPPED = ("pod.present", "pod.deleting", "pod.over", "pod.node", "pod.stopped", "{c}.forgotten")
_TOGETHER = (
    "members/{c}.ready",
    "members.permit",
    "members.epoch",
    "members.stopped",
    "gang.seen",
    "gang.placed",
    "gang.rests",
    "{c}.view",
)
_FOUND = ("members.delegate", "members.permit", "members.present", "members.over", "members.failed")
_NOWHERE = ("members/{every}.answer", "members.there", "members.refusal", "{every}.view", "gang.seen", "gang.placed")
_COPY = ("{object}.version", "{copy}.copy", "{copy}.wanted")

CAUSES: Table = {
    events.Elected: _ELECTED,
    events.PlacementFound: {R.PERMIT_UNKNOWN: ("{x}.ready", "{x}.bound", "{x}.permit", "pod.present")},
    events.ElectionRefused: _REFUSED,
    events.CandidateRequested: {R.TARGET_OF_EPOCH: ("pod.epoch", "{x}.there", "{c}.view", "targets", "gang.formed")},
    events.CandidateAmended: {
        R.SOURCE_CHANGED: (
            "pod.template",
            "{x}.template",
            "{x}.there",
            "{c}.view",
            "pod.epoch",
            "pod.problem",
            "{x}.permit",
            "{x}.withdrawn",
        )
    },
    events.PermitGranted: {
        **dict.fromkeys(_CHOICES, _CHOSEN),
        R.ROOM_BY_PREEMPTION: (*_ANSWERS, "gang.placed"),
        R.GANG_FOLLOWS: ("{x}.ready", "{c}.view", "gang.placed", "gang.withdrawing", "members.permit", *_FREE),
        R.PERMIT_OPEN: ("pod.permit", "{x}.permit", "{c}.view"),
    },
    events.AutoscalerChosen: {R.NODES_NEEDED: (*_ANSWERS, "pod.scale_up")},
    events.GatesSet: {R.GATES_CHANGED: ("pod.gates", "{x}.gates", "{x}.bound", "{c}.view")},
    events.ScaleUpSet: {
        R.NODES_NEEDED: (*_ANSWERS, "pod.scale_up", "{mine}.scale_up"),
        R.NODES_ELSEWHERE: (*_ANSWERS, "pod.scale_up", "{x}.scale_up"),
    },
    events.PermitRevoked: {
        R.LEASE_ENDED: ("pod.permit", "{c}.view"),
        R.GANG_INCOMPLETE: ("pod.permit", "gang.withdrawing", "{c}.view"),
    },
    events.RevokeAcked: {
        R.CANDIDATE_GONE: ("{x}.there", "pod.permit"),
        R.ANSWERED: ("{x}.tried", "{x}.ready", "pod.permit"),
        R.ACKNOWLEDGED: ("{x}.acknowledged", "pod.permit"),
        R.UNRESERVED: ("{x}.answer", "pod.permit"),
        R.ANOTHER_READY: ("{mine}.ready", "{every}.view", "pod.permit"),
        R.LEASE_ENDED: ("pod.permit", "{c}.view"),
    },
    events.CandidateDropped: {
        R.SOURCE_DELETED: ("pod.present", "pod.deleting", *_THERE),
        R.SOURCE_TERMINAL: ("pod.over", "pod.failed", "{x}.status", *_THERE),
        R.OLD_EPOCH: ("pod.epoch", *_THERE),
        R.ANOTHER_TARGET_WON: ("pod.delegate", "gang.formed", *_THERE),
        R.NOT_A_TARGET: ("pod.epoch", "targets", "pod.permit", *_THERE),
        R.BOUND_WITHOUT_PERMIT: ("{x}.bound", "pod.permit", *_THERE),
    },
    events.DelegateLost: {
        R.POD_MISSING: ("{x}.missing", "{x}.there", "{x}.answer", "pod.delegate"),
        R.POD_REJECTED: ("{x}.status", "pod.delegate"),
        R.TARGET_LOST: ("{c}.lost", "{c}.view", "outage", "pod.delegate"),
        R.TARGET_FORGOTTEN: ("{c}.forgotten", "pod.delegate"),
    },
    events.EpochClosed: {
        R.TARGETS_CHANGED: ("targets", "pod.options", "members.options", "pod.permit", "gang.placed", "pod.epoch"),
        R.GANG_INCOMPLETE: (*_WHOLE, "gang.rests", "gang.placed", "pod.permit", "pod.epoch"),
        R.GANG_DISSOLVED: ("gang.dissolved", "pod.delegate"),
        R.PERMIT_WAS_OUTLIVED: ("pod.permit", "{c}.view", "outage"),
        R.TARGET_FORGOTTEN: ("{c}.forgotten", "pod.permit"),
    },
    events.StatusShown: {
        R.STATUS_CHANGED: ("{x}.status", "{x}.bound", "pod.delegate", "pod.node", "pod.unready", "{told}"),
        R.STATUS_FINAL: ("{x}.status", "{x}.bound", "pod.delegate", "pod.node", "{told}"),
        R.DELEGATE_STOPPED: _STOPPED,
        **dict.fromkeys(_REFUSED, ("pod.refused",)),
        **dict.fromkeys(_LOST, ("pod.epoch", "pod.node")),
        R.UNSCHEDULABLE_EVERYWHERE: _ANSWERS,
        R.CANDIDATES_UNREADABLE: ("{every}.view", "pod.epoch"),
        R.SKEW_TOO_LARGE: _ANSWERS,
        R.PREDECESSOR_STOPS: ("pod.epoch", "{mine}.answer"),
        R.CANDIDATE_UNREAD: ("unread", "pod.epoch", "{mine}.answer"),
        R.DELEGATE_UNSEEN: ("{every}.view", "pod.hints", "pod.epoch"),
        R.AWAITS_GANG: ("gang.waits", "gang.placed", "{home}.answer", "{homes_at}.view"),
        R.AWAITS_ANSWER: ("pod.permit", "{c}.view"),
        R.DELEGATE_WAS_LOST: ("pod.epoch",),
    },
    events.DelegateHinted: {
        R.DELEGATE_FOUND: ("{x}.pod", "pod.delegate", "pod.hints", "pod.tolerates", "{c}.node", "gang.formed")
    },
    events.SourceBound: {
        R.DELEGATE_ACCEPTED: ("{x}.status", "pod.delegate", "pod.hints", "pod.tolerates", "{c}.node", "gang.formed")
    },
    events.SourceRemoved: {R.DELEGATE_STOPPED: _STOPPED},
    events.CleanupDone: {R.NOTHING_LEFT: ("pod.present", "left", "pod.writes")},
    gang_events.GangPermitted: {
        **dict.fromkeys(_CHOICES, _TOGETHER),
        R.ROOM_BY_PREEMPTION: (*_NOWHERE, "members.permit", "gang.rests"),
        R.GANG_FOUND: (*_FOUND, "gang.placed"),
    },
    gang_events.GangFormed: {R.GANG_FORMED: ("members.delegate", "gang.placed")},
    gang_events.GangWithdrawn: {R.GANG_INCOMPLETE: (*_FOUND, "members.revoking", "gang.placed", "gang.withdrawing")},
    gang_events.GangKept: {R.GANG_BOUND_MEANWHILE: ("members.delegate", "members.permit", "gang.withdrawing")},
    gang_events.GangDissolved: {R.GANG_DISSOLVED: ("gang.placed", "members.delegate", "{c}.view")},
    gang_events.GangReleased: {ANY: (*_FOUND, "members.stopped", "gang.placed")},
    gang_events.GangRested: {ANY: (*_NOWHERE, "members.permit")},
    gang_events.GangWaits: {ANY: (*_NOWHERE, "members.permit")},
    CopyDecided: {R.NAMED_BY_DELEGATE: _COPY},
    CopyDropped: {R.NOT_NAMED: _COPY},
}
"""What each kind of decision may rest on, by its reason; `{x}` is the candidate that it is about, `{c}` its target."""

_AROUND = frozenset(
    ("cluster", "fleet", "service", "candidatetarget", "sourcenamespace", "sourcegroup", "sourcepod", "refused")
)
MAY_CAUSE: Mapping[str, frozenset[str]] = {
    "sourcepod": _AROUND | {"named", "copies", "virtualnode"},
    "sourcegroup": _AROUND,
    "virtualnode": frozenset(("cluster", "candidatetarget", "service", "sourcepod", "virtualnode")),
    "copies": frozenset(("cluster", "service", "sourcepod", "named", "copies")),
}
"""First words of the streams on which there is the cause of what is decided on a stream, by its first word."""


def may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on, by their names."""
    stream_kind, decided_kind = cause.partition("/")[0], stream.partition("/")[0]
    if stream_kind == decided_kind == "copies" or stream_kind == decided_kind == "sourcegroup":
        return cause == stream
    return stream_kind in MAY_CAUSE.get(decided_kind, frozenset())


def said(decision: events.CandidateDecision) -> str:
    """Return the name of the facet that a decision sets by itself, for what is decided with it; "" if it sets none."""
    match decision:
        case events.DelegateLost() | events.EpochClosed() | events.PlacementFound():
            return "pod.epoch"
        case events.RevokeAcked():
            return "pod.permit"
        case events.ElectionRefused():
            return "pod.refused"
        case _:
            return ""


def words_of(decision: events.CandidateDecision, pass_: PodPass) -> Words:
    """Return what the placeholders in the table stand for, in a decision about a pod."""
    gang, current = pass_.context.gang, pass_.current()
    home = gang.home if gang is not None else ""
    rivals = _rivals(decision, pass_) if isinstance(decision, events.PermitGranted) else []
    return {
        "x": (_about(decision, pass_.state),),
        "c": (_target_of(decision, pass_.state),),
        "mine": {name for name, _ in current.values()},
        "every": pass_.targets(),
        "rival": [current[name][0] for name in rivals if name in current],
        "rivals_at": rivals,
        "home": [current[home][0]] if home in current else (),
        "homes_at": (home,),
        "told": _shown_because_of(decision, pass_.state),
    }


def _about(decision: events.CandidateDecision, state: SourceState) -> str:
    """Return the candidate that a decision is about: its own, else the delegate, else who has the permit."""
    permitted = state.permit.candidate if state.permit else ""
    return getattr(decision, "candidate", "") or state.delegate or permitted


def _target_of(decision: events.CandidateDecision, state: SourceState) -> str:
    """Return the target that a decision is about: its own, else the delegate's, else that of the permit."""
    cluster: str = getattr(decision, "cluster", "")
    if cluster not in ("", MANAGEMENT):
        return cluster
    known = state.chosen or state.permit
    return known.cluster if known else ""


def _shown_because_of(decision: events.CandidateDecision, state: SourceState) -> tuple[str, ...]:
    if not isinstance(decision, events.StatusShown):
        return ()
    shown = ("obstacles", f"{_about(decision, state)}.refusal")
    return (*shown, "pod.told", f"{_target_of(decision, state)}.failed") if decision.obstacles else shown


def _rivals(decision: events.PermitGranted, pass_: PodPass) -> list[str]:
    """Return the targets for whose answer the choice waited: all where the best of several is chosen, else those that
    come before.
    """
    failures, targets = pass_.state.failures, pass_.targets()
    others = targets.keys() - {decision.cluster}
    if decision.cluster not in targets or pass_.placement.mode == "BestOf":
        return sorted(others)
    tried, tier = failures.get(decision.cluster, 0), targets[decision.cluster].tier
    return sorted(name for name in others if failures.get(name, 0) < tried or targets[name].tier < tier)
