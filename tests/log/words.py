"""The words of the log's tests: a few events, the shortest ways to append and to look, and a stage that closes what it
opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Event, NewEvent, Recorded, Unknown
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.log.port import Log
from controlplane.log.postgres import PostgresLog
from tests.support.waiting import PATIENCE

ROLE = "controlplane_service"


class Saw(Event):
    n: int = 0
    text: str = ""


class Chose(Event):
    cluster: str
    reason: str = "Fits"


TYPES = (Saw, Chose)
Opener = Callable[..., Log]


def saw(stream: str, n: int = 0, **more: Any) -> NewEvent:
    return NewEvent(stream=stream, event=Saw(n=n), **more)


def request(*events: NewEvent, **expected: int) -> Append:
    """A request; `a=3` expects stream `a` at version 3."""
    return Append(events, expected or None)


async def everything(log: Log, limit: int = 2000, after: int = 0) -> list[Recorded]:
    found: list[Recorded] = []
    while events := await log.read(found[-1].position if found else after, limit):
        found += events
    return found


def shape(events: list[Recorded]) -> list[tuple[int, str, int, Event | Unknown]]:
    return [(found.position, found.stream, found.version, found.event) for found in events]


async def outcome(log: Log, asked: Append) -> int | str:
    """What became of a request: how many of its events were new, or the name of the refusal."""
    try:
        return await log.append(asked)
    except Exception as error:
        return type(error).__name__


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def memory_opener(now: Callable[[], Any]) -> Opener:
    stores: dict[str, MemoryStore] = {}

    def open_(name: str = "main", codec: Codec | None = None) -> Log:
        return MemoryLog(stores.setdefault(name, MemoryStore()), codec or Codec(TYPES), now)

    return open_


@asynccontextmanager
async def postgres_opener(url: str, role: str = ROLE) -> AsyncIterator[Callable[..., PostgresLog]]:
    """A way to open logs of a database, all closed at the end."""
    opened: list[PostgresLog] = []

    def open_(name: str = "main", codec: Codec | None = None, **more: Any) -> PostgresLog:
        opened.append(PostgresLog(Database(url, role), codec or Codec(TYPES), log=name, **more))
        return opened[-1]

    try:
        yield open_
    finally:
        for log in opened:
            await log.close()
