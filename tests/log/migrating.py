"""A database at a revision of the schema: how it was before a migration, and how it is after the way back."""

from __future__ import annotations

from typing import Any

import psycopg
from alembic import command
from psycopg import sql
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from controlplane.log import schema

# What 0016 adds and this program asks of any log: a schema before that has it as long as a test uses this program on
# it.
_ASKED = {
    "log_head": "archived_to bigint NOT NULL DEFAULT 0, kept_events bigint NOT NULL DEFAULT 0, kept_hash bytea",
    "streams": "archived_to bigint",
    "archives": "log text, directory text, dropped_at timestamptz",
}


def migrate(url: str, revision: str, *, back: bool = False) -> None:
    """Bring the schema of a database to a revision, or back to it."""
    engine = create_engine(schema.sqlalchemy_url(url), poolclass=NullPool)
    with engine.begin() as connection:
        _lent(connection, taken=True)
        config = schema._config()
        config.attributes["connection"] = connection
        (command.downgrade if back else command.upgrade)(config, revision)
        _lent(connection, taken=False)


def goes_there_and_back(url: str, before: str, after: str) -> None:
    """Assert that a migration changes the views of SQL, and that the way back leaves those of before."""
    migrate(url, before)
    were = views(url)
    migrate(url, after)
    are = views(url)
    assert were != are
    migrate(url, before, back=True)
    assert views(url) == were
    migrate(url, after)
    assert views(url) == are


def views(url: str) -> list[tuple[Any, ...]]:
    """Return the views of SQL for people and those that they rest on: what they are, their rights, and what is said of
    them and of their columns."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT c.relname, pg_get_viewdef(c.oid), obj_description(c.oid), c.relacl::text,"
            " (SELECT array_agg(row(a.attname, col_description(c.oid, a.attnum))::text ORDER BY a.attnum)"
            "  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)"
            " FROM pg_class c WHERE c.relnamespace IN ('audit'::regnamespace, 'read_models'::regnamespace)"
            " AND c.relkind = 'v' ORDER BY c.relnamespace, c.relname"
        ).fetchall()


def _lent(connection: Connection, *, taken: bool) -> None:
    """Give a schema before 0016 what this program asks of it, or take it away again."""
    current = schema._migrated(connection)
    if not current or current >= "0016":
        return
    for table, columns in _ASKED.items():
        if table == "archives":
            connection.exec_driver_sql(
                "DROP TABLE IF EXISTS controlplane.archives"
                if taken
                else f"CREATE TABLE controlplane.archives ({columns}); GRANT SELECT ON controlplane.archives TO PUBLIC"
            )
            continue
        for column in columns.split(", "):
            change = f"DROP COLUMN IF EXISTS {column.split()[0]}" if taken else f"ADD COLUMN {column}"
            connection.exec_driver_sql(f"ALTER TABLE controlplane.{table} {change}")


def partition_size(url: str, size: int) -> None:
    """Let the partitions of a database hold so many positions each, from the first one on if there is no event yet."""
    with psycopg.connect(schema.libpq_url(url), autocommit=True) as connection:
        body = sql.SQL("RETURNS bigint LANGUAGE sql IMMUTABLE RETURN {}").format(sql.Literal(size))
        connection.execute(sql.SQL("CREATE OR REPLACE FUNCTION controlplane.partition_size() {}").format(body))
        end = connection.execute(
            "SELECT coalesce(max(position), 0) / %s * %s + %s + 1 FROM controlplane.log_head", (size, size, size)
        )
        ((upto,),) = end.fetchall()
        place = sql.SQL("FOR VALUES FROM (MINVALUE) TO ({})").format(sql.Literal(upto))
        with connection.transaction():
            connection.execute("ALTER TABLE controlplane.events DETACH PARTITION controlplane.events_1")
            connection.execute(
                sql.SQL("ALTER TABLE controlplane.events ATTACH PARTITION controlplane.events_1 {}").format(place)
            )
            connection.execute("UPDATE controlplane.log_head SET room = 0")
