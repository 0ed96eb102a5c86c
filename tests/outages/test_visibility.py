"""Kueue's visibility API is answered by the leader and by its followers alike, and by nobody who does not know what the
log says now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from controlplane.app.visibility import PendingWorkloadsApi
from controlplane.kube.api_requests import attributes
from controlplane.web.aggregated import Unavailable
from tests.multikueue.kep693.rig import NS
from tests.outages.stage import Replica, Stage
from tests.outages.test_admission import builtin, submit, without_kueue
from tests.outages.test_database import wired
from tests.support.waiting import PATIENCE

__all__ = ["wired"]
Make = Callable[..., Awaitable[Stage]]
BATCH = attributes("GET", "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/cluster-queue/pendingworkloads")


async def told(replica: Replica) -> list[str] | None:
    """The jobs of the Workloads that a process says wait, by name; None if it does not answer now."""
    try:
        code, body = await PendingWorkloadsApi(replica.service)(BATCH, {})
    except Unavailable:
        return None
    assert code == 200
    assert isinstance(body, bytes)
    items = msgspec.json.decode(body)["items"]
    assert all(one["metadata"]["namespace"] == NS for one in items)
    return sorted(one["metadata"]["ownerReferences"][0]["name"] for one in items)


async def says(replica: Replica, *jobs: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while await told(replica) != list(jobs):
            await asyncio.sleep(0.05)


async def test_leader_and_follower_tell_the_same_and_who_takes_over_goes_on(stage: Make) -> None:
    on = await without_kueue(stage, "a")
    leader = on.replica
    follower = await on.up(ready=False, wanted=builtin())
    for name in ("first", "second"):
        submit(on, name, cpu="1000")
        await says(leader, *(("first", "second") if name == "second" else ("first",)))
    await says(follower, "first", "second")
    assert not follower.leads
    await leader.stop()
    assert await told(leader) is None, "what it knew is as of then"
    await on.until(lambda: follower.leads, "the follower to lead")
    await says(follower, "first", "second")
    submit(on, "third", cpu="1000")
    await says(follower, "first", "second", "third")


async def test_who_cannot_read_the_log_tells_nothing(wired: Callable[..., Any]) -> None:
    on, wire = await wired("a", settings=builtin(), manager_is={"kueue": False})
    leader = on.replica
    submit(on, "first", cpu="1000")
    await says(leader, "first")
    follower = await on.up(ready=False, wanted=builtin())
    await says(follower, "first")
    wire.set("cut")
    for replica in (leader, follower):
        async with asyncio.timeout(PATIENCE):
            while await told(replica) is not None:
                await asyncio.sleep(0.05)
    wire.set("whole")
    for replica in (leader, follower):
        await says(replica, "first")
