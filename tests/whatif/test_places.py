"""Places: what fits, who is next, what the log knows of their capacity; and a simulation that would not end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.controllers.quota.events import (
    FlavorQuotas,
    QuotaQueueObserved,
    ResourceGroup,
    ResourceQuota,
    WorkerQuotaGone,
    WorkerQuotaObserved,
)
from controlplane.log.event import Event, Recorded
from controlplane.whatif import simulated_log
from controlplane.whatif.capacity import Capacities, Room
from controlplane.whatif.history import History
from controlplane.whatif.queue import AddedCluster, AtLast, PlaceQueue, PlaceQueues, QueuedWorkload, at_once
from controlplane.whatif.simulated_log import SimulationStuck
from tests.dst.plans import plan, step
from tests.whatif.past import past

AT = datetime(2026, 1, 1, tzinfo=UTC)
FEW = plan(*(step(5 + n, "submit", f"job-{n}", 20, 1 + n % 3) for n in range(9)))
"""Nine Jobs of one to three CPUs, one a second: more than the fleet has room for."""

FULL = plan(*(step(5 + n, "submit", f"job-{n}", 40, 1) for n in range(20)))
"""Twenty Jobs of a CPU each for a fleet that has twelve."""


def test_room_is_bounded_by_what_the_capacity_names() -> None:
    room = Room({"cpu": 2.0})
    assert room.fits({"cpu": 2.0, "memory": 1e12})
    room.take({"cpu": 1.5})
    assert room.fits({"cpu": 0.5})
    assert not room.fits({"cpu": 0.6})
    room.take({"cpu": 1.5}, -1)
    assert room.fits({"cpu": 2.0})


class Line:
    """A queue with what was let in, by name."""

    def __init__(self, cpus: float, at_last: AtLast = at_once) -> None:
        self.queue, self.admitted = PlaceQueue({"cpu": cpus}, at_last), list[str]()
        self.gone: set[str] = set()
        self._number = 0

    def enter(self, name: str, cpus: float, *, priority: int = 0, second: int = 0) -> None:
        self._number += 1
        self.queue.enter(
            QueuedWorkload(
                -priority,
                AT + timedelta(seconds=second),
                self._number,
                {"cpu": cpus},
                lambda: self.admitted.append(name),
                lambda: name in self.gone,
            )
        )


def test_the_most_urgent_is_next_and_of_these_the_oldest() -> None:
    line = Line(1.0)
    line.enter("first", 1.0)
    line.enter("young", 1.0, second=9)
    line.enter("old", 1.0, second=1)
    line.enter("urgent", 1.0, priority=5, second=10)
    for _ in range(3):
        line.queue.leave({"cpu": 1.0})
    assert line.admitted == ["first", "urgent", "old", "young"]


def test_what_does_not_fit_lets_others_pass_and_what_is_gone_takes_no_place() -> None:
    line = Line(2.0)
    line.enter("first", 1.0)
    line.enter("large", 2.0, second=1)
    line.enter("small", 1.0, second=2)
    assert line.admitted == ["first", "small"]
    line.enter("left", 1.0, second=0)
    line.gone.add("left")
    line.queue.leave({"cpu": 1.0})
    line.queue.leave({"cpu": 1.0})
    assert line.admitted == ["first", "small", "large"]


def test_the_quota_of_the_management_cluster_grows_with_a_cluster() -> None:
    known = {"w1": {"cpu": 4.0}, "@management/q": {"cpu": 4.0}}
    places = PlaceQueues(
        known, {"w1": {"cpu": 2.0}}, {"w2": AddedCluster(name="w2", capacity={"cpu": 3.0, "memory": 9.0})}
    )
    assert places.capacity("@management/q") == {"cpu": 7.0}
    assert places.clusters() == {"w1": {"cpu": 2.0}, "w2": {"cpu": 3.0, "memory": 9.0}}


def test_what_is_not_told_of_a_place_is_as_it_is_known() -> None:
    known = {"w1": {"cpu": 4.0, "memory": 8.0}}
    assert PlaceQueues(known, {"w1": {"cpu": 2.0}}, {}).capacity("w1") == {"cpu": 2.0, "memory": 8.0}


def test_nobody_is_let_in_while_a_queue_is_stopped_and_who_was_evicted_comes_last() -> None:
    line = Line(1.0)
    line.enter("first", 1.0)
    line.queue.stop()
    line.queue.leave({"cpu": 1.0})
    line.queue.when_open(lambda: line.enter("first", 1.0))
    line.enter("second", 1.0, second=1)
    assert line.admitted == ["first"]
    line.queue.stop(stopped=False)
    assert line.admitted == ["first", "second"]
    line.queue.leave({"cpu": 1.0})
    assert line.admitted == ["first", "second", "first"]


def test_room_is_looked_for_once_all_of_a_moment_has_happened() -> None:
    """Of two that leave together one gave too little room for the older of those that wait."""
    acts: list[Callable[[], None]] = []
    line = Line(2.0, acts.append)
    line.enter("one", 1.0)
    line.enter("two", 1.0)
    acts.pop()()
    line.enter("large", 2.0, second=1)
    line.enter("small", 1.0, second=2)
    line.queue.leave({"cpu": 1.0})
    line.queue.leave({"cpu": 1.0})
    while acts:
        acts.pop()()
    assert line.admitted == ["one", "two", "large"]


def observed(*events: tuple[str, Event]) -> History:
    found = History(past(FEW).events.requests)
    for one in past(FEW).events:
        found.take(one)
    for number, (cluster, event) in enumerate(events, 10_000):
        found.take(Recorded(position=number, stream="quota/x", version=1, event=event, cluster=cluster, recorded_at=AT))
    return found


def quota(name: str, *cpus: str) -> WorkerQuotaObserved:
    return WorkerQuotaObserved(name=name, uid=name, resource_version="1", quotas={"cpu": list(cpus)})


def test_a_quota_that_was_recorded_is_the_capacity_if_it_is_more_than_was_used() -> None:
    group = ResourceGroup(flavors=[FlavorQuotas(name="f", resources=[ResourceQuota(name="cpu", nominal="40")])])
    history = observed(
        ("w1", quota("a", "8", "500m")),
        ("w1", quota("b", "1")),
        ("w2", quota("a", "1")),
        ("w3", quota("a", "90")),
        ("w3", WorkerQuotaGone(name="a", uid="a")),
        ("@management", QuotaQueueObserved(name="cluster-queue", uid="q", resource_version="1", groups=[group])),
    )
    found = Capacities(history).of
    assert {name: one["cpu"] for name, one in found.items()} == {
        "w1": 9.5,
        "w2": 3.0,
        "w3": 3.0,
        "@management/cluster-queue": 40.0,
    }


def test_what_is_not_known_of_a_workload_is_as_usual() -> None:
    assert past(FEW).history.request("workload/default/unheard-of") == {"cpu": 2.0, "workloads": 1.0}


def test_what_would_go_on_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_log, "_AT_ONCE", 2)
    log = past(FEW)
    with pytest.raises(SimulationStuck, match=r"goes on for ever at 2026-01-01 00:00:\d\d UTC, last with "):
        log.play()


@pytest.mark.parametrize(
    ("capacity", "grown"),
    [
        ({"workloads": 6.0}, {"cpu": 8.0 + 12.0, "memory": 64.0 + 24.0}),
        ({"cpu": 6.0}, {"cpu": 8.0 + 6.0, "memory": 64.0 + 12.0}),
        ({"cpu": 6.0, "workloads": 1.0}, {"cpu": 8.0 + 6.0, "memory": 64.0 + 4.0}),
        ({"example.com/other": 6.0}, {"cpu": 8.0, "memory": 64.0}),
    ],
)
def test_a_cluster_queue_grows_by_what_fits_on_a_cluster_of_which_not_all_is_said(
    capacity: dict[str, float], grown: dict[str, float]
) -> None:
    """A cluster for some Workloads added nothing to the quota of a log that knows CPUs."""
    added = {"w4": AddedCluster(name="w4", capacity=capacity)}
    known = {"@management/q": {"cpu": 8.0, "memory": 64.0}, "w1": {"cpu": 8.0}}
    mean = {"workloads": 1.0, "cpu": 2.0, "memory": 4.0}
    places = PlaceQueues(known, {}, added, mean=mean)
    assert places.capacity("@management/q") == grown
    assert (places.capacity("w1"), places.capacity("w4")) == ({"cpu": 8.0}, capacity)
    told = PlaceQueues(known, {"@management/q": {"cpu": 9.0}}, added, mean=mean)
    assert told.capacity("@management/q") == {**grown, "cpu": 9.0}


def test_with_a_cluster_for_some_workloads_they_wait_less() -> None:
    recorded = past(FULL)
    assert {"cpu"} <= recorded.capacities.of["@management/cluster-queue"].keys()
    played = recorded.play().figures
    found = recorded.play(added=(AddedCluster(name="w4", capacity={"workloads": 40.0}),)).figures
    assert played.queues["cluster-queue"].wait_p95 > 10
    assert found.queues["cluster-queue"].wait_p95 < 0.1
