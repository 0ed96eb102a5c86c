"""A database at a revision of the schema: how it was before a migration, and how it is after the way back."""

from __future__ import annotations

from alembic import command
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
