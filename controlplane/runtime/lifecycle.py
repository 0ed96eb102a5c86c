"""What is the same in every process that follows a log and leads it in its turn: how a turn begins, goes on and ends.

In: what outlives a turn, a capability, a log. Out: a warm follower until the lead is ours, then parts that run together
until the first of them ends; the recorder, the clock and the executors that every process has, and what its connections
are given. What is watched, and which parts there are, is said by the two turns (`controlplane.app.leadership`,
`controlplane.app.scheduler_leadership`)."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from controlplane.clock import Clock
from controlplane.clusters.budget import RateLimits
from controlplane.clusters.connection import incarnation_of
from controlplane.clusters.connection_config import ConnectionConfig, ConnectionTiming
from controlplane.clusters.connection_reports import Fact, Reached
from controlplane.clusters.management_connection import ManagementConnection
from controlplane.clusters.protocol import ClusterError, Executes, Looks, Sink
from controlplane.clusters.reflector import Pace
from controlplane.clusters.streams import ApiServer, WatchSpec
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterRestored, LogWentBack
from controlplane.controllers.connectivity.identity import unbound
from controlplane.controllers.connectivity.local_connection import event_refused, log_went_back, service_started
from controlplane.controllers.connectivity.state import Connection, life_of, next_life
from controlplane.controllers.connectivity.watched import Watched
from controlplane.kube.kinds import Kind
from controlplane.log.event import Body, Event, Fenced, Head, LogReplaced, NewEvent, Recorded
from controlplane.log.port import Log
from controlplane.log.redaction import Redaction
from controlplane.runtime.bodies import Bodies, BodyOwner
from controlplane.runtime.connection_events import event_of, lift
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.log_clock import LogClock
from controlplane.runtime.recorder import Recorder
from controlplane.runtime.router import ControllerRouter
from controlplane.runtime.runner import Runner
from controlplane.settings import Settings
from controlplane.settings.model import Budget
from controlplane.tasks import end
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

# Seconds that a turn is given to end by itself once the process stops.
_DRAIN = 15.0
# Seconds in which a cluster is to say who it is, before the lead is asked for.
_ASKED = 5.0

OpenManagement = Callable[[], Awaitable[ApiServer]]
Part = Coroutine[Any, Any, Any]
ReadSecret = Callable[[str], Awaitable[bytes]]


class WrongCluster(Exception):  # noqa: N818 - what an operator is told
    """The log belongs to another cluster than the one that this process stands beside; the message says which, and what
    to do.
    """


class Replaced:
    """What a process knows of a log that went back, until it is in the log that took its place. It outlives a turn."""

    def __init__(self) -> None:
        self._known: LogReplaced | None = None

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

    def first_words(self, started: NewEvent, holder: str) -> list[NewEvent]:
        """Return what a process says when it begins to lead."""
        return [started] if self._known is None else [started, log_went_back(self._known, holder)]


@dataclass(frozen=True, slots=True)
class Shared:
    """What outlives a turn."""

    settings: Settings
    open_management: OpenManagement
    metrics: Metrics
    health: Health
    clock: Clock
    random: random.Random
    replaced: Replaced = field(default_factory=Replaced)


class HostedSet(Protocol):
    """The controllers that a process hosts, and what they know already: with it reflectors begin."""

    @property
    def capability(self) -> ControllerRouter:
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
    """See the module. `rooms` are those of the process; `concurrency` is how many writes to one cluster are on their
    way at once.
    """

    runner: Runner
    _bound = False  # whether the log belongs to one cluster, the first one, until an operator says otherwise

    def __init__(
        self,
        shared: Shared,
        rooms: HostedSet,
        bodies: Bodies,
        gate: Gate,
        log: Log,
        leader: Leader,
        *,
        concurrency: int,
        sole: bool = False,
    ) -> None:
        self._shared, self._knows, self._gate, self._leader = shared, rooms, gate, leader
        self._clock, self._health = shared.clock, shared.health
        self._live = False
        self._identities: dict[str, str] = {}
        self._time = LogClock(shared.clock)
        self._recorder = Recorder(
            log,
            rooms.capability,
            bodies,
            shared.clock,
            lift,
            refused=event_refused,
            stuck=lambda why: gate.set("record", why is None, why or ""),
            sole=sole,
            redaction=Redaction(shared.settings.log.redact),
        )
        bodies.look, bodies.complete = self._look_again, self._all_listed
        self._effects = Effects(
            log,
            rooms.capability,
            bodies,
            self._time,
            gate,
            self._executor,
            rng=shared.random,
            concurrency=concurrency,
            sure=lambda: leader.sure,
            on_outcome=lambda cluster, action, outcome: shared.metrics.effects_executed.labels(
                cluster=cluster, action=action, outcome=outcome
            ).inc(),
        )

    def _given(
        self, specs: Sequence[WatchSpec], sink: Sink, read_secret: ReadSecret, budget: Budget
    ) -> ConnectionConfig:
        """Return what connections are given that watch `specs` and may ask as much as `budget` says."""
        settings, shared, knows = self._shared.settings, self._shared, self._knows
        return ConnectionConfig(
            specs=specs,
            sink=sink,
            facts=self._facts,
            read_secret=read_secret,
            known=self._known,
            newest=lambda cluster, kind: knows.newest(cluster, kind.name) if self._same(cluster) else 0,
            is_gone=lambda cluster, uid: self._same(cluster) and knows.is_gone(cluster, uid),
            on_request=lambda cluster, verb, resource, code: shared.metrics.api_requests.labels(
                cluster=cluster, verb=verb, resource=resource, code=code
            ).inc(),
            allowed=lambda: self._leader.sure,
            path_prefix=settings.multikueue.kubeconfig_prefix,
            limits=RateLimits(qps=budget.qps, burst=budget.burst, concurrency=budget.concurrency),
            pace=Pace(idle_timeout=settings.clusters.watch_inactivity.total_seconds()),
            timing=ConnectionTiming(
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
        Raises `WrongCluster`."""
        acquiring: asyncio.Task[Head] | None = None
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                if await self._follow() and acquiring is None:
                    if self._bound:
                        await self._belongs()
                    acquiring = asyncio.create_task(self._leader.acquire(), name="acquire")
                waiting = {stopping, acquiring} if acquiring else {stopping}
                await asyncio.wait(waiting, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                if acquiring is not None and acquiring.done():
                    return acquiring.result()
            return None
        finally:
            await end(stopping, *([acquiring] if acquiring is not None else []))

    def _took(self, events: Sequence[Recorded]) -> None:
        """Note what every process notes of events that it has folded."""
        self._time.anchor(events[-1].recorded_at)
        self._shared.replaced.folded(events)
        self._shared.metrics.streams_left_alone.set(len(self._knows.capability.left_alone))

    async def take_over(self, head: Head, version: str, watched: Watched | None = None) -> None:
        """Fold up to the head at which the lead became ours, and say so in the log; `watched` knows since when nobody
        had it.
        """
        await self.runner.catch_up(head.position)
        since = watched.until(head.sign_of_life) if watched is not None else None
        holder = self._shared.settings.leader.identity
        started = service_started(head.epoch, holder, version, since)
        policy = self._policy()
        said = [NewEvent(stream=started.stream, event=policy)] if policy is not None else []
        await self._recorder.record([*self._shared.replaced.first_words(started, holder), *said])

    def _policy(self) -> Event | None:
        """Return the settings that this process decides by, if they are others than the log says; None if there is
        nothing to say.
        """
        return None

    async def _belongs(self) -> None:
        """Raise `WrongCluster` if the cluster that we stand beside is not the one that the log belongs to.

        One that does not answer, or does not know us, says nothing: the connection goes on asking once we lead.
        """
        try:
            server = await self._shared.open_management()
        except Exception:  # whatever is wrong with the way there, the connection reports it
            return
        try:
            async with asyncio.timeout(_ASKED):
                identity = await incarnation_of(server)
        except (ClusterError, TimeoutError):
            return
        finally:
            await server.close()
        if (objection := unbound(identity, self._knows.connections.get(MANAGEMENT))) is not None:
            raise WrongCluster(objection[1])

    def _take_up(self) -> asyncio.Future[None]:
        """Begin to lead; return the future in which a part that nobody awaits says that it failed."""
        self._live = True
        failure = self._effects.failure = asyncio.get_running_loop().create_future()
        return failure

    async def _together(
        self, home: ManagementConnection, own: Iterable[Part], failure: asyncio.Future[None], stop: asyncio.Event
    ) -> None:
        """Run the parts of every process and its own until stopped; raises `Fenced`, or the fault of whatever part
        ended first.
        """
        parts: list[Part] = [
            self.runner.run(),
            home.run(),
            *own,
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
            await end(*tasks)

    def _silence(self) -> str | None:
        """Return why the database counts as away: reads or appends fail, or it has swallowed our signs of life; None if
        it does not.
        """
        for reason in ("log", "append", "record"):
            if (silent := self._gate.against(reason)) is not None:
                return silent
        return None if self._leader.sure else "the database has not answered for too long"

    # --- the wires ---------------------------------------------------------------------------------------------------

    def _noted(self, cluster: str, fact: Fact, kinds: Sequence[Kind]) -> Event | None:
        """Return the event of a fact, if there is one, once the recorder knows which life of the cluster it begins."""
        connections = self._knows.connections
        known = connections.get(cluster)
        event = event_of(cluster, fact, kinds, self._shared.settings.leader.identity, connections)
        if isinstance(fact, Reached):
            self._identities[cluster] = fact.incarnation
            self._recorder.incarnations[cluster] = life_of(
                fact.incarnation, next_life(known, fact.incarnation) if known else 0
            )
        elif isinstance(event, ClusterRestored):
            self._recorder.incarnations[cluster] = life_of(self._identities.get(cluster, ""), event.life)
        return event

    def _same(self, cluster: str) -> bool:
        """Whether the cluster that answers is the one that the log knows by that name."""
        known = self._knows.connections.get(cluster)
        return known is not None and known.incarnation == self._identities.get(cluster, "")

    def _known(self, cluster: str, spec: WatchSpec) -> dict[str, tuple[str, str, str]]:
        """Return what the log knows of a kind on a cluster; without versions, where they may be those of an earlier
        life.
        """
        known = self._knows.known(cluster, spec.kind.name)
        _, named, name = spec.field_selector.partition("metadata.name=")
        if named:
            known = {uid: place for uid, place in known.items() if place[1] == name}
        if self._same(cluster) and self._knows.listed(cluster, spec.label):
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
    async def _follow(self) -> bool:
        """Fold what there is; return whether the log answered."""

    @abstractmethod
    async def _report(self) -> None:
        """Keep gauges and readiness up to date until cancelled."""


async def turn_after_turn(
    turn: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
    stop: asyncio.Event,
    log: FilteringBoundLogger,
    replaced: Replaced,
) -> None:
    """Begin a turn whenever the one before was fenced, or its log went back, until `stop` is set; raises what else ends
    one.
    """
    stopping = asyncio.create_task(stop.wait())
    running: asyncio.Task[None] | None = None
    try:
        while not stop.is_set():
            running = asyncio.create_task(turn(stop), name="turn")
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await asyncio.wait({running}, timeout=_DRAIN)
                await end(running)
            if running.cancelled() and stop.is_set():
                return
            try:
                running.result()
            except LogReplaced as other:
                replaced.noticed(other)
                log.warning("the log is not the one that was read, starting over with what it holds", detail=str(other))
            except Fenced as fenced:
                log.warning("another replica leads, following it", detail=str(fenced))
    finally:
        await end(stopping, *([running] if running is not None else []))


async def _wait(future: asyncio.Future[None]) -> None:
    await future
