"""Ending tasks that somebody else started, without losing the word that one's own task has to end.

`task.cancel()` and then `await task` under `suppress(CancelledError)` cannot tell whose cancellation it is that comes
out of the `await`: cancelled at that moment, the caller would go on as if nobody had asked it to stop, for ever. So
tasks are waited for, and not awaited."""

from __future__ import annotations

import asyncio
from typing import Any


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
