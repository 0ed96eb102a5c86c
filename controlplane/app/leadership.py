"""Leads a log for the service: what is built new when a process starts to follow it, and thrown away when its lead
ends.

In: what outlives a term, and the controllers that are hosted. Out: first a warm follower, then the leader's loop with
its connections and effects. It connects to the management cluster and to the workers that the log knows, and keeps
gauges and readiness up to date."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Awaitable, Sequence
from typing import Any

import structlog

from controlplane.app.dynamic_watches import DynamicWatches
from controlplane.app.hosted import HostedControllers
from controlplane.app.identities import Identities
from controlplane.app.live_objects import LiveObjectCache
from controlplane.app.measure import Measure, Refused
from controlplane.app.workers import Workers
from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.connection_reports import Fact, Removed
from controlplane.clusters.connections import Connections
from controlplane.clusters.management_connection import ManagementConnection
from controlplane.clusters.protocol import ClusterError, Delta, Executes, Looks, Sink
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected
from controlplane.controllers.connectivity.local_connection import connectivity_event, service_stopped
from controlplane.controllers.connectivity.watched import Watched
from controlplane.controllers.multikueue.hosting import in_force
from controlplane.kube.kinds import SECRETS, ObjectRef
from controlplane.kube.requests import event_about
from controlplane.kube.watches import WatchSpec
from controlplane.log.event import Append, Event, Head, LogError, Recorded
from controlplane.log.port import Log
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.lifecycle import ProcessContext
from controlplane.runtime.reads import Reads
from controlplane.runtime.runner import Runner
from controlplane.runtime.secrets import Secrets
from controlplane.runtime.term import LeadershipTerm
from controlplane.settings.model import Budget
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

# How many reports pass between two looks at every Workload: a few seconds.
_EVERY = 20
_LEAVE = 1.0  # seconds that the last event of a process may take


class ServiceTerm(LeadershipTerm):
    """See the module. `context` is what outlives it."""

    CHECKS = ("caches", "clusters")
    _bound = True

    def __init__(
        self,
        context: ProcessContext,
        hosted: HostedControllers,
        measure: Measure,
        gate: Gate,
        log: Log,
        leader: Leader,
    ) -> None:
        settings, bodies = context.settings, LiveObjectCache(log)
        super().__init__(
            context,
            hosted,
            bodies,
            gate,
            log,
            leader,
            concurrency=settings.budgets.worker.concurrency,
            sole=hosted.sole,
        )
        self._hosted, self._fleet, self.measure = hosted, hosted.fleet, measure
        self._who = Identities(hosted, self._time.now)
        self._telling: set[asyncio.Task[None]] = set()
        self._secrets = Secrets(lambda name: self._connections.secret_changed(name))
        self._home_kinds = [spec.kind for spec in hosted.home]
        self._worker_kinds = [spec.kind for spec in hosted.workers]
        self._connections = Connections(self._surroundings(hosted.workers, settings.budgets.worker, self._recorder))
        secrets = [WatchSpec(SECRETS, namespace=settings.multikueue.namespace)] if hosted.follows else []
        home_specs = [*hosted.home, *secrets]
        self._home = ManagementConnection(
            MANAGEMENT,
            context.open_management,
            self._surroundings(home_specs, settings.budgets.management, self._home_sink),
        )
        self._extras: DynamicWatches | None = None
        if hosted.sources is not None:
            self._extras = DynamicWatches(
                hosted.sources, hosted.copies, self._connections, self._home, self._recorder, bodies
            )
        self._workers = Workers(hosted.fleet, self._connections, self._facts)
        capability = hosted.router
        self._reads = Reads(log, capability, self._time, self._look, rng=context.random) if capability.reads else None
        self.runner = Runner(
            log,
            capability,
            self._effects,
            gate,
            self._time,
            reads=self._reads,
            on_folded=self._heard,
            poll=context.ports.poll,
        )

    def _surroundings(self, specs: Sequence[WatchSpec], budget: Budget, sink: Sink) -> ConnectionConfig:
        given = self._given(specs, sink, self._secrets.read, budget)
        return dataclasses.replace(given, objection=self._who.objection)

    # --- following and leading -----------------------------------------------------------------------------------

    def _looked_since(self) -> Watched | None:
        return self._fleet.index.watched

    async def leave(self, head: Head) -> None:
        """Say in the log that we look at no cluster from now on, if it can be said at once: resigning leaves no sign of
        life behind.
        """
        if self.leader.sure:
            with contextlib.suppress(LogError, TimeoutError):
                async with asyncio.timeout(_LEAVE):
                    identity = self._context.settings.leader.identity
                    await self.log.append(Append([service_stopped(head.epoch, identity)]))

    def _policy(self) -> Event | None:
        said = in_force(self._fleet.policy, self._context.settings.run.controllers)
        return said if said != self._fleet.index.around.in_force else None

    async def lead(self, stop: asyncio.Event) -> None:
        """Record, decide and act until stopped; raises `Fenced`, or the fault of whatever part ended first."""
        failure = self._take_up()
        if self._reads is not None:
            self._reads.failure = failure
        self._fleet.index.changed_clusters.update(self._fleet.index.clusters)
        self._workers.wake()
        for name in self._hosted.abandoned():
            await self._facts(name, Removed())
        extras = [self._extras.run()] if self._extras is not None else []
        await self._together(self._home, [self._connections.run(), self._workers.run(), *extras], failure, stop)

    async def close(self) -> None:
        """Let what is on its way end, and let go of every cluster."""
        async with contextlib.AsyncExitStack() as last_to_first:
            last_to_first.push_async_callback(self._connections.close)
            last_to_first.push_async_callback(end, *self._telling)
            last_to_first.push_async_callback(self._effects.close)
            if self._reads is not None:
                await self._reads.close()

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _executor(self, cluster: str) -> Executes | None:
        return self._home.executor if cluster == MANAGEMENT else self._connections.executor(cluster)

    def _look(self, cluster: str) -> Looks | None:
        return self._home.looks if cluster == MANAGEMENT else self._connections.looks(cluster)

    def _all_listed(self) -> bool:
        return not self._hosted.unseen and not self._untried()

    def _untried(self) -> list[str]:
        """Return the workers that were not tried yet since somebody leads."""
        index = self._fleet.index
        return [
            name
            for name, seen in index.clusters.items()
            if not seen.deleting and ((known := index.connections.get(name)) is None or known.phase == "Unknown")
        ]

    async def _home_sink(self, cluster: str, deltas: Sequence[Delta]) -> None:
        if deltas and deltas[0].kind == SECRETS:
            await self._secrets(cluster, deltas)
        else:
            await self._recorder(cluster, deltas)

    async def _facts(self, cluster: str, fact: Fact) -> None:
        self._who.noted(cluster, fact)
        event = self._noted(cluster, fact, self._home_kinds if cluster == MANAGEMENT else self._worker_kinds)
        if event is not None:
            _log.info("connection", cluster=cluster, fact=type(event).__name__, detail=getattr(event, "message", ""))
            await self._recorder.record([connectivity_event(cluster, event)])

    def _folded(self, events: Sequence[Recorded]) -> None:
        self._took(events)
        self.measure.folded(events, self._live)
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
        identity, mark = self._context.settings.leader.identity, refused.resource_version
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
            unseen, untried = self._hosted.unseen, self._untried()
            self._health.set("caches", not unseen, unseen)
            self._health.set(
                "clusters", not unseen and not untried, f"not tried yet: {' '.join(untried)}" if untried else ""
            )
            await self._clock.sleep(0.25)

    def _gauges(self, *, full: bool) -> None:
        """Set the gauges; `full` also those for which every Workload is looked at."""
        now = self._clock.now()
        self.measure.sure(self.leader.sure)
        self.measure.log_answers(self._silence() is None)
        self.measure.connections(now)
        self.measure.guards(now)
        self.measure.effects(self._effects.open_by_cluster())
        if full:
            self.measure.backlog(now)
            self.measure.local(self._hosted)


async def _quietly(work: Awaitable[Any]) -> None:
    """Best effort: an Event that cannot be sent is not worth a failure; the log has what it would say."""
    with contextlib.suppress(ClusterError):
        await work
