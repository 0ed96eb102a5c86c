"""The schema's version: bring a database up to date, or say in one sentence why it will not do.

In: a database URL. Out: nothing, or `SchemaError`. Alembic does the work, over one connection with an advisory lock, so
that two starting replicas do not migrate at once."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

SCHEMA = "controlplane"
MINIMUM_SERVER = 150000
_LOCK = 0x636F6E74726F6C  # "control"


class SchemaError(Exception):
    """The database cannot be used as it is; the message says what to do."""


def sqlalchemy_url(url: str) -> str:
    """Return the URL with psycopg 3 as its driver; `SchemaError` if it is not a PostgreSQL URL."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise SchemaError(
            "the database URL cannot be read: expected postgresql://USER:PASSWORD@HOST:PORT/NAME"
        ) from None
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise SchemaError(
            f"the database URL is for {parsed.get_backend_name()}: Controlplane keeps its log in PostgreSQL"
        )
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def libpq_url(url: str) -> str:
    """Return the URL as libpq wants it, without SQLAlchemy's driver part."""
    return make_url(sqlalchemy_url(url)).set(drivername="postgresql").render_as_string(hide_password=False)


def migrations() -> Path:
    """Return the folder of the migrations: in a wheel inside the package, in a checkout beside it."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "_migrations"
    return packaged if packaged.is_dir() else package.parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    return config


def _connect(url: str) -> Connection:
    engine = create_engine(sqlalchemy_url(url), poolclass=NullPool, connect_args={"connect_timeout": 10})
    try:
        connection = engine.connect()
    except OperationalError as error:
        where = make_url(url).render_as_string(hide_password=True)
        detail = str(error.orig).strip().splitlines()[0] if error.orig else "no answer"
        raise SchemaError(f"cannot reach the database {where}: {detail}") from None
    server = connection.connection.driver_connection
    version: int = server.info.server_version  # type: ignore[union-attr]
    if version < MINIMUM_SERVER:
        connection.close()
        raise SchemaError(f"the database server is PostgreSQL {version // 10000}: Controlplane needs 15 or newer")
    return connection


def upgrade(url: str) -> tuple[str, str]:
    """Migrate the database to the newest schema; return the revision before ("" for none) and after.

    Raises `SchemaError` if the database does not answer, is too old, or refuses (its role must own the database and may
    have to create roles)."""
    with _connect(url) as connection:
        try:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            before = _current(connection)
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            after = _current(connection)
            connection.commit()
        except SQLAlchemyError as error:
            detail = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise SchemaError(f"the schema could not be upgraded: {detail}; nothing was changed") from None
    return before, after


def check(url: str) -> str:
    """Return the revision of a database whose schema is the newest one; `SchemaError` otherwise."""
    with _connect(url) as connection:
        current = _current(connection)
    newest = ScriptDirectory.from_config(_config()).get_current_head() or ""
    if current == newest:
        return current
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if current and current not in known:
        raise SchemaError(f"the schema {current} is newer than this version knows ({newest}): run a newer Controlplane")
    state = f"is at {current}, this version needs {newest}" if current else "is not there yet"
    raise SchemaError(f"the schema {state}: run `controlplane db upgrade`")


def _current(connection: Connection) -> str:
    context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    return context.get_current_revision() or ""
