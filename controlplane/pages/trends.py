"""How long Workloads waited from their offer to a cluster's choice, and how often clusters refused, over the last
hours.

In: events in the log's order. Out: a figure for each stretch of time, for small charts. Kept in memory; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

from controlplane.controllers.multikueue.events import ClusterRefused, NominationDecided, WinnerChosen
from controlplane.controllers.multikueue.observations import WorkloadGone
from controlplane.log.event import Recorded
from controlplane.values import Value

STEP = timedelta(minutes=5)
STEPS = 72
TYPES = tuple(kind.__name__ for kind in (NominationDecided, WinnerChosen, ClusterRefused, WorkloadGone))
"""The types of events that are counted."""


class Stretch(Value):
    """What happened in `STEP` from `since` on: Workloads that were placed, how long they waited on average (seconds;
    None if there were none), and refusals."""

    since: datetime
    placed: int
    waited: float | None
    refused: int


class Trends:
    """The counts of the last `STEPS` stretches, of all clusters or of one."""

    def __init__(self) -> None:
        self._offered: dict[str, datetime] = {}
        self._placed: dict[str, Counter[int]] = defaultdict(Counter)
        self._waited: dict[str, Counter[int]] = defaultdict(Counter)
        self._refused: dict[str, Counter[int]] = defaultdict(Counter)
        self._newest = 0

    def take(self, recorded: Recorded) -> None:
        """Count one more event."""
        event, at = recorded.event, recorded.recorded_at
        if isinstance(event, NominationDecided):
            self._offered.setdefault(recorded.stream, at)
        elif isinstance(event, WinnerChosen):
            began = self._offered.pop(recorded.stream, None)
            if began is not None:
                self._add(self._placed, event.cluster, at, 1)
                self._add(self._waited, event.cluster, at, (at - began) / timedelta(milliseconds=1))
        elif isinstance(event, ClusterRefused):
            self._add(self._refused, event.cluster, at, 1)
        elif isinstance(event, WorkloadGone):
            self._offered.pop(recorded.stream, None)

    def _add(self, counts: dict[str, Counter[int]], cluster: str, at: datetime, amount: float) -> None:
        number = _number(at)
        for name in ("", cluster):
            counts[name][number] += round(amount)
        if number > self._newest:
            self._newest = number
            for kind in (self._placed, self._waited, self._refused):
                for per_step in kind.values():
                    for old in [step for step in per_step if step <= number - STEPS]:
                        del per_step[old]

    def of(self, cluster: str, now: datetime) -> list[Stretch]:
        """Return the stretches up to a time, the oldest first; of "" those of all clusters."""
        last = _number(now)
        return [self._stretch(cluster, number) for number in range(last - STEPS + 1, last + 1)]

    def _stretch(self, cluster: str, number: int) -> Stretch:
        nothing: Counter[int] = Counter()
        placed = self._placed.get(cluster, nothing)[number]
        waited = self._waited.get(cluster, nothing)[number] / 1000
        return Stretch(
            since=datetime.fromtimestamp(number * STEP.total_seconds(), UTC),
            placed=placed,
            waited=waited / placed if placed else None,
            refused=self._refused.get(cluster, nothing)[number],
        )


def _number(at: datetime) -> int:
    return int(at.timestamp() // STEP.total_seconds())
