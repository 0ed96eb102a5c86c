"""The gangs of a source cluster: how far each has come, who is in it, and what that means for each of its pods.

In: the events of `sourcegroup/NS/NAME` and the folded states of the pods that name the group. Out: `SourceGangState`, a
value, and the `GangView` that a pod's own decision looks at. What is decided about a gang as a whole is in
`gang_decide`; the rules of who is held are those of `controlplane.kube.pod_groups`, as a scheduler has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import gang_events
from controlplane.controllers.candidates.source.state import STREAM, SourceState, fold
from controlplane.kube import pod_groups as rules
from controlplane.kube.pod_groups import GangProgress, GroupSpec, Member, Stage
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


def stage_of(state: SourceState) -> Stage | None:
    """Return how far a member has come; None for one that is not there to be placed: on its way out, gated, or wrong in
    itself.
    """
    pod = state.pod
    if pod is None:
        return None
    over = state.shown is not None and state.shown.uid == pod.uid and state.shown.failed
    if pod.phase == "Failed" or over:
        return "Failed"
    if pod.phase == "Succeeded":
        return "Succeeded"
    if state.delegate:
        return None if pod.deleting else "Assigned"
    return None if pod.deleting or pod.gated or pod.problem else "Pending"


def group_of(group: SourceGangState) -> GroupSpec | None:
    """Return a group as the rules have it; None if it is not there, or cannot be read."""
    seen = group.seen
    if seen is None or seen.problem:
        return None
    return GroupSpec(
        namespace=group.namespace, name=group.name, created=seen.created or _BEGINNING, min_member=seen.min_member
    )


def gang_of(group: SourceGangState, members: Iterable[SourceState]) -> GangProgress:
    """Return a gang as the rules have it."""
    found = {}
    for state in members:
        stage = stage_of(state)
        if stage is not None and state.pod is not None:
            found[state.pod.uid] = Member(uid=state.pod.uid, name=state.name, stage=stage)
    return GangProgress(members=found, started=group.placed is not None)


def priority_of(members: Iterable[SourceState]) -> int:
    """Return a gang's priority: the highest of its pods, as admission resolved it."""
    return max((state.pod.priority for state in members if state.pod is not None), default=0)


def rank_of(group: SourceGangState, members: Iterable[SourceState]) -> tuple[int, float, str]:
    """Return what gangs are ordered by: priority, age, name."""
    known = group_of(group)
    created = known.created if known is not None else _BEGINNING
    return (-priority_of(members), created.timestamp(), f"{group.namespace}/{group.name}")


def view_of(stream: str, group: SourceGangState, members: Mapping[str, SourceState], unseen: str = "") -> GangView:
    """Return what a member's decision looks at. `unseen`: why PodGroups cannot be seen at all, "" if they can."""
    placed = group.placed
    targets = targets_of(members.values())
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


def _together(placed: Placed, members: Mapping[str, SourceState]) -> bool:
    """Whether a member of its own may go where the gang is: some run there already, or a quorum still may."""
    firm = 0
    for state in members.values():
        chosen, permit, stage = state.chosen, state.permit, stage_of(state)
        if chosen is not None and chosen.cluster == placed.cluster and stage in ("Assigned", "Succeeded"):
            firm += 1
            if stage == "Assigned":
                return True
        elif permit is not None and permit.kind == "Bind" and not permit.revoking:
            firm += permit.cluster == placed.cluster
    return firm >= placed.least


def targets_of(members: Iterable[SourceState]) -> frozenset[str] | None:
    """Return the targets that all members ask for; None if none of them asks for any."""
    found: frozenset[str] | None = None
    for state in members:
        asked = state.pod.options.targets if state.pod is not None else []
        if asked:
            found = frozenset(asked) if found is None else found & frozenset(asked)
    return found


def _held(
    group: SourceGangState, members: Mapping[str, SourceState], targets: frozenset[str] | None, unseen: str
) -> tuple[CandidateReason, str] | None:
    if targets is not None and not targets:
        return (
            CandidateReason.GANG_TARGETS_DIFFER,
            (
                f"the pods of PodGroup {group.name} ask for targets that have none in common: they go to one cluster"
                " as a whole"
            ),
        )
    hold = rules.hold(group_of(group), gang_of(group, members.values()), _BEGINNING)
    if hold is None:
        return None
    if hold.reason == "GroupMissing":
        if group.seen is not None and group.seen.problem:
            why = f"cannot be read: {group.seen.problem}"
        else:
            why = f"cannot be seen: {unseen}" if unseen else "is not there"
        return CandidateReason.GROUP_MISSING, f"PodGroup {group.name} {why}"
    return CandidateReason.TOO_FEW_MEMBERS, hold.message


# --- all of them -----------------------------------------------------------------------------------------------------


class SourceGangs:
    """The groups of a source cluster and the pods that name them, as they are folded. `unseen`: why PodGroups cannot be
    seen.
    """

    GIVEN = ("_views",)

    def __init__(self) -> None:
        self.groups: dict[str, SourceGangState] = {}
        self.unseen = ""
        self._members: dict[str, dict[str, SourceState]] = {}
        self._of: dict[str, str] = {}
        self._views: dict[str, GangView] = {}
        self._told: dict[str, GangView] = {}
        self._stale: dict[str, None] = {}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a group."""
        stream = recorded.stream
        after = fold_group(self.groups.get(stream) or SourceGangState.initial(stream), recorded)
        self.groups[stream] = after
        self._tidy(stream)
        self._changed(stream)

    def member(self, stream: str, state: SourceState | None) -> None:
        """Take note of a pod as it is after a fold; None once nothing is left of it."""
        pod = state.pod if state is not None else None
        group = group_stream(pod.namespace, pod.group) if pod is not None and pod.group else ""
        before = self._of.get(stream, "")
        if before and before != group:
            self._members[before].pop(stream, None)
            del self._of[stream]
            self._changed(before)
            self._tidy(before)
        if group and state is not None:
            self._of[stream] = group
            self._members.setdefault(group, {})[stream] = state
            self._changed(group)

    def _changed(self, stream: str) -> None:
        self._stale[stream] = None
        self._views.pop(stream, None)

    def _tidy(self, stream: str) -> None:
        """Forget a group that is gone and has no pods, unless it has to be said yet that nobody runs."""
        if not self._members.get(stream):
            self._members.pop(stream, None)
            known = self.groups.get(stream)
            if known is not None and known.seen is None and known.placed is None:
                del self.groups[stream]
                self._told.pop(stream, None)

    def touch_all(self) -> None:
        """Look at every group again."""
        for stream in {**self.groups, **self._members}:
            self._changed(stream)

    def take_changed(self) -> tuple[list[str], list[str]]:
        """Return the groups to decide about since the last call, and the pods for which something has changed by it."""
        stale, self._stale = list(self._stale), {}
        pods: dict[str, None] = {}
        for stream in stale:
            if not self._members.get(stream):
                self._told.pop(stream, None)
                continue
            view = _replace(self._look(stream), version=0)
            if self._told.get(stream) != view:
                self._told[stream] = view
                pods.update(dict.fromkeys(self._members[stream]))
        return [stream for stream in stale if stream in self.groups], list(pods)

    def _look(self, stream: str) -> GangView:
        view = self._views.get(stream)
        if view is None:
            view = self._views[stream] = view_of(stream, self.state(stream), self.members(stream), self.unseen)
        return view

    def state(self, stream: str) -> SourceGangState:
        """Return a group as it is folded."""
        return self.groups.get(stream) or SourceGangState.initial(stream)

    def members(self, stream: str) -> Mapping[str, SourceState]:
        """Return the pods of a group, by stream."""
        return self._members.get(stream, {})

    def view(self, pod_stream: str) -> GangView | None:
        """Return what a pod's decision looks at of its gang; None if it is in none."""
        stream = self._of.get(pod_stream)
        return self._look(stream) if stream is not None else None


FOLDS: StreamFolds = {
    STREAM: Folded(SourceState.initial, fold),
    gang_events.GROUP: Folded(SourceGangState.initial, fold_group),
}
