"""Processes beside a measurement: a command with an environment, for as long as it is wanted.

In: a command, and how to tell that it is ready. Out: its process id; what it said is shown if it ends by itself."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def process(ready: Callable[[], bool], *command: str, **environment: str) -> AsyncIterator[int]:
    """Have a process, and wait until it is ready; its messages are shown if it ends by itself."""
    with tempfile.TemporaryFile() as messages:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **environment}, stdout=messages, stderr=messages
        )
        try:
            while not ready():
                if process.returncode is not None:
                    raise RuntimeError(f"{command[0]} has ended by itself; it said why above")
                await asyncio.sleep(0.05)
            yield process.pid
        except BaseException:
            messages.seek(0)
            print(messages.read()[-2000:].decode(errors="replace"), file=sys.stderr)
            raise
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


def answers(port: int) -> bool:
    """Whether a process says on its port that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return int(answer.status) == 200
    except (OSError, urllib.error.URLError):
        return False
