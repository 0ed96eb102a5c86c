"""Cancel a coroutine at each of its awaits, one after the other, and see that it ends and leaves nothing behind.

In: a scene, which sets up what the coroutine needs and gives it out. Out: how many awaits there were. A coroutine that
never ends by itself is cancelled at each await until it only waits. One whose work is done by tasks of its own has few
awaits itself: it is interrupted after so many turns of the loop instead. What is waited for here is turns of the loop
and never seconds, except `over_sockets`."""

from __future__ import annotations

import asyncio
import itertools
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

Work = Coroutine[Any, Any, Any]
Scene = Callable[[], AbstractAsyncContextManager[Work]]
Stage = AsyncIterator[Work]  # what the function of a scene returns

Interrupt = Callable[["asyncio.Task[Any]"], object]

_TURNS = 3000
_SECONDS = 30.0


def cancelled_at_every_await(
    scene: Scene, *, most: int = 400, over_sockets: bool = False, stride: int = 1, times: int = 1
) -> int:
    """Play the scene again and again; returns at how many awaits the coroutine was cancelled, `times` in a row."""
    for played, number in enumerate(range(1, most, stride), start=1):
        if asyncio.run(_played(scene, number, over_sockets, times)):
            return played
    return played


def interrupted_after(turns: Iterable[int], scene: Scene, interrupt: Interrupt | None = None) -> list[str]:
    """Interrupt the coroutine of a scene after so many turns of the loop, each time from its start, and see how it
    ends.

    `interrupt` is given the task; without it, it is cancelled, and has to end as cancelled. Returns how each ended.
    """
    return [asyncio.run(_interrupted(scene, number, interrupt)) for number in turns]


async def _interrupted(scene: Scene, number: int, interrupt: Interrupt | None) -> str:
    async with scene() as coroutine:
        before = asyncio.all_tasks()
        task: asyncio.Task[Any] = asyncio.create_task(coroutine, name="interrupted")
        for _ in range(number):
            await asyncio.sleep(0)
        by_itself = task.done()
        (interrupt or asyncio.Task.cancel)(task)
        where = f"interrupted after {number} turns"
        await _turns(task.done, False)
        assert task.done(), f"{where}, it did not end: {_stack(task)}"
        assert task.cancelled() or task.exception() is None, f"{where}, it ended with {task.exception()!r}"
        assert task.cancelled() or by_itself or interrupt is not None, f"{where}, it ended as if nobody had asked it to"
        await _turns(lambda: not _left(before), False)
        assert not _left(before), f"{where}, it left behind {_left(before)}"
    return "cancelled" if task.cancelled() else "ended"


async def _played(scene: Scene, number: int, over_sockets: bool, times: int) -> bool:
    """Cancel at one await; returns whether there is none of that number."""
    async with scene() as coroutine:
        before = asyncio.all_tasks()
        reached: list[bool] = []
        heard: list[bool] = []
        task: asyncio.Task[Any] = asyncio.create_task(_counted(coroutine, number, reached, heard), name="cancelled")
        await _turns(lambda: bool(reached) or task.done(), over_sockets)
        if not reached:
            task.cancel()
        for _ in range(times - 1):
            await asyncio.sleep(0.001 if over_sockets else 0)
            task.cancel()
        await _turns(task.done, over_sockets)
        where = f"cancelled at await {number}" if reached else "cancelled while it waited"
        assert task.done(), f"{where}, it did not end: {_stack(task)}"
        assert task.cancelled() or task.exception() is None, f"{where}, it ended with {task.exception()!r}"
        assert task.cancelled() or not heard, f"{where}, it ended as if nobody had asked it to"
        await _turns(lambda: not _left(before), over_sockets)
        assert not _left(before), f"{where}, it left behind {_left(before)}"
    return not reached


async def _counted(coroutine: Work, number: int, reached: list[bool], heard: list[bool]) -> Any:
    """Run a coroutine in a task of its own steps, and cancel that task at one of its awaits; `heard` says that it was
    told.
    """
    task = asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        reached.append(True)
        task.cancel()

    awaits = itertools.count(1)

    def suspended() -> None:
        if next(awaits) == number:
            asyncio.get_running_loop().call_soon(cancel)

    return await _step_by_step(coroutine, suspended, lambda: heard.extend(reached))  # others cancel too: a timeout does


@types.coroutine
def _step_by_step(
    coroutine: Work, suspended: Callable[[], None], cancelled: Callable[[], None]
) -> Generator[Any, Any, Any]:
    thrown: BaseException | None = None
    while True:
        try:
            awaited = coroutine.throw(thrown) if thrown is not None else coroutine.send(None)
        except StopIteration as ended:
            return ended.value
        thrown = None
        suspended()
        try:
            yield awaited
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                cancelled()
            thrown = error


def _left(before: set[asyncio.Task[Any]]) -> list[str]:
    return sorted(task.get_name() for task in asyncio.all_tasks() - before if not task.done())


async def _turns(done: Callable[[], bool], over_sockets: bool) -> None:
    """Let the loop turn until something is so, or for so long that it will not be."""
    until = asyncio.get_running_loop().time() + _SECONDS
    for turn in itertools.count():
        if done() or (turn > _TURNS and not over_sockets) or asyncio.get_running_loop().time() > until:
            return
        await asyncio.sleep(0.001 if over_sockets else 0)


def _stack(task: asyncio.Task[Any]) -> str:
    return " <- ".join(f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in task.get_stack())
