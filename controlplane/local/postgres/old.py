"""An earlier server on the same data: one whose process was killed a moment ago, or only its `postmaster.pid`.

Called while we hold the folder's lock, so whatever still runs here belongs to nobody any more. A server that is
stopping is waited for; one that is not is told to stop. The pid file is removed only if its process id has passed to
another program, because PostgreSQL would then refuse to start; in every other case PostgreSQL judges better than we
could."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from controlplane.local.postgres.errors import EmbeddedError

_STEPS: tuple[tuple[signal.Signals | None, float], ...] = ((None, 5.0), (signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0))


def settle(pgdata: Path) -> None:
    """Return when no server runs on this data; `EmbeddedError` if one does not stop."""
    file = pgdata / "postmaster.pid"
    pid = _pid(file)
    if pid is None:
        return
    command = _command(pid)
    if command is None:
        return
    if not _serves(command, pgdata):
        file.unlink(missing_ok=True)
        return
    for number, patience in _STEPS:
        if number is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not _serves(_command(pid), pgdata):
                return
            time.sleep(0.02)
    raise EmbeddedError(f"a PostgreSQL server (process {pid}) still runs on {pgdata} and does not stop: end it first")


def _pid(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii", errors="replace").split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _command(pid: int) -> list[bytes] | None:
    """Return the command line of a process; None if there is no such process (or it is a zombie, or hidden from us)."""
    try:
        return [part for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if part] or None
    except OSError:
        return None


def _serves(command: list[bytes] | None, pgdata: Path) -> bool:
    if not command:
        return False
    return Path(os.fsdecode(command[0])).name in {"postgres", "postmaster"} and os.fsencode(pgdata) in command
