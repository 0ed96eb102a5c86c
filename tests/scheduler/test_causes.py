"""`caused_by` of a scheduler: of each decision that can be taken about a pod, the event on its stream that it rests
on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.scheduling.binding.pod_scheduling import Evictions, OwnPods, StreamController
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
from controlplane.runtime.facets import ANY
from tests.scheduling.bench import Bench, ready
from tests.scheduling.test_quorums import CONFIG as GANGS
from tests.scheduling.test_quorums import come, gang, run
from tests.support.rows import each

R = SchedulingReason
POD, VICTIM, GANG = "pod/team/web", "victim/team/web", "gang/team/web"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALL = PluginRequest(verb="patch", group="", version="v1", kind="Pod", plural="pods")


class Told:
    """A scheduler's books, told event by event."""

    def __init__(self) -> None:
        self.placements = OwnPods(["ours"], "test")
        conditions = PodGroupConditions("test", enabled=True)
        self.controllers: dict[str, StreamController[Any]] = {
            POD: self.placements,
            VICTIM: Evictions("test"),
            GANG: conditions,
        }
        self.protocol = Plain(self.placements)
        self.now, self.expected = NOW, 0
        self.rows: list[NewEvent] = []
        self._pod: dict[str, Any] = {}

    def put(self, stream: str, event: Event, cause: int = 0) -> Told:
        self.rows.append(NewEvent(stream=stream, event=event, caused_by=cause))
        version = sum(row.stream == stream for row in self.rows)
        recorded = Recorded(position=len(self.rows), stream=stream, version=version, event=event, recorded_at=self.now)
        self.controllers[stream].fold(recorded)
        return self

    def take(self, events: Any) -> Told:
        assert events
        for new in events:
            self.put(new.stream, new.event, new.caused_by)
        return self

    def settle(self) -> Told:
        for stream, controller in self.controllers.items():
            while events := controller.decide(stream, self.now).events:
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
        return self.take(self.protocol.not_found(POD, failed, self.now, preemptable=False).events)

    def drop(self, reason: SchedulingReason) -> Told:
        return self.take(self.protocol.drop(POD, reason, "", "").events)

    def permit(self, plugin: str) -> Told:
        return self.take(self.protocol.permit(POD, plugin, self.now).events)

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
    (
        PreBindDecided,
        R.BIND_AGAIN,
        lambda: Told().pod().reserve().prepare(CALL, until=60).refused(PRE_BIND, 500).cause(),
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


# Across streams: what the loop itself does about gangs and victims, in the order in which it does so.


def _at(bench: Bench, kind: type[Event], name: str = "") -> int:
    """Where the newest event of a kind is, of one object or of any."""
    found = [
        one for one in bench.log if isinstance(one.event, kind) and one.stream.endswith(f"/{name}" if name else "")
    ]
    return found[-1].position


def _until(bench: Bench, kind: type[Event]) -> Bench:
    """Cycles and commits, one by one, until an event of a kind is in the log."""
    for _ in range(100):
        if bench.recorded(kind):
            return bench
        if not bench.turn() and not bench.outbox:
            bench.decide()
        if bench.outbox:
            bench.commit(bench.outbox[0])
    raise AssertionError(f"no {kind.__name__}")


def _gang(cpu: str = "2", least: int = 2, size: int = 2) -> Bench:
    bench = ready("n", cpu=cpu, config=GANGS)
    gang(bench, "g", size, least)
    return bench


def _permitted() -> tuple[Bench, int]:
    bench = _until(_gang(), PermitGiven)
    return bench, _at(bench, NodeReserved)  # of the second, for both


def _permitted_beyond() -> tuple[Bench, int]:
    bench = _gang(cpu="3", size=3)
    while not bench.loop.outbox and len(bench.outbox) < 3:
        assert bench.turn()
    first, second, third = bench.outbox[:3]
    for proposal in (first, third, second):
        assert bench.commit(proposal)
    assert bench.outbox, "two are enough"
    return _until(bench, PermitGiven), [one.position for one in bench.log if isinstance(one.event, NodeReserved)][1]


def _judged_scheduled() -> tuple[Bench, int]:
    bench = _until(_gang(), GangJudged)
    return bench, _at(bench, PermitGiven)


def _judged_without_node() -> tuple[Bench, int]:
    bench = _until(_gang(cpu="1"), GangJudged)
    return bench, _at(bench, PendingPodObserved, "g1")  # it failed, and that is in no event before this one


def _judged_late() -> tuple[Bench, int]:
    bench = ready("n", cpu="3", config=GANGS)
    gang(bench, "g", 2, 3)
    come(bench, "g2", "g", schedulerName="other")
    run(bench)
    bench.pass_time(61)
    return _until(bench, GangJudged), bench.log[[type(one.event) for one in bench.log].index(NodeReserved)].position


def _judged_unbound() -> tuple[Bench, int]:
    bench = _until(_gang(), BindingDecided)
    run(bench)
    bench.decide()
    before = len(bench.recorded(GangJudged))
    write = next(one for one in bench.writes() if one.action == "BindingDecided")
    bench.carry_out(write, 404)
    bench.decide()
    expected = _at(bench, ReservationDropped, write.stream.rpartition("/")[2])
    for _ in range(20):
        if len(bench.recorded(GangJudged)) == before and bench.outbox:
            bench.commit(bench.outbox[0])
    return bench, expected


def _came_together() -> tuple[Bench, int]:
    bench = _until(_gang(), BindingDecided)
    run(bench)
    names = []
    while not bench.recorded(GangStart):
        write = next(one for one in bench.writes() if one.action == "BindingDecided")
        names.append(write.stream.rpartition("/")[2])
        bench.carry_out(write)
        while bench.outbox:
            bench.commit(bench.outbox[0])
    assert len(names) == 2
    return bench, _at(bench, PermitGiven, names[-1])


def _turned_back() -> tuple[Bench, int]:
    bench = _until(_gang(cpu="1"), GangStart)
    return bench, _at(bench, PendingPodObserved, "g1")


def _begins_anew() -> tuple[Bench, int]:
    bench, _ = _came_together()
    before = _at(bench, GangStart)
    for name in ("g0", "g1"):
        bench.delete("pods", name)
        run(bench)
    return bench, before  # pods on their nodes are in no log


def _victim() -> tuple[Bench, int]:
    bench = ready("n", cpu="1")
    bench.pod("low", schedulerName="other", nodeName="n")
    bench.pod("high", priority=5)
    return _until(bench, VictimChosen), _at(bench, PendingPodObserved, "high")


def _another_victim() -> tuple[Bench, int]:
    bench, _ = _victim()
    for name in ("low", "other"):
        run(bench)
        bench.pod("other", schedulerName="other", nodeName="n")
        bench.delete("pods", name)
    failed = len(bench.recorded(SchedulingFailed))
    bench.pod("low", schedulerName="other", nodeName="n")
    bench.pass_time(60)
    run(bench)
    assert len(bench.recorded(VictimChosen)) > 1
    assert len(bench.recorded(SchedulingFailed)) == failed, "why there is no node was said before"
    return bench, _at(bench, PendingPodObserved, "high")


ACROSS: list[tuple[type[Event], str, Callable[[], tuple[Bench, int]]]] = [
    (PermitGiven, R.PERMITTED, _permitted),
    (PermitGiven, R.PERMITTED, _permitted_beyond),
    (GangJudged, R.CONDITION_CHANGED, _judged_scheduled),
    (GangJudged, R.CONDITION_CHANGED, _judged_without_node),
    (GangJudged, R.CONDITION_CHANGED, _judged_late),
    (GangJudged, R.CONDITION_CHANGED, _judged_unbound),
    (GangStart, R.CAME_TOGETHER, _came_together),
    (GangStart, R.TURNED_BACK, _turned_back),
    (GangStart, R.BEGINS_ANEW, _begins_anew),
    (VictimChosen, R.LOWER_PRIORITY, _victim),
    (VictimChosen, R.LOWER_PRIORITY, _another_victim),
]


@each(("decision", "reason", "story"), ACROSS, ids=[row[2].__name__[1:] for row in ACROSS])
def test_it_rests_on_other_objects(decision: type[Event], reason: str, story: Callable[[], tuple[Bench, int]]) -> None:
    bench, expected = story()
    found = [one for one in bench.log if type(one.event) is decision and getattr(one.event, "reason", "") == reason]
    assert found, [type(one.event).__name__ for one in bench.log]
    listed = [(one.position, type(one.event).__name__, one.stream, one.caused_by) for one in bench.log]
    assert found[-1].caused_by == expected, listed
    for one in bench.log:
        if isinstance(one.event, SchedulingDecision):
            assert 0 < one.caused_by < one.position, listed
            assert may_cause(bench.log[one.caused_by - 1].stream, one.stream), listed


@each(("decision", "reason", "story"), TABLE, ids=[f"{row[0].__name__}-{row[1]}" for row in TABLE])
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
    told = {(decision, reason) for decision, reason, _ in (*TABLE, *ACROSS)}
    assert {(one, reason) for one, rows in CAUSES.items() for reason in rows if reason != ANY} <= told


def test_every_decision_has_a_row() -> None:
    assert {one for one in SCHEDULING_EVENTS if issubclass(one, SchedulingDecision)} == CAUSES.keys()
