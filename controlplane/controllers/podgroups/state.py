"""The folds of single streams: the open write and the last trouble of an object, a pod's membership, a group, an owner,
the rules.

In: the events of one stream, in order. Out: values. A write is open from its decision until its object is seen to
change (whatever the change was: then it is decided anew from what is there) or until an API server said no."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.podgroups import events
from controlplane.controllers.podgroups.membership import Template
from controlplane.controllers.podgroups.objects import OwnerReference
from controlplane.controllers.podgroups.ownership import OwnerAnswer
from controlplane.controllers.podgroups.phases import Phase
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.controllers.podgroups.rules import Complaint, Rules
from controlplane.log.event import Recorded
from controlplane.runtime.streams import Folded, StreamFolds
from controlplane.runtime.writes import Effect, WriteFailure, trouble_of
from controlplane.values import Value

_replace = msgspec.structs.replace
_REST = timedelta(minutes=5)
_CONTEST_OVER = timedelta(hours=1)  # without anybody writing over ours
_PHASES: tuple[Phase, ...] = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


class WriteSlot(Value):
    """A stream's version, and the one write that may be open to its object."""

    version: int = 0
    position: int = 0
    effect: Effect[events.GroupWrite] | None = None
    trouble: WriteFailure | None = None

    def free(self, now: datetime) -> bool:
        """Whether a write may be decided now."""
        return self.effect is None and (self.trouble is None or self.trouble.until <= now)

    @property
    def wake(self) -> datetime | None:
        """When to look again though nothing happens."""
        return self.trouble.until if self.trouble is not None and self.effect is None else None


def fold_slot(slot: WriteSlot, recorded: Recorded, *, closes: bool) -> WriteSlot:
    """Return the slot after an event; `closes`: the object was seen, so whatever was open is decided anew."""
    event = recorded.event
    slot = _replace(slot, version=recorded.version, position=recorded.position)
    if isinstance(event, events.GroupWrite):
        return _replace(slot, effect=Effect(recorded.position, event, recorded.recorded_at))
    if isinstance(event, events.GroupWriteFailed):
        return _replace(slot, effect=None, trouble=trouble_of(event))
    if isinstance(event, events.GroupWriteUnneeded) and not closes:
        # The server took it and shows no change (a webhook, or a field that is not ours to set there): it is not asked
        # again at once.
        rest = WriteFailure(1, 0, "", "the write changed nothing", recorded.recorded_at + _REST, event.action)
        return _replace(slot, effect=None, trouble=rest)
    return _replace(slot, effect=None, trouble=None) if closes else slot


class MemberState(Value):
    """A pod and whose group it is in; the pin holds for this pod's UID only."""

    slot: WriteSlot = WriteSlot()
    seen: events.MemberObserved | None = None
    resolved: events.OwnerResolved | None = None


def fold_member(state: MemberState, recorded: Recorded) -> MemberState:
    """Return a membership after one more event of its stream."""
    event = recorded.event
    seen, resolved = state.seen, state.resolved
    closes = False
    match event:
        case events.MemberObserved():
            closes, seen = True, event
            if resolved is not None and resolved.uid != event.uid:
                resolved = None
        case events.MemberGone() if seen is None or seen.uid == event.uid:
            closes, seen, resolved = True, None, None
        case events.OwnerResolved():
            resolved = event
        case _:
            pass
    return MemberState(slot=fold_slot(state.slot, recorded, closes=closes), seen=seen, resolved=resolved)


#: What is derived for a group: minMember and minResources.
Fields = tuple[int, dict[str, str]]


class PodGroupState(Value):
    """A group as it is seen, and what we derived for it last.

    `phase` is the one of the last status decided, if it is `ours`, else the one that the group shows; `since` when it
    became that; `rests_until`: after its time Inqueue was over. `contested`: how often somebody else wrote another one
    over ours, `contested_at` when they did last. `derived`: the minMember and minResources that we wrote, once they
    were seen; `tried`: those of a write that was refused, which may have been done all the same. `missed`: how often
    they were written and something else was seen; `lost`: how often the group vanished."""

    slot: WriteSlot = WriteSlot()
    seen: events.GroupObserved | None = None
    phase: Phase = "Pending"
    ours: bool = False
    since: datetime | None = None
    contested: int = 0
    contested_at: datetime | None = None
    written_at: datetime | None = None
    rests_until: datetime | None = None
    derived: Fields | None = None
    tried: Fields | None = None
    missed: int = 0
    missed_at: datetime | None = None
    lost: int = 0
    lost_at: datetime | None = None


def fold_group(state: PodGroupState, recorded: Recorded) -> PodGroupState:
    """Return a group after one more event of its stream."""
    event, at = recorded.event, recorded.recorded_at
    closes = False
    match event:
        case events.GroupObserved():
            closes = True
            state = _replace(_written(_phase_shown(state, event, at), event, at), seen=event)
        case events.GroupGone() if state.seen is None or state.seen.uid == event.uid:
            closes = True
            state = _replace(
                PodGroupState(slot=state.slot),
                written_at=state.written_at,
                rests_until=state.rests_until,
                missed=state.missed,
                missed_at=state.missed_at,
                lost=state.lost + 1,
                lost_at=at,
            )
        case events.GroupStatusDecided():
            state = _decided(state, event, at)
        case events.GroupWriteFailed():
            state = _replace(state, tried=_wanted(state))
        case events.GroupWriteUnneeded() if _shows(state.seen, _wanted(state)):
            closes = True  # it was so already: nothing rests, and nothing is asked again
            state = _replace(state, derived=_wanted(state), missed=0, missed_at=None)
        case _:
            pass
    return _replace(state, slot=fold_slot(state.slot, recorded, closes=closes))


def _decided(state: PodGroupState, event: events.GroupStatusDecided, at: datetime) -> PodGroupState:
    """Return a group whose status is to be written."""
    if event.conditions_only:
        return _replace(state, ours=False, written_at=at)
    rests = at if event.reason == PodGroupReason.INQUEUE_EXPIRED else state.rests_until
    since = at if event.phase != state.phase else state.since
    return _replace(state, phase=event.phase, ours=True, since=since, written_at=at, rests_until=rests)


def _phase_shown(state: PodGroupState, event: events.GroupObserved, at: datetime) -> PodGroupState:
    """Return a group with the phase that it shows, if that is not ours to say, or if somebody has written it over
    ours."""
    found: Phase = next((phase for phase in _PHASES if phase == event.phase), "Pending")
    if state.seen is None or state.seen.uid != event.uid:
        # What a group shows when it is first seen is what was written before we knew it.
        return _replace(state, phase=found, ours=False, since=at, rests_until=None, contested=0, contested_at=None)
    if not state.ours:
        return _replace(state, phase=found, since=state.since if found == state.phase else at)
    if state.seen.phase == state.phase != event.phase:
        before = state.contested if _is_recent(state.contested_at, at) else 0
        return _replace(state, contested=before + 1, contested_at=at)
    return state


def _is_recent(contested_at: datetime | None, at: datetime) -> bool:
    return contested_at is not None and at - contested_at < _CONTEST_OVER


def _wanted(state: PodGroupState) -> Fields | None:
    """Return what the open write of a group is to bring about, None if it is about other fields."""
    effect = state.slot.effect
    if effect is None or not isinstance(effect.decision, (events.GroupCreationDecided, events.GroupUpdateDecided)):
        return None
    return effect.decision.min_member, effect.decision.min_resources


def _shows(seen: events.GroupObserved | None, wanted: Fields | None) -> bool:
    """Whether a group is as it was to be; it may ask for more."""
    if seen is None or wanted is None:
        return False
    return wanted == (seen.min_member, {name: seen.min_resources.get(name) for name in wanted[1]})


def _written(state: PodGroupState, seen: events.GroupObserved, at: datetime) -> PodGroupState:
    """Return the group with what we derived noted once it is seen: others may change it from then on."""
    wanted = _wanted(state)
    if wanted is None:
        done = _shows(seen, state.tried)
        return _replace(state, derived=state.tried, tried=None, missed=0, missed_at=None) if done else state
    if _shows(seen, wanted):
        return _replace(state, derived=wanted, tried=None, missed=0, missed_at=None)
    return _replace(state, derived=None, tried=None, missed=state.missed + 1, missed_at=at)


class OwnerState(Value):
    """What is known of an owner: from a watch (then always current), or from a read at some time."""

    namespace: str
    owner: OwnerReference
    answer: OwnerAnswer
    watched: bool = False
    at: datetime
    resource_version: str = ""
    retry_at: datetime | None = None
    failures: int = 0
    template: Template | None = None


def fold_owner(state: OwnerState | None, recorded: Recorded) -> OwnerState | None:
    """Return what is known of an owner after one more event of its stream."""
    event, at = recorded.event, recorded.recorded_at
    match event:
        case events.OwnerObserved():
            found = OwnerAnswer(outcome="Found", facts=event.facts)
            return OwnerState(
                namespace=event.namespace,
                owner=event.owner,
                answer=found,
                watched=True,
                at=at,
                resource_version=event.resource_version,
                template=event.template,
            )
        case events.OwnerGone() if state is not None:
            return _replace(state, answer=OwnerAnswer(outcome="NotFound"), watched=False, at=at, template=None)
        case events.OwnerRead() if state is None or not state.watched:
            return OwnerState(namespace=event.namespace, owner=event.owner, answer=event.answer, at=at)
        case events.OwnerReadFailed() if state is None or not state.watched:
            return OwnerState(
                namespace=event.namespace,
                owner=event.owner,
                answer=OwnerAnswer(outcome="Unavailable", message=event.message),
                at=at,
                retry_at=event.retry_at,
                failures=event.failures,
            )
        case _:
            return state


class RulesState(Value):
    """The rules in force, the ConfigMap as it was last seen, and what was wrong with it."""

    slot: WriteSlot = WriteSlot()
    rules: Rules = Rules()
    uid: str = ""
    resource_version: str = ""
    note: str = ""
    complaints: tuple[Complaint, ...] = ()


def fold_rules(state: RulesState, recorded: Recorded) -> RulesState:
    """Return the rules after one more event: a refused document leaves those before it in force."""
    event = recorded.event
    closes = isinstance(event, (events.RulesAccepted, events.RulesRefused))
    slot = fold_slot(state.slot, recorded, closes=closes)
    match event:
        case events.RulesAccepted():
            return RulesState(
                slot=slot,
                rules=Rules(tuple(event.rules)),
                uid=event.uid,
                resource_version=event.resource_version,
                note=event.note,
            )
        case events.RulesRefused():
            return _replace(
                state,
                slot=slot,
                uid=event.uid,
                resource_version=event.resource_version,
                note=event.note,
                complaints=tuple(event.complaints),
            )
        case events.RulesNoted():
            return _replace(state, slot=slot)
        case _:
            return _replace(state, slot=slot)


FOLDS: StreamFolds = {
    "member": Folded(lambda stream: MemberState(), fold_member),
    "podgroup": Folded(lambda stream: PodGroupState(), fold_group),
    "owner": Folded(lambda stream: None, fold_owner),
    events.RULES_STREAM: Folded(lambda stream: RulesState(), fold_rules),
}
