"""Runs a process on the event loop that costs least: uvloop's where there is one, asyncio's own elsewhere.

Sockets, TLS and timers are in C there (docs/decisions/0047). Whatever runs on the one runs on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, and return what it returns."""
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(main)


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop; None for asyncio's own, where uvloop has no wheel or cannot be loaded."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop
