"""The same, where sockets are in play: HTTP to an API server on loopback, our own web server, PostgreSQL; and many
starts and stops.
"""

from __future__ import annotations

import asyncio
import random
import socket
from contextlib import asynccontextmanager, suppress

import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.clusters.sources import SecretSource
from controlplane.clusters.streams import ListQuery, WatchQuery
from controlplane.clusters.transport import Timeouts, Transport
from controlplane.controllers.connectivity.events import EVENTS, ClusterRecovered, cluster_stream
from controlplane.kube.kinds import JOBS, WORKLOADS, ObjectRef, Request
from controlplane.kube.watches import WatchSpec
from controlplane.local.replica import free_port
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, NewEvent
from controlplane.log.postgres import PostgresLog
from controlplane.telemetry import Metrics
from controlplane.web import Health, create_app, serve
from tests.clusters.fleet import Fleet
from tests.clusters.miniapi import END, MiniApi, bookmark, config, kubeconfig, line, obj, serving
from tests.support.cancelling import Stage, cancelled_at_every_await
from tests.support.waiting import PATIENCE


@asynccontextmanager
async def requests() -> Stage:
    """Every verb, a list and a watch."""
    api = MiniApi()
    async with serving(api):
        found = Transport("w", config(api), timeouts=Timeouts(connect=5.0, request=5.0, list_page=5.0))
        for piece in (line("ADDED", obj("a", 11)), END):
            api.stream().put_nowait(piece)

        async def work() -> None:
            try:
                await found.version(5.0)
                await found.list(ListQuery(WORKLOADS, limit=1))
                with suppress(ApiError):
                    await found.get(JOBS, "ns", "a")
                await found.write(Request("patch", ObjectRef(JOBS, "ns", "a"), {"metadata": {}}))
                await found.write(Request("delete", ObjectRef(JOBS, "ns", "a")))
                lines = found.watch(WatchQuery(WORKLOADS, "10", timeout_seconds=60, idle_timeout=60.0))
                async for _ in lines:
                    pass
            finally:
                await found.close()

        yield work()


@asynccontextmanager
async def web_server() -> Stage:
    port = free_port()

    async def work() -> None:
        server = await serve(create_app(Health(("a",)), Metrics().registry), "127.0.0.1", port)
        try:
            await asyncio.sleep(0)
        finally:
            await server.stop()

    yield work()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "it still listens"


@asynccontextmanager
async def connections() -> Stage:
    api = MiniApi()
    async with serving(api):
        fleet = Fleet()
        fleet.secrets = {"s": kubeconfig(api.url)}

        async def work() -> None:
            try:
                fleet.connections.set("a", SecretSource("s"))
                fleet.connections.set("b", SecretSource("s"))
                await asyncio.sleep(0.03)
                fleet.connections.want({"a": {WatchSpec(JOBS): fleet.log.sink}})
                await asyncio.sleep(0.01)
                await fleet.connections.remove("b")
                await fleet.connections.remove("a")
            finally:
                await fleet.connections.close()

        yield work()


@pytest.mark.parametrize("scene", [requests, web_server, connections], ids=lambda scene: scene.__name__)
def test_it_ends_wherever_it_is_cancelled(scene: object) -> None:
    assert cancelled_at_every_await(scene, over_sockets=True, most=60) > 1  # type: ignore[arg-type]


def test_the_log_ends_wherever_it_is_cancelled(database_url: str) -> None:
    @asynccontextmanager
    async def log() -> Stage:
        async def work() -> None:
            found = PostgresLog(Database(database_url, "controlplane_service"), Codec(EVENTS))
            try:
                await found.take_epoch("me")
                await found.append(Append([NewEvent(stream=cluster_stream("w"), event=ClusterRecovered())]))
                await found.read(0)
                await found.wait(1, 0.01)
            finally:
                await found.close()

        yield work()

    assert cancelled_at_every_await(log, over_sockets=True, most=120) > 5


@pytest.mark.deep
async def test_two_hundred_starts_and_stops_with_clusters_that_come_and_go() -> None:
    """A stop at any moment of a hectic life; nothing is waited for that does not come, and nothing lives on."""
    source = random.Random(16)
    apis = [MiniApi(incarnation=f"inc-{number}") for number in range(3)]
    async with serving(apis[0]), serving(apis[1]), serving(apis[2]):
        for _ in range(200):
            before = asyncio.all_tasks()
            fleet = Fleet()
            fleet.secrets = {str(number): kubeconfig(api.url) for number, api in enumerate(apis)}

            async def come_and_go(fleet: Fleet = fleet) -> None:
                while True:
                    name = str(source.randrange(3))
                    if name in fleet.connections.names and source.random() < 0.6:
                        await fleet.connections.remove(name)
                    else:
                        fleet.connections.set(name, SecretSource(name))
                    for api in apis:
                        if api.stream().empty():
                            api.stream().put_nowait(bookmark(20))
                    await asyncio.sleep(source.random() / 100)

            going = asyncio.create_task(come_and_go())
            await asyncio.sleep(source.random() / 20)
            going.cancel()
            async with asyncio.timeout(PATIENCE):  # a hang is what is looked for
                await asyncio.wait([going])
                await fleet.connections.close()
            assert going.cancelled()
            assert fleet.connections.names == frozenset()
            await asyncio.sleep(0)
            named = {task.get_name() for task in asyncio.all_tasks() - before if not task.done()}
            assert not {name for name in named if name.startswith("cluster")}
