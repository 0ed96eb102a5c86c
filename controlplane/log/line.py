"""One connection to the database of the log, for one statement at a time.

In: statements. Out: their rows, or what an error means to whoever keeps a log: fenced off, or not available."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import LiteralString

import psycopg
from psycopg.rows import TupleRow as Row

from controlplane.log import timeline
from controlplane.log.connect import Database
from controlplane.log.event import LogUnavailable
from controlplane.log.insistent_line import fenced
from controlplane.log.statement_limit import CANCELED, StatementLimit


class Line:
    """A connection that is made when it is needed, and again when it broke; one statement at a time, each bounded in
    time.
    """

    def __init__(self, database: Database, application: str) -> None:
        self.limit, self._application = StatementLimit(database), application
        self._connection: psycopg.AsyncConnection[Row] | None = None
        self._busy = asyncio.Lock()

    @property
    def server(self) -> str:
        """The identity of the database server of the present connection, `/NUMBER`; "" if it does not say."""
        return timeline.system_of(self._connection) if self._connection is not None else ""

    async def fetch(self, query: LiteralString, parameters: Mapping[str, object] | Sequence[object]) -> list[Row]:
        """Return the rows of a statement; raises `Fenced` if the log's fence refused it, `LogUnavailable` for whatever
        else went wrong.
        """
        async with self._busy:
            for attempt in (1, 2):
                fresh = self._connection is None or self._connection.closed
                try:
                    return await self._once(query, parameters)
                except psycopg.Error as error:
                    if (fence := fenced(error)) is not None:
                        raise fence from None
                    said = self.limit.failed(error, fresh=fresh)
                    await self.close()
                    # A connection that died while idle says nothing about the server: try once on a new one.
                    if fresh or attempt == 2 or error.sqlstate == CANCELED:
                        raise LogUnavailable(f"{_how(error)}: {said}") from None
        raise AssertionError("unreachable")

    async def _once(self, query: LiteralString, parameters: Mapping[str, object] | Sequence[object]) -> list[Row]:
        if self._connection is None or self._connection.closed:
            self._connection = await self.limit.database.connect(self._application)
        with self.limit.bounded(self._connection):
            cursor = await self._connection.execute(query, parameters, binary=True)
            return await cursor.fetchall()

    async def close(self) -> None:
        """Close the connection; the next statement opens another."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


def _how(error: psycopg.Error) -> str:
    away = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return "the database does not answer" if away else "the database refuses"
