"""Trouble on demand: each sort does what it says, to whom it is meant for, and the same again with the same seed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from controlplane.simulation.apiserver.faults import Faults, MatchedRequest
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import CONFIG_MAPS
from tests.simulation.contract.client import Answer, Api, config_map
from tests.simulation.store_kit import GADGETS, gadget, names, new_store
from tests.support.waiting import PATIENCE

SILENT = 0.2
GADGET = GADGETS.name


@pytest.fixture
def store() -> Store:
    return new_store()


@pytest.fixture
async def server(store: Store) -> AsyncIterator[SimulatedApiServer]:
    server = SimulatedApiServer(store, token="sesame")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def api(server: SimulatedApiServer) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession() as session:
        # aiohttp sends a GET, PUT or DELETE once more by itself when its connection is reset.
        session._retry_connection = False
        api = Api(session, server.url, server.token, simulated=True)
        api.namespace = "default"
        yield api


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def works(api: Api) -> bool:
    return (await api.list(GADGETS)).status == 200


async def hangs(attempt: asyncio.Future[Answer]) -> bool:
    """Whether an attempt is still without an answer after a while; it is given up then."""
    done, _ = await asyncio.wait([attempt], timeout=SILENT)
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    return not done


class TestCut:
    async def test_resets_requests_until_it_is_over(self, server: SimulatedApiServer, api: Api) -> None:
        fault = server.faults.cut()
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await works(api)
        server.faults.remove(fault)
        assert await works(api)

    async def test_resets_open_watches(self, server: SimulatedApiServer, api: Api) -> None:
        async with api.watch(GADGETS) as watch:
            await until(lambda: server.open_watches == 1)
            server.faults.cut()
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await watch.next()
        await until(lambda: server.open_watches == 0)

    async def test_may_be_meant_for_some(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        async with api.watch(GADGETS) as gadgets, api.watch(CONFIG_MAPS) as maps:
            await until(lambda: server.open_watches == 2)
            server.faults.cut(resources=[GADGET], verbs=["watch"])
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await gadgets.next()
            store.create(CONFIG_MAPS, {**config_map("a"), "metadata": {"name": "a", "namespace": "default"}})
            assert await maps.named() == ("ADDED", "a")
            assert await works(api)


class TestHalfOpen:
    async def test_requests_are_never_answered(self, server: SimulatedApiServer, api: Api) -> None:
        fault = server.faults.half_open()
        assert await hangs(asyncio.ensure_future(api.list(GADGETS)))
        server.faults.remove(fault)
        assert await works(api)

    async def test_watches_fall_silent_and_stay_so(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        async with api.watch(GADGETS) as watch:
            store.create(GADGETS, gadget("a"))
            assert await watch.named() == ("ADDED", "a")
            fault = server.faults.half_open(verbs=["watch"])
            store.create(GADGETS, gadget("b"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(watch.next(), SILENT)
            server.faults.remove(fault)
            store.create(GADGETS, gadget("c"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(watch.next(), SILENT)
            assert await works(api)


class TestSlow:
    async def test_waits_before_anything_is_done(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        fault = server.faults.slow(3600, verbs=["create"])
        assert await works(api)
        assert await hangs(asyncio.ensure_future(api.create(GADGETS, gadget("a"))))
        assert names(store) == []
        server.faults.remove(fault)
        server.faults.slow(0.01)
        (await api.create(GADGETS, gadget("a"))).ok(201)


class TestStorm:
    async def test_of_so_many_answers(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        server.faults.storm(503, times=2)
        for _ in range(2):
            (await api.create(GADGETS, gadget("a"))).refused(503, "ServiceUnavailable")
        assert names(store) == []
        (await api.create(GADGETS, gadget("a"))).ok(201)

    async def test_says_when_to_come_back(self, server: SimulatedApiServer, api: Api) -> None:
        server.faults.storm(429, retry_after=7)
        async with api.session.get(api.url + GADGETS.path("default"), headers=api.headers()) as response:
            body = await response.json()
            assert (response.status, response.headers["Retry-After"]) == (429, "7")
        assert (body["reason"], body["details"]) == ("TooManyRequests", {"retryAfterSeconds": 7})

    async def test_of_a_fraction_is_the_same_with_the_same_seed(self) -> None:
        async def run(seed: int) -> list[int]:
            server = SimulatedApiServer(new_store(), faults=Faults(seed))
            server.faults.storm(500, fraction=0.5)
            await server.start()
            async with aiohttp.ClientSession() as session:
                api = Api(session, server.url, "", simulated=True)
                statuses = [(await api.list(GADGETS)).status for _ in range(30)]
            await server.stop()
            return statuses

        first = await run(1)
        assert first == await run(1)
        assert set(first) == {200, 500}
        assert first != await run(2)


class TestGone:
    @pytest.mark.parametrize("inline", [False, True])
    async def test_strikes_the_next_watch(
        self, store: Store, server: SimulatedApiServer, api: Api, inline: bool
    ) -> None:
        server.faults.gone(inline=inline)
        version = str(store.version)
        if inline:
            async with api.watch(GADGETS, resourceVersion=version) as watch:
                type_, status = await watch.next()
                assert (type_, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
                assert await watch.ended()
        else:
            (await api.list(GADGETS, watch="1", resourceVersion=version)).refused(410, "Expired")
        async with api.watch(GADGETS, resourceVersion=version) as watch:
            store.create(GADGETS, gadget("a"))
            assert await watch.named() == ("ADDED", "a")


class TestDuplicate:
    async def test_sends_a_line_twice(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        server.faults.duplicate(times=1)
        async with api.watch(GADGETS, resourceVersion=str(store.version)) as watch:
            for name in ("a", "b"):
                store.create(GADGETS, gadget(name))
            assert [await watch.named() for _ in range(3)] == [("ADDED", "a"), ("ADDED", "a"), ("ADDED", "b")]


class TestReplyLost:
    async def test_the_write_is_done_and_nobody_told(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        server.faults.reply_lost()
        assert await works(api)
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await api.create(GADGETS, gadget("a"))
        assert names(store) == ["a"]
        (await api.create(GADGETS, gadget("a"))).refused(409, "AlreadyExists")
        (await api.delete(GADGETS, "a")).ok()

    async def test_may_wait_for_its_verb(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        server.faults.reply_lost(verbs=["delete"])
        (await api.create(GADGETS, gadget("a"))).ok(201)
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await api.delete(GADGETS, "a")
        assert names(store) == []

    async def test_a_refusal_is_lost_as_well(self, store: Store, server: SimulatedApiServer, api: Api) -> None:
        store.create(GADGETS, gadget("a"))
        server.faults.reply_lost()
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await api.create(GADGETS, gadget("a"))


class TestNarrowing:
    def test_a_predicate_sees_the_request(self) -> None:
        faults = Faults()
        faults.storm(500, when=lambda asked: asked.name == "a" and asked.subresource == "status")
        hit = MatchedRequest("patch", GADGET, "status", "default", "a")
        assert faults.strike("status", hit)
        assert not faults.strike("status", MatchedRequest("patch", GADGET, "", "default", "a"))
        assert faults.journal == [("status", hit)]

    def test_faults_of_a_kind_take_turns(self) -> None:
        faults = Faults()
        faults.storm(500, times=1)
        faults.storm(503, times=1)
        asked = MatchedRequest("get")
        struck = [faults.strike("status", asked) for _ in range(3)]
        assert [fault.status if fault else 0 for fault in struck] == [500, 503, 0]

    def test_all_can_be_ended(self) -> None:
        faults = Faults()
        fault = faults.cut()
        faults.half_open()
        faults.clear()
        faults.remove(fault)
        assert not faults.strike("cut", MatchedRequest("get"))
        assert not faults.holds("half-open")
