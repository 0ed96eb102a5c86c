"""Gathers how many old versions the log's head has, and who keeps them from being removed.

In: a connection. Out: `OldVersions`. The head is one row, of which each append and each heartbeat writes another
version, and whoever looks it up passes by all that are still there. PostgreSQL removes none that an open transaction
of the same database may see (its manual, "Routine Vacuuming"). Any login may ask for the number; whose transactions
there are is shown to members of `pg_read_all_stats`."""

from __future__ import annotations

from typing import Any

import psycopg

from controlplane.doctor.facts import OldVersions

_KEPT = """
SELECT coalesce((SELECT s.n_dead_tup FROM pg_stat_all_tables s
                 WHERE s.schemaname = 'controlplane' AND s.relname = 'log_head'), 0), o.who, o.seconds
FROM (SELECT) one LEFT JOIN LATERAL (
    SELECT concat(a.usename, ', process ', a.pid, coalesce(' (' || nullif(a.application_name, '') || ')', '')) AS who,
           extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
      AND a.xact_start IS NOT NULL AND coalesce(a.backend_xmin, a.backend_xid) IS NOT NULL
    UNION ALL
    SELECT concat(p.owner, ', prepared as ', p.gid), extract(epoch FROM clock_timestamp() - p.prepared)::float8
    FROM pg_prepared_xacts p WHERE p.database = current_database()
    ORDER BY seconds DESC LIMIT 1
) o ON true"""


async def old_versions(connection: psycopg.AsyncConnection[Any]) -> OldVersions:
    """Return what a server says of them."""
    row = await (await connection.execute(_KEPT)).fetchone()
    assert row is not None, "one row is joined to"
    count, who, seconds = row
    return OldVersions(count=count, holder=who or "", seconds=seconds or 0.0)
