"""What the views of `audit` have to say of clusters, computed from the events of a log one after the other.

In: the events, in order. Out: rows, as dicts with the columns of the view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any

from tests.audit.computed import Row, Told, until_the_next

PHASES = {
    "ClusterConnected": "Connected", "ClusterSuspected": "Suspect", "ClusterRecovered": "Connected",
    "ClusterLost": "Lost", "ClusterStandby": "Standby", "ClusterDisconnected": "Removed", "ClusterConnectFailed": "",
}  # fmt: skip
GONE = ("MultiKueueClusterGone", "MultiKueueConfigGone")
AWAY = ("ClusterLost", "ClusterConnectFailed", "ClusterDisconnected")


def cluster_connectivity(events: Iterable[Told]) -> list[Row]:
    """Each phase of each cluster, until the next one."""
    phases: dict[str, str] = {}
    connected: dict[str, str | None] = {}
    rows: list[Row] = []

    def enter(cluster: str, phase: str, one: Told, reason: str, message: str) -> None:
        if phases.get(cluster) != phase:
            phases[cluster] = phase
            rows.append(
                {
                    "cluster": cluster, "phase": phase, "since": one.at, "reason": reason, "message": message,
                    "incarnation": connected.get(cluster),
                }
            )  # fmt: skip

    for one in events:
        if one.stream.startswith("cluster/") and one.type in PHASES:
            cluster = one.stream.removeprefix("cluster/")
            if one.type == "ClusterConnected":
                connected[cluster] = one.data.get("incarnation")
            phase = PHASES[one.type] or ("Lost" if cluster in connected else "Failed")
            enter(cluster, phase, one, one.reason, one.data.get("message", ""))
        elif one.stream == "service" and one.type == "ServiceStarted":
            for cluster in [name for name, phase in phases.items() if phase in ("Connected", "Suspect", "Standby")]:
                enter(cluster, "Unknown", one, "", "")
    return until_the_next(rows, "cluster")


def cluster_absences(events: Iterable[Told]) -> list[Row]:
    """From the first trouble of a cluster that was connected to when it is connected again."""
    connected: set[str] = set()
    away: dict[str, Row] = {}
    rows: list[Row] = []
    for one in events:
        cluster = one.stream.removeprefix("cluster/")
        if cluster == one.stream:
            continue
        if one.type == "ClusterConnected":
            connected.add(cluster)
            if cluster in away:
                away.pop(cluster).update(until=one.at, last_position=one.position)
        elif one.type in AWAY and cluster in connected:
            connected.remove(cluster)
            others = one.data.get("others")
            rows.append(
                {
                    "cluster": cluster, "since": one.at, "until": None, "reason": one.reason,
                    "message": one.data.get("message"), "others": others,
                    "others_connected": one.data.get("others_connected", None if others is None else 0),
                    "forgotten_by": None, "position": one.position, "last_position": None,
                }
            )  # fmt: skip
            away[cluster] = rows[-1]
        elif one.type == "ClusterForgotten" and cluster in away:
            away[cluster]["forgotten_by"] = away[cluster]["forgotten_by"] or one.data["by"]
    return rows


def fleet_at(events: Sequence[Told], at: datetime) -> list[Row]:
    """The clusters by what was recorded up to a time."""
    past = [one for one in events if one.at <= at]
    objects: dict[str, dict[str, Any]] = {}
    for one in past:
        if one.type in ("MultiKueueClusterObserved", "MultiKueueConfigObserved"):
            objects[one.stream] = one.data
        elif one.type in GONE and objects.get(one.stream, {}).get("uid") == one.data["uid"]:
            del objects[one.stream]
    named: defaultdict[str, list[str]] = defaultdict(list)
    for stream, data in sorted(objects.items()):
        for cluster in data.get("clusters", ()):
            named[cluster].append(stream.removeprefix("multikueueconfig/"))
    now = {row["cluster"]: row for row in cluster_connectivity(past)}
    return [
        {
            **{column: value for column, value in row.items() if column != "until"},
            "location": objects.get(f"cluster/{cluster}", {}).get("location"),
            "labels": objects.get(f"cluster/{cluster}", {}).get("labels", {}),
            "configs": named[cluster],
        }
        for cluster, row in now.items()
    ]


def usage(runs: Sequence[Row], now: datetime) -> list[Row]:
    """The hours of runs by day: of each run what of it lies in the day. `now`: to when what goes on is counted."""
    found: defaultdict[tuple[Any, ...], list[tuple[Fraction, dict[str, float] | None]]] = defaultdict(list)
    for run in runs:
        since, until = run["since"], run["until"] or now
        day = since.astimezone(UTC).date()
        while day <= until.astimezone(UTC).date():
            begin = max(since, midnight(day))
            end = min(until, midnight(day + timedelta(days=1)))
            if end > begin or since == until:
                hours = Fraction((end - begin) // timedelta(microseconds=1), 3_600_000_000)
                place = (run["namespace"], run["queue"], run["cluster"], day)
                found[place].append((hours, run["resources"]))
            day += timedelta(days=1)
    rows = []
    for (namespace, queue, cluster, day), parts in found.items():
        resources: defaultdict[str, Fraction] = defaultdict(Fraction)
        for hours, asked in parts:
            for resource, amount in (asked or {}).items():
                resources[resource] += hours * Fraction(str(amount))
        rows.append(
            {
                "namespace": namespace, "queue": queue, "cluster": cluster, "day": day, "runs": len(parts),
                "run_hours": float(sum(hours for hours, _ in parts)),
                "resource_hours": {name: float(hours) for name, hours in resources.items()} or None,
            }
        )  # fmt: skip
    return rows


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def outages(absences: Sequence[Row], workloads: Sequence[Row]) -> list[Row]:
    """What became of the Workloads of each absence, counted."""
    rows = []
    for absence in absences:
        lost = [row for row in workloads if (row["cluster"], row["since"]) == (absence["cluster"], absence["since"])]

        def names(*became: str, of: Sequence[Row] = lost) -> int:
            return len({(row["namespace"], row["name"]) for row in of if not became or row["became"] in became})

        rows.append(
            {
                **absence, "affected": names(), "kept": names("Kept"), "requeued": names("Requeued"),
                "ended": names("Finished", "Stopped", "Gone"), "ran_on": names(of=[row for row in lost if row["ran_on"]]),
                "twice": sum((row["twice"] for row in lost if row["twice"]), timedelta()),
            }
        )  # fmt: skip
    return rows
