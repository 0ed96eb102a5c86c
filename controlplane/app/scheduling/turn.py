"""One turn of a scheduler process: a warm follower, then the leader's watches, cycles and effects; thrown away when its lead ends.

In: what the service shares between turns. Out: pods on nodes. What the watches show goes two ways: into the snapshot at once, and into the
log if it is about a pod of ours. What the log says comes back through the fold, as everywhere, and tells queue and snapshot
what is held.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from controlplane.app.facts import event_of, lift
from controlplane.app.scheduling.candidates import CandidateErrands
from controlplane.app.scheduling.cycles import Cycles
from controlplane.app.scheduling.measure import SchedulerMeasure
from controlplane.app.scheduling.profiles import Setup
from controlplane.app.scheduling.rooms import CANDIDATE_KINDS, SchedulerRooms
from controlplane.clock import Clock
from controlplane.clusters.budget import Limits
from controlplane.clusters.facts import Connected, Fact, Lost, Reached
from controlplane.clusters.home import Home
from controlplane.clusters.port import Change, Delta, Executes
from controlplane.clusters.reflector import Pace
from controlplane.clusters.sources import secret_not_found
from controlplane.clusters.streams import ApiServer, WatchSpec
from controlplane.clusters.surroundings import Surroundings, Timing
from controlplane.connectivity.events import MANAGEMENT, ClusterConnected, ClusterRestored
from controlplane.connectivity.here import connectivity_event
from controlplane.connectivity.state import life_of
from controlplane.kube import NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, PRIORITY_CLASSES, Kind, meta
from controlplane.log.event import Head, LogUnavailable, Recorded
from controlplane.log.port import Log
from controlplane.reconcile.bodies import Bodies
from controlplane.reconcile.effects import Effects
from controlplane.reconcile.gate import Gate
from controlplane.reconcile.leader import Leader
from controlplane.reconcile.logclock import LogClock
from controlplane.reconcile.recorder import Recorder
from controlplane.reconcile.runner import Runner
from controlplane.scheduler.errands import Errands, Plain
from controlplane.scheduler.loop import Loop
from controlplane.scheduler.view import KINDS, ClusterView
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

# Without these no cycle runs: pods would be bound over others, or evicted against a budget.
_NEEDED = (PODS, NODES, POD_DISRUPTION_BUDGETS)
_OF_CANDIDATES = (PODS, *CANDIDATE_KINDS)
OpenServer = Callable[[], Awaitable[ApiServer]]
_SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


@dataclass(frozen=True, slots=True)
class Around:
    """What outlives a turn."""

    settings: Settings
    setup: Setup
    open_server: OpenServer
    metrics: Metrics
    health: Health
    clock: Clock
    random: random.Random


class SchedulerTurn:
    """See the module. `around` is what outlives it."""

    def __init__(self, around: Around, rooms: SchedulerRooms, gate: Gate, log: Log, leader: Leader) -> None:
        self._around, self._rooms, self._gate, self._leader = around, rooms, gate, leader
        self._clock, self._health = around.clock, around.health
        self._live = self._begun = False
        self._identity = ""
        self._classes: set[str] = set()
        self._time = LogClock(around.clock)
        bodies = Bodies(log)
        self._recorder = Recorder(log, rooms.capability, bodies, around.clock, lift)
        self._home = Home(MANAGEMENT, around.open_server, self._surroundings())
        self._effects = Effects(
            log,
            rooms.capability,
            bodies,
            self._time,
            gate,
            self._executor,
            rng=around.random,
            concurrency=around.settings.budgets.management.concurrency,
            sure=lambda: leader.sure,
            on_outcome=lambda cluster, action, outcome: around.metrics.effects_executed.labels(
                cluster=cluster, action=action, outcome=outcome
            ).inc(),
        )
        view = ClusterView()
        errands: dict[str, Errands] = {
            "pod": Plain(rooms.placements),
            "candidate": CandidateErrands(rooms.targets, rooms.placements),
        }
        self.loop = Loop(
            around.setup.profiles,
            around.setup.queue(view.cluster),
            view,
            errands,
            pick=lambda: around.random.getrandbits(31),
            leaving=rooms.evictions.leaving,
        )
        self.loop.quorums.judged, self.loop.quorums.started = rooms.verdicts.judged, rooms.verdicts.started
        self.loop.faults.heard = lambda error: _log.error("a plugin failed", exc_info=error)
        self._measure = SchedulerMeasure(around.metrics, self.loop)
        self._cycles = Cycles(self.loop, log, self._time, gate, self._ready, self._measure.cycle)
        self.runner = Runner(log, rooms.capability, self._effects, gate, self._time, on_folded=self._folded)

    def _surroundings(self) -> Surroundings:
        settings, around = self._around.settings, self._around
        budget = settings.budgets.management
        return Surroundings(
            specs=self._rooms.watches,
            sink=self._sink,
            facts=self._facts,
            read_secret=_no_secret,
            known=self._known,
            newest=self._newest,
            is_gone=lambda cluster, uid: self._same() and self._rooms.here.newest.is_gone(cluster, uid),
            on_request=lambda cluster, verb, resource, code: around.metrics.api_requests.labels(
                cluster=cluster, verb=verb, resource=resource, code=code
            ).inc(),
            allowed=lambda: self._leader.sure,
            limits=Limits(qps=budget.qps, burst=budget.burst, concurrency=budget.concurrency),
            pace=Pace(idle_timeout=settings.clusters.watch_inactivity.total_seconds()),
            timing=Timing(
                heartbeat=settings.clusters.probe_interval.total_seconds(),
                heartbeat_timeout=settings.clusters.probe_timeout.total_seconds(),
                suspect_grace=settings.clusters.suspect_grace.total_seconds(),
            ),
            clock=around.clock,
            random=around.random.random,
        )

    # --- following and leading -----------------------------------------------------------------------------------

    async def follow_until(self, stop: asyncio.Event) -> Head | None:
        """Fold what the leader writes, so that taking over is quick, until the lead is ours; None if stopped before."""
        acquiring: asyncio.Task[Head] | None = None
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                if await self._follow() and acquiring is None:
                    acquiring = asyncio.create_task(self._leader.acquire(), name="acquire")
                waiting = {stopping, acquiring} if acquiring else {stopping}
                await asyncio.wait(waiting, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                if acquiring is not None and acquiring.done():
                    return acquiring.result()
            return None
        finally:
            stopping.cancel()
            if acquiring is not None:
                acquiring.cancel()

    async def _follow(self) -> bool:
        try:
            await self.runner.follow()
        except LogUnavailable as error:
            self._health.set("database", False, str(error))
            return False
        for check in ("database", "cluster"):
            self._health.set(check, True, "" if check == "database" else "follows")
        return True

    async def lead(self, stop: asyncio.Event) -> None:
        """Watch, schedule and bind until stopped; raises `Fenced`, or the fault of whatever part ended first."""
        self._live = True
        self._health.set("cluster", False, "not in view yet")
        self._effects.failure = asyncio.get_running_loop().create_future()
        parts: list[Coroutine[Any, Any, Any]] = [
            self.runner.run(),
            self._home.run(),
            self._cycles.run(),
            self._leader.keep(),
            self._report(),
            _wait(self._effects.failure),
            stop.wait(),
        ]
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._live = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Let the bindings that are on their way end."""
        await self._effects.close()

    # --- the wires ---------------------------------------------------------------------------------------------------

    def _executor(self, cluster: str) -> Executes | None:
        return self._home.executor if cluster == MANAGEMENT else None

    def _ready(self) -> bool:
        """Whether cycles may run: everything is listed, the API server answers, and what nobody can do without may be read."""
        connection = self._rooms.here.connection
        return self._begun and all(connection.in_view(kind.name) for kind in _NEEDED)

    def _unready(self) -> str:
        connection = self._rooms.here.connection
        for kind in _NEEDED:
            if kind.name in connection.off:
                return f"{kind.name} cannot be read: {connection.off[kind.name]}"
        unseen = [kind.name for kind in _NEEDED if not connection.in_view(kind.name)]
        if self._begun and connection.connected and unseen:
            return f"{unseen[0]} could not be listed yet"
        return connection.message or "the cluster is not in view yet"

    async def _sink(self, cluster: str, deltas: Sequence[Delta]) -> None:
        now = self._time.now()
        for delta in deltas:
            if not isinstance(delta, Change):
                continue
            if delta.kind in KINDS or delta.kind == POD_GROUPS:
                self.loop.changed(delta.kind, delta.object, now, gone=delta.op == "gone")
            elif delta.kind == PRIORITY_CLASSES:
                self.loop.changed(delta.kind, delta.object, now, gone=delta.op == "gone")
                self._class_changed(str(meta(delta.object)["name"]), delta.op == "gone")
        self._cycles.wake()
        await self._recorder(cluster, deltas)

    def _class_changed(self, name: str, gone: bool) -> None:
        if gone:
            self._classes.discard(name)
        else:
            self._classes.add(name)
        if self._begun:
            self._classes_known()

    def _classes_known(self) -> None:
        off = PRIORITY_CLASSES.name in self._rooms.here.connection.off
        self._rooms.targets.priority_classes = None if off else frozenset(self._classes) | _SYSTEM_CLASSES
        self._rooms.targets.touch_all()

    def _known(self, cluster: str, spec: WatchSpec) -> dict[str, tuple[str, str, str]]:
        known = self._rooms.known(spec.kind)
        if self._same() and self._rooms.here.newest.listed(cluster, spec.kind.name):
            return known
        return {uid: (namespace, name, "") for uid, (namespace, name, _) in known.items()}

    def _newest(self, cluster: str, kind: Kind) -> int:
        return self._rooms.here.newest.of(cluster, kind.name) if self._same() else 0

    def _same(self) -> bool:
        """Whether the cluster that answers is the one that the log knows."""
        return self._rooms.here.connection.incarnation == self._identity

    async def _facts(self, cluster: str, fact: Fact) -> None:
        known = self._rooms.here.connection
        kinds = [spec.kind for spec in self._rooms.watches]
        event = event_of(cluster, fact, kinds, self._around.settings.leader.identity, {MANAGEMENT: known})
        if isinstance(fact, Reached):
            self._identity = fact.incarnation
            self._recorder.incarnations[cluster] = life_of(fact.incarnation, known.life)
        elif isinstance(event, ClusterRestored):
            self._recorder.incarnations[cluster] = life_of(self._identity, event.life)
        elif isinstance(fact, Lost):
            self._begun = False
        if event is not None:
            _log.info("connection", fact=type(event).__name__, detail=getattr(event, "message", ""))
            await self._recorder.record([connectivity_event(cluster, event)])
        if isinstance(fact, Connected):
            self._begin(fact)

    def _begin(self, connected: Connected) -> None:
        """Everything is listed that can be: take up what the log says, and let cycles run."""
        self._rooms.targets.ready = not any(kind.name in connected.kinds_off for kind in _OF_CANDIDATES)
        self._begun = True
        self._classes_known()
        self.loop.begin(self._time.now())
        self._cycles.wake()

    def _folded(self, events: Sequence[Recorded]) -> None:
        self._time.anchor(events[-1].recorded_at)
        self._measure.folded(events, self._live)
        if not self._live:
            return
        if self._begun:
            self._late()
            now = self._time.now()
            for stream in dict.fromkeys(recorded.stream for recorded in events):
                self.loop.sync(stream, now)
            self._cycles.wake()
        if any(isinstance(recorded.event, ClusterConnected) for recorded in events):
            self._effects.cluster_back(MANAGEMENT)

    def _late(self) -> None:
        """Take Candidates up that could not be listed when we connected: their kind was not there, or its storage in trouble."""
        targets, connection = self._rooms.targets, self._rooms.here.connection
        if not targets.ready and all(connection.in_view(kind.name) for kind in _OF_CANDIDATES):
            targets.ready = True
            targets.touch_all()

    async def _report(self) -> None:
        """Keep gauges and readiness up to date."""
        for count in itertools.count():
            silent = next((why for why in map(self._gate.against, ("log", "append")) if why is not None), None)
            if silent is None and not self._leader.sure:
                silent = "the database has not answered for too long"
            self._health.set("database", silent is None, silent or "")
            connection, ready = self._rooms.here.connection, self._ready()
            self._health.set("cluster", ready, "" if ready else self._unready())
            self._measure.gauges(sure=self._leader.sure, log_answers=silent is None)
            self._measure.connection(connection, self._effects.open_by_cluster().get(MANAGEMENT, 0))
            if count % 40 == 0 and self.loop.view.problems:
                (kind, namespace, name), problem = next(iter(self.loop.view.problems.items()))
                left_out = len(self.loop.view.problems)
                _log.warning("left out", objects=left_out, kind=kind, namespace=namespace, name=name, problem=problem)
            await self._clock.sleep(0.25)


async def _no_secret(name: str) -> bytes:
    raise secret_not_found(name)


async def _wait(future: asyncio.Future[None]) -> None:
    await future
