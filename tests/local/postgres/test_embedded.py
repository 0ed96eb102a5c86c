"""The embedded server as its users see it: a URL that answers, data that stays, one process a folder, and nothing that
outlives us.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from controlplane.local.postgres import EmbeddedError, EmbeddedPostgres
from controlplane.local.postgres import server as server_module
from tests.support import postgres as support
from tests.support.waiting import PATIENCE

CHILD = """
import sys, time
from pathlib import Path
from controlplane.local.postgres import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1]), durable=False).launch(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def data() -> Iterator[Path]:
    with support.folder() as folder:
        yield folder


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def servers(data: Path) -> list[int]:
    """The processes that serve this folder: their command line names it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(data / "pgdata") in command.split(b"\0") and b"postgres" in command.split(b"\0")[0]:
            found.append(int(entry.parent.name))
    return found


def one(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement).fetchone()  # type: ignore[call-overload]
        return row[0] if row else None


@pytest.mark.deep
async def test_data_stays_from_one_start_to_the_next(data: Path) -> None:
    async with EmbeddedPostgres(data, durable=False) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        assert one(server.url, "SELECT inet_server_addr()") is None  # the unix socket
        assert one(server.url, "SHOW listen_addresses") == ""
        first = one(server.url, "SELECT system_identifier FROM pg_control_system()")
    assert servers(data) == []
    with pytest.raises(EmbeddedError, match="not running"):
        _ = server.url
    async with EmbeddedPostgres(data, durable=False) as server:
        assert one(server.url, "SELECT answer FROM kept") == 42
        assert one(server.url, "SELECT system_identifier FROM pg_control_system()") == first


async def test_durable_means_fsync_and_a_port_needs_the_password(data: Path) -> None:
    async with EmbeddedPostgres(data, durable=True, port=0) as server:
        assert one(server.url, "SHOW fsync") == "on"
        assert one(server.tcp_url, "SELECT host(inet_server_addr())") == "127.0.0.1"
        user, _, rest = server.tcp_url.removeprefix("postgresql://").partition(":")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://{user}:wrong@{rest.partition('@')[2]}")
        password = data / "password"
        assert stat.S_IMODE(password.stat().st_mode) == 0o600
        assert password.stat().st_uid == os.geteuid()
    async with EmbeddedPostgres(data, durable=False) as server:
        assert one(server.url, "SHOW fsync") == "off"
        with pytest.raises(EmbeddedError, match="no TCP port"):
            _ = server.tcp_url


@pytest.mark.deep
async def test_the_socket_is_private(data: Path) -> None:
    async with EmbeddedPostgres(data, durable=False):
        assert stat.S_IMODE((data / "socket").stat().st_mode) == 0o700
        assert stat.S_IMODE((data / "pgdata").stat().st_mode) == 0o700


async def test_a_folder_has_one_server(data: Path) -> None:
    async with EmbeddedPostgres(data, durable=False):
        with pytest.raises(EmbeddedError, match=rf"in use by another process \({os.getpid()}\)"):
            await EmbeddedPostgres(data, durable=False).start()


@pytest.mark.deep
async def test_starting_and_stopping_twice_is_once(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    assert await server.start() == await server.start()
    assert len(servers(data)) == 1
    await server.stop()
    await server.stop()


async def test_a_cancelled_start_leaves_nothing(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    starting = asyncio.create_task(server.start())
    while not data.exists():
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert servers(data) == []
    async with EmbeddedPostgres(data, durable=False) as again:
        assert one(again.url, "SELECT 1") == 1


def test_it_dies_with_a_killed_process_and_starts_again(data: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(data)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        assert servers(data)
    finally:
        child.kill()
        child.communicate()
    # At once, while the old server may still be stopping.
    server = EmbeddedPostgres(data, durable=False)
    try:
        assert one(server.launch(), "SELECT answer FROM kept") == 42
    finally:
        server.shutdown()
    until(lambda: servers(data) == [])


def test_nothing_is_left_running_after_a_kill(data: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(data)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        child.stdout.readline()
    finally:
        child.kill()
        child.communicate()
    until(lambda: servers(data) == [])
    assert not (data / "pgdata" / "postmaster.pid").exists()
    assert list((data / "socket").iterdir()) == []


@pytest.mark.deep
def test_a_server_that_nobody_holds_is_replaced(data: Path) -> None:
    """Somebody started one by hand on our data: it is stopped, and ours takes over."""
    server = EmbeddedPostgres(data, durable=False)
    url = server.launch()
    pid = servers(data)[0]
    status = Path(f"/proc/{pid}/status").read_text()
    uid, gid = (int(status.split(f"{name}:")[1].split()[0]) for name in ("Uid", "Gid"))
    program = str(Path(f"/proc/{pid}/exe").readlink())
    server.shutdown()
    drop = {"user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else {}
    arguments = [program, "-D", str(data / "pgdata"), "-k", str(data / "pgdata"), "-c", "listen_addresses="]
    stranger = subprocess.Popen(arguments, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **drop)
    try:
        until((data / "pgdata" / ".s.PGSQL.5432").exists)
        assert server.launch() == url
        assert stranger.poll() is not None or stranger.wait(5) is not None
        assert one(url, "SELECT 1") == 1
    finally:
        server.shutdown()
        stranger.kill()
        stranger.wait()


@pytest.mark.deep
def test_a_pid_file_whose_number_has_passed_to_another_program_does_not_matter(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    server.launch()
    pid = servers(data)[0]
    uid = int(Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0])
    kept = (data / "pgdata" / "postmaster.pid").read_bytes()
    server.shutdown()
    drop = {"user": uid} if os.geteuid() == 0 else {}
    other = subprocess.Popen(["/bin/sleep", "600"], **drop)  # of the same user: PostgreSQL alone would refuse to start
    try:
        stale = data / "pgdata" / "postmaster.pid"
        stale.write_bytes(b"\n".join([str(other.pid).encode(), *kept.split(b"\n")[1:]]))
        os.chown(stale, (data / "pgdata").stat().st_uid, -1)
        assert one(server.launch(), "SELECT 1") == 1
    finally:
        server.shutdown()
        other.kill()
        other.wait()


@pytest.mark.deep
def test_after_the_server_was_killed_it_recovers(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=True)
    with psycopg.connect(server.launch()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    for pid in servers(data):
        os.kill(pid, signal.SIGKILL)
    server.shutdown()
    try:
        assert one(server.launch(), "SELECT answer FROM kept") == 42
    finally:
        server.shutdown()


@pytest.mark.deep
def test_a_half_made_database_is_made_again(data: Path) -> None:
    data.mkdir()
    (data / "lock").touch()
    (data / "pgdata.new").mkdir()
    (data / "pgdata.new" / "PG_VERSION").write_text("18\n")
    with support.embedded(data) as url:
        assert one(url, "SELECT current_database()") == "controlplane"
    assert not (data / "pgdata.new").exists()


@pytest.mark.deep
def test_a_path_too_long_for_a_socket(data: Path) -> None:
    deep = data.parent / ("long" * 30)
    with support.embedded(deep) as url:
        assert str(deep) not in url
        assert one(url, "SELECT 1") == 1
    assert not Path(url.partition("host=")[2].partition("&")[0]).exists()


def test_a_folder_with_other_things_is_left_alone(data: Path) -> None:
    data.mkdir(mode=0o755)
    (data / "thesis.txt").write_text("mine")
    with pytest.raises(EmbeddedError, match="holds other things"):
        EmbeddedPostgres(data).launch()
    assert sorted(path.name for path in data.iterdir()) == ["thesis.txt"]
    assert stat.S_IMODE(data.stat().st_mode) == 0o755


@pytest.mark.deep
def test_a_port_in_use_is_named(data: Path) -> None:
    with support.folder() as other:
        first = EmbeddedPostgres(other, durable=False, port=0)
        first.launch()
        port = int(first.tcp_url.rpartition(":")[2].partition("/")[0])
        second = EmbeddedPostgres(data, durable=False, port=port)
        try:
            with pytest.raises(EmbeddedError, match=r"could not bind.*[Aa]ddress already in use"):
                second.launch()
        finally:
            first.shutdown()
        assert one(second.launch(), "SELECT 1") == 1
        second.shutdown()


@pytest.mark.deep
async def test_any_free_port_is_another_where_somebody_was_faster(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = iter((taken.getsockname()[1], server_module._free_port()))
        monkeypatch.setattr(server_module, "_free_port", lambda: next(found))
        async with EmbeddedPostgres(data, durable=False, port=0) as server:
            assert server.port != taken.getsockname()[1]
            assert one(server.tcp_url, "SELECT inet_server_port()") == server.port


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops its rights")
def test_root_does_not_open_the_folders_above(data: Path) -> None:
    closed = data.parent / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=rf"may not pass through {closed}"):
        EmbeddedPostgres(closed / "deep" / "pg").launch()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops its rights")
def test_the_server_has_no_rights_of_root(data: Path) -> None:
    with support.embedded(data):
        status = Path(f"/proc/{servers(data)[0]}/status").read_text()
        assert "0" not in status.split("Uid:")[1].splitlines()[0].split()
        assert status.split("Groups:")[1].splitlines()[0].split() in ([], [status.split("Gid:")[1].split()[0]])
        assert int(status.split("CapEff:")[1].split()[0], 16) == 0


def interpreter_for(user: dict[str, Any]) -> list[str] | None:
    """An interpreter with our packages that this user can run; None if each lies in a closed folder."""
    for program in (sys.executable, shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")):
        command = ["/usr/bin/env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", str(program), "-c"]
        tried = subprocess.run(
            [*command, "import controlplane.local.postgres, psycopg"], cwd="/", capture_output=True, check=False, **user
        )
        if tried.returncode == 0:
            return command
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_works_for_an_ordinary_user(data: Path) -> None:
    user: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
    command = interpreter_for(user)
    if command is None:
        pytest.skip("every interpreter is in a folder that other users cannot enter")
    data.mkdir()
    os.chown(data, 65534, 65534)
    child = subprocess.Popen([*command, CHILD, str(data)], cwd="/", stdout=subprocess.PIPE, text=True, **user)
    try:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        assert one(url, "SELECT current_user") == "controlplane"
        assert (data / "pgdata").stat().st_uid == 65534
    finally:
        child.kill()
        child.communicate()
    until(lambda: servers(data) == [])
