"""Carries out open writes: per cluster, at its budget, until the log shows that they are settled.

In: the open writes of streams, after each fold. Out: requests to clusters, and events for what an API server refused. A
2xx settles nothing: the watch does, by closing the write in the fold. What is not closed in time is carried out again,
which every request's preconditions make harmless. No answer at all is tried again here and says nothing in the log: the
connection's own events do. A conflict waits for the news that explains it; if none comes, the news was older than the
decision, and the conflict is recorded."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

import structlog

from controlplane.clock import Clock
from controlplane.clusters.protocol import ApiError, ClusterError, Executes, Foreign, Unreachable
from controlplane.kube.kinds import EVENTS, Json, Request, meta, version_number
from controlplane.log.event import Append, Fenced, LogError, LogUnavailable, NewEvent
from controlplane.log.port import Log
from controlplane.runtime.announcements import Announcements
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.controller import Controller, OpenWrite, WriteRefusal
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import end_term
from controlplane.runtime.spans import Spans
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

Outcome = Callable[[str, str, str], None]

# Seconds before something that our own fault prevented is tried again.
_FAULT_PAUSE = 30.0
# Of so many times that the same content is missed, one counts as a conflict.
_WAITS = 20


class _Lane:
    """The writes to one cluster: those that wait, and how many are on their way."""

    def __init__(self) -> None:
        self.waiting: deque[OpenWrite] = deque()
        self.parked: list[OpenWrite] = []
        self.workers: set[asyncio.Task[None]] = set()
        self.held: set[asyncio.Task[None]] = set()


class Effects:
    """The executors of all clusters. `executor(cluster)` gives the verbs of a connected cluster, or None.

    `settle` is how long a write may take to show in the watch before it is carried out again, `news` how long the
    change that explains a conflict may take, `concurrency` how many writes to a cluster are on their way at once,
    `on_outcome(cluster, action, outcome)` hears how each try ended, `spans` when it began too. `sure` is asked
    immediately before acting whether this process still leads."""

    def __init__(
        self,
        log: Log,
        controller: Controller,
        bodies: Bodies,
        clock: Clock,
        gate: Gate,
        executor: Callable[[str], Executes | None],
        *,
        rng: random.Random,
        concurrency: int = 32,
        settle: float = 15.0,
        news: float = 2.0,
        on_outcome: Outcome = lambda cluster, action, outcome: None,
        spans: Spans | None = None,
        sure: Callable[[], bool] = lambda: True,
    ) -> None:
        self._write, self._controller, self._bodies, self._clock, self._gate = log, controller, bodies, clock, gate
        self._executor, self._rng, self._concurrency = executor, rng, concurrency
        self._settle, self._news = settle, news
        self._on_outcome, self._sure, self._spans = on_outcome, sure, spans
        self._announcements = Announcements(clock, rng, executor, self._may_act)
        self._lanes: dict[str, _Lane] = {}
        self._known: dict[str, dict[str, int]] = {}
        self._later: set[asyncio.Task[None]] = set()
        self._conflicted: set[OpenWrite] = set()
        self._sent: set[OpenWrite] = set()
        self.inherited = 0
        """What was decided up to this position another process may have sent."""
        self._closing = False
        self.failure: asyncio.Future[None] | None = None

    def sync(self, stream: str) -> None:
        """Compare a stream's open writes with those under way: start the new ones; closed ones end by themselves."""
        writes = self._controller.open_writes(stream)
        known = self._known.get(stream, {})
        now = {write.target: write.position for write in writes}
        if now:
            self._known[stream] = now
        else:
            self._known.pop(stream, None)
        for write in writes:
            if known.get(write.target) != write.position:
                self._enqueue(write)

    def open_by_cluster(self) -> dict[str, int]:
        """Return how many writes wait or are under way, by cluster."""
        # Who stands before the gate has not taken a write yet.
        return {
            name: len(lane.waiting) + len(lane.parked) + len(lane.workers - lane.held)
            for name, lane in self._lanes.items()
        }

    def cluster_back(self, cluster: str) -> None:
        """Carry out what was put aside while a cluster was away."""
        lane = self._lanes.get(cluster)
        if lane is not None and lane.parked:
            parked, lane.parked = lane.parked, []
            for write in parked:
                self._enqueue(write)

    async def close(self, drain: float = 5.0) -> None:
        """Start nothing more, give what is on its way `drain` seconds, and stop."""
        self._closing = True
        # Who waits before the gate or for its time has nothing on its way.
        for task in [*self._later, *(worker for lane in self._lanes.values() for worker in lane.held)]:
            task.cancel()
        workers = [worker for lane in self._lanes.values() for worker in lane.workers]
        try:
            await self._announcements.close()
            if workers:
                await asyncio.wait(workers, timeout=drain)
        finally:
            await end(*workers, *self._later)

    def _enqueue(self, write: OpenWrite) -> None:
        if self._closing:
            return
        lane = self._lanes.setdefault(write.cluster, _Lane())
        lane.waiting.append(write)
        self._man(lane)

    def _man(self, lane: _Lane) -> None:
        if lane.waiting and len(lane.workers) < self._concurrency and not self._closing:
            worker = asyncio.create_task(self._work(lane), name=f"effects-{lane.waiting[0].cluster}")
            lane.workers.add(worker)
            worker.add_done_callback(lambda done: self._ended(lane, done))

    def _ended(self, lane: _Lane, worker: asyncio.Task[None]) -> None:
        lane.workers.discard(worker)
        # A write that came after the worker had looked for more, and before it counted as gone, found nobody else.
        self._man(lane)
        end_term(self.failure, worker, "executor")

    async def _work(self, lane: _Lane) -> None:
        while lane.waiting and not self._closing:
            await self._pass(lane)
            write = lane.waiting.popleft() if lane.waiting else None
            if write is None or not self._is_open(write):
                continue
            executor = self._executor(write.cluster)
            if executor is None:
                lane.parked.append(write)
                continue
            try:
                await self._carry_out(write, executor)
            except Fenced:
                raise
            except Exception:
                # A fault of ours on one write must not stop the others; it is tried again later.
                _log.exception("carrying out failed", cluster=write.cluster, action=write.action, stream=write.stream)
                self._again(write, _FAULT_PAUSE)

    async def _pass(self, lane: _Lane) -> None:
        if self._gate.is_open:
            return
        worker = asyncio.current_task()
        assert worker is not None
        lane.held.add(worker)
        try:
            await self._gate.passed()
        finally:
            lane.held.discard(worker)

    def _may_act(self) -> bool:
        return not self._closing and self._gate.is_open and self._sure()

    def _is_open(self, write: OpenWrite) -> bool:
        if self._controller.is_open(write):
            return True
        self._forget(write)
        return False

    def _forget(self, write: OpenWrite) -> None:
        """Remember nothing more of a write that ended."""
        self._conflicted.discard(write)
        self._sent.discard(write)

    async def _carry_out(self, write: OpenWrite, executor: Executes) -> None:
        needed = self._controller.bodies_needed(write)
        try:
            bodies = await self._bodies.get(needed)
        except LogUnavailable:
            self._again(write, 1.0)
            return
        if missing := [ref for ref in needed if ref not in bodies]:
            await self._without(write, missing)
            return
        # The last look before acting: a decision that was overtaken while this one waited is not carried out.
        if not self._may_act() or not self._is_open(write):
            self._again(write, 0.1)
            return
        request = self._controller.request(write, bodies, self._clock.now())
        if request is None:
            await self._overtaken(
                write, WriteRefusal(404, "Obsolete", "what the decision was based on is no longer there")
            )
            return
        await self._send(write, request, executor)

    async def _send(self, write: OpenWrite, request: Request, executor: Executes) -> None:
        """Send a write's request, and see to what becomes of it."""
        # Rendered before the watch can close the write: afterwards its decision is no longer at hand.
        announced = self._controller.announcement(write, self._clock.now())
        before = write in self._sent or write.position <= self.inherited
        try:
            answer = await self._executed(write, request, executor)
        except Unreachable as error:
            self._sent.add(write)
            self._unanswered(write, error)
        except Foreign as error:
            await self._refused(write, WriteRefusal(409, "Foreign", str(error), before))
        except ApiError as error:
            if error.status >= 500:  # it may have been carried out all the same
                self._sent.add(write)
            await self._answered(write, request, error, before)
        else:
            self._sent.add(write)
            changed = await self._done(write, request, answer)
            if changed and announced is not None and not self._closing:
                for event in announced if isinstance(announced, tuple) else (announced,):
                    await self._announcements.tell(write.cluster, event)

    async def _executed(self, write: OpenWrite, request: Request, executor: Executes) -> Json | None:
        """Send a request, and return its answer; raises what `Executes.execute` raises."""
        if self._spans is None:
            return await executor.execute(request)
        began, failed = self._clock.now(), ""
        try:
            return await executor.execute(request)
        except ClusterError as error:
            failed = str(error) or type(error).__name__
            raise
        finally:
            trace = self._write.traces.of(write.position)
            self._spans.request(write, trace, request.verb, began, self._clock.now(), failed)

    def _unanswered(self, write: OpenWrite, error: Unreachable) -> None:
        self._on_outcome(write.cluster, write.action, "unreachable")
        trace = self._write.traces.of(write.position)
        where = {"cluster": write.cluster, "action": write.action, "stream": write.stream}
        _log.info("no answer, will try again", **where, error=str(error), trace=trace)
        self._again(write, self._rng.uniform(0.5, 2.0))

    async def _without(self, write: OpenWrite, missing: list[str]) -> None:
        """What a write is made of is not at hand: it was not listed yet, or the object has changed or gone since the
        decision.

        Then the decision is obsolete, and is taken anew by what is there now. One that names the same again waits
        without a word: whatever shows it is away."""
        if not self._bodies.complete():
            self._again(write, 1.0)
            return
        if write in self._conflicted or self._bodies.missed(missing) % _WAITS == 1:
            await self._overtaken(
                write, WriteRefusal(409, "Conflict", "what it was decided on has changed or gone since")
            )
        else:
            self._again(write, self._settle)

    async def _answered(self, write: OpenWrite, request: Request, error: ApiError, before: bool) -> None:
        if error.status == 401:
            # The connection's own events tell of refused credentials; the write waits for better ones.
            self._on_outcome(write.cluster, write.action, "unauthorized")
            self._again(write, self._rng.uniform(1.0, 4.0))
            return
        failure = WriteRefusal(error.status, error.reason or str(error.status), error.message, before)
        if request.ref.kind == EVENTS and failure.error == "AlreadyExists":
            self._on_outcome(write.cluster, write.action, "done")  # told before, by the same name
            await self._note(write, self._controller.unneeded(write, ""))
            return
        if request.verb != "create" and error.status in (404, 409):
            await self._overtaken(write, failure)
        else:
            await self._refused(write, failure)

    async def _overtaken(self, write: OpenWrite, failure: WriteRefusal) -> None:
        """The object has changed or gone since we looked: the watch brings the news and closes the write.

        If it does not, the news came before the decision was in the log, and nothing more will come.
        """
        if write in self._conflicted:
            await self._refused(write, failure)
            return
        self._on_outcome(write.cluster, write.action, "conflict")
        self._conflicted.add(write)
        self._again(write, self._news)

    async def _refused(self, write: OpenWrite, failure: WriteRefusal) -> None:
        self._on_outcome(write.cluster, write.action, "refused")
        self._conflicted.discard(write)
        _log.warning(
            "refused",
            cluster=write.cluster,
            action=write.action,
            stream=write.stream,
            code=failure.code,
            error=failure.error,
            message=failure.message,
            trace=self._write.traces.of(write.position),
        )
        await self._note(write, self._controller.failed(write, failure, self._clock.now()))

    async def _done(self, write: OpenWrite, request: Request, answer: Json | None) -> bool:
        """Settle a success; returns whether it may have changed something."""
        self._on_outcome(write.cluster, write.action, "done")
        version = str(meta(answer).get("resourceVersion", "")) if answer else ""
        if request.ref.kind == EVENTS:
            # Nobody watches Events: the answer is all that will be seen of one.
            await self._note(write, self._controller.unneeded(write, version))
            return True
        if request.verb == "patch" and version and version == request.resource_version:
            await self._note(write, self._controller.unneeded(write, version))
            return False
        if answer:
            # The watch will show what was made: it belongs to what led to it.
            traces, uid = self._write.traces, str(meta(answer).get("uid", ""))
            traces.expect(uid, version_number(version), traces.of(write.position))
        self._again(write, self._settle)
        return True

    async def _note(self, write: OpenWrite, event: NewEvent) -> None:
        try:
            if self._is_open(write):
                await self._write.append(Append([event]))
                self._forget(write)
        except Fenced:
            raise
        except LogError as error:
            _log.warning(
                "outcome not recorded, will try again", action=write.action, stream=write.stream, error=str(error)
            )
            self._again(write, _FAULT_PAUSE)

    def _again(self, write: OpenWrite, delay: float) -> None:
        """Carry a write out again after a while, if it is still open then."""
        if self._closing:
            return
        task = asyncio.create_task(self._after(write, delay), name="effects-again")
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _after(self, write: OpenWrite, delay: float) -> None:
        await self._clock.sleep(delay)
        if self._is_open(write):
            self._enqueue(write)
