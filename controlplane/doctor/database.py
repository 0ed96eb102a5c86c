"""Gathers what the database says of itself and of the log in it.

In: the way to the database. Out: `DatabaseFacts`. Only questions are asked, in a session that may write nothing; each
has a time of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.errors import DiskFull

from controlplane.audit.clusters_now import unknown_copies
from controlplane.audit.fleet import fold, load, surroundings
from controlplane.audit.reads import Filter, LogReader
from controlplane.clock import Clock
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.hosting import reading_policy
from controlplane.doctor import replication
from controlplane.doctor.asking import asked, in_thread, unread
from controlplane.doctor.facts import DatabaseFacts, Lead, Login, OldVersions, Server, Standbys
from controlplane.doctor.findings import Unread, said
from controlplane.doctor.old_versions import old_versions
from controlplane.log import schema
from controlplane.log.connect import Database, RoleMissing, bounded, first_line, unverified_host
from controlplane.settings.model import Settings

_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")
_SERVER = """
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
       (SELECT reset_val::boolean FROM pg_settings WHERE name = 'default_transaction_read_only'), clock_timestamp()
"""
_CHOSEN = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"
_ENCRYPTED = "SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)"
_SCHEMA = "controlplane"
# What the service does: take the lead, keep it, append, keep snapshots and read models; and read what it has written.
_FUNCTIONS = ("append_batch", "known_to_log", "take_epoch", "renew_epoch", "keep_snapshot", "keep_read_models")
_READ = ("events", "batches", "log_head", "bodies", "snapshots")
# What the commands read by the same role.
_HISTORY = ("audit", "events")
_MAY_USE = "SELECT has_schema_privilege(%s, 'USAGE')"
_CHANGES = ("UPDATE", "DELETE", "TRUNCATE", "INSERT")
_OWNER = """
SELECT current_user, pg_has_role(current_user, nspowner, 'USAGE')
FROM pg_namespace WHERE nspname = %s
"""
_MAY_CALL = """
SELECT p.proname, bool_or(has_function_privilege(p.oid, 'EXECUTE'))
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %s AND p.proname = ANY(%s) GROUP BY 1
"""
_MAY_TOUCH = "SELECT has_table_privilege(format('%%I.%%I', %s::text, %s::text), %s)"
_LEAD = """
SELECT id::text, position, epoch, holder,
       CASE WHEN isfinite(renewed_at) THEN extract(epoch FROM clock_timestamp() - renewed_at)::float8 END
FROM controlplane.log_head WHERE log = %s
"""

_ROOM_MB = 16
# A sort that is larger than its memory goes to a file beside the database, also in a session that may write nothing,
# and is gone with its answer. The volume of the write-ahead log, if that is another one, is not tried.
_ROOM = """
SELECT set_config('work_mem', '64kB', false), set_config('temp_tablespaces', '', false)
"""
_SPILLS = """
SELECT count(*) FROM (SELECT repeat(md5(i::text), 32) AS text FROM generate_series(1, %s) AS i ORDER BY 1 OFFSET 0) AS sorted
"""

_Connection = psycopg.AsyncConnection[Any]


async def gather(settings: Settings, clock: Clock, seconds: float) -> DatabaseFacts:
    """Return what there is to know; never raises for what the database or its absence says."""
    url = settings.database.url.reveal()
    if not url:
        return DatabaseFacts(unreachable="no database is set")
    try:
        host = unverified_host(url)
    except (psycopg.Error, schema.SchemaError):  # whose text may quote the password
        return DatabaseFacts(unreachable="the URL cannot be read: expected postgresql://USER:PASSWORD@HOST:PORT/NAME")
    limit = max(1, round(seconds))
    database = Database(url, settings.database.role, connect_timeout=limit, statement_timeout=seconds)
    try:
        connection = await asyncio.wait_for(database.connect("doctor"), seconds + 1)
    except RoleMissing:
        return DatabaseFacts(unreachable=f'there is no role "{settings.database.role}" (database.role)')
    except psycopg.Error as error:
        return DatabaseFacts(unreachable=said(first_line(error)))
    except Exception as error:
        return DatabaseFacts(unreachable=unread(error, seconds).said)
    try:
        return await _gather(connection, settings, clock, seconds, host)
    finally:
        with contextlib.suppress(psycopg.Error):
            await connection.close()


async def _gather(
    connection: _Connection, settings: Settings, clock: Clock, seconds: float, host: str
) -> DatabaseFacts:
    url, log = settings.database.url.reveal(), settings.database.log

    async def of(question: Any) -> Any:
        with bounded(connection, seconds):
            return await asked(question, seconds + 1)

    await of(connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
    server = await of(_server(connection, clock))
    encrypted = await of(_one(connection, _ENCRYPTED))
    following: Standbys | Unread = await of(replication.standbys(connection))
    members, revision, connections, unknown = await asyncio.gather(
        asked(replication.members(url, seconds), seconds + 1),
        asked(in_thread(lambda: schema.check(url)), seconds),
        asked(in_thread(lambda: _connections(settings)), seconds),
        asked(in_thread(lambda: _unknown_copies(settings)), seconds),
    )
    login: Login | Unread = await of(_login(connection))
    lead: Lead | Unread | None = await of(_lead(connection, log))
    no_room: str | Unread = await of(_no_room(connection))
    kept: OldVersions | Unread = await of(old_versions(connection))
    return DatabaseFacts(
        unverified_host=host,
        encrypted=encrypted if isinstance(encrypted, Unread) else bool(encrypted[0]),
        server=server,
        standbys=following,
        members=members,
        no_room=no_room,
        old_versions=kept,
        revision=revision,
        login=login,
        lead=lead,
        connections=connections,
        unknown_copies=unknown,
    )


async def _one(connection: _Connection, statement: str, *parameters: object) -> Any:
    cursor = await connection.execute(statement.encode(), parameters or None)
    return await cursor.fetchone()


async def _server(connection: _Connection, clock: Clock) -> Server:
    version, standby, read_only, then = await _one(connection, _SERVER)
    now = clock.now()
    cursor = await connection.execute(_CHOSEN.encode(), [list(_SETTINGS)])
    return Server(
        version=version,
        standby=standby,
        read_only=read_only,
        settings={str(name): str(value) for name, value in await cursor.fetchall()},
        clock=(_aware(then), now),
    )


def _aware(then: datetime) -> datetime:
    return then.astimezone(UTC)


async def _login(connection: _Connection) -> Login:
    """Return what the login may do; a function that a schema does not have yet is missing."""
    found = await _one(connection, _OWNER, _SCHEMA)
    if found is None:
        raise ValueError("there is no schema controlplane, or it is not shown to this login")
    user, owns = found
    if not (await _one(connection, _MAY_USE, _SCHEMA))[0]:  # then nothing in it can be asked about
        return Login(user=str(user), owns=bool(owns), missing=(f"USAGE on schema {_SCHEMA}",))
    cursor = await connection.execute(_MAY_CALL.encode(), [_SCHEMA, list(_FUNCTIONS)])
    callable_ = {str(name) for name, may in await cursor.fetchall() if may}
    missing = [f"EXECUTE on {_SCHEMA}.{name}" for name in _FUNCTIONS if name not in callable_]
    missing += [
        f"SELECT on {_SCHEMA}.{table}"
        for table in _READ
        if not (await _one(connection, _MAY_TOUCH, _SCHEMA, table, "SELECT"))[0]
    ]
    history, view = _HISTORY
    if not (await _one(connection, _MAY_USE, history))[0]:
        missing.append(f"USAGE on schema {history}")
    elif not (await _one(connection, _MAY_TOUCH, history, view, "SELECT"))[0]:
        missing.append(f"SELECT on {history}.{view}")
    beyond = [
        f"{right} on {_SCHEMA}.events"
        for right in _CHANGES
        if (await _one(connection, _MAY_TOUCH, _SCHEMA, "events", right))[0]
    ]
    return Login(user=str(user), owns=bool(owns), missing=tuple(missing), beyond=tuple(beyond))


async def _lead(connection: _Connection, log: str) -> Lead | None:
    found = await _one(connection, _LEAD, log)
    if found is None:
        return None
    log_id, position, epoch, holder, age = found
    return Lead(log=log, log_id=log_id, position=position, epoch=epoch, holder=holder, age=age)


async def _no_room(connection: _Connection) -> str:
    """Return what the server says when it is to write a temporary file, "" if it could."""
    await connection.execute(_ROOM.encode())
    try:
        await _one(connection, _SPILLS, _ROOM_MB * 1024)
    except DiskFull as error:
        return first_line(error)
    return ""


def _connections(settings: Settings) -> Mapping[str, Connection]:
    """Return the connections as the log says they are; runs in a thread."""
    url = settings.database.url.reveal()
    with LogReader.connect(url, log=settings.database.log, role=settings.database.role) as reader:
        around = reader.events(Filter(streams=surroundings(reader)))
        return dict(fold(reading_policy(settings), around).connections)


def _unknown_copies(settings: Settings) -> Mapping[str, Sequence[str]]:
    """Return the copies on each cluster of which the log does not know whose they are; runs in a thread. Without
    dispatch there is no Workload to look at."""
    if "multikueue" not in settings.run.controllers:
        return {}
    url = settings.database.url.reveal()
    with LogReader.connect(url, log=settings.database.log, role=settings.database.role) as reader:
        return unknown_copies(load(reader, reading_policy(settings)).workloads.values())
