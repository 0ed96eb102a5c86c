"""One page of a log, as the database has it: what is asked, and that nothing of it is missing.

In: the rows of the answer. Out: those of the events, or which of them are missing (`LogGap`). Positions have no holes
but where events are in archives alone, and the answer says up to where the page goes and the log does: that needs no
other statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from controlplane.log.event import LogGap

READ = """
SELECT e.position, e.stream, e.version, e.type, e.schema, e.data::text, e.cluster, coalesce(e.caused_by, 0), e.trace,
       e.observed_at, e.recorded_at, CASE WHEN e.position = page.last THEN (
    SELECT b.batch FROM controlplane.batches b WHERE b.log = %(log)s AND b.last >= page.last ORDER BY b.last LIMIT 1) END,
       page.archived_to, page.last, page.position
FROM (
    SELECT CASE WHEN %(after)s::bigint >= h.archived_to THEN least(h.position, %(after)s::bigint + %(limit)s) ELSE (
        SELECT max(n.position) FROM (
            SELECT o.position FROM controlplane.events o
            WHERE o.log = %(log)s AND o.position > %(after)s ORDER BY o.position LIMIT %(limit)s) n) END AS last, h.archived_to, h.position
    FROM controlplane.log_head h WHERE h.log = %(log)s OFFSET 0
) page LEFT JOIN LATERAL (
    SELECT * FROM controlplane.events o WHERE o.log = %(log)s AND o.position > %(after)s AND o.position <= page.last
    ORDER BY o.position LIMIT %(limit)s
) e ON true
ORDER BY e.position"""
"""The events after a position. The last row says which batch it came with: by that the next look tells whether the log
is still the one that was read. Which row is the last is known before the page is, but for events that are in archives
alone. Where there is no event there is one row all the same, without one.

The planner does not see from its bounds how long a page is, but from the limit: without that, it plans for a third of
the log. `OFFSET 0` has the page's end computed once."""
_TOLD = 5


class LogPage(NamedTuple):
    """The rows of events, in order, the batch of the last, and up to where events are in archives alone; None for a log
    that nobody has opened."""

    rows: Sequence[Sequence[Any]]
    batch: UUID | None = None
    archived_to: int | None = None


def checked_page(rows: Sequence[Sequence[Any]], log: str, after: int, limit: int) -> LogPage:
    """Return what `READ` has answered. Raises `LogGap`."""
    if not rows:
        return LogPage(())
    found = rows if rows[0][0] is not None else ()
    *_, batch, archived_to, last, position = rows[-1]
    begin = max(after, archived_to)
    # Of what is in archives any part may be here: the page goes on to its end if there are too few.
    end = position if after < archived_to and len(found) < limit else last
    there = [row[0] for row in found if row[0] > begin]
    if len(there) < end - begin:
        raise LogGap(
            f"the log {log} has no event at {_told(_missing(there, begin, end))}, which the log had: rows were "
            "removed by hand, or a restore lost them. Nothing is done without them: `controlplane log verify` says "
            "what else is wrong; restore the database from a backup that has them"
        )
    return LogPage(found, batch, archived_to)


def _missing(there: Iterable[int], after: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last position of each gap between two positions."""
    for position in (*there, end + 1):
        if position > after + 1:
            yield after + 1, position - 1
        after = position


def _told(gaps: Iterable[tuple[int, int]]) -> str:
    found = list(gaps)
    words = [str(first) if first == last else f"{first} to {last}" for first, last in found[:_TOLD]]
    more = [f"{len(found) - _TOLD} gaps more"] if len(found) > _TOLD else []
    *others, final = [*words, *more]
    one = len(found) == 1 and found[0][0] == found[0][1]
    several = f"{', '.join(others)} and " if others else ""
    return f"the position{'' if one else 's'} {several}{final}"
