"""How long the database may take for a statement of one connection: longer once it was shown to need longer.

In: what became of each try. Out: a limit in seconds, and what is to be said of it. The same statement with the same
limit would end the same way for ever, on a slow disk, or behind a lock. A server that says nothing on a connection that
was open before tells nothing of the statement: then the limit stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psycopg
from psycopg.rows import TupleRow as Row

from controlplane.log.connect import Database, bounded, first_line

MOST = 64
"""So many times the limit of the settings it becomes at most: about ten minutes of ten seconds."""
_SLACK = 1.0
"""Seconds for which the server's own word is waited for once it should have ended a statement."""
CANCELED = "57014"
"""The SQLSTATE of a statement that took too long."""


class StatementLimit:
    """The limit of the statements of one connection; `database` has the one of the settings."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.seconds = database.statement_timeout
        self._late = False

    @property
    def database(self) -> Database:
        """Where the next connection goes, with the limit that its statements have."""
        return msgspec.structs.replace(self._database, statement_timeout=self.seconds)

    @contextmanager
    def bounded(self, connection: psycopg.AsyncConnection[Row]) -> Iterator[None]:
        """End a statement that takes longer, where the server does not; one that is quick brings the limit of the
        settings back."""
        limit, began = self.seconds + _SLACK, time.monotonic()
        self._late = False
        try:
            with bounded(connection, limit):
                yield
        finally:
            took = time.monotonic() - began
            self._late = took >= limit
        if took < self._database.statement_timeout:
            self.seconds = self._database.statement_timeout

    def failed(self, error: psycopg.Error, *, fresh: bool) -> str:
        """Take note of a statement that failed, on a connection that was `fresh` or open before; return what to say."""
        said, silent = first_line(error), self._late and error.sqlstate is None
        self._late = False
        if error.sqlstate != CANCELED and not (silent and fresh):
            return said
        before, self.seconds = self.seconds, min(2 * self.seconds, MOST * self._database.statement_timeout)
        return (
            f"a statement took longer than {before:g} s, and is sent again with {self.seconds:g} s: the database is "
            f"slow, or waits for a lock ({said})"
        )
