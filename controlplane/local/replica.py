"""The service as a process of its own, which can be killed as a machine would kill it.

In: a place, and variables as a user would set them. Out: a running `python -m controlplane run` whose messages are in a
file, and which never outlives us: the kernel kills it when this process ends, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from controlplane.local import postgres
from controlplane.local.folder import LocalError
from controlplane.log.connect import Database

_PACKAGE = Path(__file__).resolve().parents[1]
_SPAWN = str(Path(postgres.__file__).with_name("spawn.py"))
_POLL = 0.1  # seconds


def variables(
    database: Database, log: str, kubeconfig: Path, port: int, env: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of a replica: ours without any settings of ours, and the settings that it needs."""
    kept = {name: value for name, value in env.items() if not name.startswith("CONTROLPLANE_")}
    path = [str(_PACKAGE.parent), *filter(None, [env.get("PYTHONPATH")])]
    return kept | {
        "PYTHONPATH": os.pathsep.join(path),
        "CONTROLPLANE_DATABASE_URL": database.url,
        "CONTROLPLANE_DATABASE_ROLE": database.role,
        "CONTROLPLANE_DATABASE_LOG": log,
        "CONTROLPLANE_MANAGEMENT_KUBECONFIG": str(kubeconfig),
        "CONTROLPLANE_HTTP_ADDRESS": "127.0.0.1",
        "CONTROLPLANE_HTTP_PORT": str(port),
    }


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class LocalReplica:
    """One replica of the service, started any number of times. `messages` is where its stderr goes."""

    def __init__(self, environment: Mapping[str, str], messages: Path) -> None:
        self._environment, self.messages = dict(environment), messages
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process id of the last start; 0 before the first."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process; `OSError` if there can be none."""
        program = [sys.executable, "-m", "controlplane", "run"]
        parent = [sys.executable, "-I", "-S", _SPAWN, str(os.getpid()), "-1", "-1", str(int(signal.SIGKILL))]
        with self.messages.open("ab") as messages:
            self._process = await asyncio.create_subprocess_exec(
                *parent,
                *program,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                env=self._environment,
                start_new_session=True,  # a Ctrl-C on the terminal is ours to pass on
            )

    async def ready(self, seconds: float) -> None:
        """Return when the process says that it is ready; `LocalError` if it ends, or does not come to it in time."""
        url = f"http://127.0.0.1:{self._environment['CONTROLPLANE_HTTP_PORT']}/readyz"
        async with asyncio.timeout(seconds), aiohttp.ClientSession() as session:
            while self.running:
                try:
                    async with session.get(url) as answer:
                        if answer.status == 200:
                            return
                except (aiohttp.ClientError, TimeoutError):
                    pass  # it does not listen yet
                await asyncio.sleep(_POLL)
        raise LocalError(f"the service ended by itself: {self.last_words()}")

    async def kill(self) -> None:
        """End the process as a power cut would, and wait until it is gone."""
        await self._end(signal.SIGKILL, 10)

    async def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 20) -> int:
        """Ask the process to end and return its exit code; one that does not listen is killed (-9). 0 if there is
        none.
        """
        return await self._end(number, seconds)

    async def _end(self, number: signal.Signals, seconds: float) -> int:
        process = self._process
        if process is None:
            return 0
        if process.returncode is None:
            process.send_signal(number)
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        return process.returncode or 0

    def last_words(self) -> str:
        """Return the last line that the process wrote."""
        lines = self.messages.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it said nothing (see {self.messages})"
