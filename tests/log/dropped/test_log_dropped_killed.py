"""A process that archives, drops or restores is killed at any step: what is left is what was or what is to be."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from controlplane.log.archive.manifest import archives_of
from controlplane.log.verify import verify
from tests.log.archived import BATCHES, archive, dropped, restored, rows, written
from tests.support.deep import deep_after

pytestmark = pytest.mark.undistributed("events do not leave a log that Citus distributes")


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.log.archived import archive, connected, dropped, over, restored
from controlplane.log.archive import exchange, manifest, writing
url, folder, what, at = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
steps = 0
def killing(of, name):
    before = getattr(of, name)
    def step(*given, **more):
        global steps
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*given, **more)
    setattr(of, name, step)
import psycopg
killing(psycopg.Connection, "execute")
killing(Path, "rename")
killing(writing, "settle")
with connected(url) as owner:
    {"archive": archive, "drop": dropped, "restore": restored}[what](owner, folder)
print(steps)
"""


def killed(url: str, folder: Path, what: str, at: int) -> bool:
    """Let another process do something and be killed at a step; return whether it was."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, url, str(folder), what, str(at)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0 or int(done.stdout) < at


@pytest.mark.parametrize(
    ("what", "share"),
    deep_after(
        3,
        [
            ("archive", 0.6),
            ("drop", 0.97),
            ("restore", 0.97),
            *((what, share / 24) for share in range(25) for what in ("archive", "drop", "restore")),
        ],
    ),
)
async def test_a_process_that_is_killed_at_any_step_leaves_what_was_or_what_is_to_be(
    database_url: str, owner: psycopg.Connection[Any], tmp_path: Path, what: str, share: float
) -> None:
    await written(database_url)
    whole = rows(owner), rows(owner, BATCHES)
    archive(owner, tmp_path)
    dropped(owner, tmp_path)
    left = rows(owner), rows(owner, BATCHES)
    if what != "restore":
        restored(owner, tmp_path)
    if what == "archive":
        shutil.rmtree(tmp_path / "main")
    steps = {"archive": 24, "drop": 45, "restore": 61}[what]
    assert killed(database_url, tmp_path, what, max(round(share * steps), 1))
    _ended(owner)
    assert (rows(owner), rows(owner, BATCHES)) in (whole, left)
    assert verify(owner, "main").wrong == []
    {"archive": archive, "drop": dropped, "restore": restored}[what](owner, tmp_path)
    assert (rows(owner), rows(owner, BATCHES)) == (left if what == "drop" else whole)
    assert [one.manifest.last for one in archives_of(tmp_path, "main")] == [18, 39, 60]
    assert not list(tmp_path.glob("main/*.unfinished"))
    assert not owner.execute("SELECT FROM pg_class WHERE relname LIKE 'events_new_%'").fetchall()


def _ended(owner: psycopg.Connection[Any]) -> None:
    """Wait until the server has noticed that a process is gone."""
    for _ in range(600):
        if owner.execute("SELECT pg_try_advisory_lock(hashtextextended('controlplane.archives', 0))").fetchone() == (
            True,
        ):
            owner.execute("SELECT pg_advisory_unlock(hashtextextended('controlplane.archives', 0))")
            return
        time.sleep(0.05)
    raise AssertionError("the lock of a process that was killed is still held")
