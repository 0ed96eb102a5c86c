"""The schema's version: bring a database up to date, or say in one sentence why it will not do.

In: a database URL. Out: nothing, or `SchemaError`. Alembic migrates, over one connection with an advisory lock, so that
two starting replicas do not migrate at once. It is loaded for that alone: every start of the service asks for the
version, and Alembic and SQLAlchemy cost half a second of processor time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

import psycopg

from controlplane.log import rights
from controlplane.settings.secret import DatabaseUrl

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

SCHEMA = "controlplane"
MINIMUM_SERVER = 150000
ENCODING = "UTF8"
"""What a database has to be encoded in, and what every session speaks: `PGCLIENTENCODING` or a role may say another."""
_LOCK = 0x636F6E74726F6C  # "control"
_CONNECT_TIMEOUT = 10
_UNREADABLE = "the database URL cannot be read: expected postgresql://USER:PASSWORD@HOST:PORT/NAME"
_SCHEMES = ("postgresql", "postgres")
# The two lines by which a migration says what it is and what it follows.
_REVISION = re.compile(r'^revision = "(\w+)"$', re.MULTILINE)
_FOLLOWS = re.compile(r'^down_revision = "(\w+)"$', re.MULTILINE)


class SchemaError(Exception):
    """The database cannot be used as it is; the message says what to do."""


def sqlalchemy_url(url: str) -> str:
    """Return the URL with psycopg 3 as its driver; `SchemaError` if it is not a PostgreSQL URL."""
    return f"postgresql+psycopg{libpq_url(url).removeprefix('postgresql')}"


SESSION: LiteralString = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET jit = off; "
    "SET default_transaction_isolation = 'read committed'; SET idle_session_timeout = 0"
)
"""What every session of ours sets, whatever the server, the database or the login says: it spells times as psycopg
reads them; has no statement compiled, which takes up to seconds for each execution of one whose cost is overestimated;
sees what others have committed, which is what the statements are written for; and may be idle, as in a quiet fleet.

No options of a connection, which would take the place of the URL's own options."""
_UNCOMPILED: LiteralString = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase,
                   unnest(s.setconfig) one
                   WHERE d.datname = current_database() AND s.setrole = 0 AND starts_with(one, 'jit=')) THEN
        EXECUTE 'ALTER DATABASE ' || quote_ident(current_database()) || ' SET jit = off';
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'jit is left as it is: the login does not own the database';
END $$"""
"""Has the same hold for people who ask the views: compiling one takes longer than its answer. What somebody set himself
stays."""


def libpq_url(url: str) -> str:
    """Return the URL as libpq wants it, without SQLAlchemy's driver part; `SchemaError` if it is not a PostgreSQL
    URL.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise SchemaError(_UNREADABLE)
    backend = scheme.partition("+")[0]
    if backend not in _SCHEMES:
        raise SchemaError(f"the database URL is for {backend}: Controlplane keeps its log in PostgreSQL")
    return f"postgresql://{rest}"


def migrations() -> Path:
    """Return the folder of the migrations: in a wheel inside the package, in a checkout beside it."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "_migrations"
    return packaged if packaged.is_dir() else package.parent / "migrations"


def revisions() -> list[str]:
    """Return the revisions that this version knows, the oldest first, as the files of the migrations say them."""
    follows: dict[str, str] = {}
    for path in (migrations() / "versions").glob("*.py"):
        text = path.read_text()
        if found := _REVISION.search(text):
            before = _FOLLOWS.search(text)
            follows[before[1] if before else ""] = found[1]
    ordered, last = [], ""
    while last in follows:
        ordered.append(last := follows[last])
    return ordered


def upgrade(url: str) -> tuple[str, str]:
    """Migrate the database to the newest schema, and grant its roles their rights; return the revision before ("" for
    none) and after.

    Raises `SchemaError` if the database does not answer, is too old, or refuses (its role must own the database and may
    have to create roles)."""
    from alembic import command
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import OperationalError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    # libpq reads the URL: SQLAlchemy does not know one that names several hosts.
    engine = create_engine(
        "postgresql+psycopg://",
        poolclass=NullPool,
        creator=lambda: psycopg.connect(libpq_url(url), connect_timeout=_CONNECT_TIMEOUT, client_encoding=ENCODING),
    )
    try:
        opened = engine.connect()
    except OperationalError as error:
        raise _unreachable(url, error.orig) from None
    with opened as connection:
        _check_server(connection.connection.driver_connection.info)  # type: ignore[union-attr]
        try:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            before = _migrated(connection)
            _check_known(before)
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            after = _migrated(connection)
            for statement in rights.statements():
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql(_UNCOMPILED)
            connection.commit()
        except SQLAlchemyError as error:
            detail = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise SchemaError(f"the schema could not be upgraded: {detail}; nothing was changed") from None
    return before, after


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    return config


def _check_known(current: str) -> None:
    """Raise `SchemaError` for a revision that only a later version can have made."""
    known = revisions()
    if current and current not in known:
        raise SchemaError(
            f"the schema {current} is newer than this version knows ({known[-1]}): run a newer Controlplane"
        )


def _migrated(connection: Connection) -> str:
    from alembic.runtime.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    return context.get_current_revision() or ""


def check(url: str) -> str:
    """Return the revision of a database whose schema is the newest one; `SchemaError` otherwise."""
    try:
        opened = psycopg.connect(libpq_url(url), connect_timeout=_CONNECT_TIMEOUT, client_encoding=ENCODING)
    except psycopg.OperationalError as error:
        raise _unreachable(url, error) from None
    except psycopg.ProgrammingError:  # its text may quote the password
        raise SchemaError(_UNREADABLE) from None
    with opened as connection:
        _check_server(connection.info)
        current = _current(connection)
    newest = revisions()[-1]
    if current == newest:
        return current
    _check_known(current)
    state = f"is at {current}, this version needs {newest}" if current else "is not there yet"
    raise SchemaError(f"the schema {state}: run `controlplane db upgrade`")


def _current(connection: psycopg.Connection[tuple[object, ...]]) -> str:
    """Return the revision that Alembic has noted, "" for none."""
    there = connection.execute("SELECT to_regclass('controlplane.alembic_version')").fetchone()
    if there is None or there[0] is None:
        return ""
    row = connection.execute("SELECT version_num FROM controlplane.alembic_version").fetchone()
    return str(row[0]) if row else ""


def _check_server(info: psycopg.ConnectionInfo) -> None:
    if info.server_version < MINIMUM_SERVER:
        major = info.server_version // 10000
        raise SchemaError(f"the database server is PostgreSQL {major}: Controlplane needs 15 or newer")
    encoding = info.parameter_status("server_encoding")
    if encoding not in (None, ENCODING):
        raise SchemaError(
            f"the database {info.dbname} has the encoding {encoding}: Controlplane needs {ENCODING}. The encoding of a "
            f"database cannot be changed: make another one (CREATE DATABASE ... ENCODING '{ENCODING}' TEMPLATE template0)"
        )


def _unreachable(url: str, error: BaseException | None) -> SchemaError:
    lines = str(error or "no answer").strip().splitlines() or ["no answer"]
    return SchemaError(f"cannot reach the database {DatabaseUrl(libpq_url(url))}: {lines[0]}")
