"""Plays a recorded time again in virtual time: the decide functions of the service over simulated clusters.

In: a `History`, the capacities of its places, what is to be otherwise, and a time. Out: figures, and where each
Workload was placed. Arrivals, durations, evictions by Kueue and what was seen of clusters come at their recorded times;
what is decided comes from `MultiKueueController` alone, and what clusters answer from `controlplane.whatif.answers`.
Everything that happens is an event that is folded and measured as a recorded one. Nothing is drawn: the same input
gives the same events. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

from controlplane.controllers.connectivity.events import (
    FLEET_STREAM,
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterLost,
    ClusterRecovered,
    ClusterStandby,
    ClusterSuspected,
    KindSynced,
    ServiceStarted,
    cluster_stream,
)
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.observations import MultiKueueClusterObserved
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Event, Recorded
from controlplane.values import Value
from controlplane.whatif.answers import Answers
from controlplane.whatif.capacity import Capacities
from controlplane.whatif.history import History
from controlplane.whatif.measure import Figures
from controlplane.whatif.quota_history import ADMISSION
from controlplane.whatif.simulated_log import Alternative, SimulatedLog

_AWAY = (ClusterLost, ClusterConnectFailed, ClusterDisconnected, ClusterStandby)
_NOT_IN_VIEW = (*_AWAY, ClusterSuspected)
_BACK = (KindSynced, ClusterConnected, ClusterRecovered)


class SimulationResult(Value):
    """How it went: the figures; the clusters that were chosen for each Workload, in order, by stream; and what was
    decided of quota, with the streams, in order."""

    figures: Figures
    placements: dict[str, list[str]]
    quota: list[tuple[str, str]]
    events: int
    beyond: dict[str, int]


class Simulation:
    """One run. `progress(share)` hears how much of the time has passed, from 0 to 1; `quota` is how the engine
    decides."""

    def __init__(
        self,
        history: History,
        capacities: Capacities,
        policy: MultiKueuePolicy,
        begin: datetime,
        end: datetime,
        alternative: Alternative | None = None,
        progress: Callable[[float], None] = lambda share: None,
        quota: EngineSettings | None = None,
    ) -> None:
        self._log = SimulatedLog(history, capacities, policy, begin, end, alternative or Alternative())
        self._history, self._controller, self._progress = history, self._log.controller, progress
        self._wakes: dict[str, datetime] = {}
        self._answers = Answers(self._log, quota or EngineSettings())

    # --- what was ----------------------------------------------------------------------------------------------------

    def before(self, recorded: Recorded) -> None:
        """Take an event from before the time that is played."""
        self._log.take(recorded)
        if recorded.stream.startswith(f"{ADMISSION}/"):
            self._answers.engine.before(recorded)
            return
        event, cluster = recorded.event, recorded.cluster
        if recorded.stream == cluster_stream(cluster) and isinstance(event, _NOT_IN_VIEW):
            self._answers.workers.away.add(cluster)
        elif recorded.stream == cluster_stream(cluster) and isinstance(event, ClusterConnected | ClusterRecovered):
            self._answers.workers.away.discard(cluster)

    # --- playing -----------------------------------------------------------------------------------------------------

    def play(self) -> SimulationResult:
        """Play from the beginning to the end."""
        self._configure()
        self._answers.adopt()
        self._schedule()
        self._react()
        log, outside = self._log, self._outside()
        following = next(outside, None)
        total = (log.end - log.begin).total_seconds() or 1.0
        while True:
            due = log.due
            if following is not None and (due is None or following.recorded_at <= due):
                log.now = following.recorded_at
                self._happens(following)
                following = next(outside, None)
            elif due is not None and due <= log.end:
                log.act(due)
            else:
                break
            self._react()
            if log.events % 1000 == 0:
                self._progress((log.now - log.begin).total_seconds() / total)
        return SimulationResult(
            figures=log.measures.result(self._answers.places.clusters()),
            placements=self._answers.placements(),
            quota=self._answers.engine.decided,
            events=log.events,
            beyond=self._answers.beyond,
        )

    def _schedule(self) -> None:
        """Note when Workloads arrive, clusters fall silent, and nobody leads."""
        log = self._log
        self._answers.elsewhere()
        for past in self._history.workloads.values():
            if past.arrived > log.begin and not past.why_not:
                log.at(past.arrived, self._answers.arrival(past))
        for at, told, cluster in self._history.silences:
            if told > log.begin:  # what was told before is known
                log.at(at, partial(self._answers.workers.away.add, cluster))
        for since, until in self._history.absences:
            if until > log.begin:
                log.at(since, partial(self._leave, until))

    # --- what happens beside Workloads -------------------------------------------------------------------------------

    def _outside(self) -> Iterator[Recorded]:
        for recorded in self._history.outside:
            if self._log.begin < recorded.recorded_at <= self._log.end and recorded.stream != FLEET_STREAM:
                yield recorded

    def _happens(self, recorded: Recorded) -> None:
        """Let something be seen again. What a cluster did while it was out of view is seen before it counts as seen."""
        event, cluster = recorded.event, recorded.cluster
        if recorded.stream.startswith(f"{ADMISSION}/"):
            self._answers.engine.happens(recorded)
            return
        own = recorded.stream == cluster_stream(cluster)
        if own and isinstance(event, _BACK):
            self._answers.workers.shown(cluster)
        if own and isinstance(event, _AWAY):
            self._answers.workers.away.add(cluster)
        other = self._log.alternative.config(event) if isinstance(event, Event) else event
        self._log.record(recorded.stream, other, cluster)  # type: ignore[arg-type]
        if isinstance(event, ServiceStarted):
            self._connect_added()
        if own and isinstance(event, ClusterConnected | ClusterRecovered):
            self._answers.workers.back(cluster)

    def _configure(self) -> None:
        """Let what is to be otherwise be seen: other clusters in the MultiKueueConfigs, and their connections."""
        index = self._controller.index
        for one in self._log.alternative.added:
            seen = MultiKueueClusterObserved(
                name=one.name, uid=f"what-if-{one.name}", resource_version=self._log.version(), labels=one.labels
            )
            self._log.record(cluster_stream(one.name), seen)
        self._connect_added()
        for name, config in list(index.configs.items()):
            other = self._log.alternative.config(config)
            if other != config:
                self._log.record(f"multikueueconfig/{name}", other)

    def _connect_added(self) -> None:
        """Let the added clusters be connected: a process that begins knows nothing of connections."""
        kinds = [WORKLOADS.name, *(adapter.kind.name for adapter in self._controller.policy.adapters.values())]
        for one in self._log.alternative.added:
            self._answers.workers.shown(one.name)
            self._log.record(cluster_stream(one.name), ClusterConnected(kinds=kinds, incarnation=one.name), one.name)
            self._answers.workers.back(one.name)

    def _leave(self, until: datetime) -> None:
        """Let no process of the service lead until a time: nothing is decided, and nothing is seen of the workers until
        they are connected again. All is looked at then."""
        self._log.absent_until = until
        self._answers.workers.away.update(name for name in self._controller.index.connections if name != MANAGEMENT)

    # --- what follows ------------------------------------------------------------------------------------------------

    def _react(self) -> None:
        """Ask what follows, until nothing does."""
        while self._log.now >= self._log.absent_until and (dirty := self._controller.take_dirty()):
            for stream in dirty:
                if stream == FLEET_STREAM or stream.startswith("workload/"):
                    self._ask(stream)

    def _ask(self, stream: str) -> None:
        if stream in self._answers.left_out or self._log.now < self._log.absent_until:
            return
        plan = self._controller.plan(stream, self._log.now)
        if plan.wake is not None and plan.wake > self._log.now and self._wakes.get(stream) != plan.wake:
            self._wakes[stream] = plan.wake
            self._log.at(plan.wake, self._waking(stream, plan.wake))
        made = [
            (one, self._log.record(stream, one, getattr(one, "cluster", "") or MANAGEMENT)) for one in plan.decisions
        ]
        for event, recorded in made:
            self._answers.decided(stream, event, recorded)

    def _waking(self, stream: str, when: datetime) -> Callable[[], None]:
        def wake() -> None:
            if self._wakes.get(stream) == when:
                del self._wakes[stream]
                self._ask(stream)

        return wake
