"""Gathers which servers the database has: the standbys that follow it, and what the URL names.

In: a connection to the primary, and the URL. Out: `Standbys`, and one `DatabaseMember` for each server that the URL
names. Any login may ask for the number of standbys and for what a commit waits for, but not for which standby it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg

from controlplane.doctor.facts import DatabaseMember, Standbys
from controlplane.doctor.findings import said
from controlplane.log import timeline
from controlplane.log.connect import bounded, first_line
from controlplane.log.schema import libpq_url

# Whoever decodes the log for a subscription is no standby: it cannot take the primary's place.
_STANDBYS = """
SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), count(r.pid)
FROM pg_stat_replication r
WHERE NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')"""


async def standbys(connection: psycopg.AsyncConnection[Any]) -> Standbys:
    """Return what follows the server of a connection."""
    row = await (await connection.execute(_STANDBYS)).fetchone()
    assert row is not None, "an aggregate has one row"
    names, commit, connected = row
    return Standbys(names=names.strip(), commit=commit, connected=connected)


async def members(url: str, seconds: float) -> Sequence[DatabaseMember]:
    """Return what each server that a URL names says of itself; none if it names one alone."""
    named = timeline.members(libpq_url(url), target_session_attrs="any", connect_timeout=str(max(2, round(seconds))))
    if len(named) == 1:
        return []
    return await asyncio.gather(*(_member(one, seconds) for one in named))


async def _member(conninfo: str, seconds: float) -> DatabaseMember:
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    name = f"{given.get('host') or given.get('hostaddr')}:{given.get('port') or 5432}"
    try:
        connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        async with connection:
            with bounded(connection, seconds):
                primary = await timeline.ask(connection)
                row = await (await connection.execute("SELECT pg_is_in_recovery()")).fetchone()
    except psycopg.Error as error:
        return DatabaseMember(name=name, silent=said(first_line(error)))
    return DatabaseMember(name=name, writes=row == (False,), timeline=primary.timeline if primary else 0)
