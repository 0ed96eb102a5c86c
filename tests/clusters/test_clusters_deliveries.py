"""What a watch shows while what came before it waits in the log is handed over together with it, and counts in its
order."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from controlplane.clusters.protocol import Change, Delta
from tests.clusters.following import QUICK, Following, following
from tests.clusters.miniapi import END, MiniApi, bookmark, line, obj, until


class Held:
    """A sink whose calls end when they are told to. `offered`: the versions of each call, `open` the one that waits."""

    def __init__(self, found: Following) -> None:
        self._rest = found.log.sink
        self.offered: list[str] = []
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        found.reflector._sink = self.sink

    async def sink(self, cluster: str, deltas: Sequence[Delta]) -> None:
        self.offered.append(" ".join(delta.resource_version for delta in deltas if isinstance(delta, Change)))
        self._end = asyncio.get_running_loop().create_future()
        await self._end
        await self._rest(cluster, deltas)

    def has(self, *offered: str) -> bool:
        return self.offered == list(offered)

    def take(self) -> None:
        self._end.set_result(None)

    def refuse(self) -> None:
        self._end.set_exception(RuntimeError("the log is closed"))


@asynccontextmanager
async def holding(api: MiniApi, **more: Any) -> AsyncIterator[tuple[Following, Held]]:
    """Have a reflector that has listed, and whose sink ends when it is told to."""
    async with following(api, **more) as found:
        await found.shows("synced")
        yield found, Held(found)


def show(api: MiniApi, *versions: int) -> None:
    for version in versions:
        api.stream().put_nowait(line("ADDED", obj("a", version)))


async def test_one_after_the_other_while_nothing_waits_for_more(api: MiniApi) -> None:
    async with holding(api) as (f, held):
        show(api, 11)
        await until(partial(held.has, "11"))
        show(api, 12)
        await asyncio.sleep(0.05)
        assert held.has("11")
        assert f.reflector._position == "10"
        held.take()
        await until(partial(held.has, "11", "12"))
        assert f.reflector._position == "11"


async def test_what_waits_for_more_is_taken_back_and_handed_over_with_it(api: MiniApi) -> None:
    async with holding(api) as (f, held):
        f.patient.set()
        show(api, 11)
        await until(partial(held.has, "11"))
        show(api, 12)
        await until(partial(held.has, "11", "11 12"))
        assert f.reflector._position == "10"
        held.take()
        await until(lambda: f.reflector._position == "12")
        assert f.log.seen() == ["synced", "added a@11", "added a@12"]
        assert f.reflector.known["uid-a"].resource_version == "12"


async def test_what_comes_before_the_log_waits_is_handed_over_when_it_does(api: MiniApi) -> None:
    async with holding(api) as (f, held):
        show(api, 11)
        await until(partial(held.has, "11"))
        show(api, 12)
        await asyncio.sleep(0.05)
        assert held.has("11")
        f.patient.set()
        await until(partial(held.has, "11", "11 12"))


async def test_no_more_than_a_few_pieces_are_handed_over_together(api: MiniApi) -> None:
    async with holding(api, pace=dataclasses.replace(QUICK, chunk=500)) as (f, held):
        f.patient.set()
        offered = ["11", "11 12", "11 12 13", "11 12 13 14"]
        for count in range(1, 5):
            show(api, 10 + count)
            await until(partial(held.has, *offered[:count]))
        show(api, 15)
        await asyncio.sleep(0.05)
        assert held.has(*offered)
        held.take()
        await until(partial(held.has, *offered, "15"))


async def test_the_place_is_before_what_the_log_did_not_take(api: MiniApi) -> None:
    async with holding(api) as (f, held):
        f.patient.set()
        show(api, 11)
        await until(partial(held.has, "11"))
        show(api, 12)
        await until(partial(held.has, "11", "11 12"))
        held.refuse()
        assert f.task is not None
        with pytest.raises(RuntimeError, match="the log is closed"):
            await f.task
        assert f.reflector._position == "10"
        assert f.reflector.known["uid-a"].resource_version == "", "the next list tells it again"


async def test_a_bookmark_counts_after_what_came_before_it(api: MiniApi) -> None:
    async with holding(api) as (f, held):
        show(api, 11)
        await until(partial(held.has, "11"))
        api.stream().put_nowait(bookmark(20))
        api.stream().put_nowait(END)
        await asyncio.sleep(0.05)
        assert f.reflector._position == "10"
        assert len(api.watches()) == 1, "the next watch would not know where to begin"
        held.take()
        await until(lambda: len(api.watches()) == 2)
        assert api.watches()[-1].query["resourceVersion"] == "20"


async def test_who_is_stopped_leaves_nothing_under_way(api: MiniApi) -> None:
    async with holding(api) as (f, held):
        show(api, 11)
        await until(partial(held.has, "11"))
        await f.stop()
        assert held._end.cancelled()
        assert f.reflector._position == "10"
        assert f.reflector.known["uid-a"].resource_version == ""


async def test_another_history_is_told_after_what_was_shown_before_it(api: MiniApi) -> None:
    async with holding(api) as (f, held):
        show(api, 12)
        await until(partial(held.has, "12"))
        show(api, 11)
        await asyncio.sleep(0.05)
        assert f.restored == []
        held.take()
        await until(lambda: f.restored)
        assert f.log.seen()[:2] == ["synced", "added a@12"]
