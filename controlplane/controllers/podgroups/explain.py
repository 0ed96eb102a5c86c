"""Why a pod is in its PodGroup, and why a PodGroup is in its phase: one sentence, and the events that it rests on.

In: the events of the pod or the group, for a pod also those of its group and its owners. Out: an `Explanation`, of the
folds by which the service decides. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.podgroups import phases
from controlplane.controllers.podgroups.events import (
    ROOM_STREAM,
    GroupCreationDecided,
    GroupGone,
    GroupObserved,
    GroupStatusDecided,
    MemberGone,
    MemberObserved,
    MemberRefused,
    MembershipDecided,
    OwnerReadFailed,
    OwnerResolved,
    RoomObserved,
    group_stream,
    member_stream,
    owner_stream,
    refused_stream,
)
from controlplane.controllers.podgroups.index import CLUSTER_STREAM, unseen_kind
from controlplane.controllers.podgroups.objects import POD_GROUPS, PODS
from controlplane.controllers.podgroups.ownership import Resolution
from controlplane.controllers.podgroups.phrases import PHRASES, group_because
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.controllers.podgroups.state import MemberState, PodGroupState, fold_group, fold_member
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation, Standing, Word, answer, last, with_last_known
from controlplane.runtime.stories import HistoryReader, ObjectHistory, ObjectStories
from controlplane.runtime.streams import object_of

_STANDING: dict[str, Word] = {"Inqueue": "Admitted", "Running": "Running", "Completed": "Finished"}
_NO_CAPACITY = "room: not known, because nodes or pods are not in view"
_BY_WHOM = "it is admitted by its scheduler, or by this service where podgroups.statusFor names that"


def explain_member(events: Sequence[Recorded], around: Sequence[Recorded]) -> Explanation:
    """Return which PodGroup a pod is in, and why."""
    state = MemberState()
    for recorded in events:
        state = fold_member(state, recorded)
    if state.seen is None:
        told = Explanation(Standing("Deleted"), "It is gone.", list(events[-1:]))
        return with_last_known(told, events, MemberGone, lambda before: explain_member(before, _until(before, around)))
    seen = state.seen
    if state.resolved is None:
        return _unresolved(seen, events, around)
    group, rests = _group_of(group_stream(seen.facts.namespace, state.resolved.group), around)
    found = state.resolved.resolution
    odd = " ".join(f"{one}." for one in found.warnings)
    carried = seen.facts.group_name == state.resolved.group
    waits = "" if carried else " The pod does not carry its name yet."
    if seen.problem:
        waits = f" {seen.problem.rstrip('.')}."
    sentence = (
        f"It is in PodGroup {state.resolved.group} of {found.owner.kind} {found.owner.name}, because "
        f"{group_because(state.resolved)}{_steps(found)} ({_chain(found)}). {_phase(group, found)}{waits} {odd}"
    )
    rests_on = [last(events, OwnerResolved), last(events, MembershipDecided), *rests]
    state_word: Word = (
        "Running" if seen.stage == "Bound" else "Finished" if seen.stage in ("Succeeded", "Failed") else "Pending"
    )
    waits_for = "its PodGroup to be admitted" if state_word == "Pending" and group.phase == "Pending" else ""
    return answer(Standing(state_word, "", waits_for), sentence, *rests_on)


def _unresolved(seen: MemberObserved, events: Sequence[Recorded], around: Sequence[Recorded]) -> Explanation:
    if seen.facts.group_name:
        group, rests = _group_of(group_stream(seen.facts.namespace, seen.facts.group_name), around)
        sentence = f"It names its group itself: PodGroup {seen.facts.group_name}. {_phase(group)}"
        return answer(Standing("Pending"), sentence, last(events, MemberObserved), *rests)
    if seen.deleting:
        stands = Standing("Running" if seen.stage == "Bound" else "Pending")
        return answer(stands, "It is being deleted, and gets no PodGroup any more.", last(events, MemberObserved))
    if unseen := unseen_kind(around):
        return answer(
            Standing("Pending", "", "its PodGroup"), f"It has no PodGroup yet: {unseen}.", last(events, MemberObserved)
        )
    failed = last(around, OwnerReadFailed)
    if failed is not None and isinstance(failed.event, OwnerReadFailed):
        read = failed.event
        what = f"{read.owner.kind} {read.owner.name} could not be read ({read.code or ''} {read.error}: {read.message})"
        sentence = f"It has no PodGroup yet: {what}. It is tried again at {read.retry_at:%H:%M:%S}."
        return answer(Standing("Pending", "", "its owner to be read"), sentence, failed)
    if seen.facts.static:
        return answer(
            Standing("Running"), "It mirrors a file on a node and gets no PodGroup.", last(events, MemberObserved)
        )
    sentence = "It has no PodGroup yet: its owners are being looked at."
    return answer(Standing("Pending", "", "its owner to be found"), sentence, last(events, MemberObserved))


def _steps(found: Resolution) -> str:
    if found.matched is None or found.matched == found.selected:
        return ""
    down = found.matched - found.selected
    return f", and its level puts the group {down} step{'s' if down > 1 else ''} below"


def _chain(found: Resolution) -> str:
    return " ← ".join(f"{one.kind} {one.name}" for one in found.chain)


def _group_of(stream: str, around: Sequence[Recorded]) -> tuple[PodGroupState, list[Recorded | None]]:
    state = PodGroupState()
    own = [recorded for recorded in around if recorded.stream == stream]
    for recorded in own:
        state = fold_group(state, recorded)
    return state, [last(own, GroupObserved, GroupGone), last(own, GroupStatusDecided)]


def _phase(group: PodGroupState, found: Resolution | None = None) -> str:
    if group.seen is None and found is not None and (missing := _missing_owner(found)):
        return f"The group is not made: {missing}, and what names it as its owner would be collected."
    if group.seen is None:
        return "The group is not there yet."
    seen = group.seen
    return f"The group is {group.phase}: {seen.running} of at least {seen.min_member} run."


def _missing_owner(found: Resolution) -> str:
    """Return that the owner of a group was looked for and is not there, "" if it is, or if nobody looked."""
    owner = found.owner
    return f"{owner.kind} {owner.name} (UID {owner.uid}) is not there" if found.owner_is_gone else ""


def explain_group(events: Sequence[Recorded], around: Sequence[Recorded]) -> Explanation:
    """Return why a PodGroup is in its phase. `around` has the newest event about the cluster's capacity, and the events
    of the pods that joined it.
    """
    state = PodGroupState()
    for recorded in events:
        state = fold_group(state, recorded)
    if state.seen is None:
        return with_last_known(_no_group(events), events, GroupGone, lambda before: explain_group(before, ()))
    seen, decided = state.seen, last(events, GroupStatusDecided)
    by_scheduler = not state.ours and bool(seen.phase)
    waits = state.phase == "Pending" and not by_scheduler
    there = _there(events, around) if waits else None
    why = ", as its scheduler says" if by_scheduler else _why_phase(state, seen, decided, there)
    capacity = last(around, RoomObserved) if waits else None
    if waits:
        why += f"; {_known_of(state, capacity)}"
    failure = f" The last write failed: {state.slot.trouble.message}." if state.slot.trouble is not None else ""
    owner = f" It is owned by {seen.owner}." if seen.owner else " Nobody owns it."
    counts = f" Of its members {seen.running} run, {seen.succeeded} succeeded and {seen.failed} failed."
    sentence = f"It is {state.phase}{why}.{counts}{owner}{_contest(state)}{failure}"
    standing = Standing(_STANDING.get(state.phase, "Pending"), "", _waits_for(seen, there) if waits else "")
    return answer(standing, sentence, last(events, GroupObserved), decided, capacity)


def _known_of(state: PodGroupState, capacity: Recorded | None) -> str:
    """Return what is known of the cluster's capacity, or who admits a group that is not ours to admit, as far as is
    known."""
    if not state.ours:
        return _BY_WHOM
    event = capacity.event if capacity is not None else None
    return PHRASES[RoomObserved](event) if isinstance(event, RoomObserved) else _NO_CAPACITY


def _contest(state: PodGroupState) -> str:
    """Return that somebody else writes what we write, and what to do about it; "" if nobody does."""
    if not state.contested:
        return ""
    return (
        " Somebody else writes its status as well: if that is its scheduler, as Volcano's does, take its name out of "
        "podgroups.statusFor."
    )


def _until(before: Sequence[Recorded], around: Sequence[Recorded]) -> list[Recorded]:
    """Return what was around at the last of some events."""
    return [recorded for recorded in around if recorded.position <= before[-1].position]


def _no_group(events: Sequence[Recorded]) -> Explanation:
    newest = events[-1] if events else None
    if newest is not None and isinstance(newest.event, GroupGone):
        return answer(Standing("Deleted"), "It is gone.", newest)
    return answer(Standing("Pending"), "It is not there yet.", newest)


def _awaited(wanted: int, there: int | None, room: str) -> str:
    """Return what a group that is not admitted waits for; `there`: how many of its members are, None where that is not
    known."""
    if there is None:
        return f"it waits for its {_members(wanted)}, or for {room}"
    if there < wanted:
        return (
            f"{there} of its {_members(wanted)} {'is' if there == 1 else 'are'} there; it waits for the others, "
            f"and for {room}"
        )
    return f"its {_members(there)} {'is' if there == 1 else 'are'} there, and it waits for {room}"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _why_phase(state: PodGroupState, seen: GroupObserved, decided: Recorded | None, there: int | None) -> str:
    if decided is None or not isinstance(decided.event, GroupStatusDecided):
        return ""
    if state.phase == "Pending" and decided.event.reason == PodGroupReason.MEMBERS_CHANGED:
        asks = ", ".join(f"{name} {amount}" for name, amount in sorted(seen.min_resources.items())) or "nothing"
        together = f"room for what they ask for together ({asks})"
        return f": {_awaited(max(seen.min_member, 1), there, together)}"
    return f", because {group_because(decided.event)}"


def find(reader: HistoryReader, kind: str, namespace: str, name: str) -> ObjectHistory | None:
    """Return the history of a member or of a PodGroup; None if the log has none of it."""
    [stream] = _streams(kind, namespace, name) or [""]
    events = reader.of(stream) if stream else []
    if not events:
        return _refused(reader, kind, namespace, name)
    if kind == "podgroup":
        return ObjectHistory(
            kind, stream, events, [*reader.of(ROOM_STREAM, newest=True), *_joined(reader, stream, events)]
        )
    around = _around(namespace, events)
    if last(events, OwnerResolved) is None:
        around.add(CLUSTER_STREAM)
    return ObjectHistory(kind, stream, events, reader.of(*sorted(around)) if around else [])


def _refused(reader: HistoryReader, kind: str, namespace: str, name: str) -> ObjectHistory | None:
    """Return what is recorded of an object that does not fit its API; None if nothing is."""
    stream = refused_stream(PODS if kind == "pod" else POD_GROUPS, namespace, name)
    events = reader.of(stream) if kind else []
    return ObjectHistory(kind, stream, events) if events else None


def _left_alone(found: ObjectHistory) -> Explanation | None:
    newest = found.events[-1]
    if not isinstance(newest.event, MemberRefused):
        return None
    waits = Standing("Pending", "", "it to be mended")
    return answer(waits, f"It is left alone, because {newest.event.error.rstrip('.')}.", newest)


def _joined(reader: HistoryReader, stream: str, events: Sequence[Recorded]) -> list[Recorded]:
    """Return the events of the pods that joined a group which is ours; of one that others made, nobody has to join
    it."""
    made = last(events, GroupCreationDecided)
    if made is None:
        return []
    namespace, name = object_of(stream)
    pods = {
        recorded.stream
        for recorded in reader.of(after=made.position, kind=MembershipDecided.__name__)
        if isinstance(recorded.event, MembershipDecided)
        and recorded.event.group == name
        and object_of(recorded.stream)[0] == namespace
    }
    return reader.of(*sorted(pods)) if pods else []


def _there(events: Sequence[Recorded], around: Sequence[Recorded]) -> int | None:
    """Return how many pods that joined a group may still need something; None of a group that others made."""
    if last(events, GroupCreationDecided) is None:
        return None
    states: dict[str, MemberState] = {}
    for recorded in around:
        if recorded.stream != ROOM_STREAM:
            states[recorded.stream] = fold_member(states.get(recorded.stream, MemberState()), recorded)
    return phases.count(one.seen.stage for one in states.values() if one.seen is not None).live


def _waits_for(seen: GroupObserved, there: int | None) -> str:
    """Return the same as `_awaited` in few words."""
    if there is None:
        return "members or room"
    return "members and room" if there < max(seen.min_member, 1) else "room"


def _around(namespace: str, events: Sequence[Recorded]) -> set[str]:
    """Return the streams of the groups and owners that a member had."""
    streams: set[str] = set()
    for recorded in events:
        if isinstance(recorded.event, OwnerResolved):
            streams.add(group_stream(namespace, recorded.event.group))
            streams |= {owner_stream(namespace, one) for one in recorded.event.resolution.chain[1:]}
        elif isinstance(recorded.event, MemberObserved):
            facts = recorded.event.facts
            if facts.group_name:
                streams.add(group_stream(namespace, facts.group_name))
            if facts.controller is not None:
                streams.add(owner_stream(namespace, facts.controller))
    return streams


def _streams(kind: str, namespace: str, name: str) -> list[str]:
    named = {"pod": member_stream, "podgroup": group_stream}.get(kind)
    return [named(namespace, name)] if named is not None else []


STORIES = ObjectStories(
    words={
        **dict.fromkeys(("pod", "pods", "po"), "pod"),
        **dict.fromkeys(("podgroup", "podgroups", "pg"), "podgroup"),
    },
    streams=_streams,
    find=find,
    explain={
        "pod": lambda found: _left_alone(found) or explain_member(found.events, found.around),
        "podgroup": lambda found: _left_alone(found) or explain_group(found.events, found.around),
    },
    absent={
        "pod": "a scheduler records the pods whose spec.schedulerName is one of its profiles, in a log of its own; "
        "the controller podgroups records those with one of podgroups.schedulerNames; `controlplane candidates "
        "list` has those that are placed on other clusters",
        "podgroup": "PodGroups are recorded while the controller podgroups runs, and by a scheduler with the plugin "
        "Gang",
    },
)
