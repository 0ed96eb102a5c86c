"""What became of the Workloads that ran on a cluster when it was lost, as it was known at a time.

In: the absence, and the runs of Workloads as `audit.runs` has them. Out: a `LostRun` of each run that it concerned.
Pure. It is what `audit.outage_workloads` says of a log that ended at that time; the view can say it of the newest time
alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple

from controlplane.audit.reads import LogReader

# OFFSET 0: without it PostgreSQL would make the runs of all Workloads, and join them.
_RUNS: LiteralString = """
SELECT w.namespace, w.name, r.queue, r.owner, r.cluster, r.since, r.outcome, r.given_up_at, r.unseen_since,
       CASE WHEN r.unseen_since IS NULL THEN r.until ELSE r.unseen_until END AS ended_at, r.position, r.last_position
FROM unnest(%(namespaces)s::text[], %(names)s::text[]) AS w (namespace, name)
CROSS JOIN LATERAL (
    SELECT * FROM audit.runs r WHERE r.log = %(log)s AND r.namespace = w.namespace AND r.name = w.name OFFSET 0
) r ORDER BY w.namespace, w.name, r.position"""

_END: LiteralString = (
    "SELECT recorded_at FROM audit.events WHERE log = %(log)s AND position <= %(head)s ORDER BY position DESC LIMIT 1"
)


class AbsenceSpan(NamedTuple):
    """The absence of a cluster from `position` on; `last_position` is that with which it was back, None while it is
    not."""

    cluster: str
    since: datetime
    until: datetime | None
    position: int
    last_position: int | None


class LostRun(NamedTuple):
    """A run that was lost. `became` is Requeued, Kept, Finished, Stopped or Gone; `ran_on`: it still ran there when the
    cluster was back; `twice` is how long it was seen to run on another cluster at the same time."""

    namespace: str
    name: str
    queue: str
    owner: str
    became: str
    ran_on: bool
    twice: timedelta
    position: int


def lost_runs(
    reader: LogReader, absence: AbsenceSpan, workloads: Sequence[tuple[str, str]], head: int
) -> list[LostRun]:
    """Return what became of those runs of some Workloads that an absence concerned, by what was recorded up to a
    position."""
    given = {"namespaces": [namespace for namespace, _ in workloads], "names": [name for _, name in workloads]}
    of: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in reader.rows(_RUNS, **given):
        of.setdefault((row["namespace"], row["name"]), []).append(row)
    if not of:
        return []
    end = reader.rows(_END, head=head)[0]["recorded_at"]
    return [one for runs in of.values() for one in concerned(runs, absence, head, end)]


def concerned(runs: Iterable[Mapping[str, Any]], absence: AbsenceSpan, head: int, end: datetime) -> list[LostRun]:
    """Return what became of those of the runs of one Workload that an absence concerned."""
    known = [_as_known(run, head, end) for run in runs if run["position"] <= head]
    return [
        LostRun(
            run["namespace"], run["name"], run["queue"] or "", run["owner"] or "", _became(run, absence),
            absence.until is not None and _goes_on_after(run, absence), _twice(run, known, end), run["position"],
        )
        for run in known
        if run["cluster"] == absence.cluster
        and run["position"] < absence.position
        and (run["last_position"] is None or run["last_position"] > absence.position)
    ]  # fmt: skip


def _as_known(run: Mapping[str, Any], head: int, end: datetime) -> Mapping[str, Any]:
    """Return a run without what was recorded later."""
    known = dict(run)
    if run["last_position"] is not None and run["last_position"] > head:
        known |= {"last_position": None, "ended_at": None, "outcome": None}
    for name in ("given_up_at", "unseen_since"):
        if run[name] is not None and run[name] > end:
            known[name] = None
    return known


def _goes_on_after(run: Mapping[str, Any], absence: AbsenceSpan) -> bool:
    last = run["last_position"]
    return last is None or absence.last_position is None or last > absence.last_position


def _became(run: Mapping[str, Any], absence: AbsenceSpan) -> str:
    given_up = run["given_up_at"]
    if given_up is not None and absence.since <= given_up and (absence.until is None or given_up <= absence.until):
        return "Requeued"
    if _goes_on_after(run, absence):
        return "Kept"
    return {"Removed": "Gone", "Evicted": "Stopped", "Suspended": "Stopped"}.get(run["outcome"], "Finished")


def _twice(run: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], end: datetime) -> timedelta:
    """Return for how long a run was seen to go on beside others elsewhere."""
    found = timedelta()
    for other in runs:
        if other["cluster"] != run["cluster"]:
            later = max(run["since"], other["since"])
            found += max(min(_seen_until(run, end), _seen_until(other, end)) - later, timedelta())
    return found


def _seen_until(run: Mapping[str, Any], end: datetime) -> datetime:
    return min(one for one in (run["unseen_since"] or run["ended_at"], end) if one is not None)
