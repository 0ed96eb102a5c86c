"""Plain pods, end to end: a scheduler beside a simulated cluster, over HTTP, with its log in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections import Counter

from controlplane.kube.kinds import NODES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES
from tests.scheduling.stage import ZONE, staged, until

SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


async def test_pods_that_name_the_profile_are_bound_and_others_left_alone(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        for name in ("a", "b"):
            cluster.node(name)
        cluster.pod("early")
        await stage.replica()
        cluster.pod("late")
        cluster.pod("foreign", scheduler="default-scheduler")
        await until(lambda: cluster.on("early") and cluster.on("late"))
        assert cluster.on("foreign") == ""
        assert cluster.condition("early")["status"] == "True"
        await until(lambda: cluster.told("early"))
        assert cluster.told("early") == [("Scheduled", f"Successfully assigned default/early to {cluster.on('early')}")]
        await until(lambda: cluster.get("early")["status"]["phase"] == "Running")


async def test_two_requests_bind_a_pod(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        for number in range(5):
            cluster.node(f"n{number}", cpu="16")
        await stage.replica()
        for number in range(40):
            cluster.pod(f"p{number}")
        await until(lambda: all(obj["spec"].get("nodeName") for obj in cluster.pods().values()))
        await until(lambda: stage.requests().get(("create", "events.events.k8s.io", ""), 0) >= 40)
        writes = {key: count for key, count in stage.requests().items() if key[0] not in ("list", "get")}
        for verb in ("create", "patch"):  # as the time passes, however many pods there are
            writes.pop((verb, "leases.coordination.k8s.io", ""), None)
        assert writes == {("create", "pods", "binding"): 40, ("create", "events.events.k8s.io", ""): 40}
        assert cluster.overcommitted() == []


async def test_spread_holds(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        for number in range(6):
            cluster.node(f"n{number}", cpu="32", labels={ZONE: f"z{number % 3}"})
        await stage.replica()
        for number in range(30):
            cluster.pod(f"p{number}", labels={"app": "web"}, topologySpreadConstraints=[SPREAD])
        await until(lambda: all(obj["spec"].get("nodeName") for obj in cluster.pods().values()))
        zones = Counter(f"z{int(obj['spec']['nodeName'][1:]) % 3}" for obj in cluster.pods().values())
        assert set(zones.values()) == {10}


async def test_why_there_is_no_node_is_said_once_and_a_new_node_helps(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("small", cpu="1")
        cluster.pod("big", cpu="4")
        await stage.replica()
        await until(lambda: cluster.condition("big").get("reason") == "Unschedulable")
        message = (
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        assert cluster.condition("big")["message"] == message
        await until(lambda: cluster.told("big"))
        assert cluster.told("big") == [("FailedScheduling", message)]
        await asyncio.sleep(0.3)
        assert stage.requests()["patch", "pods", "status"] == 1
        cluster.node("large", cpu="8")
        await until(lambda: cluster.on("big") == "large")
        assert cluster.condition("big") == {
            key: value for key, value in cluster.condition("big").items() if key not in ("reason", "message")
        }


async def test_a_pod_that_leaves_makes_room(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="1")
        await stage.replica()
        cluster.pod("first")
        await until(lambda: cluster.on("first"))
        cluster.pod("second")
        await until(lambda: cluster.condition("second").get("reason") == "Unschedulable")
        cluster.store.delete(PODS, "default", "first")
        await until(lambda: cluster.on("second"))


async def test_gates_hold_a_pod_back(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n")
        await stage.replica()
        cluster.pod("gated", schedulingGates=[{"name": "example.com/hold"}])
        cluster.pod("free")
        await until(lambda: cluster.on("free"))
        assert cluster.on("gated") == ""
        assert cluster.condition("gated")["reason"] == "SchedulingGated"
        cluster.store.patch(PODS, "default", "gated", {"spec": {"schedulingGates": None}})
        await until(lambda: cluster.on("gated"))


async def test_the_important_pod_takes_the_place_of_the_other(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="1")
        cluster.store.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await stage.replica()
        cluster.pod("low")
        await until(lambda: cluster.get("low")["status"]["phase"] == "Running")
        seen: list[dict] = []
        cluster.view.listen(lambda kind, old, new: seen.append(new or {}) if kind == PODS else None)
        high = cluster.pod("high", priorityClassName="high")
        await until(lambda: cluster.on("high") == "n")
        assert "low" not in cluster.pods()
        assert ("Preempted", f"Preempted by pod {high['metadata']['uid']} on node n") in cluster.told("low")
        marked = [
            condition
            for obj in seen
            if obj.get("metadata", {}).get("name") == "low"
            for condition in obj["status"].get("conditions", [])
            if condition["type"] == "DisruptionTarget"
        ]
        assert marked[0]["reason"] == "PreemptionByScheduler"
        assert any(
            obj.get("status", {}).get("nominatedNodeName") == "n"
            for obj in seen
            if obj.get("metadata", {}).get("name") == "high"
        )


async def test_a_pod_that_cannot_be_read_says_so_and_the_others_go_on(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n")
        await stage.replica()
        cluster.pod("broken", nodeSelector={"disk": 7})
        cluster.pod("fine")
        await until(lambda: cluster.on("fine"))
        await until(lambda: cluster.condition("broken").get("reason") == "SchedulerError")
        assert "spec.nodeSelector[disk]" in cluster.condition("broken")["message"]


async def test_a_cordoned_node_takes_nothing_until_it_is_free_again(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n", unschedulable=True)
        await stage.replica()
        cluster.pod("a")
        await until(lambda: "were unschedulable" in cluster.condition("a").get("message", ""))
        cluster.store.patch(NODES, "", "n", {"spec": {"unschedulable": None}})
        await until(lambda: cluster.on("a") == "n")


async def test_nothing_is_scheduled_while_budgets_cannot_be_read(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n")
        cluster.server.faults.storm(403, verbs=("list",), resources=(POD_DISRUPTION_BUDGETS.name,))
        replica = await stage.replica(leads=False)
        cluster.pod("p")
        await until(lambda: POD_DISRUPTION_BUDGETS.name in replica.health.checks["cluster"].detail)
        await asyncio.sleep(0.3)
        assert cluster.on("p") == ""
