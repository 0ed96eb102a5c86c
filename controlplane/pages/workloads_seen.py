"""Every Workload that a log has seen, read backwards: the newest of each, with its first event.

In: a reader, and up to where. Out: a `Seen` of each Workload, in pieces. The log is read in the order in which it lies
on the disk, a piece of positions at a time; stream by stream PostgreSQL would look for a million pages one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from controlplane.audit.reads import LogReader

_PIECE = 200_000  # positions that are looked through at once
# The text of an event is parsed for the newest of each stream alone.
_PART: LiteralString = """
WITH part AS MATERIALIZED (
    SELECT e.stream, max(e.position) FILTER (WHERE e.type = 'WorkloadObserved') AS position,
           max(e.position) FILTER (WHERE e.type = 'WorkloadGone') AS gone,
           max(e.recorded_at) FILTER (WHERE e.type = 'WorkloadGone') AS gone_at,
           min(e.recorded_at) FILTER (WHERE e.version = 1) AS since, min(e.recorded_at) AS first
    FROM audit.events e
    WHERE e.log = %(log)s AND e.position > %(after)s AND e.position <= %(until)s AND e.stream LIKE 'workload/%%'
      AND (e.type IN ('WorkloadObserved', 'WorkloadGone') OR e.version = 1)
    GROUP BY e.stream
)
SELECT p.*, w.*, g.* FROM part p LEFT JOIN LATERAL (
    SELECT w.recorded_at, w.data ->> 'uid' AS uid, w.data ->> 'queue_name' AS queue, w.data ->> 'cluster_queue' AS cluster_queue,
           w.data ->> 'cluster_name' AS cluster, w.data -> 'owner' ->> 'kind' AS kind, w.data -> 'owner' ->> 'name' AS owner,
           jsonb_path_query_first(w.data, '$.conditions[*] ? (@.type == "Finished" && @.status == "True").reason')
               #>> '{}' AS result
    FROM (
        SELECT e.recorded_at, e.data FROM audit.events e WHERE e.log = %(log)s AND e.position = p.position OFFSET 0
    ) w
) w ON true
LEFT JOIN LATERAL (
    SELECT e.data ->> 'uid' AS gone_uid FROM audit.events e
    WHERE e.log = %(log)s AND e.position = p.gone AND p.gone > coalesce(p.position, 0) OFFSET 0
) g ON true"""
# A list shows another Workload of a name before it says that the one before is gone, which is then no end of it.
_OWN_END: LiteralString = """
SELECT e.position AS gone, e.recorded_at AS gone_at FROM audit.events e
WHERE e.log = %(log)s AND e.stream = %(stream)s AND e.type = 'WorkloadGone' AND e.position > %(position)s
  AND e.position <= %(head)s AND e.data ->> 'uid' = %(uid)s
ORDER BY e.position DESC LIMIT 1"""


class Seen(NamedTuple):
    """A Workload as it was last seen, at `position`; `gone` is the position at which that one was seen to be gone,
    None if it was not. `result` is the reason of its condition Finished, None if it has not finished."""

    stream: str
    since: datetime
    position: int
    at: datetime
    queue: str
    cluster_queue: str
    cluster: str
    kind: str
    owner: str
    result: str | None
    gone: int | None
    gone_at: datetime | None

    @property
    def over(self) -> bool:
        """Whether it is gone, or has finished."""
        return self.gone is not None or self.result is not None


def workloads_seen(reader: LogReader, head: int, unseen: list[str] | None = None) -> Iterator[list[Seen]]:
    """Yield the Workloads that a log has seen up to a position, in pieces; those that began last come first. `unseen`
    takes the streams of Workloads that were never seen themselves: there are, or were, copies with their names.
    """
    nameless = [] if unseen is None else unseen
    begun: dict[str, dict[str, Any]] = {}
    for until in range(head, 0, -_PIECE):
        found = []
        for row in reader.rows(_PART, after=max(until - _PIECE, 0), until=until):
            whole = _joined(begun.pop(row["stream"], None), row)
            if whole["since"] is None:
                begun[row["stream"]] = whole
            elif whole["position"] is not None:
                found.append(_seen(reader, whole, head))
            else:
                nameless.append(whole["stream"])
        yield found
    # What began again after its first events left for an archive has no first event any more.
    nameless += [row["stream"] for row in begun.values() if row["position"] is None]
    yield [_seen(reader, row, head) for row in begun.values() if row["position"] is not None]


def _joined(later: dict[str, Any] | None, earlier: dict[str, Any]) -> dict[str, Any]:
    """Return what two parts of a stream say together."""
    if later is None:
        return earlier
    if later["position"] is None and later["gone"] is not None:
        earlier = {**earlier, **{name: later[name] for name in ("gone", "gone_at", "gone_uid")}}
    joined = later if later["position"] is not None else earlier
    return {**joined, "since": earlier["since"], "first": earlier["first"]}


def _seen(reader: LogReader, row: dict[str, Any], head: int) -> Seen:
    gone, gone_at = _end(reader, row, head)
    return Seen(
        row["stream"], row["since"] or row["first"], row["position"], row["recorded_at"], row["queue"] or "",
        row["cluster_queue"] or "", row["cluster"] or "", row["kind"] or "", row["owner"] or "", row["result"],
        gone, gone_at,
    )  # fmt: skip


def _end(reader: LogReader, row: dict[str, Any], head: int) -> tuple[int | None, datetime | None]:
    """Return where, and when, a Workload was seen to be gone after it was seen last."""
    gone, gone_at = row["gone"], row["gone_at"]
    if gone is None or gone < row["position"]:
        return None, None
    if row["gone_uid"] == row["uid"]:
        return gone, gone_at
    own = reader.rows(_OWN_END, head=head, **{name: row[name] for name in ("stream", "position", "uid")})
    return (own[0]["gone"], own[0]["gone_at"]) if own else (None, None)
