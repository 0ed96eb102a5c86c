"""Distributes the tables of the log over the nodes of a Citus cluster, by log.

In: the URL of a coordinator whose database has the newest schema. Out: every table that says of which log a row is lies
on the node of that log, all rows of one log on one node; bodies are on every node. Statements that Citus refuses are
changed where they stand in functions: their names, arguments and answers stay. Plain PostgreSQL never runs any of
this."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql

from controlplane.log.schema import ENCODING, SchemaError, libpq_url

TABLES: tuple[LiteralString, ...] = (
    "controlplane.log_head",
    "controlplane.events",
    "controlplane.streams",
    "controlplane.sources",
    "controlplane.new_marks",
    "controlplane.batches",
    "controlplane.snapshots",
    "controlplane.archives",
    "read_models.progress",
    "read_models.streams",
    "read_models.workload_phases",
    "read_models.runs",
    "read_models.placements",
    "read_models.pending_reasons",
    "read_models.effects",
)
"""What is distributed by `log`. The first one is what the others lie with."""
EVERYWHERE: LiteralString = "controlplane.bodies"
"""What belongs to no log: bodies are known by their hash, and logs share them."""
SHARDS = 8
ROLES: tuple[LiteralString, ...] = ("controlplane_service", "controlplane_reader")
SHOWN: tuple[LiteralString, ...] = (
    "controlplane.events",
    "controlplane.streams",
    "controlplane.archives",
    *(table for table in TABLES if table.startswith("read_models.")),
)
"""What the views of `audit` show whole. A node is asked for rows of tables, not of a view, by whoever asks the view: so
the roles need the right to read them. `bodies` is not among them: it is not for readers."""
_VIEWS: LiteralString = "SELECT viewname FROM pg_views WHERE schemaname = 'audit' ORDER BY viewname"

_CHANGES = Path(__file__).with_name("citus.sql")
_EVERY_FUNCTION = ("SET plan_cache_mode TO 'force_generic_plan'", "SET plan_cache_mode TO 'auto'")
"""Citus plans some statements for the values at hand alone."""

_FUNCTIONS: LiteralString = """
SELECT p.proname, p.pronargs, pg_get_functiondef(p.oid) FROM pg_proc p
WHERE p.pronamespace = 'controlplane'::regnamespace ORDER BY p.proname, p.pronargs"""
# Two partitions beyond the longest log: who appends on another node than the coordinator makes none.
_AHEAD: LiteralString = """
SELECT controlplane.make_room(max(h.position) + 2 * controlplane.partition_size()) FROM controlplane.log_head h"""
_DISTRIBUTED: LiteralString = "SELECT logicalrelid::text FROM pg_dist_partition"


def distribute(url: str, shards: int = SHARDS) -> list[str]:
    """Distribute what is not distributed yet, and change the functions; return the tables that were. May be repeated,
    and is to be after each migration. `shards` is into how many parts logs are sorted by the hash of their name.

    Raises `SchemaError` if the database is no coordinator, or has another schema."""
    with psycopg.connect(libpq_url(url), client_encoding=ENCODING) as connection:
        row = connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL").fetchone()
        if row != (True,):
            raise SchemaError("the database has no extension citus: run this on the coordinator of a Citus cluster")
        there = {name for (name,) in connection.execute(_DISTRIBUTED)}
        done = []
        # All of it or nothing: so over one connection to each node.
        connection.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
        connection.execute("SELECT set_config('citus.shard_count', %s, true)", (str(shards),))
        if EVERYWHERE not in there:
            connection.execute("SELECT create_reference_table(%s)", (EVERYWHERE,))
            done.append(EVERYWHERE)
        for table in TABLES:
            if table in there:
                continue
            if table == "controlplane.batches":  # whatever is unique has to be so by log
                connection.execute("DROP INDEX controlplane.batches_batch")
                connection.execute("CREATE UNIQUE INDEX batches_batch ON controlplane.batches (log, batch)")
            beside = "none" if table == TABLES[0] else TABLES[0]
            connection.execute("SELECT create_distributed_table(%s, 'log', colocate_with => %s)", (table, beside))
            done.append(table)
        _change_functions(connection)
        connection.execute(_AHEAD)
        for role in ROLES:  # a coordinator speaks to its nodes as whoever asks it
            asleep = connection.execute("SELECT NOT rolcanlogin FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
            if asleep == (True,):
                connection.execute(sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(role)))
        _let_read(connection)
    return done


def _let_read(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Let the roles read what the views show, on all nodes: a view comes to another node without its rights."""
    roles = sql.SQL(", ").join(map(sql.Identifier, ROLES))
    views = (f"audit.{view}" for (view,) in connection.execute(_VIEWS))
    names = sql.SQL(", ").join(sql.Identifier(*name.split(".")) for name in (*SHOWN, *views))
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA audit, controlplane, read_models TO {}").format(roles))
    connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(names, roles))


def changes() -> Mapping[tuple[str, int], Sequence[tuple[str, str]]]:
    """Return, by a function's name and the number of its arguments, what takes the place of what in it."""
    found = defaultdict[tuple[str, int], list[tuple[str, str]]](list)
    of, part, lines = ("", 0), "", dict[str, list[str]]()
    for line in [*_CHANGES.read_text().splitlines(), "-- take"]:
        words = line.split()
        part = words[1] if words[:1] == ["--"] and words[1] in ("function", "take", "put") else part
        if words[:2] == ["--", part]:
            if part != "put" and lines.get("put"):
                found[of].append(("\n".join(lines["take"]), "\n".join(lines["put"])))
                lines = {}
            of = (words[2], int(words[3])) if part == "function" else of
        elif not line.startswith("-- "):
            lines.setdefault(part, []).append(line)
    return found


def _change_functions(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    known = changes()
    for name, count, definition in connection.execute(_FUNCTIONS).fetchall():
        changed = str(definition).replace(*_EVERY_FUNCTION)
        wanted = known.get((str(name), int(str(count))), ())
        for before, after in () if all(after in changed for _, after in wanted) else wanted:
            if changed.count(before) != 1:
                raise SchemaError(f"this version does not know how to distribute the function {name} of this schema")
            changed = changed.replace(before, after)
        if changed != definition:
            connection.execute(changed.encode())
