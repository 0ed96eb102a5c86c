"""The service as a process: its environment, and its end when ours comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.local.folder import LocalError
from controlplane.local.replica import LocalReplica, free_port, variables
from controlplane.log.connect import Database
from controlplane.settings import load
from tests.support.waiting import PATIENCE


def environment(tmp_path: Path, url: str = "postgresql://u@127.0.0.1:1/d") -> dict[str, str]:
    return variables(Database(url, "controlplane_service"), "main", tmp_path / "none", free_port())


def test_a_replica_gets_its_settings_and_none_of_ours(tmp_path: Path) -> None:
    ours = {"PATH": "/bin", "CONTROLPLANE_LOG_LEVEL": "debug", "PYTHONPATH": "/elsewhere"}
    found = variables(Database("postgresql://u@h/d", "reader"), "east", tmp_path / "k", 4711, ours)
    assert found["PATH"] == "/bin"
    assert found["PYTHONPATH"].endswith(f"{os.pathsep}/elsewhere")
    settings = load(None, found)
    assert settings.database.url.reveal() == "postgresql://u@h/d"
    assert (settings.database.role, settings.database.log) == ("reader", "east")
    assert settings.management.kubeconfig == str(tmp_path / "k")
    assert (settings.http.address, settings.http.port) == ("127.0.0.1", 4711)
    assert settings.log.level == "info"


async def test_one_that_ends_by_itself_is_quoted(tmp_path: Path) -> None:
    replica = LocalReplica(environment(tmp_path), tmp_path / "messages")
    assert (replica.pid, await replica.stop()) == (0, 0)
    await replica.start()
    with pytest.raises(LocalError, match="the service ended by itself: Error: cannot reach the database"):
        await replica.ready(30)
    assert await replica.stop() == 4


def test_it_does_not_outlive_us(tmp_path: Path) -> None:
    """Its parent is killed while the replica cannot notice anything: it is stopped."""
    program = (
        "import asyncio, json, os, signal, sys, time\nfrom pathlib import Path\n"
        "from controlplane.local.replica import LocalReplica\n"
        "async def main():\n"
        "    replica = LocalReplica(json.loads(sys.argv[1]), Path(sys.argv[2]))\n"
        "    await replica.start()\n"
        "    while b'spawn.py' in Path(f'/proc/{replica.pid}/cmdline').read_bytes():\n"
        "        await asyncio.sleep(0.01)\n"
        "    os.kill(replica.pid, signal.SIGSTOP)\n"
        "    print(replica.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    arguments = [json.dumps(environment(tmp_path)), str(tmp_path / "messages")]
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while _alive(pid):
        assert time.monotonic() < deadline, "the replica is still there"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
