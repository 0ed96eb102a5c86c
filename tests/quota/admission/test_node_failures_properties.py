"""Whatever nodes and pods do, and whichever writes and processes are lost on the way: what Workloads say of their nodes
is so, no pod fails that could run, and another process comes to the same."""

from __future__ import annotations

import random

import pytest

from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.requests import timestamp
from controlplane.runtime.folded import taken
from tests.quota.admission.placed import HOST, RACK, node, places, submit, with_topology
from tests.quota.admission.scene import NS, Scene
from tests.quota.admission.test_node_failures import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PODS,
    named,
    running,
    waiting,
)
from tests.support.deep import deep_after

_NODES = tuple(f"n{at}" for at in range(8))


class Play:
    """One seed: nodes that come, go, fail and recover, and the pods of a few Workloads on them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scene = with_topology(*((name, "r1", "2") for name in _NODES), cpu="30")
        self.submitted = self.pods = 0
        self.lost_at: dict[str, str] = {}

    def step(self) -> None:
        act = self.rng.choice((self._submit, self._node, self._node, self._pod, self._pod, self._bind, self._leave))
        act()
        scene, chance = self.scene, self.rng.random()
        scene.trouble(chance)
        if chance > 0.7:
            scene.decide()
            scene.controller = scene.replayed()
            scene.controller.index.all_dirty()
            scene.controller.index.enqueue(scene.controller.failures.pods.states)
        before = set(scene.ended)
        scene.pass_time(self.rng.choice((0, 0.5, 1, 20)))
        for name in scene.ended.keys() - before:
            self._could_not_run(scene.ended[name])

    def quiet(self) -> None:
        """Let what was refused be tried again, and all that is due come."""
        self.scene.refuses, self.scene.loses = (lambda request: None), (lambda request: False)
        for _ in range(12):
            self.scene.controller.index.all_dirty()
            self.scene.pass_time(31)

    # --- what happens ---

    def _submit(self) -> None:
        if self.submitted < 4:
            self.submitted += 1
            submit(self.scene, f"w{self.submitted}", self.rng.randint(1, 4), preferred=RACK)

    def _node(self) -> None:
        name = self.rng.choice(_NODES)
        if self.rng.random() < 0.2 and (kinds.NODES, "", name) in self.scene.objects:
            self.scene.drop((kinds.NODES, "", name))
            return
        taints = self.rng.choice(([], [], [], [NO_EXECUTE], [NO_SCHEDULE]))
        node(self.scene, name, cpu="2", ready=self.rng.random() < 0.7, taints=taints)

    def placed(self) -> list[str]:
        names = [name for kind, _, name in self.scene.objects if kind == kinds.WORKLOADS]
        return [name for name in names if self.scene.is_true(name, "Admitted") and not self.evicted(name)]

    def evicted(self, name: str) -> bool:
        return self.scene.is_true(name, "Evicted")

    def _pod(self) -> None:
        """A pod of a Workload is let run where that is placed, or, once in a while, where it is no more."""
        if found := self.placed():
            self.pods += 1
            workload = self.rng.choice(found)
            on = self.rng.choice(
                [*places(self.scene, workload), *places(self.scene, workload), self.rng.choice(_NODES)]
            )
            waiting(self.scene, f"p{self.pods}", on, workload)

    def _bind(self) -> None:
        if found := [obj for (kind, _, _), obj in self.scene.objects.items() if kind == PODS and unbound(obj)]:
            pod = self.rng.choice(found)["metadata"]
            on = self.scene.objects[PODS, NS, pod["name"]]["spec"]["nodeSelector"][HOST]
            if self.takes(on):
                running(self.scene, pod["name"], on, pod["annotations"]["kueue.x-k8s.io/workload"])

    def _leave(self) -> None:
        found = [place for place in self.scene.objects if place[0] == PODS]
        if not found:
            return
        place = self.rng.choice(found)
        if self.rng.random() < 0.5:
            self.scene.drop(place)
        else:
            going = {"deletionTimestamp": timestamp(self.scene.now), "finalizers": ["x"]}
            self.scene.put(PODS, place[2], NS, metadata=going)

    # --- what must hold ---

    def takes(self, name: str) -> bool:
        found = self.scene.objects.get((kinds.NODES, "", name))
        return bool(found) and found["status"]["conditions"][0]["status"] == "True" and not found["spec"].get("taints")

    def has_failed(self, name: str, workload: str) -> bool:
        if (kinds.NODES, "", name) not in self.scene.objects:
            return True
        return not self.takes(name) and not any(
            kind == PODS
            and obj["spec"].get("nodeName") == name
            and not obj["metadata"].get("deletionTimestamp")
            and obj["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == workload
            for (kind, _, _), obj in self.scene.objects.items()
        )

    def _could_not_run(self, pod: Json) -> None:
        """A pod that was let fail waited for a node that took it not, or on which its Workload was placed no more."""
        assert not pod["spec"].get("nodeName")
        on, workload = pod["spec"]["nodeSelector"][HOST], pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"]
        given = places(self.scene, workload) if self.scene.status(workload).get("admission") else {}
        assert on not in given or not self.takes(on), pod["metadata"]["name"]

    def check(self) -> None:
        for workload in self.placed():
            on, told = places(self.scene, workload), named(self.scene, workload)
            assert len(told) <= 1
            assert {name for name in told if name in on} == {name for name in on if self.has_failed(name, workload)}
        for (kind, _, _), obj in self.scene.objects.items():
            if kind == PODS and unbound(obj):
                workload = obj["metadata"]["annotations"]["kueue.x-k8s.io/workload"]
                on = obj["spec"]["nodeSelector"][HOST]
                if workload in self.placed() and (kinds.NODES, "", on) in self.scene.objects:
                    assert on in places(self.scene, workload)
                    assert self.takes(on)


def unbound(pod: Json) -> bool:
    return pod["status"]["phase"] == "Pending" and not pod["spec"].get("nodeName")


@pytest.mark.parametrize("seed", deep_after(3, range(200)))
def test_what_workloads_say_of_their_nodes_is_so_in_the_end(seed: int) -> None:
    play = Play(seed)
    for _ in range(40):
        play.step()
    play.quiet()
    play.check()
    once = [one.stream + one.event.target for one in play.scene.log if _fails(one.event)]
    assert len(once) >= len(play.scene.ended)
    other, scene = play.scene.replayed(), play.scene
    assert _of_failures(other) == _of_failures(scene.controller)


def _fails(event: object) -> bool:
    return isinstance(event, of_topology.PodFailureDecided)


def _of_failures(controller: object) -> dict[str, object]:
    return {path: one for path, one in taken(controller).items() if path.startswith("failures.")}


def test_the_play_has_nodes_that_fail_and_workloads_that_go_on() -> None:
    """The property is about something: over some seeds Workloads are placed anew, evicted, and pods fail."""
    seen: set[str] = set()
    for seed in range(6):
        play = Play(seed)
        for _ in range(40):
            play.step()
        scene: Scene = play.scene
        seen |= {type(one.event).__name__ for one in scene.log}
        seen |= {getattr(one.event, "evicted", "") for one in scene.log}
    assert {"TopologyAssignmentDecided", "PodFailureDecided", "NodeFailures"} <= seen
