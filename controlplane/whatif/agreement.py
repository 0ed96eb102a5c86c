"""Holds the choices of a simulation against those that a log recorded.

In: a `History` and what was played. Out: how many of the recorded choices of a cluster were taken again, and of the
decisions about quota, in their order for each Workload, and which were not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.values import Value
from controlplane.whatif.history import History

ENOUGH = 0.99
"""The share of choices that has to be played again as it was before an alternative is compared."""


class Placement(Value):
    """A Workload that was placed otherwise: the clusters that were chosen for it, in order, as recorded and as played;
    or of whose quota something else was decided."""

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
    pasts = {stream: past for stream, past in history.workloads.items() if not past.why_not}
    return _agreement({stream: past.placed for stream, past in pasts.items()}, played, begin, end)


def quota_agreement(history: History, played: Sequence[tuple[str, str]], begin: datetime, end: datetime) -> Agreement:
    """Return how far the decisions about quota agree in a time, of the Workloads about which the engine decides."""
    requests = history.quota.requests.items()
    known = {stream: one.choices for stream, one in requests if one.by_engine and stream in history.workloads}
    now: dict[str, list[str]] = {}
    for stream, choice in played:
        now.setdefault(stream, []).append(choice)
    pasts = history.workloads
    return _agreement({one: known[one] for one in known if not pasts[one].why_not}, now, begin, end)


_Choices = Sequence[tuple[int, datetime, str]]


def _agreement(
    known: Mapping[str, _Choices], played: Mapping[str, Sequence[str]], begin: datetime, end: datetime
) -> Agreement:
    recorded = agree = either = 0
    differ = []
    for stream, choices in sorted(known.items()):
        was = [choice for _, at, choice in choices if begin < at <= end]
        now = list(played.get(stream, ()))
        same = sum(one == other for one, other in zip(was, now, strict=False))
        recorded, agree, either = recorded + len(was), agree + same, either + max(len(was), len(now))
        if was != now:
            differ.append(Placement(workload=stream.partition("/")[2], recorded=was, played=now))
    share = agree / either if either else 1.0
    return Agreement(recorded=recorded, agree=agree, share=round(share, 6), differ=differ)
