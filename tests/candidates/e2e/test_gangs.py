"""Gangs of candidates over HTTP: one source process, a real scheduler beside each target; a gang runs whole in one
target or nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.controllers.candidates.objects import CANDIDATES, FINALIZER, SOURCE_LABEL, SOURCE_UID
from controlplane.kube.kinds import EVENTS, POD_GROUPS, PODS
from controlplane.kube.pod_groups import GROUP_NAME
from tests.candidates.e2e.schedulers import Scheduled
from tests.candidates.e2e.stage import HOME, NS, Stage
from tests.support.deep import deep_after

Make = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def scheduled(
    database_url: str, tmp_path: Path, stage: Make
) -> AsyncIterator[Callable[..., Awaitable[Scheduled]]]:
    """Make the stage: `await scheduled("a", "b")`."""
    made: list[Scheduled] = []

    async def make(*targets: str) -> Scheduled:
        made.append(Scheduled(database_url, tmp_path, *targets))
        await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop()


def gang(it: Stage, name: str, size: int, **spec: Any) -> list[str]:
    names = [f"{name}-{number}" for number in range(size)]
    for member in names:
        it.submit(member, annotations={GROUP_NAME: name}, **spec)
    return names


@pytest.mark.parametrize("everywhere", deep_after(1, [False, True], ids=["group in the source", "group everywhere"]))
async def test_a_gang_of_three_runs_where_three_fit(
    scheduled: Callable[..., Awaitable[Scheduled]], everywhere: bool
) -> None:
    it = await scheduled("a", "b")
    it.node("a", "small", "2")
    it.node("b", "one", "1")
    it.node("b", "two", "2")
    it.group("g", 3, everywhere=everywhere)
    names = gang(it, "g", 3)
    await it.until(lambda: [it.on(name) for name in names] == [["b"]] * 3, "all in b")
    assert {permit["cluster"] for permit in it.said("PermitGranted")} == {"b"}
    await it.until(lambda: len(it.said("GangFormed")) == 1, "the source sees the quorum")
    await it.until(lambda: all((it.pod(name) or {})["status"]["phase"] == "Running" for name in names), "they run")


@pytest.mark.deep
async def test_two_gangs_for_two_targets_that_fit_one_each(scheduled: Callable[..., Awaitable[Scheduled]]) -> None:
    it = await scheduled("a", "b")
    for target in ("a", "b"):
        it.node(target, "n", "4")
    for name in ("g", "h"):
        it.group(name, 3)
    g, h = gang(it, "g", 3), gang(it, "h", 3)
    await it.until(lambda: all(len(it.on(name)) == 1 for name in (*g, *h)), "both whole")
    places = {tuple(it.on(name)[0] for name in names) for names in (g, h)}
    assert places == {("a",) * 3, ("b",) * 3}


async def test_a_gang_that_fits_nowhere_says_so_and_goes_where_a_node_is_added(
    scheduled: Callable[..., Awaitable[Scheduled]],
) -> None:
    it = await scheduled("a", "b")
    for target in ("a", "b"):
        it.node(target, "n", "2")
    it.group("g", 3)
    names = gang(it, "g", 3)
    said = "0/2 clusters have room for all of PodGroup g"
    await it.until(lambda: all(it.condition(n).get("message", "").startswith(said) for n in names), "each says why")
    assert not it.said("PermitGranted")
    asked = await asyncio.to_thread(
        CliRunner().invoke, cli, ["why", f"pod/{NS}/g-0", "--database-url", it.url], catch_exceptions=False
    )
    assert "It starts with PodGroup g, in one cluster: gang waits: 0/2 clusters" in " ".join(asked.output.split())
    it.node("b", "more", "1")
    await it.until(lambda: [it.on(name) for name in names] == [["b"]] * 3, "all in b")


@pytest.mark.parametrize("room", deep_after(1, [2, 3]))
async def test_room_is_made_for_all_of_a_gang_in_one_target(
    scheduled: Callable[..., Awaitable[Scheduled]], room: int
) -> None:
    """Both targets are full of pods of low priority; `room`: for how many of three there would be room without them."""
    it = await scheduled("a", "b")
    for target in ("a", "b"):
        it.node(target, "n", str(room))
        it.important(target)
        for number in range(room):
            it.fill(target, f"low-{number}")
    await it.until(lambda: it.low("a") == it.low("b") == room, "both full")
    it.group("g", 3)
    names = gang(it, "g", 3, priorityClassName="high")
    said = "0/2 clusters have room for all of PodGroup g"
    if room < 3:
        await it.until(lambda: it.condition(names[0]).get("message", "").startswith(said), "it says why")
        await it.quiet(1.5)
        assert room in (it.low("a"), it.low("b"))  # one target tried
        assert [it.on(name) for name in names] == [[]] * 3
        return
    await it.until(lambda: all(len(it.on(name)) == 1 for name in names), "all of it in one")
    where = {it.on(name)[0] for name in names}
    assert len(where) == 1
    assert it.low(where.pop()) == 0
    assert sorted((it.low("a"), it.low("b"))) == [0, room]
    assert len({permit["cluster"] for permit in it.said("PermitGranted")}) == 1


async def test_without_the_group_its_pods_wait_and_say_so(stage: Make) -> None:
    it = await stage("east")
    names = gang(it, "g", 2)
    await it.until(lambda: "PodGroup g" in it.condition(names[0]).get("message", ""), "it says so")
    assert it.condition(names[0])["reason"] == "SchedulingGated"
    assert not it.targets["east"].candidates


@pytest.mark.deep
async def test_two_gangs_interleaved_by_schedulers_that_know_no_gangs(stage: Make) -> None:
    """Room for four in each of two targets, taken in turns: each gang may hold two in both, and needs three."""
    it = await stage("east", "west", gang_wait=timedelta(seconds=1.5))
    for target in it.targets.values():
        target.room = 4
    for name in ("g", "h"):
        it.store.create(POD_GROUPS, {"metadata": {"name": name, "namespace": NS}, "spec": {"minMember": 3}})
    for number in (0, 1, 2):
        for name in ("g", "h"):
            it.submit(f"{name}-{number}", annotations={GROUP_NAME: name})
    everybody = [f"{name}-{number}" for name in ("g", "h") for number in range(3)]
    await it.until(lambda: all(len(it.bound_in(name)) == 1 for name in everybody), "both whole")
    places = [{it.bound_in(f"{name}-{number}")[0] for number in range(3)} for name in ("g", "h")]
    assert sorted(map(len, places)) == [1, 1]
    assert places[0] != places[1]


async def test_a_process_that_dies_between_the_permits_and_the_bindings(stage: Make) -> None:
    it = await stage("east", "west")
    it.store.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": NS}, "spec": {"minMember": 3}})
    for target in it.targets.values():
        target.holds = True
    names = gang(it, "g", 3)
    await it.until(lambda: len(it.said("PermitGranted")) >= 3, "permitted")
    await it.kill()
    for target in it.targets.values():
        target.holds = False
    await it.up()
    await it.until(lambda: all(len(it.bound_in(name)) == 1 for name in names), "bound")
    assert len({it.bound_in(name)[0] for name in names}) == 1


@pytest.mark.deep
async def test_the_pods_of_a_gang_fail_over_together(stage: Make) -> None:
    it = await stage("east", "west")
    it.targets["west"].room = 0
    it.store.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": NS}, "spec": {"minMember": 2}})
    names = gang(it, "g", 2)
    await it.until(lambda: [it.bound_in(name) for name in names] == [["east"]] * 2, "in east")
    it.targets["west"].room = 9
    await asyncio.sleep(0.3)
    it.cut("east")
    await it.until(lambda: ["west" in it.bound_in(name) for name in names] == [True, True], "in west")
    it.heal("east")
    await it.until(lambda: [it.bound_in(name) for name in names] == [["west"]] * 2, "nothing is left in east")
    assert [said["cluster"] for said in it.said("GangPermitted")] == ["east", "west"]
    events = [record.obj for record in it.store.records(EVENTS)]
    assert "Scheduled" in {event["reason"] for event in events}


def of_another(it: Stage, target: str, name: str, least: int) -> None:
    """Have another cluster, which was given our name, offer a pod of a PodGroup that is called as ours is."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"annotations": {GROUP_NAME: "g"}}, "spec": {"containers": [container]}}
    source = {"cluster": HOME, "namespace": NS, "name": name, "uid": f"uid-{name}", "epoch": 1}
    head = {"name": name, "namespace": NS, "labels": {SOURCE_LABEL: HOME}, "annotations": {SOURCE_UID: "another"}}
    spec = {"source": source, "template": template, "minMember": least}
    it.world.clusters[target].store.create(CANDIDATES, {"metadata": {**head, "finalizers": [FINALIZER]}, "spec": spec})


async def test_pods_of_another_cluster_with_our_name_complete_no_gang_of_ours(
    scheduled: Callable[..., Awaitable[Scheduled]],
) -> None:
    it = await scheduled("a")
    it.node("a", "n", "2500m")
    it.group("g", 3)
    names = gang(it, "g", 3)
    theirs = ["their-0", "their-1"]
    for name in theirs:
        of_another(it, "a", name, 3)
    store = it.world.clusters["a"].store

    def why(name: str) -> str:
        found = {one.name: one.obj for one in store.records(PODS)}.get(name, {})
        listed = (found.get("status") or {}).get("conditions") or []
        return next((str(one.get("reason")) for one in listed if one["type"] == "PodScheduled"), "")

    await it.until(lambda: {why(name) for name in theirs} == {"SchedulingGated"}, "they are too few")
    await it.until(lambda: len(it.said("CandidateUnschedulable")) >= 3, "ours find no room for all")
    assert it.said("Reserved") == []
    it.node("a", "more", "1")
    await it.until(lambda: [it.on(name) for name in names] == [["a"]] * 3, "all of ours run")
    assert {why(name) for name in theirs} == {"SchedulingGated"}
