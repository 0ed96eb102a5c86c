"""A folder that one process holds at a time, by a lock that the kernel releases when that process ends.

In: the folder. Out: a handle to give back, or why it cannot be had. Whoever asks says in his own words what to do about
it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Literal

_LOCK = "lock"


class NotHeldError(Exception):
    """The folder cannot be had: it holds `other` things, is in use by another `process`, or the system says no
    (`system`).
    """

    def __init__(self, why: Literal["other", "process", "system"], path: str, detail: str = "") -> None:
        super().__init__(f"{path}: {why} {detail}")
        self.why, self.path, self.detail = why, path, detail


def hold(root: Path, mode: int) -> int:
    """Create the folder if need be, take it for this process and return the lock's handle. Raises `NotHeldError`."""
    lock = root / _LOCK
    try:
        root.mkdir(mode=mode, parents=True, exist_ok=True)
        if not lock.exists() and any(root.iterdir()):
            raise NotHeldError("other", str(root))
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotHeldError("system", str(error.filename or root), error.strerror or str(error)) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise NotHeldError("process", str(root), holder) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle
