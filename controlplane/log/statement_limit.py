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
_ABOUT = 0.9
"""Of the limit so much has passed at least when the server ends a statement for it."""
CANCELED = "57014"
"""The SQLSTATE of a statement that the server ended: it took too long, or somebody had it cancelled."""


class StatementLimit:
    """The limit of the statements of one connection; `database` has the one of the settings."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.seconds = database.statement_timeout
        self._took = 0.0

    @property
    def database(self) -> Database:
        """Where the next connection goes, with the limit that its statements have."""
        return msgspec.structs.replace(self._database, statement_timeout=self.seconds)

    @contextmanager
    def bounded(self, connection: psycopg.AsyncConnection[Row]) -> Iterator[None]:
        """End a statement that takes longer, where the server does not; one that is quick brings the limit of the
        settings back."""
        began = time.monotonic()
        try:
            with bounded(connection, self.seconds + _SLACK):
                yield
        finally:
            self._took = time.monotonic() - began
        if self._took < self._database.statement_timeout:
            self.seconds = self._database.statement_timeout

    def failed(self, error: psycopg.Error, *, fresh: bool) -> str:
        """Take note of a statement that failed, on a connection that was `fresh` or open before; return what to say."""
        said, took = first_line(error), self._took
        self._took = 0.0
        ended = error.sqlstate == CANCELED and took >= self.seconds * _ABOUT  # and not by somebody's hand
        silent = error.sqlstate is None and took >= self.seconds + _SLACK
        if not ended and not (silent and fresh):
            return said
        before, self.seconds = self.seconds, min(2 * self.seconds, MOST * self._database.statement_timeout)
        return (
            f"a statement took longer than {before:g} s, and is sent again with {self.seconds:g} s: the database is "
            f"slow, or waits for a lock ({said})"
        )
