"""Runs several coroutines at once, of which the first to end decides. Nothing that was started here outlives the
call."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from controlplane.tasks import end


async def first_to_end(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all until one returns or raises; cancel and await the others. Raises what the first one (in order given)
    raised.
    """
    await _run(coroutines, asyncio.FIRST_COMPLETED)


async def until_failure(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all until one raises or all have returned; cancel and await the others. Raises as `first_to_end`."""
    await _run(coroutines, asyncio.FIRST_EXCEPTION)


async def _run(coroutines: tuple[Coroutine[Any, Any, object], ...], when: str) -> None:
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=when)
        ended = [task for task in tasks if task.done() and not task.cancelled()]
    finally:
        await end(*tasks)
    for task in ended:
        task.result()
