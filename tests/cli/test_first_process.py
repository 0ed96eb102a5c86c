"""The program as process 1, which it is in a container: the kernel drops a signal for which process 1 has no handler,
and what `docker stop` or a kubelet asks of it would be heard by nobody."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from controlplane.cli.run import stop_on_signals
from tests.cli.processes import PROGRAM, deadline, environment
from tests.support.waiting import PATIENCE

APART = ["unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--pid", "--fork", "--kill-child"]


def missing() -> str:
    """Why no process can be the first one here, if none can."""
    if not shutil.which(APART[0]):
        return "unshare is not there"
    done = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
    return f"no namespace can be made: {done.stderr.strip()}" if done.returncode else ""


WHY = missing()


@pytest.fixture
def waits(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`submit -` as process 1, which reads what never comes: a command that listens to no signal."""
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [*APART, *PROGRAM, "submit", "-"], env=environment(), stdin=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(bool(WHY), reason=WHY)
def test_sigterm_ends_a_command_that_is_process_1(waits: subprocess.Popen[bytes]) -> None:
    """The first signals may come before Python runs; whoever asks for good is heard."""
    end = deadline()
    while waits.poll() is None and time.monotonic() < end:
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            for child in psutil.Process(waits.pid).children():
                child.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    assert waits.poll() == 128 + signal.SIGTERM


async def test_after_the_first_signal_the_next_does_what_it_did_before() -> None:
    """Process 1 has a handler of its own, without which the second signal would be dropped."""

    def own(_number: int, _frame: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGTERM, own)
    try:
        stop = stop_on_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await stop.wait()
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("given", "stops"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
async def test_a_terminal_that_is_closed_stops_what_was_not_told_to_stay(given: signal.Handlers, stops: bool) -> None:
    """`nohup` has the signal ignored."""
    before = signal.signal(signal.SIGHUP, given)
    try:
        stop = stop_on_signals()
        if not stops:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            return
        assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(PATIENCE):
            await stop.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(signal.SIGHUP, before)
