"""The queue of a place: who waits for room there, in Kueue's order, and who gets it.

In: what asks for room, by priority and age. Out: those that are let in. One that does not fit lets later ones pass, as
Kueue's `BestEffortFIFO` does, of which a bounded number is looked at. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.values import Value
from controlplane.whatif.capacity import Capacity, Room

LATER = 2**60
"""The number of one that never was let in, as far as is known: of the same age, others are first."""
_PASSED = 64
"""So many that do not fit are passed over in one look."""


class QueuedWorkload(NamedTuple):
    """One that waits; the order of these is that of the queue."""

    priority: int
    since: datetime
    number: int
    request: Capacity
    admit: Callable[[], None]
    gone: Callable[[], bool]


AtLast = Callable[[Callable[[], None]], None]


def at_once(act: Callable[[], None]) -> None:
    """Have something happen."""
    act()


class PlaceQueue:
    """A place with its room, and who waits for it. `stopped`: nobody is let in; `at_last` has something happen once
    all of a moment has happened."""

    def __init__(self, capacity: Capacity, at_last: AtLast = at_once) -> None:
        self.room = Room(capacity)
        self.stopped = False
        self._at_last, self._asked = at_last, False
        self._evicted: list[Callable[[], None]] = []
        self._waiting: list[QueuedWorkload] = []
        self._looking = False

    def enter(self, one: QueuedWorkload) -> None:
        """Wait for room; get it at once if there is some."""
        insort(self._waiting, one, key=lambda waiting: waiting[:3])
        self.ask()

    def leave(self, request: Capacity, waits: QueuedWorkload | None = None) -> None:
        """Give room back; `waits`: and wait for some again, in one's place, before others get what was given back."""
        self.room.take(request, -1)
        if waits is not None:
            insort(self._waiting, waits, key=lambda waiting: waiting[:3])
        self.ask()

    def stop(self, *, stopped: bool = True) -> None:
        """Let nobody in until it is not stopped any more."""
        self.stopped = stopped
        self.ask()
        while not stopped and self._evicted:
            self._at_last(self._evicted.pop(0))

    def when_open(self, act: Callable[[], None]) -> None:
        """Have something happen once it is not stopped any more, and who waits then was looked at: Kueue queues those
        again then that it evicted."""
        self._evicted.append(act)

    def ask(self) -> None:
        """Let in whoever fits, once all that comes and leaves at this moment has."""
        if self._waiting and not self._asked:
            self._asked = True
            self._at_last(self._look)

    def _look(self) -> None:
        self._asked = False
        self.look()

    def look(self) -> None:
        """Let in whoever fits, in order."""
        if self._looking or self.stopped or not self._waiting:
            return
        self._looking = True
        try:
            kept, passed = 0, 0
            while kept < len(self._waiting) and passed < _PASSED:
                one = self._waiting[kept]
                if one.gone():
                    del self._waiting[kept]
                elif self.room.fits(one.request):
                    del self._waiting[kept]
                    self.room.take(one.request)
                    one.admit()
                else:
                    kept, passed = kept + 1, passed + 1
        finally:
            self._looking = False


class AddedCluster(Value):
    """A cluster that there was not: what fits on it, its labels, and how many seconds it takes to admit what fits."""

    name: str
    capacity: Capacity
    labels: dict[str, str] = {}
    admission_seconds: float | None = None


def _filled(capacity: Capacity, mean: Capacity) -> dict[str, float]:
    """Return a capacity with those resources that it does not name, which bound nothing there: as much as those
    Workloads ask for on average of which it holds as many as the others let in."""
    most = [amount / mean[name] for name, amount in capacity.items() if mean.get(name)]
    return {name: amount * min(most, default=0.0) for name, amount in mean.items()} | dict(capacity)


class PlaceQueues:
    """The queues of all places: of what is `known`, of what was `told` instead of some resources, and of the clusters
    that are `added`. `mean`: what a Workload asks for on average."""

    def __init__(
        self,
        known: Mapping[str, Capacity],
        told: Mapping[str, Capacity],
        added: Mapping[str, AddedCluster],
        at_last: AtLast = at_once,
        mean: Capacity | None = None,
    ) -> None:
        self._known, self._told, self._added, self._at_last = known, told, added, at_last
        self._mean = mean or {}
        self._places: dict[str, PlaceQueue] = {}

    def of(self, name: str) -> PlaceQueue:
        """Return the queue of a place."""
        queue = self._places.get(name)
        if queue is None:
            queue = self._places[name] = PlaceQueue(self.capacity(name), self._at_last)
        return queue

    def capacity(self, name: str) -> Capacity:
        """Return what fits at a place."""
        if name in self._added:
            return self._added[name].capacity
        found = dict(self._known.get(name, {}))
        if name.startswith(f"{MANAGEMENT}/"):
            # The quota of the management cluster is that of its workers together: with a cluster it grows.
            for one in self._added.values():
                grown = _filled(one.capacity, self._mean)
                found = {resource: amount + grown.get(resource, 0.0) for resource, amount in found.items()}
        return {**found, **self._told.get(name, {})}

    def clusters(self) -> dict[str, Capacity]:
        """Return the capacities of the clusters."""
        names = {*self._known, *self._told, *self._added}
        return {name: self.capacity(name) for name in sorted(names) if "/" not in name}
