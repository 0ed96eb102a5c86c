"""One kind shows that a cluster's store is another one: of the other kinds nothing of the earlier history is handed
over once the new one has begun, and nothing of the new one before that is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controlplane.clusters.connection_reports import Fact, StoreRestored
from controlplane.kube.kinds import JOBS
from tests.clusters.fleet import Fleet, fleet, of_secret
from tests.clusters.miniapi import CUT, MiniApi, line, obj, until


class Away:
    """A log that does not answer: the new history is to be recorded, and is not yet."""

    def __init__(self) -> None:
        self.asked, self.answers = asyncio.Event(), asyncio.Event()
        self.found: Fleet

    async def fact(self, name: str, fact: Fact) -> None:
        if isinstance(fact, StoreRestored):
            self.asked.set()
            await self.answers.wait()
        await self.found.log.fact(name, fact)


@asynccontextmanager
async def restored(api: MiniApi, away: Away) -> AsyncIterator[Fleet]:
    """A store that has gone back, with other objects in it; the watch of Workloads has broken, that of Jobs is open."""
    async with fleet(facts=away.fact) as found:
        away.found = found
        of_secret(found, api)
        await found.connected()
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        api.stream(JOBS).put_nowait(line("ADDED", obj("job", 12)))
        await until(lambda: {"added a@11", "added job@12"} <= set(found.log.seen()))
        api.version, api.objects["workloads"], api.objects["jobs"] = 10, [obj("b", 9)], [obj("other", 8)]
        api.stream().put_nowait(CUT)
        await away.asked.wait()
        yield found


async def test_nothing_of_the_history_before_is_handed_over_once_another_one_has_begun(api: MiniApi) -> None:
    away = Away()
    async with restored(api, away) as f:
        api.stream(JOBS).put_nowait(line("MODIFIED", obj("job", 13)))
        before = len(api.requests)
        await asyncio.sleep(0.1)
        assert "modified job@13" not in f.log.seen(), "it would count as of the history that begins"
        assert not [one for one in api.requests[before:] if one.path.endswith(("/jobs", "/workloads"))]
        away.answers.set()
        await until(lambda: {"listed b@9", "listed other@8", "gone job@10", "gone a@10"} <= set(f.log.seen()))
        assert len(f.log.of(StoreRestored)) == 1


async def test_who_hears_nothing_of_it_looks_again_with_the_next_connection(api: MiniApi) -> None:
    away = Away()
    async with restored(api, away) as f:
        api.hang = True  # the connection is lost meanwhile
        await until(lambda: "Lost" in f.kinds())
        assert not f.log.of(StoreRestored)
        away.answers.set()
        api.hang = False
        await until(lambda: {"listed b@9", "listed other@8"} <= set(f.log.seen()))
        assert len(f.log.of(StoreRestored)) == 1
