"""`controlplane up`: everything on one machine, kept in a folder, and going on from there."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from controlplane.cli.up import _here, is_of
from controlplane.clusters.management_access import from_kubeconfig
from controlplane.clusters.protocol import ClusterError
from controlplane.clusters.streams import ListQuery
from controlplane.kube.kinds import JOBS, WORKLOADS, Json, Kind
from controlplane.local.examples import jobs
from controlplane.local.folder import LocalFleet
from tests.cli.conftest import Here
from tests.cli.processes import deadline, finished, running, stopped, told
from tests.support import postgres
from tests.support.rows import each
from tests.support.waiting import PATIENCE


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the embedded server's user can reach."""
    with postgres.folder() as folder:
        yield folder


def job(seconds: int) -> Json:
    found = jobs()[0]
    found["metadata"]["annotations"] = {"simulation.controlplane/duration": f"{seconds}s"}
    return found


async def objects(places: dict[str, Any], kind: Kind, cluster: str = "management") -> list[Json]:
    server = await from_kubeconfig(path=places["kubeconfigs"][cluster])
    try:
        return list((await server.list(ListQuery(kind))).items)
    finally:
        await server.close()


async def submit(places: dict[str, Any], body: Json) -> None:
    server = await from_kubeconfig(path=places["kubeconfigs"]["management"])
    try:
        await server.create(JOBS, "default", body)
    finally:
        await server.close()


def until(places: dict[str, Any], condition: str) -> None:
    """Wait for the one Workload to have the condition."""

    async def wait() -> None:
        end = deadline()
        while True:
            found = await objects(places, WORKLOADS)
            conditions = [c for w in found for c in (w.get("status") or {}).get("conditions") or ()]
            if any(c["type"] == condition and c["status"] == "True" for c in conditions):
                return
            assert asyncio.get_running_loop().time() < end, f"not {condition}: {found}"
            await asyncio.sleep(0.1)

    asyncio.run(wait())


def count(url: str, event: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM audit.events WHERE type = %s", [event]).fetchone()
    assert row is not None
    return int(row[0])


def led(url: str, times: int) -> None:
    """Wait until that many processes have taken the log over."""
    end = deadline()
    while (found := count(url, "ServiceStarted")) != times:
        assert time.monotonic() < end, f"{found} processes led"
        time.sleep(0.1)


def serving(address: str) -> None:
    """Wait until the process of the pages answers; it has said so in its log then."""
    end = deadline()
    while True:
        try:
            urllib.request.urlopen(address, timeout=PATIENCE).close()
            return
        except OSError:
            assert time.monotonic() < end, address
            time.sleep(0.1)


@each(
    ("url", "own"),
    [
        ("postgresql://controlplane:secret@127.0.0.1:5999/controlplane", True),
        ("postgresql://controlplane:secret@127.0.0.1:5998/controlplane", False),
        ("postgresql://jane@127.0.0.1:5999/controlplane", False),
        ("postgresql://controlplane@db.example.com:5999/controlplane", False),
        ("postgresql://controlplane@127.0.0.1/controlplane", False),
        ("postgresql://controlplane@127.0.0.1:x/controlplane", False),
        ("", False),
    ],
)
def test_the_database_of_the_folder_is_no_database_of_ones_own(url: str, own: bool) -> None:
    assert is_of(LocalFleet(last_database_port=5999), url) == own
    assert not is_of(LocalFleet(), url)


def test_a_job_survives_a_stop_and_a_second_start(folder: Path, tmp_path: Path) -> None:
    arguments = ("up", "--data", str(folder), "-o", "json")
    with running(tmp_path / "first", *arguments, "--workers", "2", "--cpu", "2") as process:
        places = told(process)
        assert set(places["kubeconfigs"]) == {"management", "worker-1", "worker-2"}
        assert places["http"].startswith("http://127.0.0.1:")
        assert places["web"].startswith("http://127.0.0.1:")
        asyncio.run(submit(places, job(4)))
        until(places, "Admitted")
        again = finished(*arguments)
        assert (again.returncode, again.stdout) == (1, "")
        assert f"is in use by another process ({process.pid})" in again.stderr
        kubeconfig = Path(places["kubeconfigs"]["management"]).read_bytes()
        serving(places["web"])
        assert stopped(process) == 0, (tmp_path / "first").read_text()
    assert [line for line in (tmp_path / "first").read_text().splitlines() if line.startswith("{")] == []
    # As who has exported it for the other commands, in the terminal where it is started again.
    with running(tmp_path / "second", *arguments, database_url=places["database"]) as process:
        assert told(process)["kubeconfigs"] == places["kubeconfigs"]
        assert Path(places["kubeconfigs"]["management"]).read_bytes() == kubeconfig
        until(places, "Finished")
        led(places["database"], 2)  # the job may have finished before the first process was stopped
        assert count(places["database"], "WinnerChosen") == 1
        assert stopped(process, signal.SIGINT) == 0, (tmp_path / "second").read_text()
    assert "Traceback" not in (tmp_path / "first").read_text() + (tmp_path / "second").read_text()


@pytest.mark.deep
def test_where_the_service_decides_on_quota_no_kueue_does(empty_database_url: str, tmp_path: Path) -> None:
    """Two that reserve would each see the other's reservations as its own."""
    arguments = ("up", "--data", str(tmp_path / "data"), "--workers", "1", "-o", "json")
    settings = {"database_url": empty_database_url, "quota_mode": "builtin"}
    with running(tmp_path / "messages", *arguments, **settings) as process:
        places = told(process)
        asyncio.run(submit(places, job(1)))
        until({**places, "database": empty_database_url}, "Finished")
        reserved = [count(empty_database_url, one) for one in ("QuotaReservationDecided", "JobWorkloadCreationDecided")]
        assert stopped(process) == 0, (tmp_path / "messages").read_text()
    assert reserved == [1, 1]


def test_a_database_of_ones_own_is_migrated_and_used(empty_database_url: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(tmp_path / "errors", "up", "--data", str(data), "--database-url", empty_database_url) as process:
        assert process.stdout is not None
        printed = []
        for text in process.stdout:
            printed.append(text)
            if text.startswith("Ctrl-C"):
                break
        shown = "".join(printed)
        assert f"kubectl --kubeconfig {data}/management.kubeconfig apply -f " in shown
        assert all(
            (data / f"{name}.kubeconfig").is_file() for name in ("management", "worker-1", "worker-2", "worker-3")
        )
        places = {"kubeconfigs": {"management": str(data / "management.kubeconfig")}}
        asyncio.run(submit(places, job(0)))
        until(places, "Finished")
        assert count(empty_database_url, "WinnerChosen") == 1
        assert stopped(process) == 0, (tmp_path / "errors").read_text()
    assert not (data / "database").exists()


def test_the_password_of_ones_own_database_is_not_printed(here: Here, tmp_path: Path) -> None:
    done = here("up", "--data", str(tmp_path / "data"), "--database-url", "postgresql://u:hunter2@127.0.0.1:1/d")
    assert done.returncode == 4
    assert "cannot reach the database postgresql://u:***@127.0.0.1:1/d" in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_a_database_that_a_variable_names_is_told_and_how_to_have_another(here: Here, tmp_path: Path) -> None:
    """The tutorial has people export it for other commands; `up` in the same terminal takes it too."""
    data, url = tmp_path / "data", "postgresql://u:hunter2@127.0.0.1:1/d"
    told = f"The log is kept in the database that CONTROLPLANE_DATABASE_URL names; unset that for one in {data}."
    assert told in here("up", "--data", str(data), database_url=url).stderr
    assert told not in here("up", "--data", str(data), "--database-url", url).stderr


def test_a_taken_port_is_named(here: Here, empty_database_url: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = ["--data", str(tmp_path / "data"), "--management-port", port]
        done = here("up", "--database-url", empty_database_url, *arguments)
    assert done.returncode == 7
    assert f"port {port} cannot be listened on" in done.stderr


def test_a_taken_port_of_the_database_is_named(here: Here, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = here("up", "--data", str(folder / "data"), "--database-port", port)
    assert done.returncode == 4
    assert done.stderr.strip().endswith(": choose another --database-port")


@pytest.mark.parametrize("known", [True, False])
def test_what_to_type_next_works_where_the_program_is_not_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: bool
) -> None:
    program = tmp_path / "bin" / "controlplane"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent) if known else "/nowhere")
    monkeypatch.setattr("sys.argv", ["bin/controlplane", "up"])
    monkeypatch.chdir(tmp_path)
    assert _here("workloads") == f"{'controlplane' if known else program} workloads"
    monkeypatch.setattr("sys.argv", ["/x/controlplane/__main__.py", "up"])
    assert _here("workloads") == "controlplane workloads"


def test_what_people_set_about_the_endpoints_holds(here: Here, empty_database_url: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = here("up", "--data", str(tmp_path / "data"), "--database-url", empty_database_url, http_port=port)
    assert done.returncode == 7
    assert f"listens on 127.0.0.1:{port} already" in done.stderr


@pytest.mark.deep
def test_the_kubeconfigs_are_for_kubectl(empty_database_url: str, tmp_path: Path) -> None:
    arguments = ["--data", str(tmp_path / "data"), "--workers", "1", "-o", "yaml"]
    with running(tmp_path / "errors", "up", *arguments, "--database-url", empty_database_url) as process:
        assert process.stdout is not None
        for text in process.stdout:
            if "worker-1:" in text:
                break
        file = tmp_path / "data" / "worker-1.kubeconfig"
        assert file.stat().st_mode & 0o077 == 0
        found = yaml.safe_load(file.read_text())
        assert found["current-context"] == "worker-1"
        assert found["clusters"][0]["cluster"]["server"].startswith("http://127.0.0.1:")
        assert stopped(process) == 0


def reachable(places: dict[str, Any], cluster: str) -> bool:
    try:
        asyncio.run(objects(places, JOBS, cluster))
    except ClusterError:
        return False
    return True


def becomes(places: dict[str, Any], cluster: str, *, there: bool) -> None:
    end = deadline()
    while reachable(places, cluster) is not there:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.deep
def test_a_cluster_is_cut_off_and_healed_from_another_terminal(empty_database_url: str, tmp_path: Path) -> None:
    arguments = ("up", "--data", str(tmp_path / "data"))
    with running(tmp_path / "errors", *arguments, "-o", "json", "--database-url", empty_database_url) as process:
        places = told(process)
        done = finished(*arguments, "--cut", "worker-2", "-o", "json")
        assert (done.returncode, json.loads(done.stdout)) == (0, {"cut": ["worker-2"]})
        becomes(places, "worker-2", there=False)
        assert reachable(places, "worker-1")
        assert reachable(places, "management")
        done = finished(*arguments, "--cut", "worker-1", "--cut", "worker-9")
        assert done.returncode == 1
        assert "there is no cluster worker-9" in done.stderr
        assert reachable(places, "worker-1"), "nothing is done where one name is wrong"
        done = finished(*arguments, "--heal", "worker-2")
        assert (done.returncode, done.stdout) == (0, "All clusters can be reached.\n")
        becomes(places, "worker-2", there=True)
        assert finished(*arguments, "--cut", "worker-2").returncode == 0
        becomes(places, "worker-2", there=False)
        assert stopped(process) == 0
    done = finished(*arguments, "--heal", "worker-2")
    assert done.returncode == 1
    assert "nothing runs in" in done.stderr
    with running(tmp_path / "again", *arguments, "-o", "json", "--database-url", empty_database_url) as process:
        again = told(process)
        assert {name: again[name] for name in ("http", "web")} == {name: places[name] for name in ("http", "web")}
        assert reachable(again, "worker-2"), "an outage ends with the process"
        assert stopped(process) == 0


def test_where_nothing_ever_ran_nothing_is_cut_off(here: Here, tmp_path: Path) -> None:
    result = here("up", "--data", str(tmp_path / "data"), "--cut", "worker-1")
    assert result.returncode == 1
    assert "nothing has run in" in result.stderr
    assert not (tmp_path / "data").exists()
