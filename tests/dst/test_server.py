"""The simulated API server and the network before it, as a client meets them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.streams import ListQuery, WatchQuery
from controlplane.dst.engine.loop import VirtualClock, VirtualLoop
from controlplane.dst.engine.network import Network, Storm
from controlplane.dst.engine.server import SimulatedServer, Written
from controlplane.kube.kinds import JOBS, ObjectRef, Request
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import DEFAULT_KINDS


class Rig:
    """One cluster, one client, virtual time."""

    def __init__(self) -> None:
        self.loop = VirtualLoop("rig")  # type: ignore[abstract]
        uids = itertools.count()
        clock = VirtualClock(self.loop)
        self.store = Store("w", kinds=DEFAULT_KINDS, now=clock.now, new_uid=lambda: f"uid-{next(uids)}")
        self.off: set[str] = set()
        self.network = Network("w", self.loop, "rig")
        self.written: list[Written] = []
        self.server = SimulatedServer(
            "w",
            "client",
            self.network,
            self,
            token="0",
            written=self.written.append,
            asked=lambda *_: None,
            listed=lambda *_: None,
        )

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = 1000.0) -> Any:
        task = self.loop.create_task(work)
        self.loop.advance(self.loop.time() + seconds)
        assert task.done()
        return task.result()

    def job(self, name: str) -> dict[str, Any]:
        return {"metadata": {"namespace": "default", "name": name}, "spec": {"template": {"spec": {}}}}

    def watch(self, version: str, idle: float = 150.0) -> tuple[list[dict[str, Any]], Callable[[], str]]:
        """Watch Jobs; return the lines as they come, and how it ended."""
        seen: list[dict[str, Any]] = []

        async def follow() -> str:
            try:
                stream = self.server.watch(WatchQuery(JOBS, version, timeout_seconds=400, idle_timeout=idle))
                async for lines in stream:
                    seen.extend(json.loads(line) for line in lines)
            except (ApiError, Unreachable) as error:
                return str(error)
            return "ended"

        task = self.loop.create_task(follow())
        return seen, lambda: task.result() if task.done() else "open"

    def pass_time(self, seconds: float) -> None:
        self.loop.advance(self.loop.time() + seconds)


@pytest.fixture
def rig() -> Any:
    made = Rig()
    yield made
    made.loop.finish()


def ops(seen: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(line["type"], line["object"]["metadata"].get("name", "")) for line in seen]


def test_verbs_reach_the_store(rig: Rig) -> None:
    created = rig.run(rig.server.create(JOBS, "default", rig.job("a")))
    where = {"uid": created["metadata"]["uid"], "resource_version": created["metadata"]["resourceVersion"]}
    patch = {"metadata": {"annotations": {"x": "y"}, "resourceVersion": where["resource_version"]}}
    patched = rig.run(rig.server.write(Request("patch", ObjectRef(JOBS, "default", "a"), patch)))
    assert patched["metadata"]["annotations"] == {"x": "y"}
    with pytest.raises(ApiError) as stale:
        rig.run(rig.server.write(Request("delete", ObjectRef(JOBS, "default", "a"), **where)))
    assert stale.value.status == 409
    page = rig.run(rig.server.list(ListQuery(JOBS)))
    assert [item["metadata"]["name"] for item in page.items] == ["a"]
    assert page.resource_version == str(rig.store.version)
    rig.run(rig.server.write(Request("delete", ObjectRef(JOBS, "default", "a"), uid=where["uid"])))
    assert [(w.verb, w.uid == where["uid"]) for w in rig.written] == [
        ("create", False),
        ("patch", False),
        ("delete", True),
    ]


def test_an_answer_is_lost_and_the_write_is_done(rig: Rig) -> None:
    rig.network.lost_replies = 1.0
    with pytest.raises(Unreachable):
        rig.run(rig.server.create(JOBS, "default", rig.job("a")))
    assert rig.store.get(JOBS, "default", "a")


def test_nothing_arrives_through_a_partition_and_patience_ends(rig: Rig) -> None:
    rig.network.silent = True
    began = rig.loop.time()
    ended: list[float] = []

    async def ask() -> None:
        try:
            await rig.server.version(5.0)
        except Unreachable:
            ended.append(rig.loop.time() - began)

    rig.run(ask())
    assert ended == [pytest.approx(5.0)]


def test_trouble_that_answers(rig: Rig) -> None:
    rig.network.storms.append(Storm(429, 1.0))
    with pytest.raises(ApiError) as said:
        rig.run(rig.server.list(ListQuery(JOBS)))
    assert (said.value.status, said.value.retry_after) == (429, 1.0)
    rig.network.storms[:] = [Storm(500, 1.0, after=True)]
    with pytest.raises(ApiError):
        rig.run(rig.server.create(JOBS, "default", rig.job("a")))
    assert rig.store.get(JOBS, "default", "a")
    rig.network.storms.clear()
    rig.network.token = "another"
    with pytest.raises(ApiError) as said:
        rig.run(rig.server.list(ListQuery(JOBS)))
    assert said.value.status == 401


def test_a_watch_shows_everything_once_and_in_order(rig: Rig) -> None:
    seen, ended = rig.watch(str(rig.store.version))
    rig.pass_time(1)
    for name in "abc":
        rig.store.create(JOBS, rig.job(name))
    rig.store.delete(JOBS, "default", "b")
    rig.pass_time(1)
    assert ops(seen) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("DELETED", "b")]
    rig.network.echo = 1.0
    rig.store.create(JOBS, rig.job("d"))
    rig.pass_time(1)
    assert ops(seen)[4:] == [("ADDED", "d"), ("ADDED", "d")]
    rig.pass_time(120)
    assert ("BOOKMARK", "") in ops(seen)
    rig.pass_time(400)
    assert ended() == "ended"


def test_a_watch_waits_out_a_partition_or_is_given_up(rig: Rig) -> None:
    seen, ended = rig.watch(str(rig.store.version), idle=50.0)
    rig.pass_time(1)
    rig.network.silent = True
    rig.store.create(JOBS, rig.job("a"))
    rig.pass_time(20)
    assert seen == []
    rig.network.silent = False
    rig.store.create(JOBS, rig.job("b"))
    rig.pass_time(1)
    assert ops(seen) == [("ADDED", "a"), ("ADDED", "b")]
    rig.network.silent = True
    rig.pass_time(60)
    assert "no byte for 50 s" in ended()


def test_a_place_before_the_history_is_gone(rig: Rig) -> None:
    version = str(rig.store.version)
    rig.store.create(JOBS, rig.job("a"))
    rig.store.compact()
    _, ended = rig.watch(version)
    rig.pass_time(1)
    assert ended().startswith("410")


def test_a_place_in_the_future_is_silent_until_the_history_has_caught_up(rig: Rig) -> None:
    future = rig.store.version + 2
    seen, _ = rig.watch(str(future))
    rig.pass_time(1)
    rig.store.create(JOBS, rig.job("a"))
    rig.pass_time(100)
    assert seen == []
    rig.store.create(JOBS, rig.job("b"))
    rig.store.create(JOBS, rig.job("c"))
    rig.pass_time(1)
    assert ops(seen) == [("ADDED", "c")]


def test_a_cut_ends_a_watch_at_once(rig: Rig) -> None:
    _, ended = rig.watch(str(rig.store.version))
    rig.pass_time(1)
    rig.network.cut("connection reset by peer")
    rig.pass_time(1)
    assert "connection reset by peer" in ended()


def test_closing_ends_what_is_under_way(rig: Rig) -> None:
    rig.network.silent = True

    async def ask_and_close() -> str:
        asking = asyncio.create_task(rig.server.list(ListQuery(JOBS)))
        await asyncio.sleep(1)
        await rig.server.close()
        with pytest.raises(Unreachable):
            await asking
        with pytest.raises(Unreachable):
            await rig.server.list(ListQuery(JOBS))
        return "closed"

    assert rig.run(ask_and_close(), 3.0) == "closed"
