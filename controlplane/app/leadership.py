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
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from controlplane.app.candidates.live_objects import LiveObjectCache
from controlplane.app.claims import claims_of
from controlplane.app.home_watches import HomeWatches
from controlplane.app.hosted import HostedControllers
from controlplane.app.identities import Identities
from controlplane.app.measure import Measure
from controlplane.app.warnings import Warnings
from controlplane.app.workers import Workers
from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.connection_reports import Fact, Removed
from controlplane.clusters.connections import Connections
from controlplane.clusters.management_connection import ManagementConnection
from controlplane.clusters.protocol import Delta, Executes, Looks, Sink
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT, TROUBLE, ClusterConnected
from controlplane.controllers.connectivity.local_connection import connectivity_event, service_stopped
from controlplane.controllers.connectivity.watched import Watched
from controlplane.controllers.multikueue.hosting import in_force, objection
from controlplane.kube.kinds import CLUSTER_PROFILES, SECRETS, WORKLOADS
from controlplane.kube.watches import WatchSpec
from controlplane.log.event import Append, Event, LogError, LogHead, Recorded
from controlplane.log.port import Log
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.lifecycle import ProcessContext
from controlplane.runtime.profiles import Profiles
from controlplane.runtime.reads import Reads
from controlplane.runtime.runner import Runner
from controlplane.runtime.secrets import Secrets
from controlplane.runtime.term import LeadershipTerm
from controlplane.settings.load import SettingsError
from controlplane.settings.model import Budget

if TYPE_CHECKING:
    from controlplane.app.candidates.watches import DynamicWatches

_log = structlog.get_logger(__name__)

# After how many looks at readiness the gauges are set, a second; and those for which every Workload is looked at.
_GAUGES, _EVERY = 4, 20
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
        self._claims = claims_of(context, log, gate)
        self._reached_end = False
        self._who = Identities(hosted, self._time.now)
        self._secrets = Secrets(lambda name: self._connections.secret_changed(name))
        profiles = settings.multikueue.cluster_profile
        self._profiles = Profiles(lambda name: self._connections.profile_changed(name))
        self._home_kinds = [spec.kind for spec in hosted.home]
        self._warnings = self._warner()
        self._worker_kinds = [spec.kind for spec in hosted.workers]
        workers = self._surroundings(hosted.workers, settings.budgets.worker, self._recorder)
        self._connections = Connections(
            dataclasses.replace(workers, read_profile=self._profiles.read, access_providers=profiles.access_providers)
        )
        self._home = ManagementConnection(
            MANAGEMENT,
            context.open_management,
            self._surroundings([*hosted.home, *self._sources()], settings.budgets.management, self._home_sink),
        )
        self._home_watches = HomeWatches(lambda: hosted.wanted, self._home, self._home_sink)
        self._extras = self._dynamic_watches(bodies)
        self._workers = Workers(hosted.fleet, self._connections, self._facts, profiles=profiles.on)
        capability = hosted.router
        self._reads = Reads(log, capability, self._time, self._look, rng=context.random) if capability.reads else None
        self.runner = Runner(
            log,
            capability,
            self._effects,
            gate,
            self._time,
            reads=self._reads,
            anticipating=capability,
            on_folded=self._heard,
            on_failed=self.measure.failed,
            poll=context.ports.poll,
        )

    def _dynamic_watches(self, bodies: LiveObjectCache) -> DynamicWatches | None:
        hosted = self._hosted
        if hosted.sources is None:
            return None
        from controlplane.app.candidates.watches import DynamicWatches

        return DynamicWatches(
            hosted.sources,
            hosted.copies,
            self._connections,
            self._home_watches,
            self._recorder,
            bodies,
            hosted.virtual_nodes,
        )

    def _warner(self) -> Warnings:
        settings = self._context.settings
        return Warnings(
            self._fleet,
            lambda: self._executor(MANAGEMENT),
            self._home_kinds,
            settings.leader.identity,
            self._clock,
            automates=settings.multikueue.quota_automation == "yes",
        )

    def _sources(self) -> list[WatchSpec]:
        """Return the watches of what says how other clusters are reached."""
        chosen = self._context.settings.multikueue
        kinds = (SECRETS, CLUSTER_PROFILES) if chosen.cluster_profile.on else (SECRETS,)
        return [WatchSpec(kind, namespace=chosen.namespace) for kind in kinds if self._hosted.follows]

    def _surroundings(self, watches: Sequence[WatchSpec], budget: Budget, sink: Sink) -> ConnectionConfig:
        given = self._given(watches, sink, self._secrets.read, budget)
        return dataclasses.replace(
            given, objection=self._who.objection, held_by=self._who.held_by, yields=self._who.yields
        )

    # --- following and leading -----------------------------------------------------------------------------------

    @property
    def current(self) -> bool:
        """Whether what was folded is what the log says now; of a follower, what it said half a second ago."""
        return self._silence() is None if self._live else self._reached_end

    @property
    def leads(self) -> bool:
        """Whether this process keeps the log now."""
        return self._live

    def server(self, cluster: str) -> ApiServer | None:
        """Return the API server of a connected cluster; None if it is not connected, or this process does not lead."""
        return self._connections.server(cluster) if self._live else None

    async def _follow(self) -> bool:
        """Fold what there is. Raises `SettingsError` if these settings must not go on with it: whoever leads now goes
        on meanwhile."""
        self._reached_end = await super()._follow()
        if self._reached_end:
            self._check_settings()
        return self._reached_end

    def _check_settings(self) -> None:
        if told := objection(self._fleet.index, self._fleet.policy):
            raise SettingsError([told])

    def _looked_since(self) -> Watched | None:
        return self._fleet.index.watched

    async def leave(self, head: LogHead) -> None:
        """Say in the log that we look at no cluster from now on, if it can be said at once: resigning leaves no
        heartbeat behind.
        """
        if self.leader.sure:
            with contextlib.suppress(LogError, TimeoutError):
                async with asyncio.timeout(_LEAVE):
                    identity = self._context.settings.leader.identity
                    await self.log.append(Append([service_stopped(head.epoch, identity)]))

    def _policy(self) -> Event | None:
        self._check_settings()
        said = in_force(self._fleet.policy, self._context.settings)
        return said if said != self._fleet.index.around.in_force else None

    async def lead(self, stop: asyncio.Event) -> None:
        """Record, decide and act until stopped; raises `Fenced`, or the fault of whatever part ended first."""
        failure = self._take_up()
        self._reached_end = False  # once the lead has ended nothing more is folded
        if self._reads is not None:
            self._reads.failure = failure
        self._fleet.index.changed_clusters.update(self._fleet.index.clusters)
        self._workers.wake()
        for name in self._hosted.abandoned():
            await self._facts(name, Removed())
        extras = [self._extras.run()] if self._extras is not None else []
        if self._hosted.virtual_nodes is not None:
            from controlplane.app.candidates.leases import renew_leases

            extras.append(renew_leases(self._hosted.virtual_nodes, lambda: self._executor(MANAGEMENT), self._clock))
        self._home_watches.look()
        await self._together(self._home, [self._connections.run(), self._workers.run(), *extras], failure, stop)

    async def close(self) -> None:
        """Let what is on its way end, and let go of every cluster."""
        async with contextlib.AsyncExitStack() as last_to_first:
            if self._claims is not None:
                last_to_first.push_async_callback(self._claims.close)
            last_to_first.push_async_callback(self._connections.close)
            last_to_first.push_async_callback(self._warnings.close)
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
        elif deltas and deltas[0].kind == CLUSTER_PROFILES:
            await self._profiles(cluster, deltas)
        else:
            await self._recorder(cluster, deltas)

    async def _facts(self, cluster: str, fact: Fact) -> None:
        self._who.noted(cluster, fact)
        event = self._noted(cluster, fact, self._home_kinds if cluster == MANAGEMENT else self._worker_kinds)
        if event is not None:
            log = _log.warning if isinstance(event, TROUBLE) else _log.info
            log("connection", cluster=cluster, fact=type(event).__name__, detail=getattr(event, "message", ""))
            await self._recorder.record([connectivity_event(cluster, event)])

    def _folded(self, events: Sequence[Recorded]) -> None:
        self._took(events)
        if self._live:
            self._letting_go.heard(events, self._home)
        self.measure.folded(events, self._live)
        self._workers.wake()
        self._home_watches.look()
        if self._fleet.take_missed():
            self._home.list_again([WORKLOADS, *(one.kind for one in self._fleet.policy.adapters.values())])
        if self._extras is not None:
            self._extras.wake()
        for recorded in events:
            if isinstance(recorded.event, ClusterConnected):
                self._effects.cluster_back(recorded.cluster)
            if self._live:
                self._warnings.heard(recorded)

    async def _report(self) -> None:
        """Keep gauges and readiness up to date."""
        for count in itertools.count():
            if count % _GAUGES == 0:
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
            self.measure.states(self._hosted.gauges())
