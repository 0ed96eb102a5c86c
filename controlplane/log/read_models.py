"""Keeps read models beside the log: what the slow views say of Workloads that are over.

In: how much of the log to look through. Out: up to where it was. What is kept follows from the events, and is shown
only as long as it does: see migration 0015."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from controlplane.log.connect import Database
from controlplane.log.line import Line

_KEEP = "SELECT controlplane.keep_read_models(%(log)s, %(events)s, %(age)s)"


class ReadModels(Protocol):
    """Where the read models of one log are. Raises `LogUnavailable` when the keeper does not answer."""

    async def keep(self, events: int, age: timedelta) -> int:
        """Look through the next events, at most so many and none that is younger; return the position of the last."""

    async def close(self) -> None:
        """Let go of the database."""


class PostgresReadModels:
    """The read models of a log in PostgreSQL."""

    def __init__(self, database: Database, log: str) -> None:
        self._name, self._line = log, Line(database, "read models")

    async def keep(self, events: int, age: timedelta) -> int:
        """Look through the next events; see `ReadModels`."""
        ((position,),) = await self._line.fetch(_KEEP, {"log": self._name, "events": events, "age": age})
        return int(position)

    async def close(self) -> None:
        """Let go of the database."""
        await self._line.close()
