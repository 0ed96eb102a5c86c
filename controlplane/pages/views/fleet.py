"""The clusters: whether each can be reached, what runs there, what is owed, and how placing goes.

In: an `Asked`. Out: a `Fleet`, as `controlplane clusters` shows it now, or as `audit.fleet_at` says it was."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.audit.absence import absences
from controlplane.audit.clusters_now import describe, grace_cell, in_words, mass_outage, outage_line
from controlplane.audit.past import clusters_at
from controlplane.pages.asking import Asked
from controlplane.pages.trends import Stretch
from controlplane.values import Value


class ClusterItem(Value):
    """A cluster. `grace` is when Workloads are taken from one that is away; `owed` are copies that are not wanted there
    any more; what is null is not known of the past."""

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
    server_version: str = ""
    kinds_off: dict[str, str] = {}
    trend: list[Stretch] = []


class Fleet(Value):
    """The clusters; `outage` says in one sentence that most are away, "" if they are not. `policy` is what decides about
    lost ones."""

    clusters: list[ClusterItem]
    outage: str = ""
    policy: dict[str, Any] = {}
    states: dict[str, int] = {}
    trend: list[Stretch] = []


def fleet(asked: Asked) -> Fleet:
    """Return the clusters."""
    if asked.at is not None:
        return Fleet(clusters=[_past(row) for row in clusters_at(asked.reader, asked.at)])
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
        states={state: count for state, count in sorted(states.items()) if count},
        trend=trend,
    )


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
        server_version=one["server_version"],
        kinds_off=dict(one["kinds_off"]),
        trend=trend,
    )


def _past(row: dict[str, Any]) -> ClusterItem:
    return ClusterItem(
        name=row["cluster"],
        state=row["phase"],
        since=row["since"],
        reason=row["reason"] or "",
        message=row["message"] or "",
    )
