"""Faults of a database at one statement after another: a statement that is not executed, one whose answer is lost, and
one that is answered by an error.

In: which statement of those that psycopg sends from now on, and how it fails. Out: the errors that psycopg raises for
it: the socket is shut, or the server itself answers with the error."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

BEFORE, AFTER = "not executed", "answer lost"
ERRORS = ("53100", "57014", "40001", "55P03", "25006", "57P01", "XX000", "42501")
"""Disk full, cancelled, serialization failure, no lock, read-only, shutdown, internal error, no right."""
HOWS = (BEFORE, AFTER, *ERRORS)
_RAISE = "DO $$ BEGIN RAISE EXCEPTION 'simulated' USING ERRCODE = '{}'; END $$"


class Faults:
    """Lets the statement `at` fail, counted from 1, and then every `every`-th after it, if that is not 0; `kinds`: and
    the first of each kind."""

    def __init__(self, how: str, at: int = 0, every: int = 0, *, kinds: bool = False) -> None:
        self.how, self.at, self.every, self.kinds = how, at, every, kinds
        self.count = 0
        self.statements: list[str] = []
        self.failed: list[str] = []

    def hits(self, statement: str) -> bool:
        """Count a statement; whether it is to fail."""
        self.count += 1
        first = self.kinds and statement not in self.statements
        self.statements.append(statement)
        late = self.count - self.at
        hit = first or late == 0 or (self.every > 0 and late > 0 and late % self.every == 0)
        if hit:
            self.failed.append(statement)
        return hit


def _shut(connection: psycopg.BaseConnection[Any]) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def failing(faults: Faults) -> Iterator[None]:
    """Let statements of asynchronous connections fail: of the service, each of which is a transaction."""
    execute, connect = psycopg.AsyncConnection.execute, psycopg.AsyncConnection.__dict__["connect"]

    async def executed(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        text = query if isinstance(query, str) else query.as_string(None)
        if not faults.hits(" ".join(text.split())):
            return await execute(self, query, *given, **more)
        if faults.how in ERRORS:
            return await execute(self, _RAISE.format(faults.how), prepare=False)
        if faults.how == BEFORE:
            _shut(self)
        answer = await execute(self, query, *given, **more)
        assert faults.how == AFTER, f"a statement was executed after {faults.how}: {answer}"
        _shut(self)
        raise psycopg.OperationalError("the answer is lost")

    async def connected(cls: Any, *given: Any, **more: Any) -> Any:
        if faults.hits("CONNECT"):
            if faults.how == AFTER:
                await (await connect.__func__(cls, *given, **more)).close()
            raise psycopg.OperationalError("no connection")
        return await connect.__func__(cls, *given, **more)

    psycopg.AsyncConnection.execute = executed  # type: ignore[method-assign,assignment]
    psycopg.AsyncConnection.connect = classmethod(connected)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        psycopg.AsyncConnection.execute = execute  # type: ignore[method-assign]
        psycopg.AsyncConnection.connect = connect  # type: ignore[method-assign]


@contextmanager
def failing_commands(faults: Faults) -> Iterator[None]:
    """Let what synchronous connections ask fail: of commands, which have transactions. What begins and ends one counts
    too."""
    wait = psycopg.Connection.wait

    def waited(self: Any, *given: Any, **more: Any) -> Any:
        if not faults.hits("?"):
            return wait(self, *given, **more)
        copying = self.pgconn.transaction_status == TransactionStatus.ACTIVE
        if faults.how in ERRORS and not copying:
            result = self.pgconn.exec_(_RAISE.format(faults.how).encode())
            assert result.status == ExecStatus.FATAL_ERROR
            raise psycopg.errors.error_from_result(result)
        if faults.how != AFTER:
            _shut(self)
            return wait(self, *given, **more)
        wait(self, *given, **more)
        _shut(self)
        raise psycopg.OperationalError("the answer is lost")

    psycopg.Connection.wait = waited  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        psycopg.Connection.wait = wait  # type: ignore[method-assign]
