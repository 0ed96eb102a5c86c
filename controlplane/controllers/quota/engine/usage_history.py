"""Admission fair sharing: what each LocalQueue used in the past, of which less counts the longer ago it was.

In: samples of what a LocalQueue used, and which workloads enter. Out: its usage as a number that orders LocalQueues,
and what the next sample is. An admitted workload counts from its reservation on, by a penalty that is settled when its
usage is sampled (kubernetes-sigs/kueue pkg/util/admissionfairsharing, pkg/cache/queue/afs). Nothing here moves by
itself: whoever has the same samples and entries has the same usage, whenever it is asked for and with whatever
half-life."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any

from controlplane.kube.quantities import NANO, canonical_quantity, nanos

Amounts = Mapping[str, Decimal]
"""Amounts by resource, in units: cpu in cores."""

_EXACT = Context(prec=200)
_NANO = Decimal("1e-9")
_FADED = -math.log2(0.99)  # half-lives until a hundredth of the past usage has faded


@dataclass(frozen=True, slots=True)
class AdmissionFairSharing:
    """How fast past usage fades, how often it is sampled (both in seconds), and what each resource weighs; 1 if it is
    not named. With a half-life of 0 no past usage counts.

    `dominant`: what counts is not the sum of all resources, but the one of which somebody used the largest share of
    what the fleet has. `by_namespace`: the LocalQueues of a namespace are one tenant. `workers`: what LocalQueues of
    the same name use on workers beside what this service dispatched counts as well.
    """

    half_life: float
    sampling_interval: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)
    dominant: bool = False
    by_namespace: bool = False
    workers: bool = False


@dataclass(slots=True)
class _Entry:
    """What is known of a LocalQueue. `pending` is the sum of its penalties, and exact: who enters and leaves leaves
    nothing. `idle`: it used nothing when it was sampled."""

    consumed: Amounts = field(default_factory=dict)
    penalties: dict[str, Amounts] = field(default_factory=dict)
    pending: Amounts = field(default_factory=dict)
    updated: float = 0.0
    known: bool = False
    idle: bool = False


def decayed(old: Amounts, new: Amounts, elapsed: float, half_life: float) -> dict[str, Decimal]:
    """Return past usage after `elapsed` seconds in which `new` was used."""
    fresh = _alpha(elapsed, half_life)
    return _merged(_times(old, 1 - fresh), _times(new, fresh))


def quantities(amounts: Amounts) -> dict[str, str]:
    """Return amounts in the spelling of an API server, without those that are 0."""
    return {name: canonical_quantity(f"{_nanos(amount)}n") for name, amount in sorted(amounts.items()) if amount}


def from_quantities(spelled: Mapping[str, str | int | float]) -> dict[str, Decimal]:
    """Return amounts of such spellings; ValueError that names the resource of one that is no quantity."""
    found = {}
    for name, quantity in spelled.items():
        try:
            found[name] = _amount(nanos(quantity))
        except ValueError as problem:
            raise ValueError(f"{name}: {problem}") from problem
    return found


class UsageHistory:
    """The past usage of LocalQueues, by namespace and name. `config` is None if nobody asks for it: what was recorded
    is kept all the same."""

    def __init__(self, config: AdmissionFairSharing | None) -> None:
        self.config = config
        self._entries: dict[str, _Entry] = {}
        self._entered: dict[str, str] = {}
        self._namespaces: dict[str, set[str]] = {}

    # What has happened.

    def record(
        self, queue: str, consumed: Amounts, now: float, settled: Collection[str] = (), *, idle: bool = False
    ) -> None:
        """Note a sample: what a LocalQueue used in the past, in which the penalties of the settled workloads are;
        `idle`: it used nothing then. Noted twice, it is as if it was noted once."""
        entry = self._entry(queue)
        entry.idle = idle
        entry.consumed = {name: amount for name, amount in consumed.items() if amount}
        entry.updated, entry.known = max(entry.updated, now), True
        for workload in settled:
            if workload in entry.penalties:
                self.leave(workload)

    def enter(self, queue: str, workload: str, penalty: Amounts, now: float) -> None:
        """Note that quota was reserved for a workload. Its penalty takes the place of one that it has."""
        self.leave(workload)
        if any(penalty.values()):
            entry = self._entry(queue, now)
            entry.penalties[workload] = penalty
            entry.pending = _merged(entry.pending, penalty)
            self._entered[workload] = queue

    def leave(self, workload: str) -> None:
        """Drop the penalty of a workload, if it has one."""
        queue = self._entered.pop(workload, None)
        if queue is not None:
            entry = self._entries[queue]
            gone = {name: -amount for name, amount in entry.penalties.pop(workload).items()}
            entry.pending = {name: amount for name, amount in _merged(entry.pending, gone).items() if amount}

    def stay(self, workload: str, queue: str) -> None:
        """Drop the penalty of a workload in any other LocalQueue than the one that it is in."""
        if self._entered.get(workload, queue) != queue:
            self.leave(workload)

    def forget(self, queue: str) -> None:
        """Forget a LocalQueue."""
        entry = self._entries.pop(queue, None)
        if entry is None:
            return
        for workload in entry.penalties:
            self._entered.pop(workload, None)
        namespace = _namespace(queue)
        self._namespaces[namespace].discard(queue)
        if not self._namespaces[namespace]:
            del self._namespaces[namespace]

    def _entry(self, queue: str, now: float = 0.0) -> _Entry:
        """Return what is known of a LocalQueue, nothing as yet for a new one."""
        found = self._entries.get(queue)
        if found is None:
            found = self._entries[queue] = _Entry(updated=now)
            self._namespaces.setdefault(_namespace(queue), set()).add(queue)
        return found

    # What is asked.

    def known(self, queue: str) -> bool:
        """Whether there is a sample of a LocalQueue."""
        return queue in self._entries and self._entries[queue].known

    def consumed(self, queue: str) -> tuple[Amounts, float]:
        """Return what a LocalQueue used in the past, without penalties, and when that was so: in seconds since 1970."""
        entry = self._entries.get(queue, _Entry())
        return entry.consumed, entry.updated

    def entered(self, queue: str) -> Collection[str]:
        """Return the workloads of a LocalQueue whose penalties are not settled."""
        entry = self._entries.get(queue)
        return tuple(entry.penalties) if entry is not None else ()

    def penalty(self, requests: Amounts) -> dict[str, Decimal]:
        """Return what a workload counts for that enters: as if it had run for one sampling interval."""
        if self.config is None or self.config.half_life == 0:
            return {}
        return _times(requests, _alpha(self.config.sampling_interval, self.config.half_life))

    def sampled(self, queue: str, used: Amounts, now: float, settled: Collection[str] = ()) -> dict[str, Decimal]:
        """Return what a LocalQueue used in the past, now that it uses `used`, with the penalties of some workloads."""
        entry, config = self._entries.get(queue, _Entry(updated=now)), self.config
        if config is None or config.half_life == 0:
            return {}
        consumed, elapsed = entry.consumed, max(0.0, now - entry.updated)
        if entry.idle or not consumed:
            # An idle LocalQueue is sampled less often, or not at all. It is taken as if it had been: what begins now is
            # not counted for all that time.
            since = math.fmod(elapsed, config.sampling_interval)
            consumed, elapsed = decayed(consumed, {}, elapsed - since, config.half_life), since
        found = decayed(consumed, used, elapsed, config.half_life)
        for workload in settled:
            found = _merged(found, entry.penalties.get(workload, {}))
        return found

    def soonest(self, queue: str) -> float | None:
        """Return the moment before which no sample is due, whatever is used, in seconds since 1970; None if none is due
        at all."""
        entry, config = self._entries.get(queue), self.config
        if entry is None or config is None or (not entry.consumed and config.half_life == 0):
            return None
        return entry.updated + config.sampling_interval

    def due(self, queue: str, used: Amounts) -> float | None:
        """Return when the next sample is to be taken, in seconds since 1970; None while it would say what the last one
        said: nothing was used, and nothing is. What an idle LocalQueue used is told again when it has faded by a
        hundredth."""
        entry, config = self._entries.get(queue), self.config
        if entry is None or config is None:
            return None
        if not entry.consumed and (config.half_life == 0 or not any(used.values())):
            return None
        interval = config.sampling_interval
        if entry.idle and not any(used.values()):
            interval = max(interval, config.half_life * _FADED)
        return entry.updated + interval

    def tenant(self, queue: str) -> Collection[str]:
        """Return the LocalQueues whose past usage is counted together with that of one, itself among them."""
        if self.config is None or not self.config.by_namespace:
            return (queue,)
        return sorted(self._namespaces.get(_namespace(queue), set()) | {queue})

    def usage(self, queue: str, weight: float, fleet: Amounts | None = None) -> float:
        """Return what the tenant of a LocalQueue used, weighted; infinite for a weight of zero. With `fleet`, what
        there is in all, it is the largest of its `shares`."""
        if weight <= 0:
            return math.inf
        if fleet is not None:
            return max((share for _, share in self.shares(queue, fleet)), default=0.0) / weight
        total, weights = self._total(queue), self._weights()
        return sum((weights.get(name, 1.0) * float(total[name]) for name in sorted(total)), 0.0) / weight

    def shares(self, queue: str, fleet: Amounts) -> list[tuple[str, float]]:
        """Return the tenant's share of each resource that there is, times what the resource weighs, the largest
        first."""
        weights = self._weights()
        found = [
            (name, weights.get(name, 1.0) * float(amount / fleet[name]))
            for name, amount in sorted(self._total(queue).items())
            if fleet.get(name)
        ]
        return sorted(found, key=lambda one: -one[1])

    def _total(self, queue: str) -> Amounts:
        total: Amounts = {}
        for one in self.tenant(queue):
            entry = self._entries.get(one)
            if entry is not None:
                total = _merged(_merged(total, entry.consumed), entry.pending)
        return total

    def _weights(self) -> Mapping[str, float]:
        return self.config.weights if self.config is not None else {}

    # What is kept.

    def kept(self) -> dict[str, Any]:
        """Return all of it by LocalQueue, as plain values; amounts in billionths."""
        return {
            queue: (
                _whole(entry.consumed),
                tuple((workload, _whole(penalty)) for workload, penalty in entry.penalties.items()),
                entry.updated,
                entry.known,
                entry.idle,
            )
            for queue, entry in self._entries.items()
        }

    def give(self, given: Mapping[str, Any]) -> None:
        """Become what was kept."""
        self._entries, self._entered, self._namespaces = {}, {}, {}
        for queue, (consumed, penalties, updated, known, idle) in given.items():
            listed: dict[str, Amounts] = {workload: _parts(penalty) for workload, penalty in penalties}
            pending: Amounts = {}
            for penalty in listed.values():
                pending = _merged(pending, penalty)
            self._entries[queue] = _Entry(_parts(consumed), listed, pending, updated, known, idle)
            self._namespaces.setdefault(_namespace(queue), set()).add(queue)
            self._entered.update(dict.fromkeys(listed, queue))


def _namespace(queue: str) -> str:
    return queue.partition("/")[0]


def _whole(amounts: Amounts) -> tuple[tuple[str, int], ...]:
    return tuple((name, _nanos(amount)) for name, amount in amounts.items())


def _parts(whole: Collection[tuple[str, int]]) -> dict[str, Decimal]:
    return {name: _amount(billionths) for name, billionths in whole}


def _nanos(amount: Decimal) -> int:
    return int(_EXACT.multiply(amount, Decimal(NANO)))


def _amount(billionths: int) -> Decimal:
    return _EXACT.multiply(Decimal(billionths), _NANO)


def _alpha(elapsed: float, half_life: float) -> float:
    """Return which part of the usage is new after some time."""
    return 0.0 if half_life == 0 else float(1.0 - math.pow(0.5, elapsed / half_life))


def _times(amounts: Amounts, factor: float) -> dict[str, Decimal]:
    exact = Decimal(repr(factor))
    return {name: _rounded(amount, exact) for name, amount in amounts.items()}


def _rounded(amount: Decimal, factor: Decimal) -> Decimal:
    """Multiply, and round down to billionths."""
    return _EXACT.multiply(amount, factor).quantize(_NANO, rounding=ROUND_DOWN, context=_EXACT)


def _merged(a: Amounts, b: Amounts) -> dict[str, Decimal]:
    found = dict(a)
    for name, amount in b.items():
        found[name] = _EXACT.add(found[name], amount) if name in found else amount
    return found
