"""Decides about gangs between cycles: who is let go together, who is turned back, who is tried again.

In: what was folded, what a cycle found, changes of groups and members, the time. Out: events to be appended, and pods
moved in the queue. A gang is let go by one append over all of its waiting members, each on the version of its stream:
it is in the log whole or not at all, so a leader that dies at any moment leaves either reservations with a deadline or
permits for a quorum (decision 0020). How far each start has come (together, or turned back how often and resting until
when) is recorded on the group's stream, for the next leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from controlplane.controllers.scheduling.binding.protocol import BindingProtocol, ProposedAppend
from controlplane.controllers.scheduling.events import GangJudged, GangStart, SchedulingFailed
from controlplane.controllers.scheduling.gangs.conditions import PodGroupConditions
from controlplane.controllers.scheduling.gangs.place import GANG, UNMARKED, PermittedMembers, Place, StartProgress
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.queue.queue import Queue
from controlplane.controllers.scheduling.queue.queue import QueuePlace as Where
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.log.event import NewEvent


class CycleRequests(Protocol):
    """What is asked of the loop."""

    def protocol_of(self, identity: str) -> tuple[BindingProtocol | None, str]:
        """Return who decides about a pod, and its stream."""

    def busy(self, identity: str) -> bool:
        """Whether a proposal about a pod is under way."""

    def reject(self, identity: str, plugin: str, message: str) -> None:
        """Give a reservation back that a plugin waited for."""

    def propose_together(self, answer: ProposedAppend, on_end: Callable[[bool], None]) -> None:
        """Append events of several streams, or none of them; `on_end` hears whether the log took them."""


class GangCoordinator:
    """See the module."""

    def __init__(self, gangs: ClusterGangs, queue: Queue, cycles: CycleRequests) -> None:
        self._gangs, self._queue, self._cycles = gangs, queue, cycles
        self._under_way: set[Place] = set()
        self._stands: dict[Place, str] = {}
        self._resting: dict[Place, datetime] = {}
        self._all_may: set[str] = set()
        self._permitted = PermittedMembers()
        self._begun = False
        self._noted: dict[Place, StartProgress] = {}  # what the log knows of each start, or will
        self._noting: set[Place] = set()
        self._began: dict[Place, int] = {}  # with which event each group's time to come together began
        self._moved: dict[Place, int] = {}  # by which event each group was last set back
        self.recorded = PodGroupConditions("", enabled=False)  # what the log says of the groups

    # ---------------------------------------------------------------- what happened to a member

    def held(self, identity: str, protocol: BindingProtocol, stream: str, now: datetime) -> None:
        """A member's reservation is recorded: it waits for the others, or has been let go."""
        place = self._place(identity, now)
        if place is None:
            return
        until = protocol.awaits(stream, GANG)
        if until is None:
            self._under_way.discard(place)
            news = self._gangs.let_go(identity)
            if news:
                self._judge(place, self._newest(self._gangs.gang(place).assigned))
            # Others who are let go are not folded yet, but who went meanwhile will not be: the gang cannot come
            # together.
            if (self._too_few(place) if news else self._broken(place)) and not protocol.firm(stream):
                self._cycles.reject(identity, GANG, self._why(place))
            return
        if self._broken(place):
            self._cycles.reject(identity, GANG, self._why(place))
            return
        since = self._since(identity)
        waited = self._began.get(place, since) if self._gangs.gang(place).waiting else since
        self._began[place] = min(waited, since)
        for sibling in self._gangs.reserved(identity, until):
            self._queue.activate(sibling, now.timestamp(), at_once=True)
        self._release(place, now)

    def may_bind(self, identity: str, protocol: BindingProtocol, stream: str, now: datetime) -> bool:
        """Whether a member may be bound: who else decides about it (the source of a candidate) permits a quorum, not
        this one alone.
        """
        if not protocol.may_bind(stream, now):
            return False
        place = self._place(identity, now)
        if place is not None and place.source == UNMARKED:
            return False
        group = self._gangs.groups.get(place) if place is not None else None
        if place is None or group is None or not protocol.asks_others or self._gangs.bound(place):
            return True
        return self._is_quorum(place, identity, group.min_member, now)

    def _is_quorum(self, place: Place, identity: str, least: int, now: datetime) -> bool:
        """Whether enough of a gang may be bound, now that one more may."""
        if self._permitted.is_of_quorum(place, identity, now):
            return True
        if not self._permitted.may_suffice(place, identity, least):
            return False
        ready = {one for one in self._gangs.members(place) if self._bound_or_may(one, now)}
        enough = self._permitted.found(place, ready, least, now)
        self._all_may.update(ready - {identity} if enough else ())
        return enough

    def _bound_or_may(self, identity: str, now: datetime) -> bool:
        pod = self._gangs.pod(identity)
        if pod is not None and pod.node_name:
            return True
        protocol, stream = self._cycles.protocol_of(identity)
        return protocol is not None and (protocol.firm(stream) or protocol.may_bind(stream, now))

    def all_may(self) -> list[str]:
        """Return the members that may be bound since another of their gang may, once."""
        found, self._all_may = sorted(self._all_may), set()
        return found

    def freed(self, identity: str, now: datetime) -> None:
        """A pod has no reservation any more: its own failure, or the gang's time is over, which the pods' own deadlines
        may say first.
        """
        place = self._place(identity, now)
        if place is None:
            return
        self._permitted.changed()
        self._expire(place, now)
        rested = self._gangs.resting(place) is not None
        self._turn_back(place, self._set_back(place, identity, self._gangs.freed))
        if not rested and self._gangs.resting(place) is not None:
            self._judge(place, self._since(identity), "not all that were let go together could be bound")

    def gone(self, identity: str) -> None:
        """A pod is on its node, or left: there is nothing to give back."""
        self._permitted.changed()
        self._gangs.freed(identity)

    def failed(self, identity: str, now: datetime, why: str, *, nominated: bool) -> None:
        """A member found no node. Its siblings give theirs back, unless room is being made for it (`nominated`)."""
        place = self._place(identity, now)
        if place is None or nominated:
            return
        rested = self._gangs.resting(place) is not None
        self._turn_back(place, self._set_back(place, identity, self._gangs.failed))
        if not rested and not self._gangs.singly(place) and self._gangs.hold(place) is not None:
            self._judge(place, self._since(identity), why)

    def gated(self, identity: str, now: datetime) -> None:
        """Say on a pod why it is kept outside, unless it has gates of its own or its group only rests."""
        entry, place = self._queue.entry(identity), self._place(identity, now)
        if entry is None or entry.place is not Where.GATED or entry.pod.spec.get("schedulingGates"):
            return
        message = entry.gate
        if entry.refused_by == {GANG}:
            held = self._gangs.hold(place) if place is not None else None
            if held is None or held.reason == "BackingOff":
                return
            message = held.message
        protocol, stream = self._cycles.protocol_of(identity)
        if protocol is None or self._cycles.busy(identity):
            return
        plugins = sorted(entry.refused_by)
        failed = SchedulingFailed(reason=SchedulingReason.SCHEDULING_GATED, message=message, plugins=plugins)
        answer = protocol.not_found(stream, failed, now, preemptable=False)
        if answer.events:
            self._cycles.propose_together(answer, _nothing)

    # ---------------------------------------------------------------- what time and the cluster do

    def begin(self, now: datetime) -> None:
        """Everything is listed: what the log knows of each group's start counts from now on."""
        self._begun = True
        self._noted.clear()
        self._gangs.changed.update(dict.fromkeys(self._gangs.groups))
        self.look(now)

    def look(self, now: datetime) -> None:
        """Look again at the groups that have changed, whose time is over, or whose rest has ended."""
        gangs = self._gangs
        if not gangs.enabled:
            return
        gangs.now = max(gangs.now, now)
        while gangs.changed:
            place = next(iter(gangs.changed))
            del gangs.changed[place]
            self._changed(place, now)
        for place, deadline in gangs.waiting().items():
            if deadline <= now:
                self._expire(place, now)
        for place, until in list(self._resting.items()):
            if until <= now:
                del self._resting[place]
                self._ask_again(place, now)

    def next_due(self) -> float | None:
        """Return when `look` has something to do, in seconds."""
        if not self._gangs.enabled:
            return None
        due = [*self._gangs.waiting().values(), *self._resting.values()]
        return min(due).timestamp() if due else None

    def _expire(self, place: Place, now: datetime) -> None:
        late = self._gangs.expired(place)
        if late:
            self._moved[place] = self._began.get(place, 0)  # what only time let ripen rests on what began the time
            self._turn_back(place, late, late=True)
            self._judge(place, self._moved[place], "not all came in time")

    def _changed(self, place: Place, now: datetime) -> None:
        held = self._gangs.hold(place)
        stands = held.message if held is not None and held.reason != "BackingOff" else ""
        before = self._stands.get(place)
        self._stands[place] = stands
        self._forget_if_gone(place)
        if self._broken(place):
            self._turn_back(place, self._gangs.unbound(place))
        lost = place in self._gangs.lost
        self._gangs.lost.discard(place)
        if stands != before:
            self._ask_again(place, now)
        if (lost or before) and not stands:
            for identity in self._gangs.members(place):
                self._queue.activate(identity, now.timestamp())
        if not self._gangs.quorum(place):
            self._under_way.discard(place)
        self._note(place)
        self._release(place, now)

    def _forget_if_gone(self, place: Place) -> None:
        if not self._gangs.members(place) and place not in self._gangs.groups:
            for table in (self._stands, self._resting, self._began, self._moved):
                table.pop(place, None)
            self._permitted.forget(place)

    def _ask_again(self, place: Place, now: datetime) -> None:
        for identity in self._gangs.members(place):
            self._queue.ask_again(identity, now.timestamp())
            self.gated(identity, now)

    # ---------------------------------------------------------------- together

    def _release(self, place: Place, now: datetime) -> None:
        """Let a gang go if enough of it waits: one append for all."""
        together = self._gangs.quorum(place)
        if not together or place in self._under_way or any(self._cycles.busy(one) for one in together):
            return
        events: list[NewEvent] = []
        expected: dict[str, int] = {}
        complete = self._completed(place)
        for identity in together:
            protocol, stream = self._cycles.protocol_of(identity)
            answer = protocol.permit(stream, GANG, now, siblings=complete) if protocol is not None else ProposedAppend()
            if not answer.events:
                return  # it does not wait any more, and the fold will say so
            events += answer.events
            expected |= answer.expected
        self._under_way.add(place)

        def ended(taken: bool) -> None:
            if not taken:
                self._under_way.discard(place)
                self._gangs.changed[place] = None

        self._cycles.propose_together(ProposedAppend(events, expected), ended)

    def _turn_back(self, place: Place, waiting: Sequence[str], *, late: bool = False) -> None:
        until = self._gangs.resting(place)
        if until is not None:
            self._resting[place] = until
        message = self._why(place, late=late)
        for identity in waiting:
            self._cycles.reject(identity, GANG, message)

    def _why(self, place: Place, *, late: bool = False) -> str:
        group = self._gangs.groups.get(place)
        least = f"at least {group.min_member} " if group is not None else ""
        when = " in time" if late else ""
        return f"PodGroup {place[1]} did not find nodes for {least}of its pods together{when}"

    def _judge(self, place: Place, members: int, why: str = "") -> None:
        """Record what is to be said of a group, if it is news; `members`: by which event its members stand so."""
        condition, known = self._gangs.condition(place, why), self.recorded.judged(place)
        if condition is None or (
            condition.type == "Scheduled" and known is not None and known.condition == condition.type
        ):
            return  # how many more have come since the quorum is the members' own business
        if condition.type != "Scheduled" and not why:
            return  # some of those who were let go together are not folded yet
        event = GangJudged(
            condition=condition.type,
            said=condition.reason,
            message=condition.message,
            reason=SchedulingReason.CONDITION_CHANGED,
        )
        if known != event:
            start = self._news(place)
            self._record(place, [(event, members), *([start] if start is not None else ())])

    def _news(self, place: Place) -> tuple[GangStart, int] | None:
        """Return how far a start has come, if the log does not know it, and by which event its members stand so; what
        it knows from before this process is taken up first.
        """
        if not self._begun or place not in self._gangs.groups or place in self._noting:
            return None
        known = self._noted.get(place)
        if known is None:
            if self._gangs.is_ambiguous(place):
                return None  # whose start the log of an earlier version tells of is not known yet
            recalled, known = self.recorded.started(place, self._gangs.others(place))
            self._noted[place] = known
            self._gangs.recall(place, recalled)
            if (until := self._gangs.resting(place)) is not None:
                self._resting[place] = until
        found = self._gangs.start(place)
        if found == known:
            return None
        back = found.failures > known.failures
        reason = SchedulingReason.TURNED_BACK if back else SchedulingReason.BEGINS_ANEW
        event = GangStart(
            together=found.together,
            failures=found.failures,
            until=found.until,
            reason=SchedulingReason.CAME_TOGETHER if found.together else reason,
        )
        gang = self._gangs.gang(place)
        on_nodes = gang.assigned - gang.released
        return event, self._newest(on_nodes) if found.together else self._moved.get(place, 0)

    def _note(self, place: Place) -> None:
        """Record how far a group's start has come, if that is news."""
        if place not in self._gangs.groups:
            self._noted.pop(place, None)
        elif (start := self._news(place)) is not None:
            self._record(place, [start])

    def _record(self, place: Place, events: Sequence[tuple[GangJudged | GangStart, int]]) -> None:
        answer = self.recorded.proposed(place, events)
        start = next((event for event, _ in events if isinstance(event, GangStart)), None)
        if start is None:
            self._cycles.propose_together(answer, _nothing)
            return
        self._noting.add(place)

        def ended(taken: bool) -> None:
            self._noting.discard(place)
            if taken:
                self._noted[place] = StartProgress(start.together, start.failures, start.until)
            self._gangs.changed[place] = None

        self._cycles.propose_together(answer, ended)

    # ---------------------------------------------------------------- what it rests on

    def _since(self, identity: str) -> int:
        protocol, stream = self._cycles.protocol_of(identity)
        return protocol.since(stream) if protocol is not None else 0

    def _set_back(self, place: Place, identity: str, by: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        """Note by which event a start was set back, if it was; return who gives their places back."""
        before = self._gangs.start(place)
        waiting = by(identity)
        if self._gangs.start(place) != before:
            self._moved[place] = self._since(identity)
        return waiting

    def _newest(self, identities: Iterable[str]) -> int:
        return max(map(self._since, identities), default=0)

    def _completed(self, place: Place) -> int:
        """Return by which event so many members had a node as have to start together."""
        gang, group = self._gangs.gang(place), self._gangs.groups[place]
        placed = sorted(map(self._since, gang.assigned | {*gang.waiting}))
        return placed[group.min_member - 1] if len(placed) >= group.min_member else 0

    def _broken(self, place: Place) -> bool:
        """Whether those of a gang who are not on nodes have to give their places back."""
        gangs = self._gangs
        return not gangs.singly(place) and (gangs.resting(place) is not None or gangs.hold(place) is not None)

    def _too_few(self, place: Place) -> bool:
        """Whether a gang that has not come together has not members enough to do so."""
        held = self._gangs.hold(place)
        return held is not None and held.reason == "TooFewMembers"

    def _place(self, identity: str, now: datetime) -> Place | None:
        if not self._gangs.enabled:
            return None
        self._gangs.now = max(self._gangs.now, now)
        return self._gangs.place(identity)


def _nothing(taken: bool) -> None:
    """Leave it to the fold: what was not taken is decided anew when there is reason to."""
