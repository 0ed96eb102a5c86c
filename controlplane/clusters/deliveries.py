"""Hands what a watch shows to its sink, and more of it before the log has the last.

In: what a watch shows, piece by piece. Out: calls of the sink, one at a time. While what was handed over last waits in
the log for company (docs/decisions/0030), it is handed over again with what came after it, so that both share a commit:
what the log has by then it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from controlplane.clusters.protocol import Delta
from controlplane.tasks import end

Deliver = Callable[[Sequence[Delta], str], Coroutine[Any, Any, None]]
"""`deliver(deltas, position)`: have the log take deltas, which lead to a position."""


Patient = Callable[[], Coroutine[Any, Any, None]]
"""`await patient()`: what was given to the log waits for more."""


async def never() -> None:
    """Wait for ever: nothing waits for more."""
    await asyncio.Event().wait()


class Deliveries:
    """At most `most` pieces are handed over together. `failed` is set once a call has raised."""

    def __init__(self, deliver: Deliver, most: int, patient: Patient) -> None:
        self._deliver, self._most, self._patient = deliver, most, patient
        self._task: asyncio.Task[None] | None = None
        self._deltas: Sequence[Delta] = ()
        self._pieces = 0
        self.failed = asyncio.Event()

    async def add(self, deltas: Sequence[Delta], position: str) -> None:
        """Hand over the next piece; returns once it is on its way. Raises what an earlier call has raised."""
        task, pieces = self._task, 1
        if task is not None and self._pieces < self._most:
            await self._until_patient(task)
        if task is not None and task.cancelled():
            deltas, pieces, self._task = [*self._deltas, *deltas], self._pieces + 1, None
        await self.finish()
        if not deltas:
            await self._deliver(deltas, position)
            return
        self._deltas, self._pieces = deltas, pieces
        self._task = asyncio.create_task(self._deliver(deltas, position))
        self._task.add_done_callback(self._ended)

    async def _until_patient(self, task: asyncio.Task[None]) -> None:
        """Return once a call has ended; it is taken back as soon as the log waits for more."""
        if task.done():
            return
        patient = asyncio.ensure_future(self._patient())
        try:
            await asyncio.wait([task, patient], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(patient)
        await end(task)

    async def finish(self) -> None:
        """Return once the log has everything; raises what the last call has raised."""
        if self._task is None:
            return
        if not self._task.done():
            await asyncio.wait([self._task])
        task, self._task = self._task, None
        task.result()

    async def drop(self) -> None:
        """Cancel what is under way; returns once it has ended."""
        task, self._task = self._task, None
        self.failed.clear()
        if task is not None:
            await end(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failed.set()
