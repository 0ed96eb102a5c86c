"""Reflectors, executors and connections against the simulated API server, with its faults: what the log would hold is
what is there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.clusters.connection_config import ConnectionConfig, ConnectionTiming
from controlplane.clusters.connection_reports import Connected, Lost
from controlplane.clusters.connections import Connections
from controlplane.clusters.pace import Pace
from controlplane.clusters.protocol import ApiError, Executes, Foreign, Synced, Unreachable
from controlplane.clusters.sources import SecretSource
from controlplane.clusters.transport import Timeouts, Transport
from controlplane.kube.kinds import APPLY_PATCH, JOBS, JOBSETS, WORKLOADS, ObjectRef, Request
from controlplane.kube.watches import WatchSpec
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from tests.clusters.miniapi import Recorder, until

OWNER = ("kueue.x-k8s.io/multikueue-origin", "here")
QUICK = ConnectionTiming(
    backoff_base=0.02, backoff_cap=0.1, heartbeat=0.1, heartbeat_timeout=0.5, suspect_grace=0.0, suspect_heartbeat=0.05
)
PACE = Pace(page=7, ahead=4, idle_timeout=3.0, off_retry=0.1, backoff_base=0.01, backoff_cap=0.1)


class Cluster:
    """One simulated cluster, connected; `mirror` is what a fold of the deltas holds: uid → resourceVersion."""

    def __init__(self, **traits: Any) -> None:
        uids = itertools.count()
        kinds = [served for served in DEFAULT_KINDS if served.kind != JOBSETS]
        self.store = Store(
            "w", kinds=kinds, now=lambda: datetime.now(UTC), new_uid=lambda: f"uid-{next(uids)}", **traits
        )
        self.server = SimulatedApiServer(self.store, token="t0ken", bookmark_period=0.2)
        self.log = Recorder()
        self.connections = Connections(
            ConnectionConfig(
                specs=[WatchSpec(JOBS, f"{OWNER[0]}={OWNER[1]}"), WatchSpec(WORKLOADS), WatchSpec(JOBSETS)],
                sink=self.log.sink,
                facts=self.log.fact,
                read_secret=self.read_secret,
                open_server=lambda name, config: Transport(
                    name, config, timeouts=Timeouts(connect=1, request=1, list_page=2)
                ),
                pace=PACE,
                timing=QUICK,
                random=random.Random(5).random,
            )
        )

    async def read_secret(self, name: str) -> bytes:
        return json.dumps(self.server.kubeconfig()).encode()

    async def connected(self, times: int = 1) -> Executes:
        await until(lambda: len(self.log.of(Connected)) >= times)
        found = self.connections.executor("w")
        assert found is not None
        return found

    def mirror(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for delta in self.log.deltas:
            if getattr(delta, "kind", None) != JOBS or not hasattr(delta, "object"):
                continue
            uid = delta.object["metadata"]["uid"]
            if delta.op == "gone":
                found.pop(uid, None)
            else:
                found[uid] = delta.resource_version
        return found

    def there(self) -> dict[str, str]:
        items, _ = self.store.list(JOBS, None, f"{OWNER[0]}={OWNER[1]}")
        return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    found = Cluster()
    await found.server.start()
    found.connections.set("w", SecretSource("s"))
    yield found
    await found.connections.close()
    await found.server.stop()


def job(name: str, **labels: str) -> Request:
    body = {"metadata": {"labels": {OWNER[0]: OWNER[1], **labels}}, "spec": {"template": {"spec": {}}}}
    return Request("create", ObjectRef(JOBS, "default", name), body, owner_label=OWNER, field_manager="m")


def meta(found: Any) -> Any:
    return found["metadata"]


async def test_the_life_of_an_object(cluster: Cluster) -> None:
    executor = await cluster.connected()
    assert cluster.log.of(Connected)[0].kinds_off == (JOBSETS.name,)
    assert cluster.log.of(Connected)[0].incarnation
    created = await executor.execute(job("a"))
    ref = ObjectRef(JOBS, "default", "a")
    where = {"uid": meta(created)["uid"], "resource_version": meta(created)["resourceVersion"]}
    patched = await executor.execute(Request("patch", ref, {"metadata": {"annotations": {"x": "y"}}}, **where))
    assert meta(patched)["annotations"] == {"x": "y"}
    with pytest.raises(ApiError) as conflict:
        await executor.execute(Request("patch", ref, {"metadata": {"annotations": {"x": "z"}}}, **where))
    assert conflict.value.status == 409
    with pytest.raises(ApiError) as stale:
        await executor.execute(Request("delete", ref, **where))
    assert stale.value.status == 409
    applied = await executor.execute(
        Request("patch", ref, {"status": {"active": 1}}, "status", APPLY_PATCH, field_manager="m")
    )
    assert applied is not None
    assert applied["status"]["active"] == 1
    where["resource_version"] = meta(applied)["resourceVersion"]
    await executor.execute(Request("delete", ref, **where, owner_label=OWNER))
    await executor.execute(Request("delete", ref, owner_label=OWNER))
    await until(lambda: cluster.log.seen() and "gone a" in cluster.log.seen()[-1])
    assert cluster.mirror() == cluster.there() == {}


async def test_an_answer_that_is_lost_is_adopted_next_time(cluster: Cluster) -> None:
    executor = await cluster.connected()
    cluster.server.faults.reply_lost(verbs=["create"])
    with pytest.raises(Unreachable):
        await executor.execute(job("a"))
    adopted = await executor.execute(job("a"))
    assert meta(adopted)["uid"] in cluster.there()
    cluster.store.create(JOBS, {"metadata": {"name": "b", "namespace": "default"}, "spec": {}})
    with pytest.raises(Foreign):
        await executor.execute(job("b"))


async def test_a_server_that_is_busy(cluster: Cluster) -> None:
    executor = await cluster.connected()
    cluster.server.faults.storm(429, retry_after=0.05, verbs=["create"], times=2)
    assert await executor.execute(job("a"))
    assert cluster.server.counts["create", "jobs.batch", ""] >= 1


async def test_half_open_is_lost_and_listed_once_when_it_is_back(cluster: Cluster) -> None:
    executor = await cluster.connected()
    await executor.execute(job("a"))
    await until(lambda: cluster.mirror() == cluster.there())
    lists = cluster.server.counts["list", "jobs.batch", ""]
    fault = cluster.server.faults.half_open()
    await until(lambda: cluster.log.of(Lost))
    cluster.store.create(JOBS, {"metadata": {"name": "b", "namespace": "default", "labels": dict([OWNER])}, "spec": {}})
    cluster.server.faults.remove(fault)
    await cluster.connected(2)
    await until(lambda: cluster.mirror() == cluster.there())
    assert len(cluster.there()) == 2
    assert cluster.server.counts["list", "jobs.batch", ""] == lists + 1
    assert len([delta for delta in cluster.log.deltas if isinstance(delta, Synced) and delta.kind == JOBS]) == 2


async def test_a_compacted_history_is_a_gap_that_tells_what_is_gone(cluster: Cluster) -> None:
    executor = await cluster.connected()
    for name in "abcdefghijkl":
        await executor.execute(job(name))
    await until(lambda: len(cluster.mirror()) == 12)
    fault = cluster.server.faults.cut()
    await until(lambda: cluster.log.of(Lost))
    for name in "abc":
        cluster.store.delete(JOBS, "default", name)
    cluster.store.compact()
    cluster.server.faults.remove(fault)
    await cluster.connected(2)
    await until(lambda: cluster.mirror() == cluster.there())
    assert len(cluster.mirror()) == 9
    assert any(synced.gap for synced in cluster.log.of(Synced))


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_what_was_delivered_is_what_is_there(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    executor = await cluster.connected()
    faults = cluster.server.faults
    strike = [
        lambda: faults.cut(verbs=["watch"], times=1),
        lambda: faults.cut(times=3),
        lambda: faults.gone(inline=chance.random() < 0.5),
        lambda: faults.storm(503, times=2),
        lambda: faults.duplicate(times=2),
        lambda: faults.reply_lost(verbs=["create", "patch", "delete"]),
        lambda: cluster.store.compact(),
        lambda: faults.slow(0.02, times=3),
    ]
    for _ in range(60):
        if chance.random() < 0.3:
            chance.choice(strike)()
        ref = ObjectRef(JOBS, "default", chance.choice("abcdef"))
        request = chance.choice(
            [
                job(ref.name),
                Request("patch", ref, {"metadata": {"annotations": {"n": str(chance.random())}}}),
                Request("delete", ref, owner_label=OWNER),
            ]
        )
        current = cluster.connections.executor("w") or executor
        try:
            await current.execute(request)
        except (ApiError, Unreachable):
            await asyncio.sleep(0)
    faults.clear()
    await until(lambda: cluster.connections.executor("w") is not None)
    await until(lambda: cluster.mirror() == cluster.there())
