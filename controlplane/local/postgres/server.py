"""Runs one embedded server: take the folder, make the data once, start, wait until it answers, stop.

In: a folder, whether the data must survive a power cut, and a TCP port if people want to look in with psql. Out: a URL
over a unix socket that only this user (and root) can reach. The blocking methods do the work; `start` and `stop` run
them in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from controlplane.local.postgres import binaries, old, owner
from controlplane.local.postgres.errors import EmbeddedError
from controlplane.local.postgres.folder import Folder, write_private
from controlplane.local.postgres.process import ServerProcess
from controlplane.tasks import to_the_end

USER = "controlplane"
DATABASE = "controlplane"
_SOCKET_PORT = 5432  # names the socket's file; nothing listens on it unless a port was asked for
_READY_WITHIN = 120.0  # seconds; recovery after a crash takes its time
_NOT_DURABLE = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
_STILL_IN_USE = "pre-existing shared memory block"
_TAKEN = "Address already in use"


class EmbeddedPostgres:
    """A PostgreSQL server in `data_dir` that runs at most as long as this process.

    `durable=False` leaves out every fsync (tests, throw-away demos). `port` opens 127.0.0.1 as well, with a password
    (`tcp_url`); 0 takes any free port. `env` is asked for `PG_BINDIR` only."""

    def __init__(
        self, data_dir: Path, *, durable: bool = True, port: int | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._folder = Folder(data_dir)
        self._durable = durable
        self._port = port
        self._env = os.environ if env is None else env
        self._process: ServerProcess | None = None
        self._socket: Path | None = None

    @property
    def port(self) -> int | None:
        """The port of 127.0.0.1 that is open: 0 before the first start where any will do, None if none shall be."""
        return self._port

    @property
    def url(self) -> str:
        """The URL over the unix socket; it needs no password. `EmbeddedError` if the server is not running."""
        if self._socket is None:
            raise EmbeddedError("the embedded PostgreSQL is not running")
        return f"postgresql://{USER}@/{DATABASE}?host={quote(str(self._socket))}&port={self._port or _SOCKET_PORT}"

    @property
    def tcp_url(self) -> str:
        """The URL over 127.0.0.1, password included: for the user's psql. `EmbeddedError` without a port."""
        if self._socket is None or self._port is None:
            raise EmbeddedError("the embedded PostgreSQL has no TCP port")
        return f"postgresql://{USER}:{self._folder.password()}@127.0.0.1:{self._port}/{DATABASE}"

    async def start(self) -> str:
        """Start the server and return its URL; `EmbeddedError` says in one sentence why not. If cancelled, it is
        stopped again.
        """
        try:
            return await to_the_end(self.launch)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the server (open connections are cut) and release the folder, also if cancelled meanwhile. May be called
        twice.
        """
        await to_the_end(self.shutdown)

    async def __aenter__(self) -> EmbeddedPostgres:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def launch(self) -> str:
        """Do what `start` does, blocking; for callers without an event loop, such as fixtures."""
        if self._process is not None:
            return self.url
        self._folder.lock()
        try:
            self._launch()
        except BaseException as error:
            self.shutdown()
            if isinstance(error, OSError):
                raise EmbeddedError(f"the embedded PostgreSQL cannot be started: {error}") from error
            raise
        return self.url

    def shutdown(self) -> None:
        """Do what `stop` does, blocking: a fast shutdown, and force if that takes minutes."""
        process, self._process = self._process, None
        if process is not None:
            for number, patience in ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
                process.send(number)
                if process.wait(patience) is not None:
                    break
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.rmdir()
            self._socket = None
        self._folder.unlock()

    def _launch(self) -> None:
        folder = self._folder
        user = owner.choose(folder.pgdata)
        folder.open_to(user)
        programs = binaries.find(self._env, user, folder.major)
        if folder.major is None:
            self._initialise(programs, user)
        else:
            old.settle(folder.pgdata)
        any_port = self._port == 0
        if any_port:
            self._port = _free_port()
        self._socket = folder.socket(user)
        deadline = time.monotonic() + _READY_WITHIN
        while True:
            with folder.open_log() as log:
                before = log.tell()
                self._process = ServerProcess(self._command(programs), user, log, signal.SIGINT)
            if self._answers(self._process, deadline):
                break
            said = _fatal(folder.log, before)
            if any_port and _TAKEN in said and time.monotonic() <= deadline:
                self._port = _free_port()  # somebody was faster
                continue
            # Backends of a server that was killed take a moment to notice.
            if _STILL_IN_USE not in said or time.monotonic() > deadline:
                hint = ": choose another --database-port" if _TAKEN in said else ""
                raise EmbeddedError(
                    f"the embedded PostgreSQL in {folder.root} did not start: {said} (see {folder.log}){hint}"
                )
            time.sleep(0.2)
        self._create_database()

    def _initialise(self, programs: binaries.Binaries, user: owner.ServerUser) -> None:
        folder = self._folder
        folder.new_draft(user)
        password = folder.root / "initdb.password"
        write_private(password, folder.password(), user)
        command = [programs.program("initdb"), "-D", str(folder.draft), "-U", USER, f"--pwfile={password}"]
        command += [
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--data-checksums",
        ]
        if not self._durable:
            command.append("--no-sync")
        try:
            with folder.open_log() as log:
                before = log.tell()
                status = ServerProcess(command, user, log, signal.SIGKILL).wait(300)
        finally:
            password.unlink(missing_ok=True)
        if status != 0:
            raise EmbeddedError(f"initdb could not make a database in {folder.root}: {_fatal(folder.log, before)}")
        folder.draft.rename(folder.pgdata)

    def _command(self, programs: binaries.Binaries) -> list[str]:
        settings = [
            f"listen_addresses={'' if self._port is None else '127.0.0.1'}",
            "unix_socket_permissions=0700",
            "timezone=UTC",
            "log_timezone=UTC",
            *(() if self._durable else _NOT_DURABLE),
        ]
        command = [programs.program("postgres"), "-D", str(self._folder.pgdata), "-k", str(self._socket)]
        command += ["-p", str(self._port or _SOCKET_PORT)]
        return command + [part for setting in settings for part in ("-c", setting)]

    def _answers(self, process: ServerProcess, deadline: float) -> bool:
        """Wait until the server takes connections; False if it ended, or did not come to it in time."""
        import psycopg

        while not process.ended and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url, dbname="postgres", connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return not process.ended
        return False

    def _create_database(self) -> None:
        import psycopg

        with psycopg.connect(self.url, dbname="postgres", autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is None:
                connection.execute(f"CREATE DATABASE {DATABASE}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _fatal(log: Path, offset: int) -> str:
    """Return the line of the log since `offset` that says most about a failure."""
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode(errors="replace").splitlines()
    grave = [line for line in lines if any(word in line for word in ("FATAL", "PANIC", "error:"))]
    clash = [line for line in lines if "could not bind" in line]
    chosen = clash or grave or lines or ["it said nothing"]
    return chosen[0].partition("  ")[2].strip() or chosen[0].strip()
