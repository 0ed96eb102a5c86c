"""Records events in virtual time, and folds and measures each as it is recorded.

In: what happens, and when. Out: the state of the decisions, the figures, and what is due next. The log of a simulation
is in memory alone. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.observations import MultiKueueConfigObserved
from controlplane.controllers.quota.admission.events import AdmissionClusterQueueObserved
from controlplane.log.event import Event, Recorded
from controlplane.values import Value
from controlplane.whatif.capacity import Capacities, Capacity
from controlplane.whatif.history import History
from controlplane.whatif.measure import Measures
from controlplane.whatif.others import queue_place
from controlplane.whatif.queue import AddedCluster
from controlplane.whatif.quota_objects import with_nominal

_AT_ONCE = 200_000
"""No more events than these follow from one another at one time: whatever makes more of them would not end."""
_LAST = 2**62
_NEAR = 0.1
"""What would happen within so many seconds of when it was recorded happens then: small differences of times would add
up to other choices in a full fleet."""


class SimulationStuck(Exception):  # noqa: N818 - a state of the simulation
    """The simulated clusters and the decisions answer one another for ever; the message says about which stream."""


class Alternative(Value):
    """What is to be otherwise: no Workload is offered to the clusters `without`; those `added` are offered to as
    well; `capacities` take the place of what is known of places, and `objects`, by their streams, of the recorded
    ones that quota rests on."""

    without: frozenset[str] = frozenset()
    added: tuple[AddedCluster, ...] = ()
    capacities: Mapping[str, Capacity] = {}
    objects: Mapping[str, Event] = {}

    def config(self, event: Event) -> Event:
        """Return an observation as it is then: MultiKueueConfigs name other clusters."""
        if not isinstance(event, MultiKueueConfigObserved):
            return event
        names = [one for one in event.clusters if one not in self.without]
        return msgspec.structs.replace(event, clusters=[*names, *(one.name for one in self.added)])

    def quota_of(self, event: Any) -> Any:
        """Return an observation of what quota rests on as it is then: a ClusterQueue of which a capacity is told has
        that as its nominal quota."""
        told = (
            self.capacities.get(queue_place(event.name)) if isinstance(event, AdmissionClusterQueueObserved) else None
        )
        return event if told is None else msgspec.structs.replace(event, spec=with_nominal(event.spec, told))


class SimulatedLog:
    """The events of one run, from `begin` to `end`, and what is to happen at which time. Before `absent_until` no
    process of the service leads."""

    def __init__(
        self,
        history: History,
        capacities: Capacities,
        policy: MultiKueuePolicy,
        begin: datetime,
        end: datetime,
        alternative: Alternative,
    ) -> None:
        self.history, self.capacities, self.begin, self.end = history, capacities, begin, end
        self.alternative = alternative
        self.controller = MultiKueueController(policy, "what-if")
        self.now = self.absent_until = begin
        self.position = 0
        self.events = self._events_then = 0
        self._since = begin
        self._versions: dict[str, int] = {}
        self._queue: list[tuple[datetime, int, int, Callable[[], None]]] = []
        self._number = 0
        self.measures = Measures(begin, end, history.requests)

    def take(self, recorded: Recorded) -> None:
        """Fold and measure an event."""
        self.controller.fold(recorded)
        self.measures.take(recorded)
        self.position, self._versions[recorded.stream] = recorded.position, recorded.version

    @property
    def due(self) -> datetime | None:
        """When the next thing is to happen."""
        return self._queue[0][0] if self._queue else None

    def act(self, due: datetime) -> None:
        """Let everything happen that is due at a time. What follows is asked once all of it is seen, as of what was
        committed together."""
        self.now = due
        acts = []
        while self._queue and self._queue[0][0] == due:
            acts.append(heapq.heappop(self._queue)[3])
        for act in acts:
            act()

    def at(self, when: datetime, act: Callable[[], None], order: int = 0) -> None:
        """Have something happen at a time, not before now; of what happens at the same time the least `order`
        first."""
        self._number += 1
        heapq.heappush(self._queue, (max(when, self.now), order, self._number, act))

    def at_last(self, act: Callable[[], None]) -> None:
        """Have something happen once all of this moment has happened."""
        self.at(self.now, act, _LAST)

    def after(self, seconds: float, act: Callable[[], None], order: int = 0) -> None:
        """Have something happen some seconds from now."""
        self.at(self.now + timedelta(seconds=seconds), act, order)

    def near(self, seconds: float, recorded: datetime | None) -> float:
        """Return in how many seconds something happens: when it was recorded, if that is about the same."""
        if recorded is None:
            return seconds
        known = (recorded - self.now).total_seconds()
        return max(known, 0.0) if abs(known - seconds) <= _NEAR else seconds

    def record(self, stream: str, event: Event, cluster: str = MANAGEMENT) -> Recorded:
        """Let something be in the log: fold and measure it."""
        self.events += 1
        self._guard(stream, event)
        recorded = Recorded(
            position=self.position + 1,
            stream=stream,
            version=self._versions.get(stream, 0) + 1,
            event=event,
            cluster=cluster,
            recorded_at=self.now,
        )
        self.take(recorded)
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
