"""A world that is stopped while it saves, and one in which there is an object that nobody can read."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path

import pytest

from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.local.examples import jobs
from controlplane.simulation.apiserver import persistence
from controlplane.simulation.world import ClusterSpec, World
from tests.support.waiting import PATIENCE


async def test_one_who_is_stopped_while_it_saves_saves_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If anything lets two writers of one file be there, they meet: each waits a moment for the other."""
    first, second = threading.Event(), threading.Event()
    calls, sync = itertools.count(), persistence.os.fsync

    def fsync(descriptor: int) -> None:
        number = next(calls)
        if number == 0:
            first.set()
            second.wait(1)
        elif number == 1:
            second.set()
            second.clear()
            second.wait(1)
        sync(descriptor)

    data = tmp_path / "data"
    world = World(ClusterSpec(), {}, data=data, save_period=0.01)
    monkeypatch.setattr(persistence.os, "fsync", fsync)
    await world.start()
    assert await asyncio.to_thread(first.wait, 20)
    await world.stop()
    assert not list(data.glob("*.partial"))
    World(ClusterSpec(), {}, data=data).assemble()


async def test_nobody_in_a_cluster_dies_of_one_object(tmp_path: Path) -> None:
    """Past the API server, where nothing is decoded: what cannot be read is passed over, and the next one is served."""
    world = World(ClusterSpec(), {}, data=tmp_path / "data")
    await world.start()
    try:
        store = world.management.store
        odd, good = jobs()[:2]
        odd["spec"]["parallelism"] = "x"
        store.create(JOBS, odd)
        store.create(JOBS, good)
        async with asyncio.timeout(PATIENCE):
            while good["metadata"]["name"] not in {
                owner["name"]
                for found in store.records(WORKLOADS)
                for owner in found.obj["metadata"]["ownerReferences"]
            }:
                await asyncio.sleep(0.01)
    finally:
        await world.stop()
