"""A child process that never outlives us, whatever ends us, and that a Ctrl-C on the terminal does not reach.

The kernel's death signal is sent when the *thread* that started the child ends. Each child therefore gets a thread of
its own, which starts it, waits for it, and so runs as long as the child does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from controlplane.local.postgres.owner import ServerUser

_SPAWN = str(Path(__file__).with_name("spawn.py"))
# Nothing of ours goes to the child: variables such as PGDATA, PGPORT or LANG would change what it does.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


class ServerProcess:
    """A running program. Raises `OSError` if the interpreter itself cannot be started."""

    def __init__(self, program: list[str], owner: ServerUser, output: IO[bytes], death_signal: signal.Signals) -> None:
        uid, gid = (owner.uid, owner.gid) if owner.drops else (-1, -1)
        interpreter = [sys.executable, "-I", "-S", _SPAWN, str(os.getpid()), str(uid), str(gid), str(int(death_signal))]
        self._arguments = [*interpreter, *program]
        self._output = output
        self._started = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._keeper = threading.Thread(target=self._keep, name=f"keeper of {Path(program[0]).name}", daemon=True)
        self._keeper.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def _keep(self) -> None:
        try:
            self._child = subprocess.Popen(  # noqa: S603
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._failure = error
            return
        finally:
            self._started.set()
        self._child.wait()

    @property
    def ended(self) -> bool:
        """Whether the child has ended."""
        return not self._keeper.is_alive()

    def wait(self, seconds: float) -> int | None:
        """Return the exit status, or None if the child still runs after so many seconds."""
        self._keeper.join(seconds)
        return self._child.returncode if self._child is not None and self.ended else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the child has ended."""
        if self._child is not None:
            self._child.send_signal(number)
