"""The PostgreSQL of the test run: found or started once, with one migrated template from which every test gets a copy.

In: the environment. `CONTROLPLANE_TEST_PG` = url | docker | embedded | auto says which server; auto takes the first
that there is: `CONTROLPLANE_TEST_DATABASE_URL`, Docker, the embedded one. `CONTROLPLANE_TEST_CITUS_URL` comes before
all: the URL of a coordinator, on which each database has the log distributed (`tests/support/citus.py`). Out: a
`Server`, whose role may create databases. A run has one container, which its processes share with names of their own;
each has an embedded server to itself."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from controlplane.local.postgres import EmbeddedPostgres

IMAGE = "postgres:18-alpine"
WAYS = ("url", "docker", "embedded", "auto")
_CITUS = "CONTROLPLANE_TEST_CITUS_URL"
_PREFIX = "controlplane-test-"
_SHARED = "CONTROLPLANE_TEST_SHARED_IMAGE"  # set within a run: the server at the URL is its own container
_ROOM = 2 * 2**30  # bytes: data, its copies, and the write-ahead log of a busy run
_ABANDONED = 3600.0  # seconds after which a folder that nobody holds was left by a killed run


@dataclass(eq=False)
class Server:
    """A running server: `url` is a database of it from which others can be created."""

    url: str
    _line: psycopg.Connection | None = None

    def url_of(self, database: str) -> str:
        """Return the URL of another database of the server."""
        return make_url(self.url).set(database=database).render_as_string(hide_password=False)

    def create(self, database: str, template: str | None = None) -> str:
        """Create a database, empty or as a copy, and return its URL.

        The files are copied as they are: without fsync that takes half as long as a copy that is written to the log."""
        source = sql.SQL(" TEMPLATE {}").format(sql.Identifier(template)) if template else sql.SQL("")
        source += sql.SQL(" STRATEGY FILE_COPY")
        self._execute(sql.SQL("CREATE DATABASE {}{}").format(sql.Identifier(database), source))
        return self.url_of(database)

    def seal(self, database: str) -> None:
        """Cut the connections to a database and allow no more: only so can copies be made of it at any time."""
        self._execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(database)))
        self._execute(
            sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}").format(
                sql.Literal(database)
            )
        )

    def open(self, database: str) -> None:
        """Allow connections to a database that was sealed."""
        self._execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(sql.Identifier(database)))

    def drop(self, database: str) -> None:
        """Drop a database and cut the connections to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    def hang_up(self) -> None:
        """Close the connection that creates and drops databases."""
        if self._line is not None:
            self._line.close()

    def _execute(self, statement: sql.Composed) -> None:
        """Execute a statement on a connection that is kept: to make one takes the server as long as to copy a
        database."""
        if self._line is None or self._line.closed:
            self._line = psycopg.connect(self.url, autocommit=True, connect_timeout=10)
        self._line.execute(statement)


def new_name(kind: str) -> str:
    """Return a database name that no other test of any process uses."""
    return f"controlplane_{kind}_{uuid.uuid4().hex[:12]}"


def choose(env: Mapping[str, str], docker_answers: Callable[[], bool]) -> str:
    """Return citus, url, docker or embedded; `ValueError` if what is forced cannot be had."""
    way = env.get("CONTROLPLANE_TEST_PG") or "auto"
    url = env.get("CONTROLPLANE_TEST_DATABASE_URL")
    if env.get(_CITUS):
        return "citus"
    if way not in WAYS:
        raise ValueError(f"CONTROLPLANE_TEST_PG must be one of {', '.join(WAYS)}, not {way!r}")
    if way == "url" and not url:
        raise ValueError("CONTROLPLANE_TEST_PG=url needs CONTROLPLANE_TEST_DATABASE_URL")
    if way == "docker" and not docker_answers():
        raise ValueError("CONTROLPLANE_TEST_PG=docker, but no Docker engine answers")
    if way != "auto":
        return way
    if url:
        return "url"
    return "docker" if docker_answers() else "embedded"


@cache
def docker_answers() -> bool:
    """Whether a Docker engine answers within two seconds."""
    import docker

    with suppress(Exception):
        return bool(docker.from_env(timeout=2).ping())
    return False


@cache
def chosen() -> str:
    """The way of this run, decided once."""
    return choose(os.environ, docker_answers)


class NoContainerError(Exception):
    """Docker answers, and cannot run the container; the message is one line."""


def share(stack: ExitStack) -> str:
    """Start the container of this run, if Docker is the way, for all of its processes; return a line if there can be
    none.

    Raises `ValueError` if Docker was asked for and there can be no container. The environment tells the processes of a
    parallel run."""
    if chosen() != "docker":
        return ""
    try:
        url = stack.enter_context(container())
    except NoContainerError as error:
        if os.environ.get("CONTROLPLANE_TEST_PG") == "docker":
            raise ValueError(f"CONTROLPLANE_TEST_PG=docker, but {error}") from None
        said, told = f"postgresql: {error}; the embedded server takes its place", {"CONTROLPLANE_TEST_PG": "embedded"}
    else:
        said, told = "", {"CONTROLPLANE_TEST_PG": "url", "CONTROLPLANE_TEST_DATABASE_URL": url, _SHARED: IMAGE}
    stack.callback(_restore, {name: os.environ.get(name) for name in told})
    os.environ.update(told)
    chosen.cache_clear()
    return said


def _restore(before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@contextmanager
def container() -> Iterator[str]:
    """Have a PostgreSQL in a container, and yield its URL; `NoContainerError` if its image, or that of the reaper, is
    not to be had.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from testcontainers.community.postgres import PostgresContainer
    from testcontainers.core.exceptions import ContainerStartException

    flags = " ".join(f"-c {flag}=off" for flag in ("fsync", "full_page_writes", "synchronous_commit"))
    running = None
    try:
        running = PostgresContainer(IMAGE, driver=None).with_command(f"postgres {flags}")
        url = running.start().get_connection_url()
    except (DockerException, RequestException, ContainerStartException, OSError) as error:
        if running is not None:
            with suppress(Exception):
                running.stop()
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise NoContainerError(f"Docker cannot run {IMAGE} ({first})") from None
    try:
        yield url
    finally:
        running.stop()


def header() -> str:
    """Return the line for pytest's header."""
    explained = {
        "citus": _CITUS,
        "url": f"Docker, {os.environ[_SHARED]}" if _SHARED in os.environ else "CONTROLPLANE_TEST_DATABASE_URL",
        "docker": f"Docker, {IMAGE}",
        "embedded": "embedded server, no fsync",
    }
    return f"postgresql: {explained[chosen()]}"


@contextmanager
def server() -> Iterator[Server]:
    """Have a server for the time of a run."""
    way = chosen()
    if way == "citus":
        from tests.support.citus import CitusServer

        made = CitusServer(os.environ[_CITUS])
        try:
            yield made
        finally:
            made.close()
    elif way == "url":
        yield Server(os.environ["CONTROLPLANE_TEST_DATABASE_URL"])
    elif way == "docker":
        with container() as url:
            yield Server(url)
    else:
        with folder() as data, embedded(data) as url:
            yield Server(url)


@contextmanager
def embedded(data: Path) -> Iterator[str]:
    """Have an embedded server that is not durable."""
    postgres = EmbeddedPostgres(data, durable=False)
    try:
        yield postgres.launch()
    finally:
        postgres.shutdown()


@contextmanager
def folder() -> Iterator[Path]:
    """Have a folder below one that every user may pass through, as PostgreSQL needs when root runs the tests; pytest's
    are closed.
    """
    place = temporary()
    sweep(place)
    top = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    try:
        top.chmod(0o711)
        yield top / "pg"
    finally:
        shutil.rmtree(top, ignore_errors=True)


def temporary() -> Path:
    """Return the folder for throw-away data: memory if there is enough, where a copy of a database takes a tenth of the
    time.
    """
    memory = Path("/dev/shm")
    roomy = os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free >= _ROOM
    return memory if roomy else Path(tempfile.gettempdir())


def sweep(place: Path) -> None:
    """Remove the folders of runs that were killed: ours, old, and held by nobody."""
    for top in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = top.lstat()
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _ABANDONED:
                continue
            with (top / "pg" / "lock").open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(top)
