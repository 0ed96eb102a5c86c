"""One connection to the database of the log, for whoever has to have an answer: what is asked is asked again until
there is one.

In: statements of one row. Out: that row, however long the database is away; the fence's refusal; or what is wrong with
the content of the statement. Whatever else the database says, it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import LiteralString, TypeVar

import psycopg
import structlog
from psycopg.rows import TupleRow as Row

from controlplane.log import arrays
from controlplane.log.connect import Database, unacceptable
from controlplane.log.event import Fenced, LogReplaced
from controlplane.log.statement_limit import StatementLimit

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")

AGAIN = 0.05
"""Seconds after which it is asked again for the first time; each time after that twice as many, up to two."""


class InsistentLine:
    """See the module. `held()` tells whether the caller has taken the log; `on_state(ok, detail)` is called after each
    try."""

    def __init__(
        self, database: Database, *, held: Callable[[], bool], on_state: Callable[[bool, str], None] | None
    ) -> None:
        self.limit, self._held, self._on_state = StatementLimit(database), held, on_state
        self._connection: psycopg.AsyncConnection[Row] | None = None
        self._fresh = True  # whether the last statement was the first one of its connection

    async def insist(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return the database's answer, however often it has to be asked; raises what is about the question itself."""
        delay = AGAIN
        while True:
            try:
                answer = await ask()
            except psycopg.Error as error:
                if (fence := fenced(error, held=self._held())) is not None:
                    raise fence from None
                if unacceptable(error):
                    raise
                detail = self.limit.failed(error, fresh=self._fresh)
                _log.warning("database away, append waits", error=detail, retry_in=round(delay, 2))
                if self._on_state:
                    self._on_state(False, detail)
                await self.close()
                await asyncio.sleep(delay)
                delay = min(delay * 2, 2.0)
            else:
                if self._on_state:
                    self._on_state(True, "")
                return answer

    async def row(self, query: LiteralString, parameters: Sequence[object]) -> Row:
        """Return the row of a statement, which has arrays; raises psycopg's errors."""
        self._fresh = self._connection is None or self._connection.closed
        if self._connection is None or self._fresh:
            self._connection = await self.limit.database.connect("appender")
            arrays.register(self._connection.adapters)
        with self.limit.bounded(self._connection):
            row = await (await self._connection.execute(query, parameters, binary=True)).fetchone()
        assert row is not None, "the function returns one row"
        return row

    async def close(self) -> None:
        """Close the connection; the next statement opens another."""
        if self._connection:
            await self._connection.close()
            self._connection = None


def fenced(error: psycopg.Error, *, held: bool = True) -> Fenced | None:
    """Return what a refusal by the fence of `controlplane.append_batch` or `renew_epoch` means; None for any other
    error.

    `held`: the caller had taken the log, so that it cannot be missing.
    """
    said = error.diag.message_primary or str(error)
    if error.sqlstate == "CP001" or (error.sqlstate == "CP002" and not held):
        return Fenced(said)
    if error.sqlstate in ("CP002", "CP003"):
        return LogReplaced(said, 0, int(error.diag.message_detail or 0))
    return None
