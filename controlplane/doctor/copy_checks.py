"""Judges the copies on a worker: whether the log knows whose they are.

In: `Facts`. Out: findings. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.audit.clusters_now import unknown_line
from controlplane.doctor.facts import Facts
from controlplane.doctor.findings import Finding, FindingMaker, Unread, judged

_ASK = "run this again with a longer --timeout, or ask `controlplane clusters`"
_ACTION = (
    "if another installation made them, give it an origin of its own; if nobody did that still runs, delete them on the "
    'worker: docs/howto/production/troubleshooting.md, "Copies on a worker that nobody removes"'
)


def on_worker(name: str, facts: Facts) -> list[Finding]:
    """Return what there is to say of the copies on the worker of that name."""
    place = f"worker/{name}"
    return judged(place, [("copies", lambda given: _copies(FindingMaker(place), name, given))], facts)


def _copies(place: FindingMaker, name: str, facts: Facts) -> Sequence[Finding]:
    found = facts.database.unknown_copies
    if facts.database.unreachable:
        return []  # which is said of the database, once
    if isinstance(found, Unread):
        return [place.unknown("copies", found, _ASK)]
    if copies := found.get(name):
        return [place.warning("copies", f"it {unknown_line(copies)}", _ACTION)]
    return [place.ok("copies", "of each copy there the log knows whose it is")]
