"""A full batch that is sent while the one before it is in flight, so that the database goes on at once.

In: a batch that was judged on the one in flight. Out: what the database said to it, if it took it. It goes by a
connection of its own, and waits there for the lock of the log's head. It says after which batch and which position it
comes, so that it is committed after that batch or never. So it is tried once, and nothing but its commit counts: if it
came before the other one, or its answer was lost, whoever appends sends it again under the same id, once the other one
is known to be in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any

import psycopg
import structlog

from controlplane.log.batch import Batch
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

Answer = tuple[str, datetime]


class EarlyBatch:
    """See the module; one at a time. `send(batch)` is one try. `heard` is what had been heard of other appends before
    it was sent, `since` when that was, in seconds of the machine's clock."""

    def __init__(self, send: Callable[[Batch], Coroutine[Any, Any, Answer]]) -> None:
        self.heard, self.since = 0, 0.0
        self._send = send
        self._task: asyncio.Task[Answer] | None = None
        self._left: asyncio.Task[Answer] | None = None

    @property
    def on_its_way(self) -> bool:
        """Whether one was sent, and nobody has asked yet what became of it."""
        return self._task is not None

    @property
    def is_free(self) -> bool:
        """Whether one can be sent."""
        return self._task is None and (self._left is None or self._left.done())

    def send(self, batch: Batch, heard: int) -> None:
        """Send a batch that comes after the one in flight."""
        self.heard, self.since = heard, time.perf_counter()
        self._task = asyncio.create_task(self._send(batch), name="log-append-early")

    def leave(self) -> None:
        """Have nothing more to do with what was sent: the batch before it is not committed, so it cannot be."""
        if self._task is not None:
            self._left, self._task = self._task, None
            self._left.add_done_callback(_see)

    def landing(self) -> Awaitable[Answer | None] | None:
        """Return what waits for the answer, now that the batch before is committed; None if none was sent."""
        if self._task is None:
            return None
        self._left, self._task = self._task, None
        return _taken(self._left)

    async def close(self) -> None:
        """End what is on its way."""
        self.leave()
        if self._left is not None:
            await end(self._left)


async def _taken(task: asyncio.Task[Answer]) -> Answer | None:
    try:
        answer = await task
    except psycopg.Error as error:
        _log.debug("not appended early", error=str(error))
        return None
    return answer if answer[0] in ("new", "known") else None


def _see(task: asyncio.Task[Answer]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.debug("not appended early", error=str(error))
