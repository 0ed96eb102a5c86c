"""An asyncio event loop whose time is virtual and whose order is drawn from a seed.

In: tasks and timers, as on any loop. Out: their steps, one at a time; when none is ready, time jumps to the next timer.
Callbacks keep the order in which they were registered, as asyncio promises; which of the *tasks* that are ready runs
first is nobody's promise, so the seed decides. Each step belongs to a `SimulatedProcess` (found by its context): one
that is frozen keeps its steps for later, and that is all it takes to pause a process between any two awaits, or to kill
it there."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MOST_STEPS_AT_ONCE = 200_000

PROCESS: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("process", default=None)


class Stuck(Exception):  # noqa: N818 - a state
    """Steps follow steps and time does not move on."""


class SimulatedProcess:
    """What is frozen, thawed and killed as one. `steps` counts what it has done; at `stop_at` it is `frozen` and
    `on_stop` called.

    One that is `dead` stays frozen for ever; the others cannot tell the difference, the database can, after a while.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.frozen = self.dead = False
        self.steps = 0
        self.stop_at = -1
        self.on_stop: Callable[[], None] = lambda: None
        self.kept: list[LoopStep] = []

    def context(self) -> contextvars.Context:
        """Return a context whose tasks, and whatever they start, belong to this process."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        return context


class LoopStep(asyncio.TimerHandle):
    """A callback that is ready or due, whose it is, and whether it is the step of a task.

    asyncio's own handles ask the loop for its debug mode at every step, which was a tenth of a run.
    """

    __slots__ = ("arguments", "at", "callback", "context", "of_task", "over", "process")

    def __init__(
        self, at: float, callback: Callable[..., object], arguments: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        self.at, self.callback, self.arguments, self.context = at, callback, arguments, context
        self.process: SimulatedProcess | None = context.get(PROCESS)
        self.of_task = self.over = False

    def when(self) -> float:
        """Return the virtual time at which it is due."""
        return self.at

    def cancel(self) -> None:
        """Let it not happen."""
        self.over = True
        self.arguments = ()

    def cancelled(self) -> bool:
        """Whether it will not happen."""
        return self.over


class Task(asyncio.Task[Any]):
    """A task that knows its process, with a hash that is the same on every run: the core iterates over sets of
    tasks.
    """

    def __init__(
        self, coro: Coroutine[Any, Any, Any], serial: int, owner: SimulatedProcess | None, **more: Any
    ) -> None:
        self._serial, self.owner = serial, owner
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._serial


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop. `at_step` is called after each step of anybody; `shuffle` is how often the order of ready tasks is
    drawn.
    """

    def __init__(self, seed: str, *, shuffle: float = 0.5) -> None:
        self._random = random.Random(f"loop {seed}")  # noqa: S311 - reproducible on purpose
        self._shuffle = shuffle
        self._now = 0.0
        self._ready: list[LoopStep] = []
        self._timers: list[tuple[float, int, LoopStep]] = []
        self._serial = 0
        self._tasks: dict[Task, None] = {}
        self._running = False
        self._world = contextvars.Context()
        self.steps = 0
        self.stopped = False
        self.failures: list[str] = []

    # --- time and steps --------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    def advance(self, until: float) -> None:
        """Run everything that is due before or at a virtual time; returns earlier only if `stopped` was set."""
        steps_before = self.steps
        with self._current():
            while not self.stopped:
                self._collect()
                if self._ready:
                    self._turn()
                    if self.steps - steps_before > MOST_STEPS_AT_ONCE:
                        raise Stuck(f"{MOST_STEPS_AT_ONCE} steps at {self._now:.3f}s and no end")
                    continue
                due = self._timers[0][0] if self._timers else None
                if due is None or due > until:
                    self._now = max(self._now, until)
                    return
                self._now = due
                steps_before = self.steps

    def _collect(self) -> None:
        """Take over the timers that are due."""
        timers, now = self._timers, self._now
        while timers and (timers[0][0] <= now or timers[0][2].over):
            step = heapq.heappop(timers)[2]
            if not step.over:
                self._ready.append(step)

    def _turn(self) -> None:
        """Run what is ready now; what gets ready meanwhile has its turn next."""
        batch, self._ready = self._ready, []
        if len(batch) > 1 and self._random.random() < self._shuffle:
            self._reorder(batch)
        for place, step in enumerate(batch):
            process = step.process
            if step.over or (process is not None and not self._may_step(process, step)):
                continue
            self.steps += 1
            try:
                step.context.run(step.callback, *step.arguments)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"message": f"Exception in callback {step.callback}", "exception": error})
            if self.stopped:
                self._ready[:0] = batch[place + 1 :]
                return

    def _reorder(self, batch: list[LoopStep]) -> None:
        """Let the tasks among what is ready change places with each other."""
        places = [place for place, step in enumerate(batch) if step.of_task]
        steps = [batch[place] for place in places]
        self._random.shuffle(steps)
        for place, step in zip(places, steps, strict=True):
            batch[place] = step

    def _may_step(self, process: SimulatedProcess, step: LoopStep) -> bool:
        if process.steps == process.stop_at and not process.frozen:
            process.frozen = True
            process.stop_at = -1
            process.on_stop()
        if process.frozen:
            process.kept.append(step)
            return False
        process.steps += 1
        return True

    def thaw(self, process: SimulatedProcess) -> None:
        """Let a frozen process go on where it was."""
        process.frozen = False
        kept, process.kept = process.kept, []
        self._ready += kept

    # --- what asyncio asks of a loop -------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn."""
        step = LoopStep(self._now, callback, args, contextvars.copy_context() if context is None else context)
        step.of_task = isinstance(getattr(callback, "__self__", None), asyncio.Task)
        self._ready.append(step)
        return step

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: there are no other threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback after some virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback at a virtual time."""
        step = LoopStep(when, callback, args, contextvars.copy_context() if context is None else context)
        self._serial += 1
        heapq.heappush(self._timers, (when, self._serial, step))
        return step

    def world_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Run a callback after some virtual seconds on behalf of nobody's process: it happens whoever dies."""
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=self._world)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> Task:
        """Start a task; it stays known until it ends, whoever else forgets it."""
        if context is None:
            context = contextvars.copy_context()
        self._serial += 1
        task = Task(coro, self._serial, context.get(PROCESS), loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Do the work at once, in no thread: how long it takes is nobody's concern here."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def get_debug(self) -> bool:
        """Debugging is off."""
        return False

    def is_running(self) -> bool:
        """Whether `advance` is under way."""
        return self._running

    def is_closed(self) -> bool:
        """A virtual loop has nothing to close."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what went wrong where nobody was listening."""
        error = context.get("exception")
        self.failures.append(f"{context.get('message', '')}: {error!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """As `call_exception_handler`."""
        self.call_exception_handler(context)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        if isinstance(task, Task):
            self._tasks.pop(task, None)

    # --- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Cancel every task and run until none is left: nothing of a run may outlive it, not even a coroutine."""
        self.stopped = False
        self._timers = [timer for timer in self._timers if timer[2].process is not None]
        heapq.heapify(self._timers)
        for _ in range(20):
            for process in {id(task.owner): task.owner for task in self._tasks}.values():
                if process is not None:
                    process.stop_at = -1
                    self.thaw(process)
            for task in list(self._tasks):
                task.cancel()
            self.advance(self._now + 600.0)
            if not self._tasks:
                return

    @contextmanager
    def _current(self) -> Generator[None]:
        asyncio._set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            asyncio._set_running_loop(None)


class VirtualClock:
    """A `Clock` on a virtual loop. `offset` is by how many seconds this wall clock is wrong."""

    def __init__(self, loop: VirtualLoop, offset: float = 0.0) -> None:
        self._loop, self.offset = loop, offset

    def now(self) -> datetime:
        """Return the wall clock."""
        return EPOCH + timedelta(seconds=self._loop.time() + self.offset)

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(max(0.0, seconds))
