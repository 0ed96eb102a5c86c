"""One row a Workload that the log has ever seen, in memory: what lists are filtered, sorted and paged by.

In: rows, as `controlplane.pages.follower` makes them of the log. Out: pages of them, each by the key of the row before
it, and counts. It is derived from the log and gone with the process. SQLite, because a page of a million rows in any
order needs indexes; it belongs to whoever holds the follower's lock."""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_type_hints

import msgspec

from controlplane.runtime.explanation import WORDS

SORTS = ("changed", "since", "name")
OVER = ("Finished", "Deleted")
# Made after the first filling, which is quicker.
_INDEXES = tuple(
    f"CREATE INDEX by_{'_'.join(columns)} ON workloads ({', '.join(columns)})"
    for columns in (
        ("changed",), ("since",), ("shown", "changed"), ("over", "changed", "since", "state"), ("cluster", "changed"),
        ("namespace", "changed"), ("namespace", "queue", "changed"),
    )
)  # fmt: skip


class Row(NamedTuple):
    """A Workload in a list. Times are seconds since 1970; `result` is how it finished, also if it is deleted since."""

    namespace: str
    name: str
    state: str
    result: str = ""
    queue: str = ""
    cluster_queue: str = ""
    kind: str = ""
    owner: str = ""
    cluster: str = ""
    attempt: int = 0
    waits_for: str = ""
    since: float = 0.0
    changed: float = 0.0
    position: int = 0

    @property
    def shown(self) -> str:
        """The state, or how it finished."""
        return self.result if self.state in OVER and self.result else self.state


_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_COLUMNS = Row._fields
_SCHEMA = f"""
CREATE TABLE workloads (
    {", ".join(f"{name} {_TYPES[kind]}" for name, kind in get_type_hints(Row).items())},
    shown TEXT AS (CASE WHEN state IN ('Finished', 'Deleted') AND result <> '' THEN result ELSE state END) STORED,
    over INTEGER AS (state IN ('Finished', 'Deleted')) STORED,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
"""


class Wanted(NamedTuple):
    """Which rows: those that fit all that is not empty. `namespaces` None: of any; `state` may be a result, or `active`
    for all that are not over."""

    namespaces: Sequence[str] | None = None
    queue: str = ""
    cluster: str = ""
    state: str = ""
    text: str = ""

    def has(self, namespace: str, queue: str) -> bool:
        """Whether rows of a queue are among them."""
        return (self.namespaces is None or namespace in self.namespaces) and self.queue in ("", queue)


class RowPage(NamedTuple):
    """A page of rows; `after` is the cursor of the next one, "" if this is the last."""

    rows: list[Row]
    after: str


class CursorError(ValueError):
    """The cursor is none that was given out."""


class Directory:
    """The rows, and how many there are of each sort."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.executescript(_SCHEMA)
        self.counts: Counter[tuple[str, str, str, str]] = Counter()
        """By namespace, queue, cluster and what is shown as the state."""
        self._finished: Counter[tuple[str, str]] = Counter()  # those that are there and have finished, by queue

    def close(self) -> None:
        """Let go of the memory."""
        self._database.close()

    def fill(self, rows: Iterable[Row]) -> None:
        """Take rows of Workloads that are not there yet."""
        found = list(rows)
        self._database.execute("BEGIN")
        self._database.executemany(_INSERT, found)
        self._database.execute("COMMIT")
        self.counts.update(_sort(row) for row in found)
        self._finished.update(_queue(row) for row in found if row.state == "Finished")

    def filled(self) -> None:
        """Make the indexes: all rows of the past are there."""
        for index in _INDEXES:
            self._database.execute(index)
        self._database.execute("ANALYZE")

    def put(self, row: Row) -> None:
        """Take the row of a Workload in the place of the one before."""
        before = self.get(row.namespace, row.name)
        if before == row:
            return
        if before is not None:
            self.counts[_sort(before)] -= 1
            self._finished[_queue(before)] -= before.state == "Finished"
        self._database.execute(_INSERT.replace("INSERT", "INSERT OR REPLACE"), row)
        self.counts[_sort(row)] += 1
        self._finished[_queue(row)] += row.state == "Finished"

    def get(self, namespace: str, name: str) -> Row | None:
        """Return the row of a Workload."""
        found = self._database.execute(f"{_SELECT} WHERE namespace = ? AND name = ?", (namespace, name)).fetchone()
        return None if found is None else Row(*found)

    def rows(self, wanted: Wanted) -> list[Row]:
        """Return all rows that fit, in no order."""
        where, given = _conditions(wanted)
        query = f"{_SELECT} {'WHERE ' + ' AND '.join(where) if where else ''}"
        return [Row(*found) for found in self._database.execute(query, given)]

    def namespaces(self) -> list[str]:
        """Return the namespaces of all rows."""
        return sorted({key[0] for key, count in self.counts.items() if count})

    def finished(self) -> Counter[tuple[str, str]]:
        """Return how many Workloads that are there have finished, by namespace and queue."""
        return self._finished

    def pending(self, namespaces: Sequence[str] | None) -> list[tuple[str, str, str, str, int]]:
        """Return how many Workloads that have not been placed wait for what: namespace, queue, state, what for,
        count."""
        where = "" if namespaces is None else f"AND namespace IN ({', '.join('?' * len(namespaces))})"
        query = _PENDING.format(where=where)
        return self._database.execute(query, list(namespaces or ())).fetchall()

    def total(self, wanted: Wanted) -> int | None:
        """Return how many rows fit; None if that would have to be counted one by one."""
        if wanted.text or (wanted.state == "Finished" and wanted.cluster):
            return None
        if wanted.state == "Finished":
            return sum(count for queue, count in self._finished.items() if wanted.has(*queue))
        return sum(
            count
            for (namespace, queue, cluster, shown), count in self.counts.items()
            if wanted.has(namespace, queue) and wanted.cluster in ("", cluster) and _of_state(wanted.state, shown)
        )

    def open_at(self, at: float, namespaces: Sequence[str] | None) -> list[tuple[str, str, float]]:
        """Return the Workloads that may have been there at a time and not as they are now: namespace, name and when
        each was first seen."""
        where, given = _conditions(Wanted(namespaces))
        index = "" if where else "INDEXED BY by_over_changed_since_state"
        query = _OPEN.format(index=index, allowed=" ".join(f"AND {condition}" for condition in where))
        return self._database.execute(query, [at, *given, at, at, *given]).fetchall()

    def newest_at(self, at: float, wanted: Wanted, limit: int) -> list[Row]:
        """Return the Workloads that were first seen by a time, the newest first, as they are now."""
        where, given = _conditions(wanted)
        query = f"{_SELECT} WHERE {' AND '.join(['since <= ?', *where])} ORDER BY since DESC LIMIT ?"
        return [Row(*found) for found in self._database.execute(query, [at, *given, limit])]

    def over_at(self, at: float, wanted: Wanted, sort: str, limit: int) -> tuple[list[Row], int | None]:
        """Return the Workloads that had finished at a time and have not changed since, the first ones, and how many
        there are in all, None if they are too many to be counted. Of states only results are asked for."""
        where, given = _conditions(wanted._replace(state=""))
        if wanted.state:
            where.append("result = ?")
            given.append(wanted.state)
        condition = " AND ".join(["over = 1 AND state = 'Finished' AND changed <= ?", *where])
        query = f"{_SELECT} WHERE {condition} ORDER BY {_order(sort)} LIMIT ?"
        rows = self._database.execute(query, [at, *given, limit])
        found = [Row(*row) for row in rows]
        if wanted.text:
            return found, None
        query = _COUNT.format(condition=condition)
        (count,) = self._database.execute(query, [at, *given, _COUNTED + 1]).fetchone()
        return found, count if count <= _COUNTED else None

    def finished_at(self, at: float, namespaces: Sequence[str] | None) -> Counter[tuple[str, str]]:
        """Return how many Workloads of each queue had finished at a time and have not changed since, by namespace and
        queue: all but those that changed later, which are fewer for most times that are asked for."""
        found = Counter({key: n for key, n in self._finished.items() if namespaces is None or key[0] in namespaces})
        where, given = _conditions(Wanted(namespaces))
        index = "" if where else "INDEXED BY by_over_changed_since_state"
        query = _LATER.format(index=index, allowed=" ".join(f"AND {condition}" for condition in where))
        for namespace, queue, count in self._database.execute(query, [at, *given]):
            found[namespace, queue] -= count
        return +found

    def page(self, wanted: Wanted, sort: str, *, after: str = "", limit: int = 50) -> RowPage:
        """Return the rows after a cursor, the newest first, or by name. Raises `CursorError`."""
        where, given = _conditions(wanted)
        if after:
            key = _key(after, sort)
            where.append("(namespace, name) > (?, ?)" if sort == "name" else f"({sort}, namespace, name) < (?, ?, ?)")
            given += key
        query = f"{_SELECT} {'WHERE ' + ' AND '.join(where) if where else ''} ORDER BY {_order(sort)} LIMIT ?"
        rows = [Row(*found) for found in self._database.execute(query, [*given, limit + 1])]
        more = rows[limit - 1] if len(rows) > limit else None
        return RowPage(rows[:limit], "" if more is None else _cursor(more, sort))


_PENDING = """
SELECT namespace, queue, state, waits_for, count(*) FROM workloads INDEXED BY by_over_changed_since_state
WHERE over = 0 AND waits_for <> '' {where}
GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2 LIMIT 500"""
_OPEN = """
SELECT namespace, name, since FROM workloads {index} WHERE over = 0 AND since <= ? {allowed}
UNION ALL
SELECT namespace, name, since FROM workloads {index} WHERE over = 1 AND changed > ? AND since <= ? {allowed}"""
_LATER = """
SELECT namespace, queue, count(*) FROM workloads {index} WHERE over = 1 AND changed > ? AND state = 'Finished' {allowed}
GROUP BY 1, 2"""
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM workloads WHERE {condition} LIMIT ?)"
_COUNTED = 50_000  # rows; more are not counted one by one
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM workloads"  # noqa: S608 - columns of this module
_INSERT = f"INSERT INTO workloads ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


def _sort(row: Row) -> tuple[str, str, str, str]:
    return row.namespace, row.queue, row.cluster, row.shown


def _order(sort: str) -> str:
    return "namespace, name" if sort == "name" else f"{sort} DESC, namespace DESC, name DESC"


def _queue(row: Row) -> tuple[str, str]:
    return row.namespace, row.queue


def _of_state(state: str, shown: str) -> bool:
    return state in ("", shown) or (state == "active" and shown in ACTIVE)


ACTIVE = frozenset(WORDS) - set(OVER)
"""The states of what is not over."""


def _conditions(wanted: Wanted) -> tuple[list[str], list[object]]:
    where, given = list[str](), list[object]()
    if wanted.namespaces is not None:
        where.append(f"namespace IN ({', '.join('?' * len(wanted.namespaces))})")
        given += wanted.namespaces
    for column in ("queue", "cluster"):
        if value := getattr(wanted, column):
            where.append(f"{column} = ?")
            given.append(value)
    if wanted.state == "active":
        where.append("over = 0")
    elif wanted.state == "Finished":  # shown as its result
        where.append("over = 1 AND state = 'Finished'")
    elif wanted.state:
        where.append("over = 0 AND shown = ?" if wanted.state in ACTIVE else "shown = ?")
        given.append(wanted.state)
    if wanted.text:
        where.append("(instr(name, ?) OR instr(owner, ?))")
        given += [wanted.text, wanted.text]
    return where, given


def _cursor(row: Row, sort: str) -> str:
    key = (row.namespace, row.name) if sort == "name" else (getattr(row, sort), row.namespace, row.name)
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _key(cursor: str, sort: str) -> tuple[object, ...]:
    kind = tuple[str, str] if sort == "name" else tuple[float, str, str]
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=kind)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise CursorError('"after" is no cursor that this page gave out: leave it out to begin anew') from None
