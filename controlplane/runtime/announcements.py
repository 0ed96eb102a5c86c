"""Sends the Kubernetes Events that tell of writes, and again for a while where nobody answered.

In: the creation of an Event, whose name follows from what it tells, so that there is one of it however often it is
sent. Out: requests. An Event is news and no state: one that could not be told is tried again while it is young, a few
times and beside the writes, which never wait for it; then it is let go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from controlplane.clock import Clock
from controlplane.clusters.protocol import ApiError, Executes, Foreign, Unreachable
from controlplane.kube.kinds import Request
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

YOUNG = 300.0  # seconds for which an Event is news
TRIES = 12
MOST = 1000  # Events that wait to be told again; one more is let go
_FIRST, _LAST = 1.0, 60.0  # seconds between two tries
_LATER = frozenset({401, 408, 429})


class Announcements:
    """The Events of one process. `executor(cluster)` gives the verbs of a connected cluster, or None; `may` says
    whether we may act.
    """

    def __init__(
        self, clock: Clock, rng: random.Random, executor: Callable[[str], Executes | None], may: Callable[[], bool]
    ) -> None:
        self._clock, self._rng, self._executor, self._may = clock, rng, executor, may
        self._waiting: set[asyncio.Task[None]] = set()

    async def tell(self, cluster: str, event: Request) -> None:
        """Send an Event once; what fails is tried again later, by itself."""
        if await self._tried(cluster, event):
            return
        if len(self._waiting) >= MOST:
            _log.info("too many Events wait, one is let go", cluster=cluster, event_name=event.ref.name)
            return
        task = asyncio.create_task(self._again(cluster, event), name=f"announcement-{cluster}")
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        """Try nothing more."""
        await end(*self._waiting)

    async def _again(self, cluster: str, event: Request) -> None:
        pause, age = _FIRST, 0.0
        for _ in range(TRIES - 1):
            wait = pause * self._rng.uniform(0.5, 1.0)
            age += wait
            if age > YOUNG:
                break
            await self._clock.sleep(wait)
            if self._may() and await self._tried(cluster, event):
                return
            pause = min(pause * 2, _LAST)
        _log.info("an Event was not told", cluster=cluster, event_name=event.ref.name)

    async def _tried(self, cluster: str, event: Request) -> bool:
        """Return whether nothing is left to try: it is there, or the API server will not have it."""
        executor = self._executor(cluster)
        if executor is None:
            return False
        try:
            await executor.execute(event)
        except Unreachable:
            return False
        except ApiError as error:
            return error.status not in _LATER and error.status < 500
        except Foreign:
            return True
        return True
