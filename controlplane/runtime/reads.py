"""Carries out the reads that decisions wait for: each object once at a time, whoever waits, and its answer into the
log.

In: the open reads of streams, after they were decided about. Out: GETs, and one event for each answer. A read changes
nothing, so it needs no decision in the log before it, and after a restart it is simply made again
(docs/decisions/0017). No answer at all says nothing in the log: it is tried again here, and the connection's own events
tell of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import structlog

from controlplane.clock import Clock
from controlplane.clusters.protocol import ApiError, Looks, NotServed, Unreachable
from controlplane.log.event import Append, Fenced, LogError, Recorded
from controlplane.log.port import Log
from controlplane.runtime.controller import OpenRead, ReadAnswer, ReadingController, WriteRefusal
from controlplane.runtime.leader import end_term
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

# Seconds before something that our own fault prevented is tried again.
_FAULT_PAUSE = 30.0


class Reads:
    """The reads of all clusters. `look(cluster)` gives the reading face of a connected cluster, or None.

    `concurrency` bounds how many reads are on their way at once; the cluster's budget bounds them besides.
    """

    def __init__(
        self,
        log: Log,
        controller: ReadingController,
        clock: Clock,
        look: Callable[[str], Looks | None],
        *,
        rng: random.Random,
        concurrency: int = 16,
    ) -> None:
        self._write, self._controller, self._clock, self._look, self._rng = log, controller, clock, look, rng
        self._slots = asyncio.Semaphore(concurrency)
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._answered: set[str] = set()
        self._closing = False
        self.failure: asyncio.Future[None] | None = None

    def sync(self, stream: str) -> None:
        """Start the reads that a stream waits for, unless they are under way."""
        if self._closing:
            return
        for read in self._controller.open_reads(stream, self._clock.now()):
            if read.stream not in self._under_way and read.stream not in self._answered:
                task = asyncio.create_task(self._carry_out(read), name=f"read-{read.kind}-{read.name}")
                self._under_way[read.stream] = task
                task.add_done_callback(lambda done, key=read.stream: self._ended(key, done))  # type: ignore[misc]

    def folded(self, events: Sequence[Recorded]) -> None:
        """Hear what was folded: until an answer is, those who wait for it do not know it, and it must not be read again
        for them.
        """
        if self._answered:
            self._answered.difference_update(recorded.stream for recorded in events)

    @property
    def under_way(self) -> int:
        """How many objects are being read or waited for."""
        return len(self._under_way)

    async def close(self) -> None:
        """Stop: what is under way is made again by whoever comes next."""
        self._closing = True
        await end(*self._under_way.values())

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        self._under_way.pop(key, None)
        end_term(self.failure, task, "reader")

    async def _carry_out(self, read: OpenRead) -> None:
        while self._controller.is_wanted(read):
            pause: float | None
            try:
                async with self._slots:
                    pause = await self._once(read)
            except Fenced:
                raise
            except LogError as error:
                _log.warning("answer not recorded, will try again", stream=read.stream, error=str(error))
                pause = 1.0
            except Exception:
                # A fault of ours on one read must not stop the others; it is tried again later.
                _log.exception("reading failed", cluster=read.cluster, kind=read.kind, name=read.name)
                pause = _FAULT_PAUSE
            if pause is None:
                return
            await self._clock.sleep(pause)

    async def _once(self, read: OpenRead) -> float | None:
        """Read once and record the answer; returns the pause before another try, None if there is an answer."""
        looks = self._look(read.cluster)
        if looks is None:
            return self._rng.uniform(0.5, 2.0)
        try:
            answer = ReadAnswer(object=await looks.look(read.api_version, read.kind, read.namespace, read.name))
        except Unreachable as error:
            _log.info("no answer, will read again", cluster=read.cluster, kind=read.kind, error=str(error))
            return self._rng.uniform(0.5, 2.0)
        except NotServed:
            answer = ReadAnswer(not_served=True)
        except ApiError as error:
            if error.status == 401:  # the connection's own events tell of refused credentials
                return self._rng.uniform(1.0, 4.0)
            failure = WriteRefusal(error.status, error.reason or str(error.status), error.message)
            answer = ReadAnswer(failure=failure, absent=error.status == 404 and error.name == read.name)
        if not self._controller.is_wanted(read):
            return None
        self._answered.add(read.stream)  # before the append: it may be folded before we hear that it is done
        try:
            await self._write.append(Append([self._controller.answered(read, answer, self._clock.now())]))
        except BaseException:
            self._answered.discard(read.stream)
            raise
        return None
