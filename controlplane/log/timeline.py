"""Tells the newest primary of a PostgreSQL cluster from an old one that came back beside it.

In: connections of this process. Out: the timeline of each server that takes writes, and which connections lead to one
that is over. PostgreSQL counts the timeline up at each promotion, and a primary that was put aside by one keeps its own
(PostgreSQL's manual, "Timelines"). So of two servers of one cluster that both take writes, the one with the lower
timeline is the old one, whatever the order of hosts in the URL. What was seen is remembered for as long as the process
runs."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow as Row

_ASK = """
SELECT s.system_identifier, CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END
FROM pg_control_system() s"""


class Primary(NamedTuple):
    """A server that takes writes: the identity of its cluster, and its timeline."""

    system: int
    timeline: int


class OldPrimary(psycopg.OperationalError):
    """The server takes writes, and another one was promoted in its place."""


_newest: dict[int, int] = {}
_open: WeakKeyDictionary[psycopg.AsyncConnection[Row], Primary] = WeakKeyDictionary()


async def ask(connection: psycopg.AsyncConnection[Row]) -> Primary | None:
    """Return what server a connection leads to; None for a standby, and where the server does not say. Raises what a
    broken connection raises."""
    try:
        row = await (await connection.execute(_ASK, prepare=False)).fetchone()
    except psycopg.Error as error:
        if connection.closed or error.sqlstate is None:
            raise
        return None  # a service that lets nobody ask for it, or a server that is just being promoted
    return Primary(*row) if row is not None and row[1] else None


def meet(primary: Primary) -> bool:
    """Take note of a server that takes writes; return whether it is the newest one that was seen of its cluster. If it
    is newer than all before, the connections to those are cut: one process works with one server."""
    known = _newest.setdefault(primary.system, primary.timeline)
    if primary.timeline > known:
        _newest[primary.system] = primary.timeline
        for connection, old in list(_open.items()):
            if old.system == primary.system and old.timeline < primary.timeline:
                shut(connection)
    return primary.timeline >= known


def keep(connection: psycopg.AsyncConnection[Row], primary: Primary) -> None:
    """Remember to which server a connection leads."""
    _open[connection] = primary


def system_of(connection: psycopg.AsyncConnection[Row]) -> str:
    """Return the identity of the cluster that a connection leads to, `/NUMBER`; "" if it did not say."""
    found = _open.get(connection)
    return f"/{found.system}" if found is not None else ""


def over(connection: psycopg.AsyncConnection[Row], primary: Primary) -> OldPrimary:
    """Return what is to be said of a connection to an old primary."""
    return OldPrimary(
        f"the server at {connection.info.host}:{connection.info.port} takes writes on timeline {primary.timeline}, and "
        f"timeline {_newest[primary.system]} was seen: it is an old primary that came back; stop it or make it a "
        "standby (if it was restored on purpose, restart this process)"
    )


def shut(connection: psycopg.AsyncConnection[Row]) -> None:
    """End whatever waits on a connection: its socket is shut down."""
    with contextlib.suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def members(conninfo: str, **more: str) -> list[str]:
    """Return the connection strings of the servers that one names, in its order, each with what is said besides."""
    given = conninfo_to_dict(conninfo)
    lists = {name: str(given[name]).split(",") for name in ("host", "hostaddr", "port") if given.get(name)}
    count = max((len(words) for name, words in lists.items() if name != "port"), default=1)
    return [
        make_conninfo(conninfo, **{name: words[min(n, len(words) - 1)] for name, words in lists.items()}, **more)
        for n in range(count)
    ]
