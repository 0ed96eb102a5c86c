"""A whole world: it comes up served and set up, it is remembered, and several clusters work together."""

from __future__ import annotations

import asyncio
import base64
import random
import stat
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
import yaml

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
    Json,
    meta,
)
from controlplane.simulation.apiserver.persistence import load, snapshot
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.jobs import JobPace
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.kueue.common import Gates
from controlplane.simulation.world import ClusterSpec, World
from tests.simulation.kueue_cluster import ManualClock, clone, job, says
from tests.support.waiting import PATIENCE

QUICK = JobPace(duration=timedelta(milliseconds=20))


def make_world(path: Path, *, workers: int = 2, remembered: bool = True, seed: int = 1) -> World:
    specs = {
        f"worker-{number}": ClusterSpec(quota={"cpu": "4", "memory": "16Gi"}, pace=QUICK)
        for number in range(1, workers + 1)
    }
    return World(
        ClusterSpec(gates=Gates(multikueue=True)),
        specs,
        folder=path / "kubeconfigs",
        data=path / "data" if remembered else None,
        rng=random.Random(seed),
    )


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = make_world(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


def activate(world: World) -> None:
    ready = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    world.management.store.patch(
        ADMISSION_CHECKS, "", "multikueue", {"status": {"conditions": [ready]}}, subresource="status"
    )


async def test_the_world_is_set_up_and_served(world: World, tmp_path: Path) -> None:
    management = world.management.store
    assert management.get(MULTIKUEUE_CONFIGS, "", "multikueue")["spec"] == {"clusters": ["worker-1", "worker-2"]}
    check = management.get(ADMISSION_CHECKS, "", "multikueue")["spec"]
    assert check["controllerName"] == "kueue.x-k8s.io/multikueue"
    assert check["parameters"] == {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "multikueue"}
    source = management.get(MULTIKUEUE_CLUSTERS, "", "worker-1")["spec"]["clusterSource"]
    assert source == {"kubeConfig": {"location": "worker-1-kubeconfig", "locationType": "Secret"}}
    secret = management.get(SECRETS, "kueue-system", "worker-1-kubeconfig")
    inner = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    assert inner["clusters"][0]["cluster"]["server"] == world.workers["worker-1"].server.url
    await until(
        lambda: says(management.get(CLUSTER_QUEUES, "", "cluster-queue"), "Active")[1] == "AdmissionCheckInactive"
    )
    await until(
        lambda: says(world.workers["worker-2"].store.get(LOCAL_QUEUES, "default", "user-queue"), "Active")[1] == "Ready"
    )

    for name in ("management", "worker-1", "worker-2"):
        file = tmp_path / "kubeconfigs" / f"{name}.kubeconfig"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        server = yaml.safe_load(file.read_text())["clusters"][0]["cluster"]["server"]
        async with aiohttp.ClientSession() as session, session.get(f"{server}/api/v1/namespaces") as answer:
            assert answer.status == 200
            assert "default" in [item["metadata"]["name"] for item in (await answer.json())["items"]]


async def test_a_job_goes_all_the_way_with_a_dispatcher_played_by_hand(world: World) -> None:
    activate(world)
    management, worker = world.management.store, world.workers["worker-1"].store
    management.create(JOBS, job("a"))

    def workload() -> Json:
        return management.list(WORKLOADS)[0][0]

    await until(lambda: bool(management.list(WORKLOADS)[0]) and is_true(workload(), "QuotaReserved"))
    name = str(meta(workload())["name"])
    copied = {"metadata": {"namespace": "default", "name": name}, "spec": workload()["spec"]}
    worker.create(WORKLOADS, copied)
    await until(lambda: is_true(worker.get(WORKLOADS, "default", name), "Admitted"))
    worker.create(JOBS, job("a", prebuilt=name))

    def patch(status: Json) -> None:
        management.patch(WORKLOADS, "default", name, {"status": status}, subresource="status")

    patch({"nominatedClusterNames": ["worker-1"]})
    ready = [{**workload()["status"]["admissionChecks"][0], "state": "Ready"}]
    patch({"clusterName": "worker-1", "nominatedClusterNames": None, "admissionChecks": ready})
    await until(lambda: is_true(workload(), "Admitted") and not management.get(JOBS, "default", "a")["spec"]["suspend"])
    await until(lambda: is_true(worker.get(WORKLOADS, "default", name), "Finished"))
    status = worker.get(JOBS, "default", "a")["status"]
    management.patch(JOBS, "default", "a", {"status": status}, subresource="status")
    await until(lambda: is_true(workload(), "Finished"))
    assert says(workload(), "Finished")[1] == "Succeeded"


async def test_a_second_start_goes_on(tmp_path: Path) -> None:
    first = make_world(tmp_path)
    await first.start()
    worker = first.workers["worker-1"]
    worker.store.create(WORKLOADS, clone("wl"))
    await until(lambda: is_true(worker.store.get(WORKLOADS, "default", "wl"), "Admitted"))
    kubeconfig = (tmp_path / "kubeconfigs" / "worker-1.kubeconfig").read_text()
    uids = {meta(obj)["uid"] for obj in worker.store.list(NAMESPACES)[0]}
    await first.stop()
    before, version = worker.store.get(WORKLOADS, "default", "wl"), worker.store.version

    second = make_world(tmp_path)
    await second.start()
    try:
        again = second.workers["worker-1"].store
        assert again.get(WORKLOADS, "default", "wl") == before
        assert again.version >= version
        assert {meta(obj)["uid"] for obj in again.list(NAMESPACES)[0]} == uids
        assert (tmp_path / "kubeconfigs" / "worker-1.kubeconfig").read_text() == kubeconfig
        made = again.create(WORKLOADS, clone("big", cpu="4"))
        assert meta(made)["uid"] not in uids | {meta(before)["uid"]}
        await until(lambda: bool(again.get(WORKLOADS, "default", "big").get("status")))
        assert not is_true(again.get(WORKLOADS, "default", "big"), "QuotaReserved"), (
            "the quota of the first one still counts"
        )
    finally:
        await second.stop()


async def test_a_running_job_survives_a_restart(tmp_path: Path) -> None:
    first = make_world(tmp_path)
    notes = {"simulation.controlplane/duration": "1s"}
    await first.start()
    first.workers["worker-1"].store.create(JOBS, job("a", annotations=notes, queue=""))
    await until(lambda: bool(first.workers["worker-1"].store.get(JOBS, "default", "a")["status"].get("active")))
    await first.stop()
    second = make_world(tmp_path)
    await second.start()
    try:
        store = second.workers["worker-1"].store
        await until(lambda: is_true(store.get(JOBS, "default", "a"), "Complete"))
    finally:
        await second.stop()


async def test_a_remembered_port_that_is_taken_is_replaced_and_a_wanted_one_is_not(tmp_path: Path) -> None:
    first = make_world(tmp_path, workers=1)
    await first.start()
    await first.stop()
    port = first.workers["worker-1"].port
    squatter = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", port)
    async with squatter:
        second = make_world(tmp_path, workers=1)
        await second.start()
        assert second.workers["worker-1"].port != port
        secret = second.management.store.get(SECRETS, "kueue-system", "worker-1-kubeconfig")
        assert second.workers["worker-1"].server.url in base64.b64decode(secret["data"]["kubeconfig"]).decode()
        await second.stop()
        third = World(ClusterSpec(), {"worker-1": ClusterSpec(port=port)})
        with pytest.raises(OSError, match="in use"):
            await third.start()


async def test_what_people_have_changed_is_not_undone_by_a_second_start(tmp_path: Path) -> None:
    first = make_world(tmp_path, workers=1)
    first.assemble()
    first.management.store.patch(MULTIKUEUE_CONFIGS, "", "multikueue", {"spec": {"clusters": ["other"]}})
    await first.save()
    second = make_world(tmp_path, workers=1)
    second.assemble()
    assert second.management.store.get(MULTIKUEUE_CONFIGS, "", "multikueue")["spec"] == {"clusters": ["other"]}


def test_a_worker_may_lack_a_kind() -> None:
    kinds = tuple(served for served in DEFAULT_KINDS if served.kind != JOBSETS)
    world = World(ClusterSpec(), {"old": ClusterSpec(kinds=kinds)}, clock=ManualClock())
    world.assemble()
    store = world.workers["old"].store
    store.create(WORKLOADS, clone("wl"))
    store.create(JOBS, job("a", prebuilt="wl"))
    world.settle()
    assert is_true(store.get(WORKLOADS, "default", "wl"), "Admitted")
    assert store.get(JOBS, "default", "a")["status"]["active"] == 1


async def test_saving_is_skipped_when_nothing_has_changed(tmp_path: Path) -> None:
    world = make_world(tmp_path, workers=1)
    world.assemble()
    world.settle()
    await world.save()
    file = tmp_path / "data" / "worker-1.jsonl"
    stamp = file.stat().st_mtime_ns
    await world.save()
    assert file.stat().st_mtime_ns == stamp
    world.workers["worker-1"].store.create(WORKLOADS, clone("wl"))
    await world.save()
    assert file.stat().st_mtime_ns != stamp


def test_without_servers_the_world_is_a_function_of_its_inputs(tmp_path: Path) -> None:
    def run() -> bytes:
        clock = ManualClock()
        spec = ClusterSpec(quota={"cpu": "2", "memory": "16Gi"}, pace=JobPace(duration=timedelta(seconds=5)))
        world = World(ClusterSpec(gates=Gates(multikueue=True)), {"w": spec}, clock=clock, rng=random.Random(7))
        world.assemble()
        for number in range(5):
            world.workers["w"].store.create(WORKLOADS, clone(f"wl-{number}"))
            world.workers["w"].store.create(JOBS, job(f"job-{number}", prebuilt=f"wl-{number}"))
            world.management.store.create(JOBS, job(f"local-{number}"))
        for _ in range(20):
            world.settle()
            clock.move(1)
        finished = [is_true(obj, "Finished") for obj in world.workers["w"].store.list(WORKLOADS)[0]]
        assert finished == [True] * 5
        return b"\n".join(line for cluster in world.clusters.values() for line in snapshot(cluster.store).lines)

    assert run() == run()


def test_a_snapshot_holds_everything_and_only_snapshots_are_read(tmp_path: Path) -> None:
    def empty() -> Store:
        clock = ManualClock()
        numbers = iter(range(1000))
        return Store("s", kinds=DEFAULT_KINDS, now=clock.now, new_uid=lambda: f"u{next(numbers)}")

    store = empty()
    store.create(JOBS, job("a"))
    store.patch(JOBS, "default", "a", {"status": {"active": 1}}, subresource="status", field_manager="x")
    snapshot(store).write(tmp_path / "s.jsonl")
    restored = empty()
    restored.create(JOBS, job("b"))
    assert load(restored, tmp_path / "s.jsonl")
    assert restored.version == store.version
    assert restored.list(JOBS) == store.list(JOBS)
    assert restored.list(NAMESPACES) == store.list(NAMESPACES)
    changed = restored.patch(JOBS, "default", "a", {"status": {"active": 2}}, subresource="status")
    assert int(meta(changed)["resourceVersion"]) == store.version + 1
    assert not load(empty(), tmp_path / "none.jsonl")
    (tmp_path / "bad.jsonl").write_bytes(b'{"format":99}\n')
    with pytest.raises(ValueError, match="not a snapshot"):
        load(empty(), tmp_path / "bad.jsonl")
    fewer = Store("s", kinds=[k for k in DEFAULT_KINDS if k.kind != JOBS], now=ManualClock().now, new_uid=lambda: "u")
    with pytest.raises(ValueError, match="does not serve batch/v1 Job"):
        load(fewer, tmp_path / "s.jsonl")


def test_no_worker_is_called_management() -> None:
    with pytest.raises(ValueError, match="management"):
        World(ClusterSpec(), {"management": ClusterSpec()})
