"""One turn of a process: everything that is built new when it starts to follow the log, and thrown away when its lead ends.

In: what the service shares between turns. Out: first a warm follower, then the leader's loop with its connections, effects and wires. It is
where the rooms meet; what each does is in the room.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from controlplane.app.extras import Extras
from controlplane.app.facts import event_of, lift
from controlplane.app.following import Held
from controlplane.app.measure import Measure, Refused
from controlplane.app.rooms import Hosted
from controlplane.app.secrets import Secrets
from controlplane.app.workers import Workers
from controlplane.clock import Clock
from controlplane.clusters.budget import Limits
from controlplane.clusters.connections import Connections
from controlplane.clusters.facts import Fact, Reached, Removed
from controlplane.clusters.home import Home
from controlplane.clusters.port import ClusterError, Delta, Executes, Looks
from controlplane.clusters.reflector import Pace
from controlplane.clusters.streams import ApiServer, WatchSpec
from controlplane.clusters.surroundings import Surroundings, Timing
from controlplane.connectivity.events import MANAGEMENT, ClusterConnected, ClusterRestored
from controlplane.connectivity.state import life_of
from controlplane.kube import SECRETS, Kind, ObjectRef
from controlplane.log.event import Head, LogUnavailable, Recorded
from controlplane.log.postgres import PostgresLog
from controlplane.multikueue.fleet import connectivity_event
from controlplane.multikueue.render import event_about
from controlplane.reconcile.effects import Effects
from controlplane.reconcile.gate import Gate
from controlplane.reconcile.leader import Leader
from controlplane.reconcile.logclock import LogClock
from controlplane.reconcile.reads import Reads
from controlplane.reconcile.recorder import Recorder
from controlplane.reconcile.runner import Runner
from controlplane.settings import Settings
from controlplane.settings.model import Budget as BudgetSettings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

# How many reports pass between two looks at every Workload: a few seconds.
_EVERY = 20

OpenManagement = Callable[[], Awaitable[ApiServer]]


def limits_of(budget: BudgetSettings) -> Limits:
    """Return the request budget of a cluster."""
    return Limits(qps=budget.qps, burst=budget.burst, concurrency=budget.concurrency)


@dataclass(frozen=True, slots=True)
class Shared:
    """What outlives a turn."""

    settings: Settings
    open_management: OpenManagement
    metrics: Metrics
    health: Health
    clock: Clock
    random: random.Random


class Turn:
    """See the module. `shared` is what outlives it."""

    def __init__(
        self,
        shared: Shared,
        hosted: Hosted,
        measure: Measure,
        gate: Gate,
        log: PostgresLog,
        leader: Leader,
    ) -> None:
        self._leader = leader
        fleet, capability = hosted.fleet, hosted.capability
        self._shared, self._hosted, self._fleet = shared, hosted, fleet
        self._measure, self._gate, self._log = measure, gate, log
        settings, clock = shared.settings, shared.clock
        self._clock, self._health = clock, shared.health
        self._live = False
        self._identities: dict[str, str] = {}
        self._telling: set[asyncio.Task[None]] = set()
        bodies = Held(log)
        self._recorder = Recorder(log, capability, bodies, clock, lift, sole=hosted.sole)
        self._secrets = Secrets(lambda name: self._connections.secret_changed(name))
        self._home_kinds = [spec.kind for spec in hosted.home]
        self._worker_kinds = [spec.kind for spec in hosted.workers]
        self._connections = Connections(self._surroundings(hosted.workers, settings.budgets.worker, self._recorder))
        secrets = [WatchSpec(SECRETS, namespace=settings.multikueue.namespace)] if hosted.follows else []
        home_specs = [*hosted.home, *secrets]
        self._home = Home(
            MANAGEMENT,
            shared.open_management,
            self._surroundings(home_specs, settings.budgets.management, self._home_sink),
        )
        self._time = LogClock(clock)
        self._effects = Effects(
            log,
            capability,
            bodies,
            self._time,
            gate,
            self._executor,
            rng=shared.random,
            concurrency=settings.budgets.worker.concurrency,
            sure=lambda: leader.sure,
            on_outcome=lambda cluster, action, outcome: shared.metrics.effects_executed.labels(
                cluster=cluster, action=action, outcome=outcome
            ).inc(),
        )
        self._extras: Extras | None = None
        if hosted.sources is not None:
            self._extras = Extras(hosted.sources, hosted.copies, self._connections, self._home, self._recorder, bodies)
        self._workers = Workers(fleet, self._connections, self._facts)
        self._reads = (
            Reads(log, capability, self._time, self._look, rng=shared.random) if hosted.capability.reads else None
        )
        self.runner = Runner(
            log, capability, self._effects, gate, self._time, reads=self._reads, on_folded=self._folded
        )

    def _surroundings(self, specs: Sequence[WatchSpec], budget: BudgetSettings, sink: Any) -> Surroundings:
        settings, shared, hosted = self._shared.settings, self._shared, self._hosted
        return Surroundings(
            specs=specs,
            sink=sink,
            facts=self._facts,
            read_secret=self._secrets.read,
            known=self._known,
            newest=self._newest,
            is_gone=lambda cluster, uid: self._same(cluster) and hosted.is_gone(cluster, uid),
            on_request=lambda cluster, verb, resource, code: shared.metrics.api_requests.labels(
                cluster=cluster, verb=verb, resource=resource, code=code
            ).inc(),
            allowed=lambda: self._leader.sure,
            path_prefix=settings.multikueue.kubeconfig_prefix,
            limits=limits_of(budget),
            pace=Pace(idle_timeout=settings.clusters.watch_inactivity.total_seconds()),
            timing=Timing(
                heartbeat=settings.clusters.probe_interval.total_seconds(),
                heartbeat_timeout=settings.clusters.probe_timeout.total_seconds(),
                suspect_grace=settings.clusters.suspect_grace.total_seconds(),
            ),
            clock=self._clock,
            random=shared.random.random,
        )

    # --- following and leading -----------------------------------------------------------------------------------

    async def follow_until(self, stop: asyncio.Event) -> Head | None:
        """Fold what the leader writes, so that taking over is quick, until the lead is ours; None if stopped before.

        The lead is asked for only once everything is folded: a lease would not last for the replay of a long log.
        """
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
        """Fold what there is; return whether the log answered."""
        try:
            await self.runner.follow()
        except LogUnavailable as error:
            self._health.set("database", False, str(error))
            self._measure.log_answers(False)
            return False
        self._health.set("database", True)
        self._measure.log_answers(True)
        self._health.set("caches", True, "follows")
        self._health.set("clusters", True, "follows")
        return True

    async def lead(self, stop: asyncio.Event) -> None:
        """Record, decide and act until stopped; raises `Fenced`, or the fault of whatever part ended first."""
        self._live = True
        failure = self._effects.failure = asyncio.get_running_loop().create_future()
        if self._reads is not None:
            self._reads.failure = failure
        self._fleet.index.changed_clusters.update(self._fleet.index.clusters)
        self._workers.wake()
        for name in self._hosted.abandoned():
            await self._facts(name, Removed())
        parts: list[Coroutine[Any, Any, Any]] = [
            self.runner.run(),
            self._home.run(),
            self._connections.run(),
            self._workers.run(),
            *([self._extras.run()] if self._extras is not None else []),
            self._leader.keep(),
            self._report(),
            _wait(failure),
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
        """Let what is on its way end, and let go of every cluster."""
        if self._reads is not None:
            await self._reads.close()
        await self._effects.close()
        await self._connections.close()

    # --- the wires ---------------------------------------------------------------------------------------------------

    def _executor(self, cluster: str) -> Executes | None:
        return self._home.executor if cluster == MANAGEMENT else self._connections.executor(cluster)

    def _look(self, cluster: str) -> Looks | None:
        return self._home.looks if cluster == MANAGEMENT else self._connections.looks(cluster)

    async def _home_sink(self, cluster: str, deltas: Sequence[Delta]) -> None:
        if deltas and deltas[0].kind == SECRETS:
            await self._secrets(cluster, deltas)
        else:
            await self._recorder(cluster, deltas)

    def _known(self, cluster: str, spec: WatchSpec) -> dict[str, tuple[str, str, str]]:
        """Return what the log knows of a kind on a cluster; without versions, where they may be those of an earlier life."""
        known = self._hosted.known(cluster, spec.kind.name)
        _, named, name = spec.field_selector.partition("metadata.name=")
        if named:
            known = {uid: place for uid, place in known.items() if place[1] == name}
        if self._same(cluster) and self._hosted.listed(cluster, spec.label):
            return known
        return {uid: (namespace, name, "") for uid, (namespace, name, _) in known.items()}

    def _newest(self, cluster: str, kind: Kind) -> int:
        """Return the highest resourceVersion that the log knows of a kind on a cluster, 0 if another cluster has that name now."""
        return self._hosted.newest(cluster, kind.name) if self._same(cluster) else 0

    def _same(self, cluster: str) -> bool:
        """Whether the cluster that answers is the one that the log knows by that name."""
        known = self._fleet.index.connections.get(cluster)
        return known is not None and known.incarnation == self._identities.get(cluster, "")

    async def _facts(self, cluster: str, fact: Fact) -> None:
        known = self._fleet.index.connections.get(cluster)
        kinds = self._home_kinds if cluster == MANAGEMENT else self._worker_kinds
        identity = self._shared.settings.leader.identity
        event = event_of(cluster, fact, kinds, identity, self._fleet.index.connections)
        if isinstance(fact, Reached):
            self._identities[cluster] = fact.incarnation
            self._recorder.incarnations[cluster] = life_of(fact.incarnation, known.life if known else 0)
        elif isinstance(event, ClusterRestored):
            self._recorder.incarnations[cluster] = life_of(self._identities.get(cluster, ""), event.life)
        if event is not None:
            _log.info("connection", cluster=cluster, fact=type(event).__name__, detail=getattr(event, "message", ""))
            await self._recorder.record([connectivity_event(cluster, event)])

    def _folded(self, events: Sequence[Recorded]) -> None:
        self._time.anchor(events[-1].recorded_at)
        self._measure.folded(events, self._live)
        self._workers.wake()
        if self._extras is not None:
            self._extras.wake()
        for recorded in events:
            if isinstance(recorded.event, ClusterConnected):
                self._effects.cluster_back(recorded.cluster)
            elif isinstance(recorded.event, Refused) and self._live:
                self._tell(recorded.cluster, recorded.event)

    def _tell(self, cluster: str, refused: Refused) -> None:
        """Say on an object of the management cluster that it cannot be understood: a Warning Event, once a version."""
        _log.warning("object refused", cluster=cluster, kind=refused.kind, name=refused.name, error=refused.error)
        kind = next((kind for kind in self._home_kinds if kind.name == refused.kind), None)
        executor = self._executor(cluster)
        if cluster != MANAGEMENT or kind is None or executor is None:
            return
        about = ObjectRef(kind, refused.namespace, refused.name)
        note = f"Controlplane cannot read this {kind.kind} and leaves it alone: {refused.error}"
        identity, mark = self._shared.settings.leader.identity, refused.resource_version
        event = event_about(about, refused.uid, "Warning", "Refused", note, mark, identity, self._clock.now())
        task = asyncio.create_task(_quietly(executor.execute(event)))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _report(self) -> None:
        """Keep gauges and readiness up to date."""
        for count in itertools.count():
            self._gauges(full=count % _EVERY == 0)
            silent = self._silence()
            self._health.set("database", silent is None, silent or "")
            index, unseen = self._fleet.index, self._hosted.unseen
            self._health.set("caches", not unseen, unseen)
            untried = [
                name
                for name, seen in index.clusters.items()
                if not seen.deleting and ((known := index.connections.get(name)) is None or known.phase == "Unknown")
            ]
            self._health.set(
                "clusters", not unseen and not untried, f"not tried yet: {' '.join(untried)}" if untried else ""
            )
            await self._clock.sleep(0.25)

    def _silence(self) -> str | None:
        """Return why the database counts as away: reads or appends fail, or it has swallowed our signs of life; None if it does not."""
        for reason in ("log", "append"):
            if (silent := self._gate.against(reason)) is not None:
                return silent
        return None if self._leader.sure else "the database has not answered for too long"

    def _gauges(self, *, full: bool) -> None:
        """Set the gauges; `full` also those for which every Workload is looked at."""
        now = self._clock.now()
        self._measure.sure(self._leader.sure)
        self._measure.log_answers(self._silence() is None)
        self._measure.connections(now)
        self._measure.guards(now)
        self._measure.effects(self._effects.open_by_cluster())
        if full:
            self._measure.backlog(now)
            self._measure.local(self._hosted.local)


async def _quietly(work: Awaitable[Any]) -> None:
    """Best effort: an Event that cannot be sent is not worth a failure; the log has what it would say."""
    with contextlib.suppress(ClusterError):
        await work


async def _wait(future: asyncio.Future[None]) -> None:
    await future
