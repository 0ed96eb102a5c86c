"""Plays a recorded time again in virtual time: the decide functions of the service over simulated clusters.

In: a `History`, the capacities of its places, what is to be otherwise, and a time. Out: figures, and where each Workload
was placed. Arrivals, durations, evictions by Kueue and what was seen of clusters come at their recorded times; what is
decided comes from `MultiKueueController` alone, and what clusters answer from `controlplane.whatif.answers`. Everything
that happens is an event that is folded and measured as a recorded one. Nothing is drawn: the same input gives the same
events. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial

import msgspec

from controlplane.controllers.connectivity.events import (
    FLEET_STREAM,
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterLost,
    ClusterRecovered,
    ClusterStandby,
    KindSynced,
    ServiceStarted,
    cluster_stream,
)
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.observations import MultiKueueClusterObserved, MultiKueueConfigObserved
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Event, Recorded
from controlplane.values import Value
from controlplane.whatif.answers import Answers
from controlplane.whatif.capacity import Capacities, Capacity
from controlplane.whatif.history import History
from controlplane.whatif.measure import Figures, Measures
from controlplane.whatif.queue import AddedCluster

_AWAY = (ClusterLost, ClusterConnectFailed, ClusterDisconnected, ClusterStandby)
_BACK = (KindSynced, ClusterConnected, ClusterRecovered)


_AT_ONCE = 200_000
"""No more events than these follow from one another at one time: whatever makes more of them would not end."""


class SimulationStuck(Exception):  # noqa: N818 - a state of the simulation
    """The simulated clusters and the decisions answer one another for ever; the message says about which stream."""


class Alternative(Value):
    """What is to be otherwise: no Workload is offered to the clusters `without`; those `added` are offered to as well;
    `capacities` take the place of what is known of places."""

    without: frozenset[str] = frozenset()
    added: tuple[AddedCluster, ...] = ()
    capacities: Mapping[str, Capacity] = {}

    def config(self, event: Event) -> Event:
        """Return an observation as it is then: MultiKueueConfigs name other clusters."""
        if not isinstance(event, MultiKueueConfigObserved):
            return event
        names = [one for one in event.clusters if one not in self.without]
        return msgspec.structs.replace(event, clusters=[*names, *(one.name for one in self.added)])


class Played(Value):
    """How it went: the figures, and the clusters that were chosen for each Workload, in order, by stream."""

    figures: Figures
    placements: dict[str, list[str]]
    events: int
    beyond: dict[str, int]


class Simulation:
    """One run. `progress(share)` hears how much of the time has passed, from 0 to 1."""

    def __init__(
        self,
        history: History,
        capacities: Capacities,
        policy: MultiKueuePolicy,
        begin: datetime,
        end: datetime,
        alternative: Alternative | None = None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> None:
        self.history, self.capacities, self.begin, self.end = history, capacities, begin, end
        self.alternative, self._progress = alternative or Alternative(), progress
        self.controller = MultiKueueController(policy, "what-if")
        self.now = begin
        self.position = 0
        self.events = self._events_then = 0
        self._since = self._absent_until = begin
        self.versions: dict[str, int] = {}
        self._queue: list[tuple[datetime, int, int, Callable[[], None]]] = []
        self._number = 0
        self._wakes: dict[str, datetime] = {}
        self._measures = Measures(begin, end, history.requests)
        self.answers = Answers(self)

    # --- what was ----------------------------------------------------------------------------------------------------

    def before(self, recorded: Recorded) -> None:
        """Take an event from before the time that is played."""
        self.controller.fold(recorded)
        self._measures.take(recorded)
        self.position, self.versions[recorded.stream] = recorded.position, recorded.version
        event, cluster = recorded.event, recorded.cluster
        if recorded.stream == cluster_stream(cluster) and isinstance(event, _AWAY):
            self.answers.workers.away.add(cluster)
        elif recorded.stream == cluster_stream(cluster) and isinstance(event, ClusterConnected):
            self.answers.workers.away.discard(cluster)

    # --- playing -----------------------------------------------------------------------------------------------------

    def play(self) -> Played:
        """Play from the beginning to the end."""
        self._configure()
        self.answers.adopt()
        for past in self.history.workloads.values():
            if past.arrived > self.begin and not past.why_not:
                self.at(past.arrived, self.answers.arrival(past))
        for at, cluster in self.history.silences:
            if at > self.begin:
                self.at(at, partial(self.answers.workers.away.add, cluster))
        for since, until in self.history.absences:
            if since > self.begin:
                self.at(since, partial(self._leave, until))
        self._react()
        outside = self._outside()
        following = next(outside, None)
        total = (self.end - self.begin).total_seconds() or 1.0
        while True:
            due = self._queue[0][0] if self._queue else None
            if following is not None and (due is None or following.recorded_at <= due):
                self.now = following.recorded_at
                self._happens(following)
                following = next(outside, None)
            elif due is not None and due <= self.end:
                self._act(due)
            else:
                break
            self._react()
            if self.events % 1000 == 0:
                self._progress((self.now - self.begin).total_seconds() / total)
        return Played(
            figures=self._measures.result(self.answers.places.clusters()),
            placements=self.answers.placements(),
            events=self.events,
            beyond=self.answers.beyond,
        )

    def _act(self, due: datetime) -> None:
        """Let everything happen that is due at a time. What follows is asked once all of it is seen, as of what was
        committed together."""
        self.now = due
        acts = []
        while self._queue and self._queue[0][0] == due:
            acts.append(heapq.heappop(self._queue)[3])
        for act in acts:
            act()

    def at(self, when: datetime, act: Callable[[], None], order: int = 0) -> None:
        """Have something happen at a time, not before now; of what happens at the same time the least `order` first."""
        self._number += 1
        heapq.heappush(self._queue, (max(when, self.now), order, self._number, act))

    def after(self, seconds: float, act: Callable[[], None], order: int = 0) -> None:
        """Have something happen some seconds from now."""
        self.at(self.now + timedelta(seconds=seconds), act, order)

    def record(self, stream: str, event: Event, cluster: str = MANAGEMENT) -> Recorded:
        """Let something be in the log: fold and measure it."""
        self.position += 1
        self.events += 1
        self._guard(stream, event)
        version = self.versions[stream] = self.versions.get(stream, 0) + 1
        recorded = Recorded(
            position=self.position,
            stream=stream,
            version=version,
            event=event,
            cluster=cluster,
            recorded_at=self.now,
        )
        self.controller.fold(recorded)
        self._measures.take(recorded)
        return recorded

    def _guard(self, stream: str, event: Event) -> None:
        if self.now != self._since:
            self._since, self._events_then = self.now, self.events
        elif self.events - self._events_then > _AT_ONCE:
            raise SimulationStuck(
                f"{stream} goes on for ever at {self.now:%Y-%m-%d %H:%M:%S} UTC, last with {type(event).__name__}"
            )

    def version(self) -> str:
        """Return a new resourceVersion."""
        self._number += 1
        return str(1_000_000_000 + self._number)

    # --- what happens beside Workloads -------------------------------------------------------------------------------

    def _outside(self) -> Iterator[Recorded]:
        for recorded in self.history.outside:
            if self.begin < recorded.recorded_at <= self.end and recorded.stream != FLEET_STREAM:
                yield recorded

    def _happens(self, recorded: Recorded) -> None:
        """Let something be seen again. What a cluster did while it was out of view is seen before it counts as seen."""
        event, cluster = recorded.event, recorded.cluster
        own = recorded.stream == cluster_stream(cluster)
        if own and isinstance(event, _BACK):
            self.answers.workers.shown(cluster)
        if own and isinstance(event, _AWAY):
            self.answers.workers.away.add(cluster)
        self.record(recorded.stream, self.alternative.config(event) if isinstance(event, Event) else event, cluster)  # type: ignore[arg-type]
        if isinstance(event, ServiceStarted):
            self._connect_added()
        if own and isinstance(event, ClusterConnected | ClusterRecovered):
            self.answers.workers.back(cluster)

    def _configure(self) -> None:
        """Let what is to be otherwise be seen: other clusters in the MultiKueueConfigs, and their connections."""
        index = self.controller.index
        for one in self.alternative.added:
            seen = MultiKueueClusterObserved(
                name=one.name, uid=f"what-if-{one.name}", resource_version=self.version(), labels=one.labels
            )
            self.record(cluster_stream(one.name), seen)
        self._connect_added()
        for name, config in list(index.configs.items()):
            other = self.alternative.config(config)
            if other != config:
                self.record(f"multikueueconfig/{name}", other)

    def _connect_added(self) -> None:
        """Let the added clusters be connected: a process that begins knows nothing of connections."""
        kinds = [WORKLOADS.name, *(adapter.kind.name for adapter in self.controller.policy.adapters.values())]
        for one in self.alternative.added:
            self.record(cluster_stream(one.name), ClusterConnected(kinds=kinds, incarnation=one.name), one.name)

    def _leave(self, until: datetime) -> None:
        """Let no process of the service lead until a time: nothing is decided, and nothing is seen of the workers until
        they are connected again. All is looked at then."""
        self._absent_until = until
        self.answers.workers.away.update(name for name in self.controller.index.connections if name != MANAGEMENT)

    # --- what follows ------------------------------------------------------------------------------------------------

    def _react(self) -> None:
        """Ask what follows, until nothing does."""
        while self.now >= self._absent_until and (dirty := self.controller.take_dirty()):
            for stream in dirty:
                if stream == FLEET_STREAM or stream.startswith("workload/"):
                    self._ask(stream)

    def _ask(self, stream: str) -> None:
        if stream in self.answers.left_out or self.now < self._absent_until:
            return
        plan = self.controller.plan(stream, self.now)
        if plan.wake is not None and plan.wake > self.now and self._wakes.get(stream) != plan.wake:
            self._wakes[stream] = plan.wake
            self.at(plan.wake, self._waking(stream, plan.wake))
        made = [(one, self.record(stream, one, getattr(one, "cluster", "") or MANAGEMENT)) for one in plan.decisions]
        for event, recorded in made:
            self.answers.decided(stream, event, recorded)

    def _waking(self, stream: str, when: datetime) -> Callable[[], None]:
        def wake() -> None:
            if self._wakes.get(stream) == when:
                del self._wakes[stream]
                self._ask(stream)

        return wake
