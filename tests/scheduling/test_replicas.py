"""Replicas, crashes, lost answers: a pod is bound once, and no node is given away twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import psycopg

from controlplane.controllers.connectivity.events import EVENTS
from controlplane.kube.kinds import PODS, Kind
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.postgres import PostgresLog
from controlplane.simulation.apiserver.faults import MatchedRequest
from controlplane.simulation.apiserver.history import Commit
from tests.scheduling.stage import Cluster, staged, until


def bindings(cluster: Cluster) -> Counter[str]:
    """How often each pod got a node, from now on."""
    counts: Counter[str] = Counter()

    def hear(commit: Commit) -> None:
        kind: Kind = commit.record.kind
        if kind != PODS or commit.type == "DELETED":
            return
        before = commit.previous.obj["spec"].get("nodeName") if commit.previous is not None else None
        if commit.record.obj["spec"].get("nodeName") != before:
            counts[commit.record.name] += 1

    cluster.store.listen(hear)
    return counts


def of_binding(asked: MatchedRequest) -> bool:
    return asked.subresource == "binding"


def recorded(url: str, kind: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM controlplane.events WHERE type = %s", (kind,)).fetchone()
    assert row is not None
    return int(row[0])


async def test_killed_between_reserving_and_binding(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("a", cpu="1")
        first = await stage.replica()
        second = await stage.replica(leads=False)
        counts = bindings(cluster)
        silent = cluster.server.faults.half_open(when=of_binding)
        cluster.pod("p")
        await until(lambda: recorded(database_url, "BindingDecided") == 1)
        await first.kill()
        cluster.server.faults.remove(silent)
        cluster.pod("too-much")
        await until(lambda: second.ready)
        await until(lambda: cluster.on("p") == "a")
        await until(lambda: cluster.condition("too-much").get("reason") == "Unschedulable")
        assert counts == {"p": 1}
        assert cluster.overcommitted() == []
        assert recorded(database_url, "NodeReserved") == 1


async def test_an_answer_that_was_lost_binds_once_and_frees_nothing(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("a", cpu="3")
        await stage.replica()
        counts = bindings(cluster)
        cluster.server.faults.reply_lost(when=of_binding, times=2)
        for number in range(5):
            cluster.pod(f"p{number}")
        await until(lambda: sum(counts.values()) == 3)
        await asyncio.sleep(2.5)
        assert set(counts.values()) == {1}
        assert cluster.overcommitted() == []
        assert recorded(database_url, "ReservationDropped") == 0


async def test_a_server_in_trouble_is_asked_again(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("a")
        await stage.replica()
        counts = bindings(cluster)
        cluster.server.faults.storm(500, when=of_binding, times=2)
        cluster.pod("p")
        await until(lambda: cluster.on("p") == "a")
        assert counts == {"p": 1}
        assert recorded(database_url, "NodeReserved") == 1


async def test_a_binding_that_is_refused_is_given_back_and_said(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("a")
        await stage.replica()
        cluster.server.faults.storm(403, when=of_binding, times=1)
        cluster.pod("p")
        await until(lambda: cluster.condition("p").get("reason") == "SchedulerError")
        await until(lambda: cluster.on("p") == "a")
        assert recorded(database_url, "ReservationDropped") == 1


async def test_somebody_else_binds_first(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("a", cpu="1")
        cluster.node("b", cpu="1")
        await stage.replica()
        slow = cluster.server.faults.slow(0.5, when=of_binding)
        cluster.pod("p")
        await until(lambda: recorded(database_url, "BindingDecided") == 1)
        other = {"target": {"kind": "Node", "name": "b"}}
        from controlplane.simulation.apiserver.pod_subresources import bind

        bind(cluster.store, "default", "p", other, manager="somebody", dry_run=False)
        await asyncio.sleep(0.8)
        cluster.server.faults.remove(slow)
        assert cluster.on("p") == "b"
        cluster.pod("q")
        await until(lambda: cluster.on("q") == "a")


async def test_the_follower_takes_over_and_goes_on(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        for number in range(4):
            cluster.node(f"n{number}", cpu="20")
        first = await stage.replica()
        second = await stage.replica(leads=False)
        counts = bindings(cluster)
        for number in range(20):
            cluster.pod(f"early{number}")
        await until(lambda: len(counts) > 5)
        await first.kill()
        for number in range(20):
            cluster.pod(f"late{number}")
        await until(lambda: second.ready)
        await until(lambda: len(counts) == 40)
        assert set(counts.values()) == {1}
        assert cluster.overcommitted() == []
        assert not first.leads


async def test_the_cluster_goes_away_and_comes_back(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("a")
        replica = await stage.replica()
        cut = cluster.server.faults.cut()
        await asyncio.sleep(0.5)
        cluster.pod("meanwhile")
        cluster.server.faults.remove(cut)
        await until(lambda: cluster.on("meanwhile") == "a", within=40)
        await until(lambda: replica.ready)


async def test_who_does_not_lead_any_more_reports_no_pods_and_no_nodes(database_url: str) -> None:
    """Else both replicas would, and the one that does not look would say for ever what it saw last."""
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("a", cpu="1")
        replica = await stage.replica()
        cluster.pod("too-much", cpu="100")

        def waiting() -> list[float]:
            read = replica.metrics.registry.get_sample_value
            counts = (
                read("controlplane_scheduler_pending_pods", {"queue": str(place)})
                for place in ("active", "unschedulable")
            )
            return [*(count for count in counts if count), *filter(None, [read("controlplane_scheduler_nodes")])]

        await until(lambda: waiting() == [1, 1])
        async with PostgresLog(Database(database_url), Codec(EVENTS), log=stage.settings.scheduler.log) as log:
            assert await log.lead("another", await log.heartbeat()) is not None
            await until(lambda: not replica.leads)
            assert waiting() == []
        await until(lambda: replica.leads and waiting() == [1, 1])
