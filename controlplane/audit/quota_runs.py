"""For how long Workloads had quota before they finished, as the log has it: by kind, by queue, and all together.

In: a reader, whose time counts, or runs. Out: `Durations`, which say how long a run may last that has lasted for a
while. Of the runs the newest are read, from the newest events of the log: what a question costs does not grow with the
log."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, LiteralString, NamedTuple

from controlplane.audit.reads import LogReader
from controlplane.controllers.quota.admission.events import AdmissionWorkloadObserved

KIND, QUEUE, ALL = "kind", "queue", "all"
LEAST = 5
"""How many runs a group needs to be used before a wider one."""
MOST_RUNS = 1000
NEWEST = 200_000
"""How many runs there are at most, out of how many events."""
_SLACK = 0.1  # how much longer than the longest run, as a share of it
_ENDED: LiteralString = """
SELECT w.namespace, w.name, w.queue, w.pod_sets, extract(epoch FROM e.recorded_at - b.recorded_at)::float8 AS seconds
FROM (
    SELECT e.log, e.position, e.stream, e.recorded_at FROM audit.events e
    WHERE e.log = %(log)s AND e.position > %(after)s AND e.position <= %(until)s
      AND e.type = 'QuotaPosted' AND e.reason = 'WorkloadFinished'
    ORDER BY e.position DESC LIMIT %(most)s
) e
CROSS JOIN LATERAL (
    SELECT b.recorded_at FROM audit.events b
    WHERE b.log = e.log AND b.stream = e.stream AND b.position < e.position
      AND (b.type = 'QuotaReservationDecided' OR b.type = 'QuotaPosted' AND b.reason = 'ReservationObserved')
    ORDER BY b.position DESC LIMIT 1
) b
CROSS JOIN LATERAL (
    SELECT s.data ->> 'namespace' AS namespace, s.data ->> 'name' AS name, s.data ->> 'queue' AS queue,
           s.data -> 'pod_sets' AS pod_sets
    FROM audit.events s
    WHERE s.log = e.log AND s.stream = e.stream AND s.position < e.position AND s.type = 'AdmissionWorkloadObserved'
    ORDER BY s.position DESC LIMIT 1
) w
ORDER BY e.position"""
_SUFFIX = re.compile(r"-(?:[0-9a-f]{5}|(?=[a-z]*[0-9])[a-z0-9]{5})$")


class EndedRun(NamedTuple):
    """A run that has ended: its LocalQueue as NAMESPACE/NAME, what is equal for runs that are alike, and for how many
    seconds it had quota."""

    queue: str
    kind: str
    seconds: float


class Group(NamedTuple):
    """Runs that somebody is judged by. `name` is KIND, QUEUE or ALL; `of` which one; `seconds` of those that lasted
    longer, in order, and `runs` how many there are in all."""

    name: str
    of: str
    seconds: Sequence[float]
    runs: int


class Durations:
    """How long runs lasted, by group."""

    def __init__(self, runs: Iterable[EndedRun]) -> None:
        groups: dict[tuple[str, str], list[float]] = {}
        for run in runs:
            for key in ((KIND, run.kind), (QUEUE, run.queue), (ALL, "")):
                groups.setdefault(key, []).append(run.seconds)
        self._groups = {key: sorted(found) for key, found in groups.items()}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def group(self, queue: str, kind: str, lasted: float = -1.0) -> Group | None:
        """Return the runs to judge one by that has lasted for so many seconds: of the groups with enough runs, the
        narrowest in which any lasted longer; else of all groups the narrowest in which any did; None if none did. One
        that has lasted little longer than all of a group is about to end."""
        found = []
        for name, of in ((KIND, kind), (QUEUE, queue), (ALL, "")):
            seconds = self._groups.get((name, of), [])
            longer = seconds[bisect_right(seconds, lasted) :]
            if not longer and len(seconds) >= LEAST and lasted <= seconds[-1] * (1 + _SLACK):
                longer = [lasted]
            if longer:
                found.append(Group(name, of, longer, len(seconds)))
        return next((one for one in found if one.runs >= LEAST), found[0] if found else None)


def kind_of(queue: str, name: str, pod_sets: Sequence[Mapping[str, Any]]) -> str:
    """Return what is equal for Workloads that are alike: queue, name without what only counts, and what the pods ask
    for."""
    asked = [(one.get("name"), one.get("count"), sorted((one.get("requests") or {}).items())) for one in pod_sets]
    return repr((queue, family(name), asked))


def family(name: str) -> str:
    """Return a Workload's name without the parts that tell it from others of its family: hashes, numbers and dates."""
    parts = _SUFFIX.sub("", name).split("-")
    while len(parts) > 1 and parts[-1].isdigit():
        parts.pop()
    return "-".join(parts)


def identity(seen: AdmissionWorkloadObserved) -> tuple[str, str]:
    """Return the LocalQueue and the kind of a Workload as it was seen."""
    asked = [{"name": one.name, "count": one.count, "requests": one.requests} for one in seen.pod_sets]
    queue = f"{seen.namespace}/{seen.queue}"
    return queue, kind_of(queue, seen.name, asked)


def recorded(reader: LogReader) -> Durations:
    """Return the durations of the newest runs that had ended by the reader's time."""
    until = reader.head() if reader.until is None else reader.until
    rows = reader.rows(_ENDED, after=max(0, until - NEWEST), until=until, most=MOST_RUNS)
    return Durations(_run(row) for row in rows)


def _run(row: Mapping[str, Any]) -> EndedRun:
    queue = f"{row['namespace']}/{row['queue'] or ''}"
    return EndedRun(queue, kind_of(queue, row["name"], row["pod_sets"] or []), row["seconds"])
