"""The hours that jobs ran, by day, namespace, queue and cluster: what `audit.usage` says, kept run by run.

In: the runs of Workloads, as `audit.runs` has them. Out: rows in the columns of `audit.usage`. The runs are in SQLite
in memory, so that those of a Workload that changed can be taken back; all amounts are whole numbers, so that nothing is
lost by taking them back. It belongs to whoever holds the keeper's lock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import msgspec

_DAY = 86_400_000_000  # microseconds
_HOUR = 3_600_000_000
_NANO = 10**9
_PLACES = Decimal("0.0001")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = date(1970, 1, 1)
_SCHEMA = """
CREATE TABLE runs (
    namespace TEXT, name TEXT, number INTEGER, queue INTEGER, cluster INTEGER, since INTEGER, until INTEGER, resources INTEGER,
    PRIMARY KEY (namespace, name, number)
) WITHOUT ROWID"""

_RUNNING = """
SELECT DISTINCT namespace, name FROM runs WHERE cluster = ? AND since <= ? AND (until IS NULL OR until >= ?) {allowed}
ORDER BY namespace, name LIMIT ?"""


class Run(NamedTuple):
    """A run of a job. `until` is None while it lasts; `resources` is a JSON object of amounts by resource, null for one
    that is no quantity, None if the log does not say what was asked for."""

    queue: str | None
    cluster: str
    since: datetime
    until: datetime | None
    resources: str | None


class _Stored(NamedTuple):
    """A run in whole numbers: microseconds since 1970, and places in the list of values."""

    queue: int
    cluster: int
    since: int
    until: int | None
    resources: int


class _Cell:
    """What was added up of one day, namespace, queue and cluster: runs, microseconds, and billionths times microseconds
    by resource; `known` runs say what they asked for."""

    __slots__ = ("known", "resources", "runs", "time")

    def __init__(self) -> None:
        self.runs = self.time = self.known = 0
        self.resources: dict[str, int] = {}


Place = tuple[int, str, int, int]
"""Day since 1970, namespace, and the queue's and the cluster's place in the list of values."""


class Hours:
    """Runs, and their hours added up."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute(_SCHEMA)
        self._values: list[str | None] = []
        self._number: dict[str | None, int] = {}
        self._amounts: dict[int, dict[str, int] | None] = {}
        self._cells: dict[Place, _Cell] = {}
        self._open: dict[tuple[str, str], list[_Stored]] = {}

    def close(self) -> None:
        """Let go of the memory."""
        self._database.close()

    def put(self, found: Iterable[tuple[str, str, Sequence[Run]]]) -> None:
        """Take the runs of Workloads, by namespace and name, in the place of those that were known of each."""
        self._database.execute("BEGIN")
        for namespace, name, runs in found:
            self._take_back(namespace, name)
            stored = [self._stored(run) for run in runs]
            self._database.executemany(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(namespace, name, number, *run) for number, run in enumerate(stored)],
            )
            for run in stored:
                if run.until is not None:
                    self._add(self._cells, namespace, run, run.until, 1)
            if lasting := [run for run in stored if run.until is None]:
                self._open[namespace, name] = lasting
        self._database.execute("COMMIT")

    def _take_back(self, namespace: str, name: str) -> None:
        known = self._database.execute(
            "DELETE FROM runs WHERE namespace = ? AND name = ? RETURNING queue, cluster, since, until, resources",
            (namespace, name),
        ).fetchall()
        for run in map(_Stored._make, known):
            if run.until is not None:
                self._add(self._cells, namespace, run, run.until, -1)
        self._open.pop((namespace, name), None)

    def _stored(self, run: Run) -> _Stored:
        resources = self._place(run.resources)
        if resources not in self._amounts:
            self._amounts[resources] = _amounts(run.resources)
        until = None if run.until is None else _microseconds(run.until)
        return _Stored(self._place(run.queue), self._place(run.cluster), _microseconds(run.since), until, resources)

    def _place(self, value: str | None) -> int:
        found = self._number.get(value)
        if found is None:
            found = self._number[value] = len(self._values)
            self._values.append(value)
        return found

    def _add(self, cells: dict[Place, _Cell], namespace: str, run: _Stored, until: int, sign: int) -> None:
        """Add a run to the days that it has a part in, cut at midnight UTC; with `sign` -1 take it back."""
        amounts = self._amounts[run.resources]
        for day in range(run.since // _DAY, until // _DAY + 1):
            time = min(until, (day + 1) * _DAY) - max(run.since, day * _DAY)
            if time <= 0 and run.since != until:
                continue
            place = (day, namespace, run.queue, run.cluster)
            cell = cells.get(place)
            if cell is None:
                cell = cells[place] = _Cell()
            cell.runs += sign
            cell.time += sign * time
            if amounts is not None:
                cell.known += sign
                for resource, amount in amounts.items():
                    cell.resources[resource] = cell.resources.get(resource, 0) + sign * amount * time
            if not cell.runs:
                del cells[place]

    def running(
        self, cluster: str, at: datetime, namespaces: Sequence[str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Return the Workloads that had a run on a cluster at a time, by namespace and name, at most so many."""
        allowed = "" if namespaces is None else f"AND namespace IN ({', '.join('?' * len(namespaces))})"
        query = _RUNNING.format(allowed=allowed)
        given = [self._number.get(cluster, -1), _microseconds(at), _microseconds(at), *(namespaces or ()), limit]
        return self._database.execute(query, given).fetchall()

    def rows(
        self, since: date, until: date, namespaces: Sequence[str] | None, newest: datetime
    ) -> Iterator[dict[str, Any]]:
        """Yield rows as `audit.usage` has them, of the days from `since` to before `until`; of some namespaces, None
        for all. What lasts counts up to `newest`, the time of the newest event."""
        first, last = (since - _FIRST).days, (until - _FIRST).days
        wanted = None if namespaces is None else frozenset(namespaces)
        lasting: dict[Place, _Cell] = {}
        now = _microseconds(newest)
        for (namespace, _), runs in self._open.items():
            if wanted is None or namespace in wanted:
                for run in runs:
                    self._add(lasting, namespace, run, max(now, run.since), 1)  # the database may know more by now
        for place in {**self._cells, **lasting} if lasting else self._cells:
            day, namespace, queue, cluster = place
            if first <= day < last and (wanted is None or namespace in wanted):
                yield {
                    "day": _FIRST + timedelta(days=day),
                    "namespace": namespace,
                    "queue": self._values[queue],
                    "cluster": self._values[cluster],
                    **_summed([cells[place] for cells in (self._cells, lasting) if place in cells]),
                }


def _summed(cells: Sequence[_Cell]) -> dict[str, Any]:
    resources: dict[str, int] = {}
    for cell in cells:
        for resource, amount in cell.resources.items():
            resources[resource] = resources.get(resource, 0) + amount
    return {
        "runs": sum(cell.runs for cell in cells),
        "run_hours": _rounded(sum(cell.time for cell in cells), _HOUR),
        "resource_hours": {name: _rounded(amount, _HOUR * _NANO) for name, amount in resources.items()}
        if any(cell.known for cell in cells)
        else None,
    }


def _rounded(amount: int, unit: int) -> Decimal:
    """Return a sum as PostgreSQL's `round(…, 4)` does."""
    return (Decimal(amount) / unit).quantize(_PLACES, ROUND_HALF_UP)


def _amounts(resources: str | None) -> dict[str, int] | None:
    if resources is None:
        return None
    found: dict[str, Decimal | None] = msgspec.json.decode(resources, type=dict[str, Decimal | None])
    return {resource: int(amount * _NANO) for resource, amount in found.items() if amount is not None}


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
