"""The words of tests in which batches are in flight: to hold one, and to see what is judged on top of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime

import psycopg

from controlplane.log.appender import Appender
from controlplane.log.batch import Batch
from controlplane.log.event import Append
from controlplane.log.insistent_line import InsistentLine
from controlplane.log.postgres import PostgresLog
from tests.log.words import Saw, everything, request, saw, shape, until

Open = Callable[..., PostgresLog]
Sent = Callable[[Batch], Awaitable[tuple[str, datetime]]]


class Held:
    """An appender's way to the database: each batch waits until it is let go, by `go` before it is sent or `answer`
    after."""

    def __init__(self, log: PostgresLog) -> None:
        self._sent: Sent = log.appender._append
        self.batches: list[Batch] = []
        self.go, self.answer = asyncio.Event(), asyncio.Event()
        self.answer.set()
        self.fails: list[Exception] = []
        """What is raised instead of the next answers."""
        log.appender._append = self._append  # type: ignore[method-assign]

    async def _append(self, batch: Batch) -> tuple[str, datetime]:
        self.batches.append(batch)
        await self.go.wait()
        answer = await self._sent(batch)
        await self.answer.wait()
        if self.fails:
            raise self.fails.pop(0)
        return answer


class Early:
    """What is sent while the batch before it is in flight: what was sent, by which batch, and what was said."""

    def __init__(self, log: PostgresLog) -> None:
        self._sent = log.appender._sent
        self.said: list[tuple[uuid.UUID, str]] = []
        self.fails: list[Exception] = []
        """What is raised instead of the next answers."""
        log.appender._early._send = self._send

    async def _send(self, batch: Batch) -> tuple[str, datetime]:
        try:
            answer = await self._sent(self.log_line(), batch)
        except psycopg.Error as error:
            self.said.append((batch.id, str(error.sqlstate)))
            raise
        self.said.append((batch.id, answer[0]))
        if self.fails:
            raise self.fails.pop(0)
        return answer

    def log_line(self) -> InsistentLine:
        appender = self._sent.__self__  # type: ignore[attr-defined]
        assert isinstance(appender, Appender)
        return appender._other


async def begun(opener: Open, *asked: Append) -> tuple[PostgresLog, Held, list[asyncio.Task[int]]]:
    """A log with one event in stream a, where the first request is in flight and the others are judged on top of it."""
    log = opener()
    await log.take_epoch("one")
    await log.append(request(saw("a", 0)))
    held = Held(log)
    tasks = [asyncio.create_task(log.append(asked[0]))]
    await until(lambda: len(held.batches) == 1)
    tasks += [asyncio.create_task(log.append(one)) for one in asked[1:]]
    await until(lambda: drafted(log) == len(asked) - 1)
    return log, held, tasks


def drafted(log: PostgresLog) -> int:
    draft = log.appender._draft
    return len(draft.group) if draft is not None else -1


async def answers(tasks: list[asyncio.Task[int]]) -> list[int | str]:
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [one if isinstance(one, int) else type(one).__name__ for one in found]


async def numbers(log: PostgresLog) -> list[tuple[str, int, int]]:
    return [
        (stream, version, event.n)
        for _, stream, version, event in shape(await everything(log))
        if isinstance(event, Saw)
    ]
