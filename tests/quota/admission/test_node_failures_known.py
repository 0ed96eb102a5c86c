"""What is known of failed nodes: what was never seen or cannot be read, what comes in a batch, and what another process
goes on with."""

from __future__ import annotations

import pytest

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.kube import kinds
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import WriteRefusal
from controlplane.runtime.folded import give, taken
from tests.quota.admission.placed import have_topology, node, places, submit
from tests.quota.admission.scene import NS, Scene
from tests.quota.admission.test_node_failures import (
    NO_SCHEDULE,
    PODS,
    admitted,
    failed,
    fleet,
    named,
    replaced,
    running,
    waiting,
)
from tests.support import folded

# --- what was never seen, or cannot be read ---


def test_a_node_that_was_never_seen_has_not_failed() -> None:
    scene = fleet()
    admitted(scene, "n9")
    waiting(scene, on="n9")
    scene.settle()
    assert named(scene) == failed(scene) == []


@pytest.mark.parametrize("kind", [kinds.NODES, PODS])
def test_while_nodes_or_pods_are_not_in_view_nothing_is_decided(kind: kinds.Kind) -> None:
    scene = fleet()
    admitted(scene, "n1")
    waiting(scene)
    scene.settle()
    lost = connectivity.KindOff(kind=kind.name, reason="Forbidden", message="no")
    scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=lost, cluster=MANAGEMENT))
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == failed(scene) == []
    synced = connectivity.KindSynced(kind=kind.name, count=1, resource_version="1")
    scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=synced, cluster=MANAGEMENT))
    scene.settle()
    assert named(scene) == ["n1"]
    assert failed(scene) == ["p"]


def test_a_node_that_cannot_be_read_has_neither_failed_nor_recovered() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    node(scene, "n1", cpu="many", ready=False)
    scene.settle()
    assert named(scene) == []
    node(scene, "n1", ready=False)
    scene.settle()
    node(scene, "n1", cpu="many")
    scene.settle()
    assert named(scene) == ["n1"]
    node(scene, "n1")
    scene.settle()
    assert named(scene) == []


def test_a_node_that_can_be_read_again_is_known_again_though_it_says_what_it_said() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    node(scene, "n1", cpu="many")
    assert scene.controller.index.nodes.unfit == {"n1"}
    scene.controller = scene.replayed()
    node(scene, "n1", cpu="1")
    assert scene.controller.index.nodes.unfit == set()
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == ["n1"]


class Batched(Scene):
    """Observations are appended in batches, as the recorder does: an object changes again before the first change is
    folded."""

    batch: list[NewEvent] | None = None

    def record(self, new: NewEvent) -> None:
        if self.batch is None:
            super().record(new)
        else:
            self.batch.append(new)

    def append(self) -> None:
        batch, self.batch = self.batch or [], None
        for new in batch:
            self.record(new)


def test_a_node_that_flaps_within_a_batch_is_known_as_it_is_in_the_end() -> None:
    for last in (True, False):
        scene = Batched()
        have_topology(scene, ("n1", "r1", "1"))
        node(scene, "n1", ready=last, cpu="1")
        scene.batch = []
        node(scene, "n1", ready=not last, cpu="1")
        node(scene, "n1", ready=last, cpu="1")
        scene.append()
        assert scene.controller.index.nodes.nodes["n1"].ready is last
        assert scene.replayed().index.nodes.nodes["n1"].ready is last
        before = len(scene.log)
        node(scene, "n1", ready=last, cpu="1")
        assert len(scene.log) == before, "it says nothing new"


@pytest.mark.parametrize("placed", [True, False])
def test_a_pod_that_comes_and_goes_within_a_batch_is_gone(*, placed: bool) -> None:
    scene = Batched()
    have_topology(scene, ("n1", "r1", "1"))
    scene.batch = []
    running(scene, "p", placed=placed)
    scene.drop((PODS, NS, "p"))
    scene.append()
    assert scene.controller.index.nodes.pods == {}
    assert scene.controller.failures.pods.states == {}
    assert len(scene.said(of_topology.AdmissionPlacedPodGone)) == int(placed)
    assert len(scene.said(of_topology.AdmissionPodGone)) == int(not placed)


# --- crashes ---


def test_another_process_goes_on_where_the_first_one_died() -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    waiting(scene)
    node(scene, "n1", ready=False)
    while scene.decide() or scene.carry_out():
        scene.controller = scene.replayed()
        scene.controller.index.all_dirty()
        scene.controller.index.enqueue(scene.controller.failures.pods.states)
    scene.pass_time(1)
    assert places(scene, "w") == {"n2": 1, "n3": 1}
    assert failed(scene) == ["p"]
    assert len(scene.said(of_topology.PodFailureDecided)) == len(scene.said(of_topology.TopologyAssignmentDecided)) == 1


class Mortal(Scene):
    """A process that is killed after an event of the log, by its number; another one goes on from the log."""

    dies_after = 0

    def record(self, new: NewEvent) -> None:
        super().record(new)
        if len(self.log) == self.dies_after:
            self.controller = self.replayed()
            self.controller.index.all_dirty()
            self.controller.index.enqueue(self.controller.failures.pods.states)


def story(dies_after: int) -> Mortal:
    """A node fails on which one pod runs and one waits; then another one goes, and nothing is left but the first, which
    recovers."""
    scene = Mortal()
    scene.dies_after = dies_after
    have_topology(scene, *((name, "r1", "1") for name in ("n1", "n2", "n3")))
    admitted(scene, "n1", "n2")
    running(scene, "a", "n2")
    waiting(scene, "b", "n1")
    scene.settle()
    node(scene, "n1", taints=[NO_SCHEDULE])
    replaced(scene)
    waiting(scene, "c", "n3")
    node(scene, "n1")
    scene.settle()
    scene.delete(kinds.NODES, "n3")
    replaced(scene)
    return scene


def test_wherever_in_the_log_a_process_dies_the_end_is_the_same_and_nothing_is_done_twice() -> None:
    alive = story(0)
    assert places(alive, "w") == {"n1": 1, "n2": 1}
    assert failed(alive) == ["b"]
    once = [type(one.event).__name__ for one in alive.log]
    for position in range(1, len(alive.log)):
        dead = story(position)
        assert [type(one.event).__name__ for one in dead.log] == once, position
        assert dead.status("w") == alive.status("w")
        assert failed(dead) == failed(alive)
        assert dead.written == alive.written


def test_what_is_known_of_failures_can_be_kept_and_given() -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    waiting(scene)
    running(scene, "other", "n2", placed=False)
    node(scene, "n1", ready=False)
    scene.delete(kinds.NODES, "n3")
    scene.decide()
    other = Scene().controller
    give(other, taken(scene.controller))
    assert taken(other).keys() == taken(scene.controller).keys()
    scene.controller = other
    scene.settle()
    assert named(scene) == ["n1"]
    assert failed(scene) == ["p"]


def test_a_write_that_is_refused_is_made_again() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    scene.refuses = lambda request: WriteRefusal(500, "InternalError", "no")
    node(scene, "n1", ready=False)
    scene.decide()
    scene.carry_out()
    assert named(scene) == []
    scene.refuses = lambda request: None
    scene.pass_time(2)
    assert places(scene, "w") in ({"n1": 1}, {"n2": 1})
    scene.pass_time(2)
    assert places(scene, "w") == {"n2": 1}


def test_submitted_workloads_are_replaced_like_any() -> None:
    scene = fleet("n1", "n2", cpu="4")
    submit(scene, "w", count=2, cpu="2")
    scene.settle()
    (on,) = places(scene, "w")
    node(scene, on, ready=False)
    replaced(scene)
    assert on not in places(scene, "w")


# --- what is kept of what is gone ---


def test_nothing_is_kept_of_the_pods_of_a_workload_that_went_first() -> None:
    scene = fleet()
    admitted(scene, "n1")
    running(scene)
    scene.settle()
    scene.drop((kinds.WORKLOADS, NS, "w"))
    scene.drop((PODS, NS, "p"))
    scene.settle()
    assert scene.controller.failures._pods_at == {}


def test_of_nodes_that_are_gone_those_are_kept_that_workloads_are_placed_on() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    scene.drop((kinds.NODES, "", "n1"))
    for number in range(3000):
        node(scene, f"spot-{number}")
        scene.drop((kinds.NODES, "", f"spot-{number}"))
    scene.settle()
    assert named(scene) == ["n1"]
    found = scene.controller.failures
    assert "n1" in found._gone & found._node_at.keys()
    assert len(found._gone) < 2000
    assert len(found._node_at) < 2000
    assert folded.difference(found, scene.replayed().failures) == {}
