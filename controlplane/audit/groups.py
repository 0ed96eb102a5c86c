"""Why a pod is in its PodGroup, and why a PodGroup is in its phase: one sentence, and the events that it rests on.

In: the events of the pod or the group, for a pod also those of its group and its owners. Out: an `Explanation`, of the
folds by which the service decides. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.audit.words import what
from controlplane.controllers.podgroups.events import (
    GroupGone,
    GroupObserved,
    GroupStatusDecided,
    MemberGone,
    MemberObserved,
    MembershipDecided,
    OwnerReadFailed,
    OwnerResolved,
    group_stream,
)
from controlplane.controllers.podgroups.ownership import Resolution
from controlplane.controllers.podgroups.phrases import group_because
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.controllers.podgroups.state import MemberState, PodGroupState, fold_group, fold_member
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation, Standing, Word, with_last_known

_STANDING: dict[str, Word] = {"Inqueue": "Admitted", "Running": "Running", "Completed": "Finished"}
_NO_CAPACITY = "room: not known, because nodes or pods are not in view"


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
        f"{group_because(state.resolved)}{_steps(found)} ({_chain(found)}). {_phase(group)}{waits} {odd}"
    )
    rests_on = [_last(events, OwnerResolved), _last(events, MembershipDecided), *rests]
    state_word: Word = (
        "Running" if seen.stage == "Bound" else "Finished" if seen.stage in ("Succeeded", "Failed") else "Pending"
    )
    waits_for = "its PodGroup to be admitted" if state_word == "Pending" and group.phase == "Pending" else ""
    return _answer(Standing(state_word, "", waits_for), sentence, rests_on)


def _unresolved(seen: MemberObserved, events: Sequence[Recorded], around: Sequence[Recorded]) -> Explanation:
    if seen.facts.group_name:
        group, rests = _group_of(group_stream(seen.facts.namespace, seen.facts.group_name), around)
        sentence = f"It names its group itself: PodGroup {seen.facts.group_name}. {_phase(group)}"
        return _answer(Standing("Pending"), sentence, [_last(events, MemberObserved), *rests])
    failed = _last(around, OwnerReadFailed)
    if failed is not None and isinstance(failed.event, OwnerReadFailed):
        read = failed.event
        what = f"{read.owner.kind} {read.owner.name} could not be read ({read.code or ''} {read.error}: {read.message})"
        sentence = f"It has no PodGroup yet: {what}. It is tried again at {read.retry_at:%H:%M:%S}."
        return _answer(Standing("Pending", "", "its owner to be read"), sentence, [failed])
    if seen.facts.static:
        return _answer(
            Standing("Running"), "It mirrors a file on a node and gets no PodGroup.", [_last(events, MemberObserved)]
        )
    sentence = "It has no PodGroup yet: its owners are being looked at."
    return _answer(Standing("Pending", "", "its owner to be found"), sentence, [_last(events, MemberObserved)])


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
    return state, [_last(own, GroupObserved, GroupGone), _last(own, GroupStatusDecided)]


def _phase(group: PodGroupState) -> str:
    if group.seen is None:
        return "The group is not there yet."
    seen = group.seen
    return f"The group is {group.phase}: {seen.running} of at least {seen.min_member} run."


def explain_group(events: Sequence[Recorded], around: Sequence[Recorded]) -> Explanation:
    """Return why a PodGroup is in its phase. `around` has the newest event about the cluster's capacity."""
    state = PodGroupState()
    for recorded in events:
        state = fold_group(state, recorded)
    if state.seen is None:
        return with_last_known(_no_group(events), events, GroupGone, lambda before: explain_group(before, ()))
    seen, waits = state.seen, state.phase == "Pending"
    decided = _last(events, GroupStatusDecided)
    why = _why_phase(state, seen, decided)
    capacity = around[-1] if around and waits else None
    if waits:
        known = what(capacity.event) if capacity is not None else _NO_CAPACITY
        why += f"; {known}"
    failure = f" The last write failed: {state.slot.trouble.message}." if state.slot.trouble is not None else ""
    owner = f" It is owned by {seen.owner}." if seen.owner else " Nobody owns it."
    counts = f" Of its members {seen.running} run, {seen.succeeded} succeeded and {seen.failed} failed."
    sentence = f"It is {state.phase}{why}.{counts}{owner}{failure}"
    standing = Standing(_STANDING.get(state.phase, "Pending"), "", "members and room" if waits else "")
    return _answer(standing, sentence, [_last(events, GroupObserved), decided, capacity])


def _until(before: Sequence[Recorded], around: Sequence[Recorded]) -> list[Recorded]:
    """Return what was around at the last of some events."""
    return [recorded for recorded in around if recorded.position <= before[-1].position]


def _no_group(events: Sequence[Recorded]) -> Explanation:
    last = events[-1] if events else None
    if last is not None and isinstance(last.event, GroupGone):
        return _answer(Standing("Deleted"), "It is gone.", [last])
    return _answer(Standing("Pending"), "It is not there yet.", [last])


def _why_phase(state: PodGroupState, seen: GroupObserved, decided: Recorded | None) -> str:
    if decided is None or not isinstance(decided.event, GroupStatusDecided):
        return ""
    if state.phase == "Pending" and decided.event.reason == PodGroupReason.MEMBERS_CHANGED:
        asks = ", ".join(f"{name} {amount}" for name, amount in sorted(seen.min_resources.items())) or "nothing"
        return f": it waits for {seen.min_member} members, and for room for what they ask for together ({asks})"
    return f", because {group_because(decided.event)}"


def _answer(stands: Standing, sentence: str, rests_on: Sequence[Recorded | None]) -> Explanation:
    found = {recorded.position: recorded for recorded in rests_on if recorded is not None}
    return Explanation(stands, " ".join(sentence.split()), [found[position] for position in sorted(found)])


def _last(events: Sequence[Recorded], *kinds: type[object]) -> Recorded | None:
    return next((recorded for recorded in reversed(events) if isinstance(recorded.event, kinds)), None)
