"""Runs one replica of a process: it follows its log, leads it, and starts over, until it is stopped.

In: how a term is made, and the ports of the process. Out: follow, catch up, lead, close, in this order: once for the
service, for the scheduler beside a target, and for both of them in a simulation, which gives them other ports."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from controlplane.clock import Clock
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import LogWentBack
from controlplane.controllers.connectivity.local_connection import log_went_back
from controlplane.log.codec import Codec
from controlplane.log.event import Fenced, LogArchived, LogGap, LogHead, LogReplaced, NewEvent, Recorded
from controlplane.log.port import Log
from controlplane.log.read_models import ReadModels
from controlplane.log.snapshots import SnapshotStore
from controlplane.runtime.claims import AnotherLog
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.measure import ProcessMeasure
from controlplane.runtime.spans import Spans
from controlplane.settings import Settings
from controlplane.tasks import end
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

# Seconds that a term is given to end by itself once the process stops.
_DRAIN = 15.0

OpenManagement = Callable[[], Awaitable[ApiServer]]
OpenWorker = Callable[[str, ClientConfig], ApiServer]
"""`open_worker(name, config)`: a connection to a worker."""
OnState = Callable[[bool, str], None]
"""`on_state(ok, detail)`: the log's keeper answers appends, or does not."""
OnBatch = Callable[[Sequence[str], float], None]
"""`on_batch(types, seconds)`: events of these types were appended in that time."""


class OpenLog(Protocol):
    """How a process gets to a log."""

    def __call__(self, name: str, codec: Codec, on_state: OnState, on_batch: OnBatch) -> Log:
        """Return the log of a name."""


OpenSnapshots = Callable[[Log], SnapshotStore | None]
OpenReadModels = Callable[[Log], ReadModels | None]
"""`snapshots(log)`: where the snapshots of a log are, None if it has none."""


class Observer:
    """Who watches a process from outside: a simulation. Nobody does here."""

    def folded(self, hosted: Any, position: int) -> None:
        """A batch was folded, up to a position; `hosted` are the controllers with their state."""

    def leads(self, head: LogHead) -> None:
        """The process begins to lead."""

    def ended(self) -> None:
        """A term is over."""

    def failed(self, error: Exception) -> None:
        """A term ended with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What differs between a process on a machine and one in a simulation.

    `lease`, `renew` and `poll` are seconds: how long a lead lasts without a heartbeat, how often one is given, and the
    longest pause between two reads of the log. `claim`: for how long the Leases of the cluster last by which
    the processes of another log are kept away; 0: there are none. `ahead`: how many pieces of one watch are handed over
    together. `stopwatch` measures what scheduling cycles take of the processor. `gauges`: whether anybody reads them.
    `tunes_collector`: whether the process may set the garbage collector, which is the interpreter's. Without
    `snapshots` a process reads its whole log when it starts; without `read_models` what is asked of the whole fleet is
    read from its events."""

    open_log: OpenLog
    open_worker: OpenWorker | None = None
    version: str = "unknown"
    lease: float = 3.0
    renew: float = 0.75
    poll: float = 1.0
    claim: float = 0.0
    ahead: int = 4
    stopwatch: Callable[[], float] = time.perf_counter
    gauges: bool = True
    tunes_collector: bool = True
    observer: Observer = field(default_factory=Observer)
    snapshots: OpenSnapshots | None = None
    read_models: OpenReadModels | None = None


class LostLog:
    """What a process knows of a log that went back, until it is in the log that took its place. It outlives a term."""

    def __init__(self) -> None:
        self._known: LogReplaced | None = None

    @property
    def ends_at(self) -> int | None:
        """Where the log ended when it was noticed that it went back, None if it did not, or if that is in it."""
        return self._known.ends_at if self._known is not None else None

    def noticed(self, replaced: LogReplaced) -> None:
        """Remember that the log is not the one that was read; what was lost first counts."""
        if self._known is None or replaced.read_to > self._known.read_to:
            self._known = replaced

    def folded(self, events: Sequence[Recorded]) -> None:
        """Hear what is in the log now: another process may have said it."""
        known = self._known
        if known is not None and any(
            isinstance(event.event, LogWentBack) and event.position > known.ends_at for event in events
        ):
            self._known = None

    def opening(self, started: NewEvent, holder: str) -> list[NewEvent]:
        """Return what a process says when it begins to lead."""
        return [started] if self._known is None else [started, log_went_back(self._known, holder)]


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What outlives a term."""

    settings: Settings
    ports: Ports
    open_management: OpenManagement
    metrics: Metrics
    health: Health
    clock: Clock
    random: random.Random
    spans: Spans | None = None
    lost_log: LostLog = field(default_factory=LostLog)


class Term(Protocol):
    """One time that a process follows its log and leads it (`controlplane.runtime.term`)."""

    @property
    def log(self) -> Log:
        """The log, which is closed in the end."""

    @property
    def leader(self) -> Leader:
        """The lead of it, which is released."""

    @property
    def measure(self) -> ProcessMeasure:
        """What the metrics hear of the term."""

    async def follow_until(self, stop: asyncio.Event) -> LogHead | None:
        """Fold what the leader writes until the lead is ours; None if stopped before."""

    async def take_over(self, head: LogHead) -> None:
        """Fold up to the head at which the lead became ours, and say so in the log."""

    async def lead(self, stop: asyncio.Event) -> None:
        """Record, decide and act until stopped; raises `Fenced`, or the fault of whatever part ended first."""

    async def leave(self, head: LogHead) -> None:
        """Say what is to be said when a lead ends in good order."""

    async def close(self) -> None:
        """Let what is on its way end, and let go of every cluster."""

    async def end(self, *, orderly: bool) -> None:
        """Keep what was folded for the next process if this one ended in good order, and let go of where it is kept."""


class Process(ABC):
    """One replica. `run` returns when `stop` is set, after a drain; it raises only for what a restart does not cure."""

    def __init__(self, context: ProcessContext, log: str) -> None:
        self._context, self._log_name = context, log

    async def run(self, stop: asyncio.Event) -> None:
        """Follow, lead, and start over, until `stop` is set."""
        await run_terms(self._watched, stop, self._context.lost_log)

    async def _watched(self, stop: asyncio.Event) -> None:
        try:
            await self.run_term(stop)
        except Exception as error:
            self._context.ports.observer.failed(error)
            raise

    async def run_term(self, stop: asyncio.Event) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced."""
        health, observer = self._context.health, self._context.ports.observer
        term, orderly = self._term(), False
        try:
            health.set("leader", True, "follows")
            head = await term.follow_until(stop)
            if head is None:
                orderly = True
                return
            await term.take_over(head)
            self._leads(head)
            health.set("leader", True, f"leads epoch {head.epoch}")
            term.measure.leads(head.epoch)
            observer.leads(head)
            await term.lead(stop)
            await term.leave(head)
            orderly = True
        finally:
            term.measure.follows()
            observer.ended()
            try:
                await term.close()
                await term.leader.release()
            finally:
                try:
                    await term.end(orderly=orderly)  # whoever leads next does not wait for it
                finally:
                    await term.log.close()

    @abstractmethod
    def _term(self) -> Term:
        """Return a new term, with nothing but what the log says."""

    @abstractmethod
    def _leads(self, head: LogHead) -> None:
        """Take note that the lead is ours, and that everything is folded."""

    def _open(self, codec: Codec) -> tuple[Gate, Log, Leader]:
        """Return the way to the log, the lead of it, and the gate that is open while both are sure."""
        gate, health, ports = Gate(), self._context.health, self._context.ports
        measure = ProcessMeasure(self._context.metrics)

        def on_state(ok: bool, detail: str) -> None:
            # A reason of its own: a server that takes no writes may answer reads, which are what "log" tells of.
            gate.set("append", ok, detail)
            measure.log_answers(ok)
            if not ok:  # that it is well again is for the report to say, which knows of reads too
                health.set("database", False, detail)

        log = ports.open_log(self._log_name, codec, on_state, measure.appended)
        identity = self._context.settings.leader.identity
        return gate, log, Leader(log, identity, self._context.clock, gate, lease=ports.lease, renew=ports.renew)


async def run_terms(
    term: Callable[[asyncio.Event], Coroutine[Any, Any, None]], stop: asyncio.Event, lost_log: LostLog
) -> None:
    """Begin a term whenever the one before was fenced, or its log went back, until `stop` is set; raises what else ends
    one.
    """
    stopping = asyncio.create_task(stop.wait())
    running: asyncio.Task[None] | None = None
    try:
        while not stop.is_set():
            running = asyncio.create_task(term(stop), name="term")
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await asyncio.wait({running}, timeout=_DRAIN)
                await end(running)
            if running.cancelled() and stop.is_set():
                return
            try:
                running.result()
            except LogReplaced as replaced:
                lost_log.noticed(replaced)
                _log.warning(
                    "the log is not the one that was read, starting over with what it holds", detail=str(replaced)
                )
            except LogArchived as archived:
                _log.warning("events left the log while it was read, starting over", detail=str(archived))
            except LogGap as gap:
                _log.error("the log lacks events, so this process leads it no more", detail=str(gap))
            except AnotherLog as other:
                _log.warning("another log's processes act on the cluster, following", detail=str(other))
            except Fenced as fenced:
                _log.warning("another replica leads, following it", detail=str(fenced))
    finally:
        await end(stopping, *([running] if running is not None else []))
