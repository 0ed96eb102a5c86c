"""A reflector that runs over a small API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.pace import Pace
from controlplane.clusters.reflector import Reflector
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import WORKLOADS
from controlplane.kube.watches import WatchSpec
from tests.clusters.miniapi import (
    MiniApi,
    Recorder,
    config,
    until,
)

QUICK = Pace(
    page=2, chunk=3, ahead=4, idle_timeout=30.0, off_retry=0.02, backoff_base=0.01, backoff_cap=0.05, healthy=1000.0
)


class Following:
    """A reflector that runs, with what it delivered and its server's transport."""

    def __init__(
        self, api: MiniApi, known: Any = None, pace: Pace = QUICK, is_gone: Callable[[str], bool] = lambda uid: False
    ) -> None:
        self.log = Recorder()
        self.poison: list[str] = []
        self.restored: list[str] = []
        self.patient = asyncio.Event()
        self._forget: Callable[[], object] = lambda: None
        budget = RequestBudget(random=random.Random(7).random)
        self.reflector = Reflector(
            "worker",
            WatchSpec(WORKLOADS, "a=b"),
            self.log.sink,
            budget,
            known=known,
            is_gone=is_gone,
            pace=pace,
            on_poison=lambda cluster, kind, why: self.poison.append(why),
            on_restored=self._restored,
            patient=self._waits,
        )
        self.transport = Transport("worker", config(api))
        self.task: asyncio.Task[None] | None = None

    async def _restored(self, why: str) -> None:
        self.restored.append(why)
        self._forget()

    async def _waits(self) -> None:
        await self.patient.wait()

    def start(self) -> None:
        self.task = asyncio.create_task(self.reflector.run(self.transport))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def shows(self, *expected: str) -> None:
        await until(lambda: len(self.log.deltas) >= len(expected) or (self.task is not None and self.task.done()))
        await asyncio.sleep(0.02)
        assert self.log.seen() == list(expected)


@asynccontextmanager
async def following(api: MiniApi, known: Any = None, pace: Pace = QUICK) -> AsyncIterator[Following]:
    found = Following(api, known, pace)
    found.start()
    try:
        yield found
    finally:
        await found.stop()
        await found.transport.close()
