"""Connections for the pages' questions: read-only, as the reader's role, a few at a time.

In: where the log is. Out: a `LogReader` for the length of one answer. One that broke is not given out again. Raises
psycopg's errors, `Busy` if all are at work, and `WrongSchema` if the schema is another one than this version reads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

import psycopg

from controlplane.audit.reads import LogReader
from controlplane.settings import Settings

_MOST = 8  # connections; what PostgreSQL works on at once for pages
_PATIENCE = 10.0  # seconds to wait for one


class Busy(Exception):  # noqa: N818
    """All connections are at work for others."""


class AbsentReader:
    """Stands for a reader while the database is away: what is asked of it raises why."""

    def __init__(self, log: str, error: psycopg.OperationalError) -> None:
        self.log, self.error = log, error

    def __getattr__(self, name: str) -> NoReturn:
        raise self.error


class Readers:
    """The connections of one process."""

    def __init__(self, connect: Callable[[], LogReader], most: int = _MOST) -> None:
        self._connect = connect
        self._idle: queue.LifoQueue[LogReader] = queue.LifoQueue()
        self._allowed = threading.Semaphore(most)

    @contextmanager
    def reader(self) -> Iterator[LogReader]:
        """Lend a reader of the log as it is now."""
        if not self._allowed.acquire(timeout=_PATIENCE):
            raise Busy("all connections to the database are at work: try again in a moment")
        try:
            reader = self._taken()
            try:
                yield reader
            finally:
                if reader.connection.closed or reader.connection.broken:
                    reader.close()
                else:
                    reader.at, reader.until = None, None
                    self._idle.put(reader)
        finally:
            self._allowed.release()

    def _taken(self) -> LogReader:
        """Return a connection that answers: one that died while idle says nothing about the server."""
        while True:
            try:
                reader = self._idle.get_nowait()
            except queue.Empty:
                return self._connect()
            try:
                reader.connection.execute("SELECT 1")
                return reader
            except psycopg.Error:
                reader.close()

    def close(self) -> None:
        """Close what is idle."""
        while not self._idle.empty():
            self._idle.get_nowait().close()


def connector(settings: Settings, url: str, patience: timedelta | None = None) -> Callable[[], LogReader]:
    """Return what opens a reader of the log of the settings, as the role of `web.role`; with `patience`, PostgreSQL
    works no longer on one question."""

    def connect() -> LogReader:
        reader = LogReader.connect(url, log=settings.database.log, role=settings.web.role)
        if patience is not None:
            milliseconds = int(patience / timedelta(milliseconds=1))
            reader.connection.execute(f"SET statement_timeout = {milliseconds}".encode())
        return reader

    return connect
