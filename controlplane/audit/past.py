"""The fleet at a time, and the hours that were used: the questions that the SQL functions and views answer, as rows.

In: a reader, and what is asked. Out: plain values, in the columns' names. `audit.as_of`, `audit.fleet_at` and
`audit.usage` say what each means; here only counts are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, LiteralString

from controlplane.audit.reads import LogReader

BY: tuple[str, ...] = ("namespace", "queue", "cluster", "day")
"""What hours can be added up by."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "pending": ("Pending", "Inactive"),
    "reserved": ("Reserved",),
    "offered": ("Nominated", "Chosen"),
    "admitted": ("Admitted",),
    "running": ("Running",),
    "lost": ("Lost",),
    "other": ("Retry", "Rejected", "Evicted", "Deleting"),
    "finished": ("Finished",),
}
"""The phases of `audit.workload_phases`, as the columns of queues have them; each phase is in one."""
_WORKLOADS: LiteralString = (
    "SELECT * FROM audit.as_of(%(log)s, %(at)s) WHERE %(namespace)s::text IS NULL OR namespace = %(namespace)s"
    " ORDER BY namespace, name"
)
_CLUSTERS: LiteralString = "SELECT * FROM audit.fleet_at(%(log)s, %(at)s) ORDER BY cluster"
# LocalQueues have a history of their own where the webhook of jobs, or never-twice of a queue, needs them, and where
# this service decides on quota. What is gone is so by its UID: a list shows another one of the name before it says that
# the one before is gone.
_CLUSTER_QUEUES: LiteralString = """
SELECT s.namespace, s.name, coalesce(e.data ->> 'cluster_queue', e.data #>> '{spec,clusterQueue}') AS cluster_queue
FROM audit.streams s
CROSS JOIN LATERAL (
    SELECT e.position, e.data FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.recorded_at <= %(at)s
      AND e.type IN ('LocalQueueObserved', 'AdmissionLocalQueueObserved')
    ORDER BY e.position DESC LIMIT 1
) e
WHERE s.log = %(log)s AND (s.kind = 'localqueue' OR s.stream >= 'admission/localqueue/' AND s.stream < 'admission/localqueue0')
  AND NOT EXISTS (
      SELECT FROM audit.events g
      WHERE g.log = s.log AND g.stream = s.stream AND g.recorded_at <= %(at)s AND g.position > e.position
        AND g.type IN ('LocalQueueGone', 'AdmissionLocalQueueGone') AND g.data ->> 'uid' = e.data ->> 'uid')
  AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s)"""
# Where LocalQueues are not watched, a Workload that has quota says where its LocalQueue led to.
_ADMITTED_BY: LiteralString = """
SELECT s.stream, e.cluster_queue
FROM unnest(%(streams)s::text[]) AS s(stream)
CROSS JOIN LATERAL (
    SELECT e.data ->> 'cluster_queue' AS cluster_queue FROM audit.events e
    WHERE e.log = %(log)s AND e.stream = s.stream AND e.type = 'WorkloadObserved' AND e.recorded_at <= %(at)s
      AND e.data ->> 'cluster_queue' <> ''
    ORDER BY e.position DESC LIMIT 1
) e"""
_USAGE: LiteralString = (
    "SELECT day, namespace, queue, cluster, runs, run_hours, resource_hours FROM audit.usage WHERE log = %(log)s"
    " AND (%(since)s::date IS NULL OR day >= %(since)s) AND (%(until)s::date IS NULL OR day < %(until)s)"
    " AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s)"
    " AND (%(cluster)s::text IS NULL OR cluster = %(cluster)s)"
    " AND (%(queue)s::text IS NULL OR %(queue)s IN (queue, namespace || '/' || queue))"
)


def workloads_at(reader: LogReader, at: datetime, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return the Workloads as they were at a time, by namespace and name."""
    return reader.rows(_WORKLOADS, at=at, namespace=namespace)


def clusters_at(reader: LogReader, at: datetime) -> list[dict[str, Any]]:
    """Return the clusters as they were at a time, by name."""
    return reader.rows(_CLUSTERS, at=at)


def queues_at(reader: LogReader, at: datetime, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return the LocalQueues that there were at a time, or that a Workload was in, with how many Workloads of each
    were how far.
    """
    column = {phase: name for name, phases in GROUPS.items() for phase in phases}
    counts: dict[tuple[str, str], Counter[str]] = {}
    workloads = [one for one in workloads_at(reader, at, namespace) if one["queue"]]
    for one in workloads:
        counts.setdefault((one["namespace"], one["queue"]), Counter())[column.get(one["phase"], "other")] += 1
    known = cluster_queues_at(reader, at, namespace)
    known = {**_admitted_by(reader, at, [one for one in workloads if _place(one) not in known]), **known}
    return [
        {
            "namespace": place[0],
            "queue": place[1],
            "cluster_queue": known.get(place, ""),
            **{name: counts.get(place, Counter())[name] for name in GROUPS},
        }
        for place in sorted({*counts, *known})
    ]


def _place(workload: Mapping[str, Any]) -> tuple[str, str]:
    return workload["namespace"], workload["queue"]


def _admitted_by(reader: LogReader, at: datetime, workloads: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the ClusterQueue that the last Workload of each LocalQueue had quota of."""
    ordered = sorted(workloads, key=lambda one: (one["phase"] != "Pending", one["since"]))
    streams = {_place(one): f"workload/{one['namespace']}/{one['name']}" for one in ordered}
    said = {
        row["stream"]: row["cluster_queue"] for row in reader.rows(_ADMITTED_BY, at=at, streams=[*streams.values()])
    }
    return {place: said[stream] for place, stream in streams.items() if stream in said}


def cluster_queues_at(reader: LogReader, at: datetime, namespace: str | None = None) -> dict[tuple[str, str], str]:
    """Return the ClusterQueue of each LocalQueue at a time, "" if it named none, by namespace and name."""
    return {
        (one["namespace"], one["name"]): one["cluster_queue"] or ""
        for one in reader.rows(_CLUSTER_QUEUES, at=at, namespace=namespace)
    }


def usage(
    reader: LogReader,
    by: Sequence[str],
    since: date | None,
    until: date | None,
    namespace: str | None = None,
    *,
    cluster: str | None = None,
    queue: str | None = None,
) -> list[dict[str, Any]]:
    """Return the hours that jobs ran from a day to before another, added up by some of `BY`, in their order; those of a
    namespace, on a cluster, of a LocalQueue (its name, or NAMESPACE/NAME).

    A row has the values of `by`, `run_hours`, `resource_hours` by resource, and `unknown_hours`: those of its run hours
    of which the log does not say what was asked for; `runs` only by day, since a run may have a part in several."""
    asked = {"since": since, "until": until, "namespace": namespace, "cluster": cluster, "queue": queue}
    return added_up(reader.rows(_USAGE, **asked), by)


def added_up(rows: Iterable[Mapping[str, Any]], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of `audit.usage` added up as `usage` does."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in by)
        total = found.setdefault(
            key,
            {
                **dict(zip(by, key, strict=True)),
                **({"runs": 0} if "day" in by else {}),
                "run_hours": Decimal(0),
                "unknown_hours": Decimal(0),
                "resource_hours": {},
            },
        )
        if "day" in by:
            total["runs"] += row["runs"]
        total["run_hours"] += row["run_hours"]
        hours = row["resource_hours"]
        if hours is None:
            total["unknown_hours"] += row["run_hours"]
        said = {resource: amount for resource, amount in (hours or {}).items() if amount is not None}
        for resource, amount in sorted(said.items()):
            total["resource_hours"][resource] = total["resource_hours"].get(resource, Decimal(0)) + Decimal(str(amount))
    return [found[key] for key in sorted(found, key=lambda key: [str(part or "") for part in key])]
