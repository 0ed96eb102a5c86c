"""How Alembic reaches the database: over the connection that `controlplane.log.schema` hands in, or over `-x url=…` by
hand.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine, text

from controlplane.log.schema import SCHEMA, sqlalchemy_url
from controlplane.log.tables import metadata


def run(connection: Connection) -> None:
    # The version table lives in our schema, which the first migration fills: it has to be there before Alembic looks.
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema=SCHEMA,
        include_schemas=True,
        include_name=lambda name, kind, _: kind != "schema" or name == SCHEMA,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with create_engine(sqlalchemy_url(context.get_x_argument(as_dictionary=True)["url"])).begin() as own:
        run(own)
