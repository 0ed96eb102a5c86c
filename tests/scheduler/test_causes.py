"""`caused_by` of a scheduler: of each decision that can be taken about a pod, the event on its stream that it rests
on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.controllers.scheduling.binding.pod_scheduling import Book, Evictions, Placements
from controlplane.controllers.scheduling.binding.protocol import Plain
from controlplane.controllers.scheduling.causes import CAUSES, may_cause
from controlplane.controllers.scheduling.events import (
    SCHEDULING_EVENTS,
    BindingDecided,
    GangConditionDecided,
    GangJudged,
    GangObserved,
    GangStart,
    NodeReserved,
    PendingPodObserved,
    PermitGiven,
    PluginRequest,
    PodStatusDecided,
    PreBindDecided,
    PreBindSeen,
    ReservationDropped,
    SchedulingDecision,
    SchedulingFailed,
    SchedulingWriteFailed,
    VictimChosen,
    VictimMarkDecided,
    VictimRemovalDecided,
    VictimSeen,
)
from controlplane.controllers.scheduling.gangs.conditions import PodGroupConditions
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.state import BINDING, PRE_BIND
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.marks import ANY

R = SchedulingReason
POD, VICTIM, GANG = "pod/team/web", "victim/team/web", "gang/team/web"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALL = PluginRequest(verb="patch", group="", version="v1", kind="Pod", plural="pods")


class Told:
    """A scheduler's books, told event by event."""

    def __init__(self) -> None:
        self.placements = Placements(["ours"], "test")
        verdicts = PodGroupConditions("test", enabled=True)
        self.books: dict[str, Book[Any]] = {POD: self.placements, VICTIM: Evictions("test"), GANG: verdicts}
        self.errands = Plain(self.placements)
        self.now, self.expected = NOW, 0
        self.rows: list[NewEvent] = []
        self._pod: dict[str, Any] = {}

    def put(self, stream: str, event: Event, cause: int = 0) -> Told:
        self.rows.append(NewEvent(stream=stream, event=event, caused_by=cause))
        version = sum(row.stream == stream for row in self.rows)
        recorded = Recorded(position=len(self.rows), stream=stream, version=version, event=event, recorded_at=self.now)
        self.books[stream].fold(recorded)
        return self

    def take(self, events: Any) -> Told:
        assert events
        for new in events:
            self.put(new.stream, new.event, new.caused_by)
        return self

    def settle(self) -> Told:
        for stream, book in self.books.items():
            while events := book.decide(stream, self.now).events:
                self.take(events)
        return self

    def cause(self, of: type[Event] = Event) -> Told:
        found = [number for number, row in enumerate(self.rows, 1) if isinstance(row.event, of)]
        self.expected = found[-1]
        return self

    def tick(self, seconds: float) -> Told:
        self.now += timedelta(seconds=seconds)
        return self

    def pod(self, **more: Any) -> Told:
        self._pod |= more
        version = str(len(self.rows) + 1)
        return self.put(
            POD, PendingPodObserved(**{"uid": "u", "scheduler": "ours", "resource_version": version, **self._pod})
        )

    def noise(self) -> Told:
        """See the pod again, in another version."""
        return self.pod() if self._pod or any(row.stream == POD for row in self.rows) else self

    def reserve(self, **waits: float) -> Told:
        until = {plugin: NOW + timedelta(seconds=seconds) for plugin, seconds in waits.items()}
        state = self.placements.states[POD]
        event = NodeReserved(number=state.reservations + 1, node="n", uid="u", waits=until, reason=R.NODE_FOUND)
        return self.take(self.placements.said(POD, event))

    def fail(self, message: str = "no room") -> Told:
        failed = SchedulingFailed(reason=R.UNSCHEDULABLE, message=message)
        return self.take(self.errands.not_found(POD, failed, self.now, preemptable=False).events)

    def drop(self, reason: SchedulingReason) -> Told:
        return self.take(self.errands.drop(POD, reason, "", "").events)

    def permit(self, plugin: str) -> Told:
        return self.take(self.errands.permit(POD, plugin, self.now).events)

    def prepare(self, *calls: PluginRequest, until: float = 0) -> Told:
        end = NOW + timedelta(seconds=until) if until else None
        decided = PreBindDecided(number=1, calls=list(calls), until=end, reason=R.PRE_BIND)
        return self.take(self.placements.said(POD, decided))

    def bind(self) -> Told:
        event = BindingDecided(number=1, node="n", uid="u", reason=R.BIND)
        return self.take(self.placements.said(POD, event))

    def refused(self, target: str, code: int, stream: str = POD) -> Told:
        failed = SchedulingWriteFailed(
            target=target, action="", code=code, error="No", message="no", failures=1, retry_at=self.now
        )
        return self.put(stream, failed)

    def chosen(self) -> Told:
        victim = VictimChosen(
            uid="u", node="n", preemptor="p", preemptor_uid="p", scheduler="ours", reason=R.LOWER_PRIORITY
        )
        return self.put(VICTIM, victim)

    def gang(self) -> Told:
        return self.put(GANG, GangObserved(uid="g", resource_version="1"))

    def judged(self) -> Told:
        said = GangJudged(condition="Unschedulable", said="NotEnough", message="no", reason=R.CONDITION_CHANGED)
        return self.put(GANG, said)


TABLE: list[tuple[type[Event], str, Callable[[], Told]]] = [
    (NodeReserved, R.NODE_FOUND, lambda: Told().pod().cause().noise().reserve()),
    (NodeReserved, R.NODE_FOUND, lambda: Told().pod(gates=["g"]).pod(gates=[]).cause().noise().reserve()),
    (
        NodeReserved,
        R.NODE_FOUND,
        lambda: Told().pod().reserve().drop(R.NODE_GONE).cause().fail().noise().reserve(),
    ),
    (PermitGiven, R.PERMITTED, lambda: Told().pod().reserve(Gang=60).cause().noise().permit("Gang")),
    (ReservationDropped, R.POD_GONE, lambda: Told().pod().reserve().pod(deleting=True).cause()),
    (ReservationDropped, R.PERMIT_TIMEOUT, lambda: Told().pod().reserve(Gang=60).cause().tick(61)),
    (
        ReservationDropped,
        R.PRE_BIND_FAILED,
        lambda: Told().pod().reserve().prepare(CALL).refused(PRE_BIND, 403).cause(),
    ),
    (ReservationDropped, R.PRE_BIND_TIMEOUT, lambda: Told().pod().reserve().prepare(CALL, until=60).cause().tick(61)),
    (ReservationDropped, R.BIND_FAILED, lambda: Told().pod().reserve().bind().refused(BINDING, 404).cause()),
    (ReservationDropped, R.NODE_GONE, lambda: Told().pod().reserve().cause().noise().drop(R.NODE_GONE)),
    (SchedulingFailed, R.UNSCHEDULABLE, lambda: Told().pod().cause().noise().fail()),
    (SchedulingFailed, R.UNSCHEDULABLE, lambda: Told().pod().reserve(Gang=60).cause().tick(61)),
    (SchedulingFailed, R.SCHEDULER_ERROR, lambda: Told().pod(problem="spec: no").cause()),
    (SchedulingFailed, R.SCHEDULER_ERROR, lambda: Told().pod().reserve().bind().refused(BINDING, 404).cause()),
    (PreBindDecided, R.PRE_BIND, lambda: Told().pod().reserve(Gang=60).permit("Gang").cause().noise().prepare(CALL)),
    (BindingDecided, R.BIND, lambda: Told().pod().reserve().cause().noise().bind()),
    (
        BindingDecided,
        R.BIND,
        lambda: Told().pod().reserve().prepare(CALL).put(POD, PreBindSeen(number=1, index=0)).cause(),
    ),
    (BindingDecided, R.BIND_AGAIN, lambda: Told().pod().reserve().bind().refused(BINDING, 500).cause()),
    (PodStatusDecided, R.CONDITION_CHANGED, lambda: Told().pod().fail().cause()),
    (PodStatusDecided, R.CONDITION_CHANGED, lambda: Told().pod().pod(gates=["g"]).cause()),
    (VictimMarkDecided, R.LOWER_PRIORITY, lambda: Told().chosen().cause()),
    (
        VictimRemovalDecided,
        R.LOWER_PRIORITY,
        lambda: Told().chosen().settle().put(VICTIM, VictimSeen(uid="u", resource_version="2", marked=True)).cause(),
    ),
    (GangConditionDecided, R.CONDITION_CHANGED, lambda: Told().gang().judged().cause().gang()),
    (GangConditionDecided, R.CONDITION_CHANGED, lambda: Told().judged().gang().cause()),
]


@pytest.mark.parametrize(("decision", "reason", "story"), TABLE, ids=[f"{row[0].__name__}-{row[1]}" for row in TABLE])
def test_it_rests_on(decision: type[Event], reason: str, story: Callable[[], Told]) -> None:
    told = story().noise().settle()
    found = [
        row.caused_by
        for row in told.rows[told.expected :]
        if type(row.event) is decision and getattr(row.event, "reason", "") == reason and row.caused_by
    ]
    assert found, [type(row.event).__name__ for row in told.rows]
    assert found[0] == told.expected, [(type(row.event).__name__, row.caused_by) for row in told.rows]
    for number, row in enumerate(told.rows, 1):
        if row.caused_by:
            assert row.caused_by < number
            assert may_cause(told.rows[row.caused_by - 1].stream, row.stream)


def test_every_row_of_the_table_is_told() -> None:
    told = {(decision, reason) for decision, reason, _ in TABLE}
    assert {(one, reason) for one, rows in CAUSES.items() for reason in rows if reason != ANY} <= told


def test_every_decision_has_a_row() -> None:
    # Who goes rests on what is said of the pod that needs the room; how a group stands, on its own stream's newest event.
    elsewhere = {VictimChosen, GangJudged, GangStart}
    assert {one for one in SCHEDULING_EVENTS if issubclass(one, SchedulingDecision)} - elsewhere == CAUSES.keys()
