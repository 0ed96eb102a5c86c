"""The clusters: whether each can be reached, what runs there, what is owed, and how placing goes.

In: an `Asked`. Out: a `Fleet`, as `controlplane clusters` shows it now, or as `audit.fleet_at` says it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.audit.absence import absences
from controlplane.audit.clusters_now import (
    copies_and_runs,
    describe,
    grace_cell,
    in_words,
    mass_outage,
    outage_line,
)
from controlplane.audit.past import clusters_at
from controlplane.pages.asking import Asked, TooMany
from controlplane.pages.directory import ACTIVE
from controlplane.pages.trends import Stretch
from controlplane.pages.views.workloads import STATES
from controlplane.values import Value


class ClusterItem(Value):
    """A cluster. `grace` is when Workloads are taken from one that is away; `owed` are copies that are not wanted there
    any more, and `unknown_copies` such as are left alone, since nobody knows whose they are (NAMESPACE/NAME); what is
    null is not known of the past."""

    name: str
    state: str
    since: datetime | None
    reason: str
    message: str
    grace: str = ""
    running: int | None = None
    copies: int | None = None
    owed: int | None = None
    open_writes: int | None = None
    unknown_copies: list[str] | None = None
    server_version: str = ""
    kinds_off: dict[str, str] = {}
    trend: list[Stretch] = []


class Fleet(Value):
    """The clusters; `outage` says in one sentence that most are away, "" if they are not. `policy` is what decides
    about lost ones. `states` counts Workloads by state; at a time those that had finished are one, and none are counted
    where too many have changed since, as `uncounted` says then."""

    clusters: list[ClusterItem]
    outage: str = ""
    policy: dict[str, Any] = {}
    states: dict[str, int] = {}
    trend: list[Stretch] = []
    uncounted: str = ""


def fleet(asked: Asked) -> Fleet:
    """Return the clusters."""
    if asked.at is not None:
        return _fleet_at(asked, asked.at)
    follower, now = asked.follower, asked.now
    with follower.lock:
        index = follower.index
        found = describe(index, absences(index, now), now)
        outage, policy = mass_outage(index), in_words(index.policy)
        trends = {one["name"]: follower.trends.of(one["name"], now) for one in found}
        states: dict[str, int] = {}
        for (_, _, _, shown), count in follower.directory.counts.items():
            states[shown] = states.get(shown, 0) + count
        trend = follower.trends.of("", now)
    return Fleet(
        clusters=[_now(one, now, trends[one["name"]]) for one in found],
        outage=outage_line(outage) if outage is not None else "",
        policy=policy,
        states=in_order(states),
        trend=trend,
    )


def _fleet_at(asked: Asked, at: datetime) -> Fleet:
    """Return the clusters at a time, with what was on them as far as that can be counted."""
    rows = clusters_at(asked.reader, at)
    try:
        past = asked.past()
    except TooMany as error:
        return Fleet(clusters=[_past(row) for row in rows], uncounted=str(error))
    with asked.follower.lock:
        finished = sum(asked.follower.directory.finished_at(at.timestamp(), None).values())
    copies, running = copies_and_runs(past.states.values())
    states: Counter[str] = Counter()
    for (_, _, _, shown), count in past.directory.counts.items():
        states[shown if shown in ACTIVE else "Finished"] += count
    states["Finished"] += finished
    return Fleet(
        clusters=[_past(row, copies[row["cluster"]], running[row["cluster"]]) for row in rows],
        states=in_order(states),
    )


def in_order(states: Mapping[str, int]) -> dict[str, int]:
    """Return how many Workloads are in each state that there is, in the order in which they go through them."""
    place = {state: number for number, state in enumerate(STATES)}
    return {
        state: states[state]
        for state in sorted(states, key=lambda one: (place.get(one, len(place)), one))
        if states[state]
    }


def _now(one: dict[str, Any], now: datetime, trend: list[Stretch]) -> ClusterItem:
    return ClusterItem(
        name=one["name"],
        state=one["state"],
        since=one["since"],
        reason=one["reason"],
        message=one["message"],
        grace=grace_cell(one, now),
        running=one["running"],
        copies=one["copies"],
        owed=one["owed"],
        open_writes=one["open_writes"],
        unknown_copies=one["unknown_copies"],
        server_version=one["server_version"],
        kinds_off=dict(one["kinds_off"]),
        trend=trend,
    )


def _past(row: dict[str, Any], copies: int | None = None, running: int | None = None) -> ClusterItem:
    return ClusterItem(
        name=row["cluster"],
        state=row["phase"],
        since=row["since"],
        reason=row["reason"] or "",
        message=row["message"] or "",
        copies=copies,
        running=running,
    )
