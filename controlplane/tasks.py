"""Ending tasks that somebody else started, without losing the word that one's own task has to end.

`task.cancel()` and then `await task` under `suppress(CancelledError)` cannot tell whose cancellation it is that comes
out of the `await`: cancelled at that moment, the caller would go on as if nobody had asked it to stop, for ever. So
tasks are waited for, and not awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and return once all have ended; what they raised is left in them.

    If the caller is cancelled meanwhile, the tasks are cancelled again, and that is raised once they have ended:
    nothing is left behind."""
    interrupted: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            interrupted = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen
    if interrupted is not None:
        raise interrupted


async def to_the_end(work: Callable[[], T]) -> T:
    """Do blocking work in a thread, and return once it is done: a thread cannot be cancelled, and one that has not
    begun must begin.

    If the caller is cancelled meanwhile, that is raised once the work is done; what the work returned or raised is lost
    then."""
    doing = asyncio.get_running_loop().run_in_executor(None, work)
    interrupted: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        doing.exception()  # seen
        raise interrupted
    return doing.result()
