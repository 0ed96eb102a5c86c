"""Who held quota when: the newest intervals of some Workloads, as `audit.quota_usage` has them.

In: a reader, names, a time. Out: values, the newest first. One Workload is answered from an index, so a few are quick
in a long log too."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import LiteralString

from controlplane.audit.reads import LogReader
from controlplane.values import Value

# OFFSET 0: each name is looked up alone, by the index on streams.
_INTERVALS: LiteralString = """
SELECT q.namespace, q.name, coalesce(q.cluster_queue, '') AS cluster_queue, coalesce(q.flavor, '') AS flavor,
       coalesce(q.resource, '') AS resource, coalesce(q.amount::text, '') AS amount, q.since,
       CASE WHEN q.until <= %(at)s THEN q.until END AS until, q.position
FROM unnest(%(namespaces)s::text[], %(names)s::text[]) AS n (namespace, name)
CROSS JOIN LATERAL (
    SELECT * FROM audit.quota_usage q WHERE q.log = %(log)s AND q.namespace = n.namespace AND q.name = n.name OFFSET 0
) q
WHERE q.since <= %(at)s AND (%(queue)s::text IS NULL OR q.cluster_queue = %(queue)s)
ORDER BY q.position DESC, q.flavor, q.resource LIMIT %(most)s"""


class HeldInterval(Value):
    """An interval in which a Workload held quota of a resource, in base units (cores, bytes). `flavor` and `resource`
    are "" and `amount` too where the log does not say; `until` None while it lasts; `position`: of the event that began
    it."""

    namespace: str
    name: str
    cluster_queue: str
    flavor: str
    resource: str
    amount: str
    since: datetime
    until: datetime | None
    position: int


def newest_intervals(
    reader: LogReader, workloads: Iterable[tuple[str, str]], at: datetime, *, queue: str | None = None, most: int = 50
) -> list[HeldInterval]:
    """Return the intervals of some Workloads that began by a time, in a ClusterQueue if one is named, the newest
    first."""
    wanted = list(workloads)
    asked = {"namespaces": [one for one, _ in wanted], "names": [name for _, name in wanted], "at": at, "queue": queue}
    rows = reader.rows(_INTERVALS, **asked, most=most) if wanted else []
    return [HeldInterval(**row) for row in rows]
