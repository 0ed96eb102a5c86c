"""The Workloads whose events are in archives alone, as a list shows them.

In: a reader. Out: what the database still says of each: the views keep where it ran, when and how it ended, and which
archive has the rest. They come by namespace and name, so that any page of any number of them is found at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import LiteralString

from controlplane.audit.reads import LogReader
from controlplane.values import Value

ARCHIVED = "Archived"
_AT_ONCE = 500

# A range of streams for each namespace: so the index finds the first ones of it, however many others there are.
_LIST: LiteralString = """
SELECT s.stream, s.namespace, s.name, coalesce(p.owner, h.owner, '') AS owner, coalesce(p.queue, h.queue, '') AS queue,
       coalesce(p.cluster, h.cluster, '') AS cluster, coalesce(p.attempt, 0) AS attempt,
       coalesce(CASE WHEN p.attempt IS NULL THEN h.finish_reason ELSE p.finish_reason END, '') AS result,
       coalesce(p.submitted_at, h.since) AS since, coalesce(p.finished_at, p.until, h.ended_at) AS ended_at,
       coalesce(a.directory, '') AS directory
FROM (
    SELECT f.* FROM unnest(%(lows)s::text[], %(highs)s::text[]) r (low, high) CROSS JOIN LATERAL (
        SELECT o.* FROM audit.streams o
        WHERE o.log = %(log)s AND o.stream > greatest(r.low, %(after)s) AND o.stream < r.high AND o.archived_to IS NOT NULL
          AND (%(text)s::text = '' OR strpos(o.stream, %(text)s) > 0 AND strpos(o.name, %(text)s) > 0)
          AND NOT EXISTS (SELECT FROM audit.events e WHERE e.log = o.log AND e.stream = o.stream)
          AND (%(queue)s::text = '' AND %(cluster)s::text = '' OR coalesce((
              SELECT %(queue)s IN ('', q.queue) AND %(cluster)s IN ('', q.cluster) FROM audit.placements q
              WHERE q.log = o.log AND q.namespace = o.namespace AND q.name = o.name ORDER BY q.attempt DESC LIMIT 1), (
              SELECT %(queue)s IN ('', q.queue) AND %(cluster)s IN ('', q.cluster) FROM audit.runs q
              WHERE q.log = o.log AND q.namespace = o.namespace AND q.name = o.name ORDER BY q.position DESC LIMIT 1), (
              SELECT %(queue)s IN ('', q.queue) AND %(cluster)s = '' FROM audit.workload_phases q
              WHERE q.log = o.log AND q.namespace = o.namespace AND q.name = o.name AND q.phase <> 'Deleted'
              ORDER BY q.position DESC LIMIT 1)))
        ORDER BY o.stream LIMIT %(limit)s
    ) f ORDER BY f.stream LIMIT %(limit)s
) s
LEFT JOIN LATERAL (
    SELECT q.* FROM audit.placements q WHERE q.log = s.log AND q.namespace = s.namespace AND q.name = s.name
    ORDER BY q.attempt DESC LIMIT 1
) p ON true
LEFT JOIN LATERAL (
    -- who was not dispatched has no attempt: its phases tell of it, and its runs where they were
    SELECT max(q.owner) AS owner, max(q.queue) AS queue, min(q.since) AS since,
           max(q.reason) FILTER (WHERE q.phase = 'Finished') AS finish_reason,
           coalesce(min(q.since) FILTER (WHERE q.phase = 'Finished'), max(q.since)) AS ended_at,
           (SELECT r.cluster FROM audit.runs r WHERE r.log = s.log AND r.namespace = s.namespace AND r.name = s.name
            ORDER BY r.position DESC LIMIT 1) AS cluster
    FROM audit.workload_phases q
    WHERE p.attempt IS NULL AND q.log = s.log AND q.namespace = s.namespace AND q.name = s.name
) h ON true
LEFT JOIN LATERAL (
    SELECT b.directory FROM audit.archives b WHERE b.log = s.log AND s.archived_to BETWEEN b.first AND b.last LIMIT 1
) a ON true
ORDER BY s.stream"""


class ArchivedWorkload(Value):
    """A Workload that is over and in an archive: `owner` is its job (`Job/train`), `result` how it finished,
    `directory` where the archive was written. What no view has is empty: the read models were dropped, say."""

    stream: str
    namespace: str
    name: str
    owner: str
    queue: str
    cluster: str
    attempt: int
    result: str
    since: datetime | None
    ended_at: datetime | None
    directory: str


def page(
    reader: LogReader,
    namespaces: Sequence[str] | None,
    *,
    text: str = "",
    queue: str = "",
    cluster: str = "",
    after: str = "",
    limit: int = _AT_ONCE,
) -> list[ArchivedWorkload]:
    """Return the next archived Workloads after a stream, of some namespaces or all, with a text in their name; of a
    queue and a cluster if given, as far as the views have these.
    """
    ranges = (
        [("workload/", "workload0")]
        if namespaces is None
        else [(f"workload/{n}/", f"workload/{n}0") for n in namespaces]
    )
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    wanted = {"text": text, "queue": queue, "cluster": cluster}
    rows = reader.rows(_LIST, lows=lows, highs=highs, after=after, limit=limit, **wanted)
    return [ArchivedWorkload(**row) for row in rows]


def there_are(reader: LogReader, namespace: str | None) -> bool:
    """Whether there are archived Workloads, of one namespace or any. A log that was never archived is not looked
    through."""
    if not reader.rows("SELECT FROM audit.archives WHERE log = %(log)s LIMIT 1"):
        return False
    return bool(page(reader, None if namespace is None else [namespace], limit=1))


def every(reader: LogReader, namespace: str | None) -> Iterator[ArchivedWorkload]:
    """Yield all archived Workloads, of one namespace or all."""
    after = ""
    while found := page(reader, None if namespace is None else [namespace], after=after):
        yield from found
        after = found[-1].stream
