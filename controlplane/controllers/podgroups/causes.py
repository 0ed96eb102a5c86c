"""Says which event a decision about a pod, a PodGroup or the rules rests on: of all that had to be so, what came last.

In: a decision, and positions (`controlplane.controllers.podgroups.facets`). Out: a position in the log, for
`caused_by`. Pure: one table, and a rule for which streams may cause what. Nodes, and pods of other schedulers, are in
no log: what a cluster has rests on the event with which they came into view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from controlplane.controllers.podgroups import events
from controlplane.controllers.podgroups.decide import first_of, is_made_by_others
from controlplane.controllers.podgroups.index import PodGroupIndex
from controlplane.controllers.podgroups.ownership import Resolution
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.log.event import Event
from controlplane.runtime.facets import ANY, FacetPositions, Table, Words, row_of

R = PodGroupReason
# An owner is looked for as long as the pod has no group.
_RESOLVES = ("it.present", "it.grouped", "it.owner", "{looked}.answer", "rules", "view")
_IN_GROUP = ("it.resolved", "it.grouped", "it.trouble", "group.present", "group.owner", "view")
_THERE = ("it.present", "it.owner", "it.trouble", "view")
# Whose fields they are: those of the group, by the pod that it is derived from.
_DERIVED = ("first.resolved", "it.fields", *_THERE)
CAUSES: Table = {
    events.OwnerResolved: dict.fromkeys((R.RULE_MATCHED, R.FIRST_OWNER, R.NO_OWNER), _RESOLVES),
    events.MembershipDecided: {R.GROUP_EXISTS: _IN_GROUP},
    events.MemberWarned: {R.GROUP_NAME_TAKEN: (*_IN_GROUP, "it.problem")},
    events.GroupCreationDecided: {R.MEMBER_WITHOUT_GROUP: ("first.resolved", "it.present", "it.trouble", "view")},
    events.GroupUpdateDecided: {
        R.MIN_MEMBER_CHANGED: ("{owner}.members", *_DERIVED),
        R.TEMPLATE_CHANGED: ("{template}.template", "{owner}.members", *_DERIVED),
    },
    events.GroupStatusDecided: {
        R.MEMBERS_CHANGED: (
            "members.counted",
            "members.warnings",
            "{others}",
            "{unknown}",
            "{left}",
            "it.shown",
            "it.members",
            *_THERE,
        ),
        R.ROOM_FOUND: (
            "room",
            "released",
            "members.there",
            "{others}",
            "{phased}",
            "it.members",
            "it.resources",
            "it.phase",
            *_THERE,
        ),
        R.INQUEUE_EXPIRED: ("it.since", "it.trouble", "view"),
    },
    events.RulesNoted: dict.fromkeys(
        (R.RULES_REFUSED, R.RULES_ACCEPTED), ("it.present", "it.complaints", "it.note", "it.trouble", "view")
    ),
    events.RoomObserved: {ANY: ("view",)},
}
"""What each kind of decision may rest on, by its reason; the words in braces are those of `words_of`."""

_OWNERS = frozenset(("looked", "owner", "template"))
"""The words that stand for owners' streams; the others are names of positions of a group's members."""

MAY_CAUSE: Mapping[str, frozenset[str]] = {
    "member": frozenset(("member", "podgroup", "owner", events.RULES_STREAM, "cluster")),
    "podgroup": frozenset(("podgroup", "member", "owner", events.ROOM_STREAM, "cluster")),
    events.RULES_STREAM: frozenset((events.RULES_STREAM, "cluster")),
    events.ROOM_STREAM: frozenset(("cluster",)),
}
"""First words of the streams on which there is the cause of what is decided on a stream, by its first word."""


def may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on, by their names: of another group, that
    what it kept free is free.
    """
    first, of = cause.partition("/")[0], stream.partition("/")[0]
    if first not in MAY_CAUSE.get(of, frozenset()):
        return False
    if first == of == "member":
        return cause == stream
    here = {"member", "podgroup", "owner"}
    return first == of or not {first, of} <= here or cause.split("/")[1] == stream.split("/")[1]


def cause(index: PodGroupIndex, stream: str, decision: Event) -> int:
    """Return the position of the event that a decision about a stream rests on; 0 if nothing of it is marked.

    Only what the decision's row names is looked at: there is one for every pod.
    """
    words = words_of(index, stream, decision)
    found = 0
    for whose, names in _row(type(decision), getattr(decision, "reason", "")):
        for positions in _positions(index, stream, whose, words):
            for name in names or words.get(whose, ()):
                if (at := positions.get(name, 0)) > found:
                    found = at
    return found


@cache
def _row(decision: type, reason: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what a row of the table names, by whose positions they are: of the object itself, of its group's members,
    of none (`around`), or of what a word stands for. A word that stands for names of its own comes without any.
    """
    found: dict[str, list[str]] = {}
    for key in row_of(CAUSES, decision, reason):
        whose, _, facet = key.partition(".")
        if facet:
            name = key if whose == "members" else f"it.{facet}"
            found.setdefault(whose.strip("{}"), []).append(name)
        elif whose.startswith("{"):
            found[whose.strip("{}")] = []
        else:
            found.setdefault("around", []).append(key)
    return tuple((whose, tuple(names)) for whose, names in found.items())


def words_of(index: PodGroupIndex, stream: str, decision: Event) -> Words:
    """Return what the words in the table stand for: of a resolution the owners that were asked for, of an update those
    that say what a group needs, of a status what else of the members counts for its phase.
    """
    namespace = stream.split("/")[1] if "/" in stream else ""
    match decision:
        case events.OwnerResolved(resolution=found):
            more = [look.owner for look in found.looked if look.owner not in found.chain]
            return {"looked": [events.owner_stream(namespace, owner) for owner in (*found.chain[1:], *more)]}
        case events.GroupUpdateDecided():
            first = first_of(index.members_of(stream), stream)
            resolved = first.resolved if first is not None else None
            return _sources(index, namespace, resolved.resolution) if resolved is not None else {}
        case events.GroupStatusDecided():
            return _counts(index, stream, decision)
        case _:
            return {}


def _sources(index: PodGroupIndex, namespace: str, found: Resolution) -> Words:
    owners = [events.owner_stream(namespace, owner) for owner in found.chain[1 : found.selected + 1]]
    return {"owner": owners, "template": index.template_streams(found, namespace)}


def _counts(index: PodGroupIndex, stream: str, decision: events.GroupStatusDecided) -> Words:
    state, members = index.groups[stream], index.members_of(stream)
    shown = state.seen.phase if state.seen is not None else ""
    return {
        "others": ("members.grouped",) if is_made_by_others(state, first_of(members, stream)) else (),
        "unknown": ("members.unschedulable",) if "Unknown" in (decision.phase, shown) else (),
        "left": ("members.there",) if (shown, decision.phase) == ("Inqueue", "Pending") else (),
        "phased": ("members.counted",) if state.phase != "Pending" else (),
    }


def _positions(index: PodGroupIndex, stream: str, whose: str, words: Words) -> Iterable[FacetPositions]:
    """Return the positions of those that a decision about a stream rests on."""
    positions = index.positions
    if whose in _OWNERS:
        return [positions.of_owner(owner) for owner in words.get(whose, ())]
    match whose:
        case "it":
            return (positions.of(stream),)
        case "around":
            return (positions.around,)
        case "group":
            member = index.members.get(stream)
            if member is None or member.resolved is None or member.seen is None:
                return ()
            return (positions.of(events.group_stream(member.seen.facts.namespace, member.resolved.group)),)
        case "first":
            first = first_of(index.members_of(stream), stream)
            if first is None or first.seen is None:
                return ()
            return (positions.of(events.member_stream(first.seen.facts.namespace, first.seen.facts.name)),)
        case _:
            return (positions.of_members(stream),)
