"""Who reads a log bit by bit, as a process that folds it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from controlplane.log.codec import Codec
from controlplane.log.event import LogArchived, LogReplaced, LogUnavailable, Recorded
from controlplane.log.postgres import PostgresLog
from tests.log.words import TYPES, Saw

Row = tuple[int, str, int, int]
"""An event: its position, its stream, its version, and its number."""
T = TypeVar("T")


def row_of(one: Recorded) -> Row:
    assert isinstance(one.event, Saw)
    return one.position, one.stream, one.version, one.event.n


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the database answers."""
    while True:
        try:
            return await ask()
        except LogUnavailable:
            await asyncio.sleep(0.01)


class Follower:
    """Reads the log bit by bit, as a process that folds it: it begins anew if that is said."""

    def __init__(self, log: PostgresLog) -> None:
        self.log, self.rows, self.position = log, list[Row](), 0

    async def read(self, most: int = 1 << 30) -> None:
        looked = False
        while most > 0:
            try:
                if not looked:  # as who waits for the lead does all the while: by that it learns that the log went back
                    await again(self.log.heartbeat)
                    looked = True
                events = await again(lambda: self.log.read(self.position, 7))
            except (LogArchived, LogReplaced):
                # A process opens its log anew then.
                await self.log.close()
                self.log = PostgresLog(self.log._database, Codec(TYPES))
                self.rows, self.position = [], 0
                continue
            if not events:
                return
            self.rows += map(row_of, events)
            self.position, most = events[-1].position, most - len(events)


def difference(found: list[Row], expected: list[Row]) -> str:
    return f"not there: {sorted(set(expected) - set(found))[:5]}, too many: {sorted(set(found) - set(expected))[:5]}"
