"""The simulated kubelet: what becomes of a bound pod."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.kube.kinds import NODES, PODS, Json
from controlplane.simulation.apiserver.pod_subresources import bind
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.jobs import DURATION, OUTCOME
from controlplane.simulation.controllers.kubelet import Kubelet, PodTimes
from controlplane.simulation.kinds.nodes import NODE_KINDS


class Clock:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


class Cluster:
    def __init__(self, times: PodTimes | None = None) -> None:
        self.clock, draw = Clock(), random.Random(1)
        self.store = Store("kit", kinds=NODE_KINDS, now=self.clock.now, new_uid=lambda: f"{draw.getrandbits(64):016x}")
        view = View(self.store, [PODS, NODES])
        self.kubelet = Kubelet("kubelet", view, self.clock, times)
        view.start()
        self.store.create(NODES, {"metadata": {"name": "n"}})

    def pod(self, name: str = "a", *, annotations: Json | None = None, **spec: Any) -> None:
        metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
        containers = [{"name": "main", "image": "app"}]
        self.store.create(PODS, {"metadata": metadata, "spec": {"containers": containers, **spec}})

    def bind(self, name: str = "a", node: str = "n") -> None:
        bind(self.store, "default", name, {"target": {"name": node}}, manager="test", dry_run=False)
        self.kubelet.drain()

    def after(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.kubelet.drain()

    def phase(self, name: str = "a") -> str:
        return str(self.store.get(PODS, "default", name)["status"]["phase"])

    def names(self) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.store.list(PODS)[0]]


def test_a_pod_without_a_node_waits() -> None:
    cluster = Cluster()
    cluster.pod()
    cluster.after(1000)
    assert cluster.phase() == "Pending"


def test_a_bound_pod_starts_and_runs() -> None:
    cluster = Cluster(PodTimes(startup=timedelta(seconds=2)))
    cluster.pod()
    cluster.bind()
    cluster.after(1)
    assert cluster.phase() == "Pending"
    cluster.after(1)
    status = cluster.store.get(PODS, "default", "a")["status"]
    assert status["phase"] == "Running"
    assert {c["type"] for c in status["conditions"] if c["status"] == "True"} >= {"Ready", "PodScheduled"}
    cluster.after(10_000)
    assert cluster.phase() == "Running"


def test_a_pod_that_is_to_end_ends() -> None:
    cluster = Cluster()
    cluster.pod("good", restartPolicy="Never", annotations={DURATION: "5s"})
    cluster.pod("bad", restartPolicy="Never", annotations={DURATION: "5s", OUTCOME: "fail"})
    for name in ("good", "bad"):
        cluster.bind(name)
    cluster.after(0)
    cluster.after(5)
    assert (cluster.phase("good"), cluster.phase("bad")) == ("Succeeded", "Failed")
    terminated = cluster.store.get(PODS, "default", "bad")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["exitCode"] == 1


def test_a_deleted_pod_stops_and_goes() -> None:
    cluster = Cluster(PodTimes(stopping=timedelta(seconds=3)))
    cluster.pod()
    cluster.bind()
    cluster.after(0)
    cluster.store.delete(PODS, "default", "a")
    cluster.after(0)
    cluster.after(2)
    assert cluster.names() == ["a"]
    cluster.after(1)
    assert cluster.names() == []


def test_a_pod_whose_node_is_gone_is_collected() -> None:
    cluster = Cluster()
    cluster.pod()
    cluster.bind()
    cluster.after(0)
    cluster.store.delete(NODES, "", "n")
    cluster.after(0)
    cluster.after(39)
    assert cluster.names() == ["a"]
    cluster.after(1)
    assert cluster.names() == []
