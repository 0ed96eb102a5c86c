"""A new pod is scheduled before what was seen of it is in the log, and all of it is committed together; whatever the
log takes of it, the node is taken once.
"""

from __future__ import annotations

import psycopg
import pytest

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.binding.pod_scheduling import OwnPods
from controlplane.kube.kinds import PODS
from controlplane.log.schema import libpq_url
from controlplane.runtime.controller import ObjectChange
from tests.scheduling.bench import PROFILE, START, Bench, ready
from tests.scheduling.stage import staged, until

TOGETHER = ["PendingPodObserved", "NodeReserved", "BindingDecided"]


def kinds(bench: Bench) -> list[str]:
    return [type(recorded.event).__name__ for recorded in bench.log]


def seen(how: str, cpu: str = "2") -> Bench:
    bench = ready("n", cpu=cpu)
    bench.how = how
    return bench


async def test_a_new_pod_costs_one_commit_until_its_binding_is_sent(database_url: str) -> None:
    async with staged(database_url) as stage:
        stage.cluster.node("n")
        await stage.replica()
        stage.cluster.pod("p")
        await until(lambda: stage.cluster.on("p") == "n")
        await until(lambda: len(recorded(database_url)) == 4)
        first, *others = recorded(database_url)
        assert [name for name, _ in (first, *others)] == [*TOGETHER, "PendingPodObserved"]
        assert {batch for _, batch in others[:2]} == {first[1]}


def recorded(url: str) -> list[tuple[str, object]]:
    """The events of the pod, each with the batch that it was committed with."""
    with psycopg.connect(libpq_url(url)) as connection:
        rows = connection.execute(
            "SELECT e.type, (SELECT b.batch FROM controlplane.batches b WHERE b.log = e.log AND b.last >= e.position"
            " ORDER BY b.last LIMIT 1) FROM controlplane.events e WHERE e.stream = 'pod/default/p' ORDER BY e.position"
        )
        return rows.fetchall()


def test_observation_reservation_and_binding_are_one_append() -> None:
    bench = seen("together")
    bench.pod("p")
    assert kinds(bench) == TOGETHER
    assert [recorded.caused_by for recorded in bench.log] == [0, 1, 1]
    assert not bench.outbox
    bench.settle(3)
    assert bench.on("p") == "n"
    assert bench.recorded(events.NodeReserved)[0].attempt == 1


def test_why_there_is_no_node_is_said_with_the_observation() -> None:
    bench = seen("together")
    bench.pod("p", cpu="4")
    assert kinds(bench) == ["PendingPodObserved", "SchedulingFailed"]
    bench.node("large", "4")
    bench.settle(3)
    assert bench.on("p") == "large"


def test_what_the_log_did_not_take_with_the_observation_is_proposed_again() -> None:
    bench = seen("alone")
    bench.pod("p")
    assert kinds(bench) == TOGETHER[:1]
    assert [type(new.event).__name__ for new in bench.outbox[0].append.events] == TOGETHER[1:]
    bench.settle(3)
    assert bench.bound == {bench.objects["pods", "p"]["metadata"]["uid"]: ["n"]}


def test_the_node_is_taken_while_the_log_has_nothing_of_it() -> None:
    bench = seen("later", cpu="1")
    bench.pod("first")
    bench.pod("second")
    bench.turn()
    assert kinds(bench) == []
    assert not bench.outbox
    bench.settle(3)
    assert (bench.on("first"), bench.on("second")) == ("n", "")


def test_a_pod_that_goes_before_the_log_has_it_leaves_its_node() -> None:
    bench = seen("later", cpu="1")
    bench.pod("p")
    assert bench.view.claims
    bench.delete("pods", "p")
    assert bench.view.claims == {}
    bench.settle(3)
    assert (bench.view.claims, bench.loop._holds, len(bench.loop.queue)) == ({}, {}, 0)


@pytest.mark.parametrize("sort", ["others wait", "of a group", "known by its name"])
def test_what_is_decided_once_it_is_folded(sort: str) -> None:
    bench = seen("apart")
    if sort == "known by its name":
        bench.pod("p")
        bench.delete("pods", "p")
    if sort == "others wait":
        bench.pod("earlier")
    before, bench.how = len(bench.log), "together"
    bench.pod("p", group="g" if sort == "of a group" else "")
    assert kinds(bench)[before:] == ["PendingPodObserved"]


def test_a_pod_does_not_overtake_one_that_was_seen_before_it() -> None:
    bench = seen("later", cpu="1")
    bench.pod("member", group="g")
    assert bench.placements.overtakes("another", bench.loop.ahead)
    bench.how = "together"
    bench.pod("single")
    assert bench.view.claims == {}
    bench.settle(0)


def test_what_was_taken_back_is_offered_again_until_it_is_folded() -> None:
    """What a watch shows is handed to the log again with what came after it, and listed again after a cut."""
    placements = OwnPods([PROFILE], "test")

    def show(version: str, node: str = "", *, listed: bool = False, gone: bool = False) -> bool:
        metadata = {"namespace": "default", "name": "p", "uid": "u", "resourceVersion": version}
        spec = {"schedulerName": PROFILE, "containers": []} | ({"nodeName": node} if node else {})
        obj = {"metadata": metadata, "spec": spec, "status": {}}
        change = ObjectChange("@management", "life", PODS, obj, version, gone, listed=listed)
        return placements.observe(change, START) is not None

    assert show("1")
    assert show("1")
    assert not show("2")  # nothing new, and the first is on its way
    assert show("2", listed=True)
    assert show("3", node="n")
    assert show("3", node="n")
    assert not show("4", node="n")
    assert show("5", gone=True)
    assert show("5", gone=True)
