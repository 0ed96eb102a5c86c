"""A database at a revision of the schema: how it was before a migration, and how it is after the way back."""

from __future__ import annotations

import psycopg
from alembic import command
from psycopg import sql
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from controlplane.log import schema


def migrate(url: str, revision: str, *, back: bool = False) -> None:
    """Bring the schema of a database to a revision, or back to it."""
    engine = create_engine(schema.sqlalchemy_url(url), poolclass=NullPool)
    with engine.begin() as connection:
        config = schema._config()
        config.attributes["connection"] = connection
        (command.downgrade if back else command.upgrade)(config, revision)


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
