"""Says how much fits on each cluster, and how long one takes to admit what fits: of what a log recorded.

In: a `History`. Out: the capacity of each place, which is what was used there at most at one time, or its nominal
quota if that is more and was recorded; and for each copy the seconds from its creation to its admission that were not
spent in waiting for room. What was never admitted took at least as long as it was there. A place is a worker, or a
ClusterQueue of the management cluster. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from controlplane.controllers.quota.events import QuotaQueueObserved, WorkerQuotaGone, WorkerQuotaObserved
from controlplane.kube.quantities import NANO, nanos
from controlplane.whatif.history import SLOTS, History
from controlplane.whatif.others import HeldCapacity, held, queue_place
from controlplane.whatif.past import PastCopy, PastWorkload
from controlplane.whatif.seconds import usually

Capacity = Mapping[str, float]
_ROUNDING = 1e-9
_JUST_AFTER = timedelta(milliseconds=1)
_LATE = timedelta(milliseconds=100)
"""What leaves may be seen later than what comes in its place, by so much."""


class Room:
    """What is used of a capacity. Of a resource that the capacity does not name there is no end."""

    __slots__ = ("capacity", "used")

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = dict(capacity)
        self.used: dict[str, float] = dict.fromkeys(capacity, 0.0)

    def fits(self, request: Capacity) -> bool:
        """Whether there is room for one more."""
        for name, most in self.capacity.items():
            asked = request.get(name, 0.0)
            if asked and self.used[name] + asked > most * (1 + _ROUNDING):
                return False
        return True

    def take(self, request: Capacity, sign: int = 1) -> None:
        """Use room, or give it back with `sign` -1."""
        for name in self.capacity:
            self.used[name] += sign * request.get(name, 0.0)


class _Stay:
    """A Workload at a place, or a copy: when it came, was admitted, and left."""

    __slots__ = ("admitted", "came", "left", "request", "until")

    def __init__(self, came: datetime, admitted: datetime | None, left: datetime | None, request: Capacity) -> None:
        self.came, self.admitted, self.left, self.request = came, admitted, left, request


class Capacities:
    """The capacity of each place, and the seconds that admissions took. `others`: what is held beside what is
    simulated."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._copies: dict[str, list[tuple[PastCopy, _Stay]]] = {}
        self._homes: dict[str, list[tuple[PastWorkload, _Stay]]] = {}
        for past in history.workloads.values():
            self._add(past)
        self.others = list(held([*history.workloads.values(), *history.later], history.request))
        self.of: dict[str, dict[str, float]] = {}
        known = any(history.requests.values())
        for place, stays in self._stays().items():
            found = _most(stays)
            if known:
                found.pop(SLOTS, None)
            self.of[place] = found
        for place, quota in _quotas(history).items():
            for name, amount in quota.items() if known else ():
                self.of.setdefault(place, {})[name] = max(amount, self.of.get(place, {}).get(name, 0.0))
        self.base: dict[int, float] = {}
        self.waits: dict[str, float] = {}
        self._delays: dict[str, float] = {}
        self.later: dict[str, dict[datetime, float]] = {}
        self._measure()

    def _stays(self) -> dict[str, list[_Stay]]:
        """Return who was where, by place: first those that are simulated, in their order."""
        found = {cluster: [stay for _, stay in pairs] for cluster, pairs in self._copies.items()}
        found |= {place: [stay for _, stay in pairs] for place, pairs in self._homes.items()}
        for one in self.others:
            found.setdefault(one.place, []).append(_Stay(one.came, one.since, one.until, one.request))
        return found

    def _add(self, past: PastWorkload) -> None:
        if past.why_not:
            return
        request = self._history.request(past.stream)
        for cluster, copies in past.copies.items():
            for copy in copies:
                if copy.created is not None:
                    left = copy.stays[0].until if copy.stays else copy.ended
                    stay = _Stay(copy.created, copy.admitted, left, request)
                    self._copies.setdefault(cluster, []).append((copy, stay))
        if past.stays and not past.is_elsewhere:
            first = past.stays[0]
            stay = _Stay(past.arrived, first.since, first.until, request)
            self._homes.setdefault(queue_place(first.queue), []).append((past, stay))

    def _measure(self) -> None:
        stays, others = self._stays(), _by_place(self.others)
        for place in stays:
            seconds = _latencies(stays[place], self.of.get(place, {}))
            copies, homes = self._copies.get(place, []), self._homes.get(place, [])
            if copies:
                self._copied(place, copies, seconds)
            for (past, _), found in zip(homes, seconds, strict=False):
                self.waits[past.stream] = found or 0.0
            beside = others.get(place, [])
            for one, found in zip(beside, seconds[len(seconds) - len(beside) :], strict=True):
                one.wait = found or 0.0
                if one.again:
                    self.later.setdefault(one.past.stream, {})[one.since] = one.wait

    def delay(self, cluster: str) -> float:
        """Return the usual seconds from the creation of a copy on a cluster to its admission where there is room; of
        one that nothing is known of, as of the slowest."""
        return self._delays.get(cluster, max(self._delays.values(), default=0.0))

    def _copied(self, cluster: str, copies: Sequence[tuple[PastCopy, _Stay]], seconds: Sequence[float | None]) -> None:
        """Note how long the admissions of the copies on a cluster took."""
        pairs = [(copy, one) for (copy, _), one in zip(copies, seconds, strict=False)]
        usual = self._delays[cluster] = usually(one for copy, one in pairs if one is not None and copy.admitted)
        for copy, found in pairs:
            self.base[id(copy)] = usual if found is None else max(found, 0.0 if copy.admitted else usual)


def _by_place(others: Iterable[HeldCapacity]) -> dict[str, list[HeldCapacity]]:
    found: dict[str, list[HeldCapacity]] = {}
    for one in others:
        found.setdefault(one.place, []).append(one)
    return found


def _quotas(history: History) -> dict[str, dict[str, float]]:
    """Return the nominal quotas by place, as they were last seen: known where quota automation is on."""
    workers: dict[str, dict[str, Mapping[str, float]]] = {}
    found: dict[str, dict[str, float]] = {}
    for recorded in history.outside:
        event = recorded.event
        if isinstance(event, WorkerQuotaObserved):
            amounts = {name: sum(map(_amount, quotas)) for name, quotas in event.quotas.items()}
            workers.setdefault(recorded.cluster, {})[event.name] = amounts
        elif isinstance(event, WorkerQuotaGone):
            workers.get(recorded.cluster, {}).pop(event.name, None)
        elif isinstance(event, QuotaQueueObserved):
            found[queue_place(event.name)] = _total(
                {one.name: _amount(one.nominal)}
                for group in event.groups
                for part in group.flavors
                for one in part.resources
            )
    return found | {cluster: _total(queues.values()) for cluster, queues in workers.items()}


def _total(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, 0.0) + amount
    return found


def _amount(quantity: str) -> float:
    try:
        return nanos(quantity) / NANO
    except ValueError:
        return 0.0


def _changes(stays: Iterable[_Stay], late: timedelta = timedelta(0)) -> list[tuple[datetime, int, int, _Stay]]:
    """Return when room was taken and given back, in order; what is given back at a time comes first. `late`: by how
    much it may have been given back earlier than it was seen."""
    found = []
    for number, stay in enumerate(stays):
        if stay.admitted is not None:
            found.append((stay.admitted, 1, number, stay))
            if stay.left is not None:
                left = stay.left - late
                found.append((max(left, stay.admitted), 0 if left > stay.admitted else 2, number, stay))
    return sorted(found, key=lambda one: one[:3])


def _most(stays: Iterable[_Stay]) -> dict[str, float]:
    """Return what was used at most at one time, by resource."""
    used: dict[str, float] = {}
    most: dict[str, float] = {}
    for _, takes, _, stay in _changes(stays, _LATE):
        for name, amount in stay.request.items():
            used[name] = used.get(name, 0.0) + (amount if takes == 1 else -amount)
            most[name] = max(most.get(name, 0.0), used[name])
    return most


def _latencies(stays: list[_Stay], capacity: Capacity) -> list[float | None]:
    """Return for each stay the seconds from when there was room to its admission; of one that was not admitted
    although there was room, a little more than it was there; None of one for which there was none."""
    room, came = Room(capacity), [(stay.came, number) for number, stay in enumerate(stays)]
    heapq.heapify(came)
    found: list[float | None] = [None] * len(stays)
    blocked: set[int] = set()
    given_back: datetime | None = None

    def arrive(until: datetime | None) -> None:
        while came and (until is None or came[0][0] <= until):
            _, number = heapq.heappop(came)
            stay = stays[number]
            if not room.fits(stay.request):
                blocked.add(number)
            elif stay.admitted is None and stay.left is not None:
                found[number] = (stay.left + _JUST_AFTER - stay.came).total_seconds()

    for at, takes, number, stay in _changes(stays):
        arrive(at)
        room.take(stay.request, 1 if takes == 1 else -1)
        if takes != 1:
            given_back = at
            continue
        since = given_back if number in blocked and given_back is not None else stay.came
        found[number] = max((at - max(since, stay.came)).total_seconds(), 0.0)
    arrive(None)
    return found
