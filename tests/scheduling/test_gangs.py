"""Gangs, end to end: PodGroups and their pods beside a simulated cluster, over HTTP, with the log in PostgreSQL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.kube.kinds import POD_GROUPS, PODS, Json
from controlplane.kube.pod_groups import GROUP_NAME
from tests.scheduling.stage import KINDS, PROFILE, Cluster, staged, until
from tests.scheduling.test_candidates import Source
from tests.scheduling.test_replicas import recorded


def config(folder: Path, **args: Any) -> str:
    """A configuration that enables Gang, as a user writes it."""
    plugins = {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}}
    profile: Json = {"schedulerName": PROFILE, "plugins": plugins}
    if args:
        profile["pluginConfig"] = [{"name": "Gang", "args": args}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump({**head, "podMaxBackoffSeconds": 1, "profiles": [profile]}))
    return str(path)


def group(cluster: Cluster, name: str, least: int, **spec: Any) -> None:
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": least, **spec}}
    cluster.store.create(POD_GROUPS, body)


def member(cluster: Cluster, of: str, number: int, **spec: Any) -> str:
    name = f"{of}-{number}"
    cluster.pod(name, annotations={GROUP_NAME: of}, **spec)
    return name


def gang(cluster: Cluster, name: str, size: int, least: int | None = None, **spec: Any) -> list[str]:
    group(cluster, name, least or size)
    return [member(cluster, name, number, **spec) for number in range(size)]


def placed(cluster: Cluster, names: list[str]) -> int:
    return sum(bool(cluster.on(name)) for name in names)


def condition(cluster: Cluster, name: str) -> Json:
    listed = cluster.store.get(POD_GROUPS, "default", name).get("status", {}).get("conditions") or []
    found = [one for one in listed if one["type"] in ("Unschedulable", "Scheduled")]
    assert len(found) <= 1
    return found[0] if found else {}


async def test_two_gangs_and_room_for_one_then_a_node_is_added(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url, config=config(tmp_path, maxBackoffSeconds=1)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="4")
        a, b = gang(cluster, "a", 3), gang(cluster, "b", 3)
        cluster.pod("single")
        await stage.replica()
        await until(lambda: placed(cluster, a) == 3 or placed(cluster, b) == 3)
        await until(lambda: cluster.on("single") == "n")  # nobody who waits pins the room that is left
        await asyncio.sleep(1.5)
        assert {placed(cluster, a), placed(cluster, b)} == {0, 3}
        loser = "b" if placed(cluster, a) else "a"
        winner = "a" if loser == "b" else "b"
        await until(lambda: condition(cluster, loser).get("type") == "Unschedulable")
        assert condition(cluster, loser)["message"].startswith("3/3 tasks in gang unschedulable: at least 3 are needed")
        await until(lambda: condition(cluster, winner).get("type") == "Scheduled")
        cluster.node("m", cpu="4")
        await until(lambda: placed(cluster, a) == placed(cluster, b) == 3)
        await until(lambda: condition(cluster, loser).get("type") == "Scheduled")
        assert cluster.overcommitted() == []


async def test_held_until_group_and_members_are_there(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url, config=config(tmp_path)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="8")
        await stage.replica()
        names = [member(cluster, "g", 0), member(cluster, "g", 1)]
        await until(lambda: cluster.condition(names[0]).get("message") == "PodGroup g is not there")
        assert cluster.condition(names[0])["reason"] == "SchedulingGated"
        group(cluster, "g", 3)
        await until(lambda: cluster.condition(names[1])["message"] == "fewer than 3 pods of PodGroup g are there")
        assert placed(cluster, names) == 0
        names.append(member(cluster, "g", 2))
        await until(lambda: placed(cluster, names) == 3)
        extra = member(cluster, "g", 3)
        await until(lambda: bool(cluster.on(extra)))
        cluster.store.delete(PODS, "default", names[0])
        again = member(cluster, "g", 4)
        await until(lambda: bool(cluster.on(again)))


async def test_a_member_that_never_comes(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url, config=config(tmp_path, scheduleTimeoutSeconds=1)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="2")
        await stage.replica()
        group(cluster, "g", 3)
        names = [member(cluster, "g", 0), member(cluster, "g", 1), member(cluster, "g", 2, scheduler="somebody-else")]
        cluster.pod("single", cpu="2")
        await until(lambda: recorded(database_url, "NodeReserved") >= 2)
        await until(lambda: cluster.on("single") == "n")
        assert placed(cluster, names) == 0
        await until(lambda: "in time" in condition(cluster, "g").get("message", ""))
        assert recorded(database_url, "BindingDecided") == 1


async def test_killed_between_reservation_and_quorum(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url, config=config(tmp_path, scheduleTimeoutSeconds=60)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="2")
        first = await stage.replica()
        second = await stage.replica(leads=False)
        group(cluster, "g", 3)
        names = [member(cluster, "g", number) for number in (0, 1)]
        names.append(member(cluster, "g", 2, scheduler="somebody-else"))
        await until(lambda: recorded(database_url, "NodeReserved") >= 2)
        await first.kill()
        await until(lambda: second.ready)
        cluster.pod("single")
        await until(lambda: cluster.condition("single").get("reason") == "Unschedulable")  # what was held is held
        assert placed(cluster, names) == 0
        cluster.node("m", cpu="2")
        await until(lambda: bool(cluster.on("single")))
        names.append(member(cluster, "g", 3))
        await until(lambda: placed(cluster, names) == 3)
        assert cluster.overcommitted() == []


async def test_one_failure_gives_all_room_back(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url, config=config(tmp_path)) as stage:
        cluster = stage.cluster
        for number in range(3):
            cluster.node(f"n{number}", cpu="1")
        await stage.replica()
        group(cluster, "g", 3)
        names = [member(cluster, "g", 0), member(cluster, "g", 1), member(cluster, "g", 2, cpu="2")]
        await until(lambda: condition(cluster, "g").get("type") == "Unschedulable")
        for number in range(3):
            cluster.pod(f"single-{number}")
        await until(lambda: placed(cluster, [f"single-{number}" for number in range(3)]) == 3)
        assert placed(cluster, names) == 0


async def test_min_resources_are_asked_of_all_nodes_together(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url, config=config(tmp_path)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="4")
        await stage.replica()
        group(cluster, "g", 2, minResources={"cpu": "5"})
        names = [member(cluster, "g", number) for number in range(2)]
        await until(lambda: "too little cpu for minResources" in condition(cluster, "g").get("message", ""))
        assert recorded(database_url, "NodeReserved") == 0
        cluster.node("m", cpu="1")
        await until(lambda: placed(cluster, names) == 2)


async def test_a_cluster_without_pod_groups(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.scheduling.stage.KINDS", tuple(kind for kind in KINDS if kind.kind != POD_GROUPS))
    async with staged(database_url, config=config(tmp_path)) as stage:
        cluster = stage.cluster
        cluster.node("n")
        await stage.replica()
        cluster.pod("single")
        name = member(cluster, "g", 0)
        await until(lambda: cluster.on("single") == "n")
        await until(lambda: cluster.condition(name).get("reason") == "SchedulingGated")
        assert cluster.on(name) == ""


async def test_candidates_of_a_gang_are_reported_together(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url, config=config(tmp_path, maxBackoffSeconds=1)) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n", cpu="2")
        source.invited()
        await stage.replica()
        group(cluster, "g", 3)
        names = [f"c{number}" for number in range(3)]
        for name in names:
            source.asks(name, group="g")
        await until(lambda: condition(cluster, "g").get("type") == "Unschedulable")
        cluster.pod("single", cpu="2")
        await until(lambda: cluster.on("single") == "n")  # what was kept in memory is given back
        assert recorded(database_url, "Reserved") == 0
        cluster.node("m", cpu="3")
        await until(lambda: [source.phase(name) for name in names] == ["Reserved"] * 3)
        assert placed(cluster, names) == 0
        for name in names[:2]:
            source.permits(name, reservation=source.status(name)["reservation"]["number"])
        await asyncio.sleep(0.7)
        assert placed(cluster, names) == 0  # two permits are no quorum
        source.permits(names[2], reservation=source.status(names[2])["reservation"]["number"])
        await until(lambda: placed(cluster, names) == 3)
        assert cluster.overcommitted() == []
