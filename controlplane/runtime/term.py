"""Follows a log and leads it, once: what is built new when a process starts to follow, and thrown away when its lead
ends.

In: what outlives a term, the controllers that are hosted, a log. Out: a warm follower until the lead is ours, then
parts that run together until the first of them ends; the recorder, the clock and the executors that every process has,
and what its connections are given. What is watched, and which parts there are, is said by the two kinds of terms
(`controlplane.app.leadership`, `controlplane.app.scheduler_leadership`)."""

from __future__ import annotations

import asyncio
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

from controlplane.clusters.budget import RateLimits
from controlplane.clusters.connection_config import ConnectionConfig, ConnectionTiming
from controlplane.clusters.connection_reports import Fact, Reached
from controlplane.clusters.management_connection import ManagementConnection
from controlplane.clusters.pace import Pace
from controlplane.clusters.protocol import ClusterError, Executes, Looks, Sink
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterRestored
from controlplane.controllers.connectivity.local_connection import event_refused, service_started
from controlplane.controllers.connectivity.state import Connection, incarnation_name, next_incarnation_number
from controlplane.controllers.connectivity.watched import Watched
from controlplane.kube.kinds import Kind
from controlplane.kube.watches import WatchSpec
from controlplane.log.event import Body, Event, LogGap, LogHead, LogUnavailable, NewEvent, Recorded
from controlplane.log.port import Log
from controlplane.log.redaction import Redaction
from controlplane.runtime.bodies import Bodies, BodyOwner
from controlplane.runtime.bound import LettingGo, ways_to_lead
from controlplane.runtime.claims import ClusterClaims
from controlplane.runtime.connection_events import event_of, lift
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.lifecycle import ProcessContext
from controlplane.runtime.log_answers import LogAnswers
from controlplane.runtime.log_clock import LogClock
from controlplane.runtime.read_models import keep_read_models
from controlplane.runtime.recorder import Recorder
from controlplane.runtime.router import ControllerRouter
from controlplane.runtime.runner import Runner
from controlplane.runtime.snapshots import snapshots_of
from controlplane.settings.model import Budget
from controlplane.tasks import end

Part = Coroutine[Any, Any, Any]
ReadSecret = Callable[[str], Awaitable[bytes]]


class HostedSet(Protocol):
    """The controllers that a process hosts, and what they know already: with it reflectors begin."""

    @property
    def router(self) -> ControllerRouter:
        """All of them, as the loop sees them."""

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The connections by cluster, as the log says them."""

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""

    def listed(self, cluster: str, kind: str) -> bool:
        """Whether the kind was listed as a whole in the cluster's present incarnation."""

    def newest(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind, 0 if none was seen in the cluster's present incarnation."""

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go in the cluster's present incarnation."""


class LeadershipTerm(ABC):
    """See the module. `hosted` are the controllers of the process; `concurrency` is how many writes to one cluster are
    on their way at once."""

    CHECKS: Sequence[str]  # the checks of readiness that only a leader can fail
    runner: Runner
    _bound = False  # whether the log belongs to one cluster, the first one, until an operator says otherwise
    _claims: ClusterClaims | None = None  # what keeps other logs away from the cluster

    def __init__(
        self,
        context: ProcessContext,
        hosted: HostedSet,
        bodies: Bodies,
        gate: Gate,
        log: Log,
        leader: Leader,
        *,
        concurrency: int,
        sole: bool = False,
    ) -> None:
        self._context, self._controllers, self._gate = context, hosted, gate
        self.log, self.leader = log, leader
        self._clock, self._health = context.clock, context.health
        self._live = False
        self._identities: dict[str, str] = {}
        self._time = LogClock(context.clock)
        self._answers = LogAnswers(context.health, context.metrics)
        self._recorder = Recorder(
            log,
            hosted.router,
            bodies,
            context.clock,
            lift,
            refused=event_refused,
            stuck=lambda why: gate.set("record", why is None, why or ""),
            sole=sole,
            redaction=Redaction(context.settings.log.redact),
        )
        bodies.look, bodies.complete = self._look_again, self._all_listed
        self._effects = Effects(
            log,
            hosted.router,
            bodies,
            self._time,
            gate,
            self._executor,
            rng=context.random,
            concurrency=concurrency,
            sure=self._may_act,
            on_outcome=context.metrics.effect_ended,
            spans=context.spans,
        )
        self._snapshots = snapshots_of(context, hosted.router, log)
        self._started = False
        self._letting_go = LettingGo(context.clock)

    def _given(
        self, specs: Sequence[WatchSpec], sink: Sink, read_secret: ReadSecret, budget: Budget
    ) -> ConnectionConfig:
        """Return what connections are given that watch `specs` and may ask as much as `budget` says."""
        settings, context, hosted = self._context.settings, self._context, self._controllers
        clusters = settings.clusters
        times = (clusters.probe_interval, clusters.probe_timeout, clusters.suspect_grace)
        heartbeat, late, grace = (one.total_seconds() for one in times)
        config = ConnectionConfig(
            specs=specs,
            sink=sink,
            facts=self._facts,
            read_secret=read_secret,
            known=self._known,
            newest=lambda cluster, kind: hosted.newest(cluster, kind.name) if self._same(cluster) else 0,
            is_gone=lambda cluster, uid: self._same(cluster) and hosted.is_gone(cluster, uid),
            on_request=context.metrics.request_ended,
            on_expiry=context.metrics.kubeconfig_read,
            allowed=self._may_act,
            patient=self.log.patient,
            path_prefix=settings.multikueue.kubeconfig_prefix,
            limits=RateLimits(qps=budget.qps, burst=budget.burst, concurrency=budget.concurrency),
            pace=Pace(idle_timeout=clusters.watch_inactivity.total_seconds(), ahead=context.ports.ahead),
            timing=ConnectionTiming(heartbeat=heartbeat, heartbeat_timeout=late, suspect_grace=grace),
            clock=self._clock,
            random=context.random.random,
        )
        worker = context.ports.open_worker
        return config if worker is None else dataclasses.replace(config, open_server=worker)

    def _may_act(self) -> bool:
        """Whether nobody can have taken our place by now, neither a replica nor another log."""
        return self.leader.sure and (self._claims is None or self._claims.sure)

    # --- following and leading -----------------------------------------------------------------------------------

    async def follow_until(self, stop: asyncio.Event) -> LogHead | None:
        """Fold what the leader writes, so that taking over is quick, until the lead is ours; None if stopped before.

        The lead is asked for only once everything is folded: a lease would not last for the replay of a long log.
        Raises `WrongCluster`."""
        acquiring: asyncio.Task[LogHead] | None = None
        reach, requests = ways_to_lead(self._context, lambda: self._controllers.connections.get(MANAGEMENT))
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                if await self._follow() and acquiring is None:
                    if self._bound:
                        await reach.begin()
                        self.leader.hesitates = lambda: reach.unreached
                    acquiring = asyncio.create_task(self._acquire(), name="acquire")
                waiting = {stopping, acquiring} if acquiring else {stopping}
                await asyncio.wait(waiting, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                if acquiring is not None and acquiring.done():
                    return acquiring.result()
                reach.tell(self.leader.refused)
                if self._bound:
                    requests.look()
            return None
        finally:
            await end(stopping, *reach.tasks, *requests.tasks, *([acquiring] if acquiring is not None else []))

    async def _acquire(self) -> LogHead:
        if self._claims is not None:
            await self._claims.free()
        return await self.leader.acquire()

    async def _start(self) -> None:
        """Begin with the newest snapshot, if there is one, or with what one of another version says is left."""
        lost = self._context.lost_log.ends_at
        start = await self._snapshots.start(self.runner, lost) if self._snapshots is not None else None
        if start is not None:
            self._time.anchor(start.recorded_at)
            self._context.metrics.log_position.set(start.position)
            self._context.metrics.streams_left_alone.set(len(self._controllers.router.left_alone))
        self._started = True

    async def end(self, *, orderly: bool) -> None:
        """Keep what was folded for the next process if this one ended in good order, and let go of where it is kept."""
        if self._snapshots is not None:
            await self._snapshots.end(orderly=orderly)

    async def _follow(self) -> bool:
        """Fold what there is; return whether the log answered."""
        try:
            if not self._started:
                await self._start()
            await self.runner.follow()
        except (LogUnavailable, LogGap) as error:
            self._answers.failed(error)
            return False
        self._answers.read()
        for check in self.CHECKS:
            self._health.set(check, True, "follows")
        if self._snapshots is not None:
            self._snapshots.begin()
            self._snapshots.reached_end()
        return True

    def _heard(self, events: Sequence[Recorded]) -> None:
        """Hear a batch that was folded."""
        self._folded(events)
        self._context.ports.observer.folded(self._controllers, events[-1].position)

    def _took(self, events: Sequence[Recorded]) -> None:
        """Note what every process notes of events that it has folded."""
        self._time.anchor(events[-1].recorded_at)
        self._context.lost_log.folded(events)
        if self._snapshots is not None:
            self._snapshots.folded(events)
        self._context.metrics.streams_left_alone.set(len(self._controllers.router.left_alone))

    async def take_over(self, head: LogHead) -> None:
        """Fold up to the head at which the lead became ours, and say so in the log."""
        await self.runner.catch_up(head.position)
        self._effects.inherited = self._letting_go.since = head.position
        watched, holder = self._looked_since(), self._context.settings.leader.identity
        since = watched.until(head) if watched is not None else None
        started = service_started(head.epoch, holder, self._context.ports.version, since)
        policy = self._policy()
        said = [NewEvent(stream=started.stream, event=policy)] if policy is not None else []
        await self._recorder.record([*self._context.lost_log.opening(started, holder), *said])

    def _looked_since(self) -> Watched | None:
        """Return what tells since when nobody had the lead; None where nothing depends on it."""
        return None

    def _policy(self) -> Event | None:
        """Return the settings that this process decides by, if they are others than the log says; None if there is
        nothing to say.
        """
        return None

    async def leave(self, head: LogHead) -> None:  # noqa: B027 - most have nothing to say
        """Say what is to be said when a lead ends in good order: nothing, unless something depends on it."""

    def _take_up(self) -> asyncio.Future[None]:
        """Begin to lead; return the future in which a part that nobody awaits says that it failed; it is done without
        a failure if the lead is let go."""
        self._live = True
        for check in self.CHECKS:  # what held of a follower does not hold of a leader before it has looked
            self._health.set(check, False, "not in view yet")
        failure = self._effects.failure = self._letting_go.done = asyncio.get_running_loop().create_future()
        return failure

    async def _together(
        self, home: ManagementConnection, own: Iterable[Part], failure: asyncio.Future[None], stop: asyncio.Event
    ) -> None:
        """Run the parts of every process and its own until stopped, or until the lead is let go; raises `Fenced`, or
        the fault of whatever part ended first.
        """
        parts: list[Part] = [
            self.runner.run(),
            home.run(),
            *own,
            self.leader.keep(),
            *([self._claims.keep()] if self._claims is not None else []),
            self._report() if self._context.ports.gauges else asyncio.Event().wait(),
            *self._read_models(),
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
            await end(*tasks)

    def _read_models(self) -> list[Part]:
        opened, age = self._context.ports.read_models, self._context.settings.log.read_models_after
        models = opened(self.log) if opened is not None and age else None
        return [keep_read_models(models, age, self._clock)] if models is not None else []

    def _silence(self) -> str | None:
        """Return why the database counts as away: reads or appends fail, or it has swallowed our heartbeats; None if
        it does not.
        """
        for reason in ("log", "append", "record"):
            if (silent := self._gate.against(reason)) is not None:
                return silent
        if self.leader.sure:
            return None
        return self._gate.against("leader") or "the database has not answered for too long"

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _noted(self, cluster: str, fact: Fact, kinds: Sequence[Kind]) -> Event | None:
        """Return the event of a fact, if there is one, once the recorder knows which incarnation of the cluster it
        begins."""
        connections = self._controllers.connections
        known = connections.get(cluster)
        event = event_of(cluster, fact, kinds, self._context.settings.leader.identity, connections)
        if isinstance(fact, Reached):
            self._identities[cluster] = fact.incarnation
            self._recorder.incarnations[cluster] = incarnation_name(
                fact.incarnation, next_incarnation_number(known, fact.incarnation) if known else 0
            )
        elif isinstance(event, ClusterRestored):
            self._recorder.incarnations[cluster] = incarnation_name(self._identities.get(cluster, ""), event.restores)
        return event

    def _same(self, cluster: str) -> bool:
        """Whether the cluster that answers is the one that the log knows by that name."""
        known = self._controllers.connections.get(cluster)
        return known is not None and known.incarnation == self._identities.get(cluster, "")

    def _known(self, cluster: str, spec: WatchSpec) -> dict[str, tuple[str, str, str]]:
        """Return what the log knows of a kind on a cluster; without versions, where they may be those of an earlier
        incarnation.
        """
        known = self._controllers.known(cluster, spec.kind.name)
        _, named, name = spec.field_selector.partition("metadata.name=")
        if named:
            known = {uid: place for uid, place in known.items() if place[1] == name}
        if self._same(cluster) and self._controllers.listed(cluster, spec.label):
            return known
        return {uid: (namespace, name, "") for uid, (namespace, name, _) in known.items()}

    async def _look_again(self, place: BodyOwner) -> Sequence[Body]:
        """Return the bodies of an object as it is now; none if it cannot be read."""
        looks, kind = self._look(place.cluster), place.kind
        if looks is None:
            return ()
        try:
            obj = await looks.look(kind.api_version, kind.kind, place.namespace, place.name)
        except ClusterError:
            return ()
        return self._recorder.bodies_of(place, obj)

    @abstractmethod
    def _look(self, cluster: str) -> Looks | None:
        """Return the reading face of a cluster, None while it is not connected."""

    @abstractmethod
    def _all_listed(self) -> bool:
        """Whether everything was listed, or tried in vain, that shows what copies are made of."""

    @abstractmethod
    async def _facts(self, cluster: str, fact: Fact) -> None:
        """Record what a connection reports."""

    @abstractmethod
    def _executor(self, cluster: str) -> Executes | None:
        """Return the verbs of a cluster, None while it is not connected."""

    @abstractmethod
    def _folded(self, events: Sequence[Recorded]) -> None:
        """Take note of events that were folded."""

    @abstractmethod
    async def _report(self) -> None:
        """Keep gauges and readiness up to date until cancelled."""


async def _wait(future: asyncio.Future[None]) -> None:
    await future
