"""Says which event a decision about a pod, a PodGroup or the rules rests on: of all that had to be so, what came last.

In: a decision, and marks (`controlplane.controllers.podgroups.marks`). Out: a position in the log, for `caused_by`.
Pure: one table, and a rule for which streams may cause what. Nodes, and pods of other schedulers, are in no log: what a
cluster has rests on the event with which they came into view."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.podgroups.decide import first_of, is_made_by_others
from controlplane.controllers.podgroups.events import (
    ROOM_STREAM,
    RULES_STREAM,
    GroupCreationDecided,
    GroupStatusDecided,
    GroupUpdateDecided,
    MembershipDecided,
    MemberWarned,
    OwnerResolved,
    RoomObserved,
    RulesNoted,
    group_stream,
    owner_stream,
)
from controlplane.controllers.podgroups.index import PodGroupIndex
from controlplane.controllers.podgroups.ownership import Resolution
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.log.event import Event
from controlplane.runtime.marks import ANY, Marks, Table, Words, cause_of

R = PodGroupReason
# An owner is looked for as long as the pod has no group.
_RESOLVES = ("it.present", "it.grouped", "it.owner", "{looked}.answer", "rules", "view")
_IN_GROUP = ("it.resolved", "it.grouped", "it.trouble", "group.present", "group.owner", "view")
_THERE = ("it.present", "it.owner", "it.trouble", "view")
# Whose fields they are: those of the group, by the pod that it is derived from.
_DERIVED = ("first.resolved", "it.fields", *_THERE)
CAUSES: Table = {
    OwnerResolved: dict.fromkeys((R.RULE_MATCHED, R.FIRST_OWNER, R.NO_OWNER), _RESOLVES),
    MembershipDecided: {R.GROUP_EXISTS: _IN_GROUP},
    MemberWarned: {R.GROUP_NAME_TAKEN: (*_IN_GROUP, "it.problem")},
    GroupCreationDecided: {R.MEMBER_WITHOUT_GROUP: ("first.resolved", "it.present", "it.trouble", "view")},
    GroupUpdateDecided: {
        R.MIN_MEMBER_CHANGED: ("{owner}.members", *_DERIVED),
        R.TEMPLATE_CHANGED: ("{template}.template", "{owner}.members", *_DERIVED),
    },
    GroupStatusDecided: {
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
    RulesNoted: dict.fromkeys(
        (R.RULES_REFUSED, R.RULES_ACCEPTED), ("it.present", "it.complaints", "it.note", "it.trouble", "view")
    ),
    RoomObserved: {ANY: ("view",)},
}
"""What each kind of decision may rest on, by its reason; the words in braces are those of `words_of`."""

MAY_CAUSE: Mapping[str, frozenset[str]] = {
    "member": frozenset(("member", "podgroup", "owner", RULES_STREAM, "cluster")),
    "podgroup": frozenset(("podgroup", "member", "owner", ROOM_STREAM, "cluster")),
    RULES_STREAM: frozenset((RULES_STREAM, "cluster")),
    ROOM_STREAM: frozenset(("cluster",)),
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
    """Return the position of the event that a decision about a stream rests on."""
    words = words_of(index, stream, decision)
    return cause_of(CAUSES, decision, _marks(index, stream, words), words)


def words_of(index: PodGroupIndex, stream: str, decision: Event) -> Words:
    """Return what the words in the table stand for: of a resolution the owners that were asked for, of an update those
    that say what a group needs, of a status what else of the members counts for its phase.
    """
    namespace = stream.split("/")[1] if "/" in stream else ""
    match decision:
        case OwnerResolved(resolution=found):
            owners = [*found.chain[1:], *(look.owner for look in found.looked)]
            return {"looked": {owner_stream(namespace, owner) for owner in owners}}
        case GroupUpdateDecided():
            first = first_of(index.members_of(stream), stream)
            resolved = first.resolved if first is not None else None
            return _sources(index, namespace, resolved.resolution) if resolved is not None else {}
        case GroupStatusDecided():
            return _counts(index, stream, decision)
        case _:
            return {}


def _sources(index: PodGroupIndex, namespace: str, found: Resolution) -> Words:
    owners = [owner_stream(namespace, owner) for owner in found.chain[1 : found.selected + 1]]
    return {"owner": owners, "template": index.template_streams(found, namespace)}


def _counts(index: PodGroupIndex, stream: str, decision: GroupStatusDecided) -> Words:
    state, members = index.groups[stream], index.members_of(stream)
    shown = state.seen.phase if state.seen is not None else ""
    return {
        "others": ("members.grouped",) if is_made_by_others(state, first_of(members, stream)) else (),
        "unknown": ("members.unschedulable",) if "Unknown" in (decision.phase, shown) else (),
        "left": ("members.there",) if (shown, decision.phase) == ("Inqueue", "Pending") else (),
        "phased": ("members.counted",) if state.phase != "Pending" else (),
    }


def _marks(index: PodGroupIndex, stream: str, words: Words) -> Marks:
    """Return the marks that a decision about a stream may rest on."""
    marks = index.marks
    found = {**marks.around, **marks.of(stream), "view": marks.view}
    if (member := index.members.get(stream)) is not None and member.resolved is not None and member.seen is not None:
        found |= _renamed(marks.of(group_stream(member.seen.facts.namespace, member.resolved.group)), "group")
    if (first := first_of(index.members_of(stream), stream)) is not None and first.seen is not None:
        found |= _renamed(marks.of(f"member/{first.seen.facts.namespace}/{first.seen.facts.name}"), "first")
    for word in ("looked", "owner", "template"):
        for owner in words.get(word, ()):
            found |= _renamed(marks.of(owner), owner)
    return found


def _renamed(marks: Marks, name: str) -> dict[str, int]:
    return {f"{name}{mark.removeprefix('it')}": at for mark, at in marks.items() if mark.startswith("it.")}
