"""Writes the one condition of each gang, for autoscalers and people: `Unschedulable` or `Scheduled` on its PodGroup,
not one on each pod.

In: how a group stands, as the loop judged it, and the conditions that the PodGroup shows. Out: decided writes, a
controller. A PodGroup's CRD has neither a status subresource nor mergeable conditions, so the whole list is written,
on the version that was seen: conditions of others stay (volcano-sh/volcano
config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from controlplane.controllers.scheduling.binding.pod_scheduling import StreamController
from controlplane.controllers.scheduling.binding.protocol import ProposedAppend
from controlplane.controllers.scheduling.causes import GANG
from controlplane.controllers.scheduling.events import (
    GangConditionDecided,
    GangGone,
    GangJudged,
    GangObserved,
    GangStart,
    SchedulingWrite,
    SchedulingWriteFailed,
    SchedulingWriteUnneeded,
)
from controlplane.controllers.scheduling.gangs.place import UNMARKED, Place, StartProgress
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.state import StreamState, gang_stream
from controlplane.kube.kinds import MERGE_PATCH, POD_GROUPS, Json, ObjectRef, Request, meta
from controlplane.kube.requests import timestamp
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.writes import dropped, is_late, opened, refused

OURS = frozenset({"Unschedulable", "Scheduled"})
_replace = msgspec.structs.replace


class GangState(StreamState):
    """A PodGroup, what it shows, what is to be said of it, and how far its start has come."""

    seen: GangObserved | None = None
    judged: GangJudged | None = None
    start: GangStart | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing is left to say: the group is gone."""
        return self.seen is None and self.judged is None and self.start is None


def gang_fold(state: GangState, recorded: Recorded) -> GangState:
    """Return the state after one more event of the stream."""
    event, state = recorded.event, state.folded_to(recorded)
    match event:
        case GangObserved():
            if state.seen is not None and state.seen.uid != event.uid:
                state = _replace(state, judged=None, start=None, effects={}, trouble={})
            kept = {key: one for key, one in state.effects.items() if not shows(event, one.decision)}
            return _replace(state, seen=event, effects=kept)
        case GangGone() if state.seen is None or state.seen.uid == event.uid:
            return _replace(state, seen=None, judged=None, start=None, effects={}, trouble={})
        case GangJudged():
            return _replace(state, judged=event)
        case GangStart():
            return _replace(state, start=event)
        case SchedulingWriteFailed() | SchedulingWriteUnneeded() if is_late(state, event.target, recorded):
            return state
        case SchedulingWriteFailed():
            return refused(state, event)
        case SchedulingWriteUnneeded():
            return dropped(state, event.target)
        case SchedulingWrite():
            return opened(state, event, recorded)
        case _:
            return state


def shows(group: GangObserved, decision: SchedulingWrite) -> bool:
    """Whether a PodGroup says already what was decided to say."""
    if not isinstance(decision, GangConditionDecided):
        return False
    said = [
        (one.get("type"), one.get("status"), one.get("reason"), one.get("message"))
        for one in group.conditions
        if one.get("type") in OURS
    ]
    return said == [(decision.condition, "True", decision.said, decision.message)]


def conditions(group: GangObserved, decision: GangConditionDecided, now: datetime) -> list[Json]:
    """Return all conditions of a PodGroup with ours in its place; the time is kept while its type stays."""
    before: Json = next((one for one in group.conditions if one.get("type") == decision.condition), {})
    entry: Json = {
        "type": decision.condition,
        "status": "True",
        "reason": decision.said,
        "message": decision.message,
        "lastTransitionTime": before.get("lastTransitionTime") or timestamp(now),
    }
    return [*(one for one in group.conditions if one.get("type") not in OURS), entry]


def _conditions_shown(obj: Json) -> list[Json]:
    """Return the conditions of a PodGroup that can be read."""
    status = obj.get("status")
    listed: Any = status.get("conditions") if isinstance(status, dict) else None
    return [one for one in listed if isinstance(one, dict) and _named(one)] if isinstance(listed, list) else []


def _named(condition: Json) -> bool:
    return isinstance(condition.get("type", ""), str)


class PodGroupConditions(StreamController[GangState]):
    """What is said of the PodGroups whose pods we place. `enabled`: whether a profile has the plugin Gang."""

    PARTS = GANG

    def __init__(self, identity: str, *, enabled: bool) -> None:
        super().__init__(identity)
        self._enabled = enabled
        self._versions: dict[str, str] = {}

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of a PodGroup that shows other conditions, or went."""
        if not self._enabled or change.kind != POD_GROUPS or change.unreadable:
            return None
        metadata = meta(change.object)
        uid = str(metadata.get("uid", ""))
        stream = gang_stream(str(metadata.get("namespace", "")), str(metadata.get("name", "")))
        state = self.states.get(stream)
        known = state.seen if state is not None else None
        if change.gone:
            # One that was shown may not be folded yet.
            if uid not in self._versions and (known is None or known.uid != uid):
                return None
            return change.observed(stream, GangGone(uid=uid, resource_version=change.resource_version), now)
        self._versions[uid] = change.resource_version
        said = _conditions_shown(change.object)
        if known is not None and (known.uid, known.conditions) == (uid, said):
            return None
        event = GangObserved(uid=uid, resource_version=change.resource_version, conditions=said)
        return change.observed(stream, event, now)

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        stream, event = recorded.stream, recorded.event
        if isinstance(event, GangGone):
            self._versions.pop(event.uid, None)
        before = self.states.get(stream) or GangState.initial(stream)
        self._keep(stream, before, gang_fold(before, recorded))

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return the write that makes a PodGroup say how it stands, if it does not."""
        state = self.states.get(stream)
        if state is None or state.seen is None or state.judged is None:
            return Decided()
        judged = state.judged
        decision = GangConditionDecided(
            uid=state.seen.uid,
            condition=judged.condition,
            said=judged.said,
            message=judged.message,
            reason=SchedulingReason.CONDITION_CHANGED,
        )
        effect, failure = state.effects.get(decision.target), state.trouble.get(decision.target)
        if shows(state.seen, decision) or (effect is not None and effect.decision == decision):
            return Decided()
        if failure is not None and failure.until > now:
            return Decided([], state.version, failure.until)
        return Decided(self.said(stream, decision), state.version)

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the patch of a PodGroup's conditions; None if it is gone."""
        state, decision = self.states.get(write.stream), self._decision(write)
        if state is None or state.seen is None or not isinstance(decision, GangConditionDecided):
            return None
        ref = ObjectRef(POD_GROUPS, state.namespace, state.name)
        body: Json = {"status": {"conditions": conditions(state.seen, decision, now)}}
        version = self._versions.get(decision.uid, state.seen.resource_version)
        return Request("patch", ref, body, content_type=MERGE_PATCH, uid=decision.uid, resource_version=version)

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return nothing: the condition is the announcement."""
        return None

    def known(self) -> dict[str, tuple[str, str, str]]:
        """Return the PodGroups that the log knows: UID to (namespace, name, no version)."""
        return {
            state.seen.uid: (state.namespace, state.name, "")
            for state in self.states.values()
            if state.seen is not None
        }

    def judged(self, place: Place) -> GangJudged | None:
        """Return what was said of a PodGroup last."""
        state = self.states.get(gang_stream(*place[:2]))
        return state.judged if state is not None else None

    def proposed(self, place: Place, events: Sequence[tuple[Event, int]]) -> ProposedAppend:
        """Return what is decided about a group, to be appended; each with the position of the event with which the
        members came to stand so.
        """
        new: list[NewEvent] = []
        expected: dict[str, int] = {}
        for event, members in events:
            stream = _start_stream(place) if isinstance(event, GangStart) else gang_stream(*place[:2])
            known = self.states.get(stream)  # None: the group was seen, and that is not in the log yet
            one = NewEvent(stream=stream, event=event, caused_by=members)
            new += [one] if known is None else self.said(stream, event, members=members)
            expected[stream] = known.version if known is not None else 0
        return ProposedAppend(new, expected)

    def started(self, place: Place, others: Collection[Place]) -> tuple[StartProgress, StartProgress]:
        """Return how far a gang's start had come when that was recorded last, and what of it need not be recorded anew.

        With the `others` that have its PodGroup's name: it may be on an older stream, if it is the only one of that.
        Before Candidates said which cluster made them, there was one for each name of a source; before that, it was
        that of their PodGroup. Whose start such a stream tells of may not be known later."""
        own, older = self._start(_start_stream(place)), StartProgress()
        if own is not None:
            return own, own
        if place.uid and all(one.source != place.source for one in others):
            older = self._start(_start_stream(place.by_name)) or older
        if not others:
            older = self._start(gang_stream(*place[:2])) or older
        return older, StartProgress() if older.together else older

    def _start(self, stream: str) -> StartProgress | None:
        state = self.states.get(stream)
        start = state.start if state is not None else None
        return StartProgress(start.together, start.failures, start.until) if start is not None else None


def _start_stream(place: Place) -> str:
    """Return the stream that has how far a gang's start has come: its PodGroup's, and one beside it for each source of
    pods.
    """
    stream = gang_stream(*place[:2])
    return stream if place.source in ("", UNMARKED) else f"{stream}/{place.origin}"
