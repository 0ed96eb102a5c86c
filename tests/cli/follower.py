"""Verbs that go on until they are interrupted: `events --follow`, and `--watch` of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.waiting import PATIENCE


def _interruptible() -> None:
    """Have Ctrl-C end a process whose parents ignore it: a shell has it ignored of what it starts in the background,
    and with it `make test &` of a script."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Follower:
    """A verb that goes on, as a process of its own, and the lines it has written."""

    def __init__(self, url: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "controlplane", "--database-url", url, *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=_interruptible,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._threads = [
            threading.Thread(target=self._take, args=(stream, into), daemon=True)
            for stream, into in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _take(stream: Any, into: list[str]) -> None:
        for line in stream:
            into.append(line.rstrip("\n"))

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.err
            assert time.monotonic() < end, (self.out, self.err)
            time.sleep(0.02)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        return code


@pytest.fixture
def follow() -> Iterator[Callable[..., Follower]]:
    started: list[Follower] = []

    def start(url: str, *arguments: str) -> Follower:
        started.append(Follower(url, *arguments))
        return started[-1]

    yield start
    for follower in started:
        if follower.process.poll() is None:
            follower.process.kill()
            follower.process.wait()
