"""PostgreSQL with streaming replication: a primary and its standbys, embedded servers of one test on 127.0.0.1.

In: a folder, the names of the standbys, and which of them a commit waits for. Out: `Replication`, whose primary can be
killed, whose standbys can be parted from it and promoted, and whose old primary can come back. It does what an operator
such as Patroni does, when a test says so."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql

from controlplane.local.postgres import EmbeddedPostgres, binaries, owner
from controlplane.log import schema
from tests.support import postgres
from tests.support.waiting import PATIENCE

FIRST = "one"


class Replication:
    """See the module. `synchronous` is the value of `synchronous_standby_names`."""

    def __init__(self, folder: Path, *standbys: str, synchronous: str = "") -> None:
        self.members = {name: EmbeddedPostgres(folder / name, port=0) for name in (FIRST, *standbys)}
        self.primary = FIRST
        self._synchronous = synchronous
        self._down: set[str] = set()

    def start(self) -> None:
        """Start the primary, migrate it, copy it, and let the copies follow it."""
        self.members[FIRST].launch()
        schema.upgrade(self.members[FIRST].url)
        for name in self.members:
            if name != FIRST:
                self._copy(name)
        if self._synchronous:
            for name in self.members:
                self.set(name, "synchronous_standby_names", self._synchronous)
        self.until(self.caught_up, "standbys that have it all")

    def stop(self) -> None:
        for member in reversed(self.members.values()):
            member.shutdown()

    @property
    def url(self) -> str:
        """The URL that names all of them, in the order in which they were made, for whoever wants to write."""
        login = f"controlplane:{quote(self.members[FIRST]._folder.password())}"
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members.values())
        return f"postgresql://{login}@{hosts}/controlplane?target_session_attrs=read-write"

    def ask(self, name: str, query: LiteralString, *parameters: object) -> Any:
        """Return the first value that a member answers, over its socket."""
        with psycopg.connect(self.members[name].url, autocommit=True) as connection:
            row = connection.execute(query, parameters).fetchone()
        return row[0] if row is not None else None

    def set(self, name: str, setting: str, value: str) -> None:
        """Change a setting of a running member."""
        change = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(setting), sql.Literal(value))
        with psycopg.connect(self.members[name].url, autocommit=True) as connection:
            connection.execute(change)
            connection.execute("SELECT pg_reload_conf()")

    def standbys(self) -> list[str]:
        """The members that are up and are not the primary."""
        return [name for name in self.members if name != self.primary and name not in self._down]

    def caught_up(self) -> bool:
        """Whether all standbys have what the primary has committed."""
        sent = self.ask(self.primary, "SELECT pg_current_wal_flush_lsn()")
        return all(self.ask(name, "SELECT pg_last_wal_replay_lsn() >= %s", sent) for name in self.standbys())

    def part(self, name: str) -> None:
        """Let a standby follow no longer: what is committed from now on, it lacks."""
        self.set(name, "primary_conninfo", "")
        gone = "SELECT count(*) = 0 FROM pg_stat_wal_receiver"
        self.until(lambda: self.ask(name, gone), "a standby that receives nothing")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill the primary's server: no checkpoint, nothing sent that was not sent yet."""
        process = self.members[self.primary]._process
        assert process is not None
        process.send(number)
        assert process.wait(PATIENCE) is not None
        self.members[self.primary].shutdown()
        self._down.add(self.primary)

    def most_advanced(self) -> str:
        """The standby that received most: the one to promote where a commit waits for any one of them."""
        received = "SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')"
        return max(self.standbys(), key=lambda name: int(self.ask(name, received)))

    def promote(self, name: str) -> None:
        """Let a standby be the primary, and the others follow it; the old one, if it is up, is not told."""
        old, self.primary = self.primary, name
        assert self.ask(name, "SELECT pg_promote()")
        for other in self.standbys():
            if other != old:
                self.set(other, "primary_conninfo", self._conninfo(other))

    def revive(self, name: str) -> None:
        """Start a member that was killed with its data as it is: an old primary is a second one that takes writes."""
        self.members[name].launch()

    def _conninfo(self, name: str) -> str:
        primary = self.members[self.primary]
        return f"host={primary._socket} port={primary.port} user=controlplane application_name={name}"

    def _copy(self, name: str) -> None:
        member, first = self.members[name], self.members[FIRST]
        data = member._folder.pgdata
        member._folder.lock()  # makes the folder one of ours
        member._folder.unlock()
        program = binaries.find(os.environ, owner.choose(first._folder.pgdata)).program("pg_basebackup")
        command = [
            program,
            "-d",
            self._conninfo(name),
            "-D",
            str(data),
            "-X",
            "stream",
            "--checkpoint=fast",
            "--no-sync",
        ]
        subprocess.run(command, check=True)
        (data / "standby.signal").touch()
        with (data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{self._conninfo(name)}'\n")
        stat = first._folder.pgdata.stat()
        for path in (data, *data.rglob("*")):
            os.chown(path, stat.st_uid, stat.st_gid, follow_symlinks=False)
        member.launch()

    def until(self, wanted: Any, what: str) -> None:
        """Wait, as long as a test waits for anything."""
        ends = time.monotonic() + PATIENCE
        while not wanted():
            assert time.monotonic() < ends, what
            time.sleep(0.02)


@contextmanager
def replicated(*standbys: str, synchronous: str = "") -> Iterator[Replication]:
    """Have a primary with standbys."""
    with postgres.folder() as below:
        made = Replication(below.parent, *standbys, synchronous=synchronous)
        try:
            made.start()
            yield made
        finally:
            made.stop()
