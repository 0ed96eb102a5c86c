"""The program as a process: started, read, told to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE

PROGRAM = [sys.executable, "-m", "controlplane"]


def environment(**settings: str) -> dict[str, str]:
    """Return the environment without this machine's settings, and with those given: `http_port="0"`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTROLPLANE_")}
    return kept | {f"CONTROLPLANE_{name.upper()}": value for name, value in settings.items()}


def finished(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@contextmanager
def running(errors: Path, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Have the program run; its stderr goes to a file, and it is killed if it is still there at the end."""
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [*PROGRAM, *arguments], env=environment(**settings), stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the JSON object that a process prints and then goes on."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("}"):
            break
    found: dict[str, Any] = json.loads("".join(lines))
    return found


def stopped(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> int:
    """Send a signal and return the exit code."""
    process.send_signal(number)
    return process.wait(PATIENCE)


def deadline() -> float:
    """Return the time until which to wait for what must come."""
    return time.monotonic() + PATIENCE
