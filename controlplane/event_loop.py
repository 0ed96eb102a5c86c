"""Runs a process on the event loop that costs least: uvloop's where there is one, asyncio's own elsewhere.

Sockets, TLS and timers are in C there (docs/decisions/0047). Whatever runs on the one runs on the other."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
MOST_FILES = 1 << 20
"""More are not asked for: programs that this one starts have the limit too, and some of them count up to it."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, and return what it returns. It may have as many files as the system
    allows, up to `MOST_FILES`."""
    _allow_files()
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(main)


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop; None for asyncio's own, where uvloop has no wheel or cannot be loaded."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


def _allow_files() -> None:
    """Raise the soft limit towards the hard one, as programs in Go do: it is 1024 in many containers, for the sake of
    programs that use `select`, and each watch of each cluster is a connection."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(most, MOST_FILES)
    if now != resource.RLIM_INFINITY and now < wanted:
        with contextlib.suppress(ValueError, OSError):  # a system may refuse it, and then it is as it was
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
