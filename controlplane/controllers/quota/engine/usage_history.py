"""Admission fair sharing: what each LocalQueue used in the past, of which less counts the longer ago it was.

In: what a LocalQueue's admitted workloads use now, when that is sampled, and which workloads enter. Out: its usage as a
number that orders LocalQueues. An admitted workload counts from its admission on, by a penalty that is settled when its
usage is sampled (kubernetes-sigs/kueue pkg/util/admissionfairsharing, pkg/cache/queue/afs)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal

Amounts = Mapping[str, Decimal]
"""Amounts by resource, in units: cpu in cores."""

_EXACT = Context(prec=200)
_NANO = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class AdmissionFairSharing:
    """How fast past usage fades, how often it is sampled (both in seconds), and what each resource weighs; 1 if it is not
    named.
    """

    half_life: float
    sampling_interval: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Entry:
    consumed: Amounts = field(default_factory=dict)
    penalties: dict[str, Amounts] = field(default_factory=dict)
    updated: float = 0.0


def decayed(old: Amounts, new: Amounts, elapsed: float, half_life: float) -> dict[str, Decimal]:
    """Return past usage after `elapsed` seconds in which `new` was used."""
    fresh = _alpha(elapsed, half_life)
    return _merged(_times(old, 1 - fresh), _times(new, fresh))


class UsageHistory:
    """The past usage of LocalQueues, by namespace and name."""

    def __init__(self, config: AdmissionFairSharing) -> None:
        self.config = config
        self._entries: dict[str, _Entry] = {}

    def seed(self, queue: str, consumed: Amounts, now: float) -> None:
        """Note the usage that a LocalQueue's status tells."""
        self._entries[queue] = _Entry(dict(consumed), updated=now)

    def forget(self, queue: str) -> None:
        """Forget a LocalQueue."""
        self._entries.pop(queue, None)

    def enter(self, queue: str, workload: str, requests: Amounts, now: float) -> None:
        """Note that a workload was admitted: it counts as if it had run for one sampling interval."""
        entry = self._entries.setdefault(queue, _Entry(updated=now))
        entry.penalties[workload] = _times(requests, _alpha(self.config.sampling_interval, self.config.half_life))

    def leave(self, queue: str, workload: str) -> None:
        """Drop the penalty of a workload that will never be settled."""
        if entry := self._entries.get(queue):
            entry.penalties.pop(workload, None)

    def settle(self, queue: str, workload: str, used: Amounts, now: float) -> None:
        """Sample what a LocalQueue uses, and take a workload's penalty into what it used."""
        entry = self._entries.setdefault(queue, _Entry(updated=now))
        self._sample(entry, used, now)
        entry.consumed = _merged(entry.consumed, entry.penalties.pop(workload, {}))

    def sample(self, queue: str, used: Amounts, now: float) -> None:
        """Sample what a LocalQueue uses."""
        entry = self._entries.setdefault(queue, _Entry(updated=now))
        if self.config.half_life == 0:
            entry.consumed, entry.updated = {}, now
        else:
            self._sample(entry, used, now)

    def usage(self, queue: str, weight: float) -> float:
        """Return what a LocalQueue used, weighted; infinite for a weight of zero."""
        entry = self._entries.get(queue)
        if weight <= 0:
            return math.inf
        if entry is None:
            return 0.0
        total = dict(entry.consumed)
        for penalty in entry.penalties.values():
            total = _merged(total, penalty)
        return sum((self.config.weights.get(name, 1.0) * float(total[name]) for name in sorted(total)), 0.0) / weight

    def _sample(self, entry: _Entry, used: Amounts, now: float) -> None:
        entry.consumed = decayed(entry.consumed, used, max(0.0, now - entry.updated), self.config.half_life)
        entry.updated = max(entry.updated, now)


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
