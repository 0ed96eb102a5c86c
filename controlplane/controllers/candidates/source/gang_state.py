"""The gangs of a source cluster: how far each has come, who is in it, and what that means for each of its pods.

In: the events of `sourcegroup/NS/NAME` and the folded states of the pods that name the group. Out: `SourceGangState`, a
value, and the `GangView` that a pod's own decision looks at. What is decided about a gang as a whole is in
`gang_decide`; the rules of who is held are those of `controlplane.kube.pod_groups`, as a scheduler has them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import gang_events
from controlplane.controllers.candidates.source.gang_counts import GangCounts
from controlplane.controllers.candidates.source.state import STREAM, SourceState, fold
from controlplane.kube import pod_groups as rules
from controlplane.kube.pod_groups import GroupSpec
from controlplane.log.event import Recorded
from controlplane.runtime.streams import Folded, StreamFold, StreamFolds
from controlplane.values import Value

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_replace = msgspec.structs.replace


class Placed(Value):
    """Where a gang is permitted, since when, by a quorum of how many.

    `withdrawing`: its permits are being taken back; `dissolved`: whoever is bound is taken back too. `formed`: a quorum
    was bound."""

    cluster: str
    number: int
    least: int
    since: datetime
    withdrawing: bool = False
    dissolved: bool = False
    formed: bool = False

    @property
    def stands(self) -> bool:
        """Whether members may be permitted there."""
        return not self.withdrawing and not self.dissolved


class SourceGangState(Value, StreamFold):
    """A group and how far it has come.

    `placed` is there from the permission of a quorum until nobody runs any more. `numbers` counts permissions. By
    target, `failures` are those that came to nothing, `asked` those to make room, of which the last holds others back
    until `asked_until`. `tries` counts the rests since a quorum last ran, `rests_until` is the end of the last."""

    namespace: str
    name: str
    version: int = 0
    position: int = 0
    seen: gang_events.SourceGroupObserved | None = None
    placed: Placed | None = None
    numbers: int = 0
    failures: dict[str, int] = {}
    asked: dict[str, int] = {}
    asked_until: datetime | None = None
    tries: int = 0
    rests_until: datetime | None = None
    waits: gang_events.GangWaits | None = None

    @property
    def least(self) -> int:
        """How many members have to start together."""
        return self.seen.min_member if self.seen is not None else 1


class GangView(Value):
    """What a pod's own decision looks at of its gang.

    `stream` and `version` are the group's. `held` is why nobody may be elected now, `rests_until` until when besides.
    `targets`: those that every member asks for (None: any). `home` is where the gang is permitted; `follows`: members
    may be permitted there one by one. `withdraws`: open permits are to be taken back; `dissolves`: delegates too.
    `formed`: a quorum is bound, so only `home` is of use. `least`: how many start together, for targets that do not
    have the PodGroup."""

    stream: str
    name: str
    version: int = 0
    held: tuple[CandidateReason, str] | None = None
    rests_until: datetime | None = None
    targets: frozenset[str] | None = None
    home: str = ""
    follows: bool = False
    withdraws: bool = False
    dissolves: bool = False
    formed: bool = False
    message: str = ""
    least: int = 0


def group_stream(namespace: str, name: str) -> str:
    """Return the stream of a PodGroup of the source cluster."""
    return f"{gang_events.GROUP}/{namespace}/{name}"


# --- the fold --------------------------------------------------------------------------------------------------------


def fold_group(state: SourceGangState, recorded: Recorded) -> SourceGangState:
    """Return the state after one more event of the stream."""
    event, state = recorded.event, state.folded_to(recorded)
    match event:
        case gang_events.SourceGroupObserved():
            known = state.seen
            if known is not None and known.uid != event.uid:
                state = _replace(state, failures={}, asked={}, asked_until=None, tries=0, rests_until=None, waits=None)
            return _replace(state, seen=event)
        case gang_events.SourceGroupGone():
            gone = state.seen is not None and state.seen.uid == event.uid
            return _replace(state, seen=None, waits=None) if gone else state
        case gang_events.GangPermitted():
            return _fold_permitted(state, event, recorded.recorded_at)
        case gang_events.GangRested():
            return _replace(
                state, rests_until=event.until, tries=state.tries + 1, asked={}, asked_until=None, waits=None
            )
        case gang_events.GangWaits():
            return _replace(state, waits=event)
        case gang_events.GangReleased() if state.placed is not None and state.placed.number == event.number:
            more = state.failures.get(event.cluster, 0) + event.failed
            tries = state.tries + (event.until is not None)
            failures = {**state.failures, event.cluster: more}
            return _replace(state, placed=None, failures=failures, tries=tries, rests_until=event.until)
        case (
            gang_events.GangWithdrawn()
            | gang_events.GangKept()
            | gang_events.GangDissolved()
            | gang_events.GangFormed()
        ) if state.placed is not None:
            return _fold_placed(state, state.placed, event) if state.placed.number == event.number else state
        case _:
            return state


def _fold_permitted(state: SourceGangState, event: gang_events.GangPermitted, at: datetime) -> SourceGangState:
    state = _replace(state, numbers=max(state.numbers, event.number), waits=None)
    if event.kind == "Preempt":
        asked = {**state.asked, event.cluster: state.asked.get(event.cluster, 0) + 1}
        return _replace(state, asked=asked, asked_until=event.until)
    placed = Placed(cluster=event.cluster, number=event.number, least=event.least, since=at)
    return _replace(state, placed=placed, rests_until=None)


def _fold_placed(
    state: SourceGangState,
    placed: Placed,
    event: gang_events.GangWithdrawn | gang_events.GangKept | gang_events.GangDissolved | gang_events.GangFormed,
) -> SourceGangState:
    match event:
        case gang_events.GangWithdrawn():
            return _replace(state, placed=_replace(placed, withdrawing=True))
        case gang_events.GangKept():
            return _replace(state, placed=_replace(placed, withdrawing=False))
        case gang_events.GangDissolved():
            return _replace(state, placed=_replace(placed, withdrawing=True, dissolved=True))
        case gang_events.GangFormed():
            return _replace(
                state, placed=_replace(placed, formed=True), failures={}, asked={}, asked_until=None, tries=0
            )


# --- the members -----------------------------------------------------------------------------------------------------


def group_of(group: SourceGangState) -> GroupSpec | None:
    """Return a group as the rules have it; None if it is not there, or cannot be read."""
    seen = group.seen
    if seen is None or seen.problem:
        return None
    return GroupSpec(
        namespace=group.namespace, name=group.name, created=seen.created or _BEGINNING, min_member=seen.min_member
    )


def rank_of(group: SourceGangState, members: GangCounts) -> tuple[int, float, str]:
    """Return what gangs are ordered by: priority, age, name."""
    known = group_of(group)
    created = known.created if known is not None else _BEGINNING
    return (-members.priority, created.timestamp(), f"{group.namespace}/{group.name}")


def view_of(stream: str, group: SourceGangState, members: GangCounts, unseen: str = "") -> GangView:
    """Return what a member's decision looks at. `unseen`: why PodGroups cannot be seen at all, "" if they can."""
    placed = group.placed
    targets = members.asks
    if placed is None:
        return GangView(
            stream=stream,
            name=group.name,
            version=group.version,
            held=_held(group, members, targets, unseen),
            rests_until=group.rests_until,
            targets=targets,
            message=group.waits.message if group.waits is not None else "",
            least=group.least,
        )
    return GangView(
        stream=stream,
        name=group.name,
        version=group.version,
        targets=targets,
        home=placed.cluster,
        follows=placed.stands and _together(placed, members),
        withdraws=not placed.stands,
        dissolves=placed.dissolved,
        formed=placed.formed and placed.stands,
        least=placed.least,
    )


def _together(placed: Placed, members: GangCounts) -> bool:
    """Whether a member of its own may go where the gang is: some run there already, or a quorum still may."""
    return members.runs_in(placed.cluster) or members.firm(placed.cluster) >= placed.least


def _held(
    group: SourceGangState, members: GangCounts, targets: frozenset[str] | None, unseen: str
) -> tuple[CandidateReason, str] | None:
    if targets is not None and not targets:
        return (
            CandidateReason.GANG_TARGETS_DIFFER,
            (
                f"the pods of PodGroup {group.name} ask for targets that have none in common: they go to one cluster"
                " as a whole"
            ),
        )
    hold = rules.short_of(group_of(group), members.assigned, members.present)
    if hold is None:
        return None
    if hold.reason == "GroupMissing":
        if group.seen is not None and group.seen.problem:
            why = f"cannot be read: {group.seen.problem}"
        else:
            why = f"cannot be seen: {unseen}" if unseen else "is not there"
        return CandidateReason.GROUP_MISSING, f"PodGroup {group.name} {why}"
    return CandidateReason.TOO_FEW_MEMBERS, hold.message


FOLDS: StreamFolds = {
    STREAM: Folded(SourceState.initial, fold),
    gang_events.GROUP: Folded(SourceGangState.initial, fold_group),
}
