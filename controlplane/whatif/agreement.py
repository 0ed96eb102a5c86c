"""Holds the choices of a simulation against those that a log recorded.

In: a `History` and what was played. Out: how many of the recorded choices of a cluster were taken again, and of the
decisions about quota, in their order for each Workload, and which were not, with why as far as the log tells. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from controlplane.values import Value
from controlplane.whatif.history import History
from controlplane.whatif.past import PastCopy, PastWorkload

ENOUGH = 0.99
"""The share of choices that has to be played again as it was before an alternative is compared."""


_TIE = timedelta(milliseconds=100)
"""What two clusters did so soon after one another may be in another order, of which nothing is recorded."""


class Placement(Value):
    """A Workload that was placed otherwise: the clusters that were chosen for it, in order, as recorded and as
    played; or of whose quota something else was decided. `why` says how they come to differ, as far as that is known;
    reports of earlier versions have none."""

    workload: str
    recorded: list[str]
    played: list[str]
    why: str = ""


class Agreement(Value):
    """How many choices were recorded, how many of them were taken again, and where they differ, by when they do first.
    `share`: of those taken again, of all choices either way."""

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
    known = {stream: past.placed for stream, past in pasts.items()}
    return _agreement(known, played, begin, end, lambda stream, *differ: _of_clusters(pasts[stream], *differ))


def quota_agreement(history: History, played: Sequence[tuple[str, str]], begin: datetime, end: datetime) -> Agreement:
    """Return how far the decisions about quota agree in a time, of the Workloads about which the engine decides."""
    requests = history.quota.requests.items()
    known = {stream: one.choices for stream, one in requests if one.by_engine and stream in history.workloads}
    now: dict[str, list[str]] = {}
    for stream, choice in played:
        now.setdefault(stream, []).append(choice)
    pasts = history.workloads
    kept = {one: known[one] for one in known if not pasts[one].why_not}
    return _agreement(kept, now, begin, end, lambda stream, *differ: "")


_Choices = Sequence[tuple[int, datetime, str]]
_Why = Callable[[str, datetime, str, str], str]
_APART = " ms"
_MILLISECOND = timedelta(milliseconds=1)


def _agreement(
    known: Mapping[str, _Choices], played: Mapping[str, Sequence[str]], begin: datetime, end: datetime, why: _Why
) -> Agreement:
    recorded = agree = either = 0
    differ: list[tuple[datetime, Placement]] = []
    for stream, choices in sorted(known.items()):
        within = [(at, choice) for _, at, choice in choices if begin < at <= end]
        was, now = [choice for _, choice in within], list(played.get(stream, ()))
        same = sum(one == other for one, other in zip(was, now, strict=False))
        recorded, agree, either = recorded + len(was), agree + same, either + max(len(was), len(now))
        if was != now:
            first = next((n for n, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), None)
            number = min(len(was), len(now)) if first is None else first
            at = within[number][0] if number < len(within) else within[-1][0] if within else begin
            chosen = was[number : number + 1], now[number : number + 1]
            placement = Placement(
                workload=_name(stream),
                recorded=was,
                played=now,
                why=why(stream, at, *(next(iter(one), "") for one in chosen)),
            )
            differ.append((at, placement))
    differ.sort(key=lambda one: (one[0], one[1].workload))
    share = agree / either if either else 1.0
    return Agreement(recorded=recorded, agree=agree, share=round(share, 6), differ=_after(differ))


def _name(stream: str) -> str:
    return stream.partition("/")[2]


def _after(differ: Sequence[tuple[datetime, Placement]]) -> list[Placement]:
    """Return the differences. One that is not a tie may follow from those before it."""
    found = [one for _, one in differ]
    for number, one in enumerate(found[1:], 1):
        if not one.why.endswith(_APART):
            found[number] = msgspec.structs.replace(one, why=f"after {number} others, first {found[0].workload}")
    return found


def _of_clusters(past: PastWorkload, at: datetime, was: str, now: str) -> str:
    """Return why another cluster was chosen than the recorded one, if what is recorded of both tells."""
    mine, other = _copy(past, was, at), _copy(past, now, at)
    if not was or not now or mine is None or mine.admitted is None:
        return ""
    if other is None:
        return f"no copy on {now} is recorded then"
    if other.admitted is None:
        return f"when {now} would have admitted it is not recorded"
    apart = abs(other.admitted - mine.admitted)
    return f"{was} and {now} admitted it within {apart / _MILLISECOND:.0f}{_APART}" if apart <= _TIE else ""


def _copy(past: PastWorkload, cluster: str, at: datetime) -> PastCopy | None:
    """Return the copy on a cluster that there was at a time."""
    copies = [one for one in past.copies.get(cluster, ()) if one.asked <= at]
    return copies[-1] if copies else None
