"""Whatever comes, changes, ends, is lost or begun anew: no node gets more pods than it has places for, and the log says
all of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from controlplane.controllers.quota.topology.parse import topology_assignment
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from tests.quota.admission.placed import RACK, node, pod, submit, with_topology
from tests.quota.admission.scene import NS
from tests.support.deep import deep_after

_RACKS = ("r1", "r2", "r3")


class Play:
    """One seed: a cluster with racks, and what happens on it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scene = with_topology(*((f"n{at}", _RACKS[at % 3], self.rng.choice("234")) for at in range(6)), cpu="30")
        self.submitted = self.pods = self.nodes = 0

    def step(self) -> None:
        act = self.rng.choice((self._submit, self._submit, self._finish, self._evict, self._pod, self._end, self._node))
        act()
        scene, chance = self.scene, self.rng.random()
        scene.trouble(chance)
        if chance > 0.8:
            scene.decide()
            scene.controller = scene.replayed()
        scene.pass_time(self.rng.choice((1, 5, 12)))

    def _submit(self) -> None:
        self.submitted += 1
        asks: dict[str, Any] = self.rng.choice(({"required": RACK}, {"preferred": RACK}, {"unconstrained": True}))
        submit(self.scene, f"w{self.submitted}", self.rng.randint(1, 5), self.rng.choice("12"), **asks)

    def _running(self) -> list[str]:
        names = [name for kind, _, name in self.scene.objects if kind == kinds.WORKLOADS]
        return [name for name in names if self.scene.is_true(name, "Admitted")]

    def _finish(self) -> None:
        if running := [name for name in self._running() if not self.scene.is_true(name, "Finished")]:
            self.scene.finish(self.rng.choice(running))

    def _evict(self) -> None:
        if running := [name for name in self._running() if not self.scene.is_true(name, "Finished")]:
            name = self.rng.choice(running)
            self.scene.set_condition(name, "Evicted", "True", "Preempted")
            self.scene.settle()
            self.scene.release(name)

    def _pod(self) -> None:
        """A pod that no topology has placed is bound where there is room, as the scheduler does."""
        name = f"n{self.rng.randrange(6)}"
        if self.left(name) >= 1000:
            self.pods += 1
            pod(self.scene, f"p{self.pods}", on=name)

    def _end(self) -> None:
        if found := [place for place in self.scene.objects if place[0] == kinds.PODS_OF_TOPOLOGIES]:
            self.scene.drop(self.rng.choice(found))

    def _node(self) -> None:
        self.nodes += 1
        node(self.scene, f"more{self.nodes}", self.rng.choice(_RACKS), "2", ready=self.rng.random() < 0.7)

    def left(self, name: str) -> int:
        """How many thousandths of a CPU a node has left, by what the cluster's objects say."""
        found = int(self.scene.objects[kinds.NODES, "", name]["status"]["allocatable"]["cpu"]) * 1000
        for (kind, _, _), obj in self.scene.objects.items():
            if kind == kinds.PODS_OF_TOPOLOGIES and obj["spec"]["nodeName"] == name:
                found -= 1000
            if kind == kinds.WORKLOADS:
                found -= _taken(obj, name)
        return found


def _taken(workload: Json, name: str) -> int:
    status = workload.get("status", {})
    conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
    if conditions.get("QuotaReserved") != "True" or conditions.get("Finished") == "True":
        return 0
    (given,) = status["admission"]["podSetAssignments"]
    assignment = topology_assignment(given["topologyAssignment"], "")
    assert assignment is not None
    assert assignment.pods == given["count"], "each pod has a place"
    (pod_set,) = workload["spec"]["podSets"]
    each = int(pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]) * 1000
    return each * sum(count for values, count in assignment if values[-1] == name)


@pytest.mark.parametrize("seed", deep_after(4, range(150)))
def test_no_node_gets_more_pods_than_it_has_places_for(seed: int) -> None:
    play = Play(seed)
    for _ in range(25):
        play.step()
        names = [name for kind, _, name in play.scene.objects if kind == kinds.NODES]
        assert all(play.left(name) >= 0 for name in names)
    scene = play.scene
    scene.pass_time(60)
    other = scene.replayed()
    for one in (scene.controller, other):
        one.index.engine.wake_released()  # whoever decides does so first
    assert other.index.engine.kept() == scene.controller.index.engine.kept()
    has = {f"admission/workload/{key}": info for key, info in scene.controller.index.engine.snapshot.workloads.items()}
    for stream, posted in scene.posted().items():
        assert sum(posted.values()) == (sum(has[stream].usage.values()) if stream in has else 0), stream
    assert scene.controller.index.workload(f"{NS}/w1").placement is None
