"""Holds the placements of a simulation against those that a log recorded.

In: a `History` and what was played. Out: how many of the recorded choices of a cluster were taken again, in their order
for each Workload, and which were not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.values import Value
from controlplane.whatif.history import History

ENOUGH = 0.99
"""The share of placements that has to be played again as it was before an alternative is compared."""


class Placement(Value):
    """A Workload that was placed otherwise: the clusters that were chosen for it, in order, as recorded and as played."""

    workload: str
    recorded: list[str]
    played: list[str]


class Agreement(Value):
    """How many choices were recorded, how many of them were taken again, and where they differ. `share`: of those taken
    again, of all choices either way."""

    recorded: int
    agree: int
    share: float
    differ: list[Placement]

    @property
    def enough(self) -> bool:
        """Whether the past was played again well enough to compare something with it."""
        return self.share >= ENOUGH


def agreement(history: History, played: Mapping[str, Sequence[str]], begin: datetime, end: datetime) -> Agreement:
    """Return how far placements agree in a time; those of Workloads that are not simulated do not count."""
    recorded = agree = either = 0
    differ = []
    for stream, past in sorted(history.workloads.items()):
        if past.why_not:
            continue
        was = [cluster for _, at, cluster in past.placed if begin < at <= end]
        now = list(played.get(stream, ()))
        same = sum(one == other for one, other in zip(was, now, strict=False))
        recorded, agree, either = recorded + len(was), agree + same, either + max(len(was), len(now))
        if was != now:
            differ.append(Placement(workload=stream.partition("/")[2], recorded=was, played=now))
    share = agree / either if either else 1.0
    return Agreement(recorded=recorded, agree=agree, share=round(share, 6), differ=differ)
