"""Keeps the hours that jobs ran, so that no page adds them up: of what the follower has, Workload by Workload.

In: word of Workloads that changed, and the follower's directory, whose newest are looked at first. Out: rows in the
columns of `audit.usage`, and how far back they are complete. The runs are those of `audit.runs`, asked for a few
hundred Workloads at a time by a thread of its own, which rests half as long as it worked: PostgreSQL takes about a
millisecond a Workload that no read model has."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, LiteralString, NamedTuple

import psycopg
import structlog

from controlplane.audit.reads import LogReader
from controlplane.log.connect import first_line
from controlplane.pages.directory import Directory, Wanted
from controlplane.pages.hours import Hours, Run

_log = structlog.get_logger(__name__)
_PIECE = 200  # Workloads that are asked about at once
_PAUSE = 2.0  # seconds between two attempts to reach the database
_REST = 0.5  # so long it rests for each second that it worked
_DOZE = 0.2  # seconds between two looks for something to do
# OFFSET 0: without it PostgreSQL would make the runs of all Workloads, and join them.
_RUNS: LiteralString = """
SELECT w.namespace, w.name, r.queue, r.cluster, r.since, r.until, r.resources::text AS resources
FROM unnest(%(namespaces)s::text[], %(names)s::text[]) AS w (namespace, name)
CROSS JOIN LATERAL (
    SELECT r.queue, r.cluster, r.since, r.until, r.resources FROM audit.runs r
    WHERE r.log = %(log)s AND r.namespace = w.namespace AND r.name = w.name OFFSET 0
) r"""
# Of what has left the log for an archive the read models still tell.
_ARCHIVED: LiteralString = """
SELECT s.stream, s.namespace, s.name FROM audit.streams s
WHERE s.log = %(log)s AND s.stream > %(after)s AND s.stream < 'workload0' AND s.archived_to IS NOT NULL
ORDER BY s.stream LIMIT %(limit)s"""

Name = tuple[str, str]
"""The namespace and the name of a Workload."""


class HoursFound(NamedTuple):
    """Rows as `audit.usage` has them. `complete`: all Workloads that ran since then are in them; `looked_at` of
    `workloads` were looked at so far, the newest first."""

    rows: list[dict[str, Any]]
    complete: bool
    looked_at: int
    workloads: int


class _UsageWalk:
    """The way through all Workloads, the newest change first. `reached`: those that changed since then have been looked
    at, None at the beginning; `over`: all have."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.workloads = sum(directory.counts.values())
        self.looked_at = 0
        self.reached: float | None = None
        self.over = False
        self.cursor: str | None = ""
        self.archived = "workload/"


class UsageKeeper:
    """The hours of a log. Whoever calls `begin` holds the lock of the directory."""

    def __init__(self, connect: Callable[[], LogReader], directory_lock: threading.RLock) -> None:
        self._connect, self._directory_lock = connect, directory_lock
        self._lock = threading.Lock()
        self._hours = Hours()
        self._walk: _UsageWalk | None = None
        self._looking = False
        self._changed: dict[Name, None] = {}
        self._newest = datetime.fromtimestamp(0, UTC)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hours", daemon=True)

    def start(self) -> None:
        """Begin to keep."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for that."""
        self._stop.set()
        self._thread.join(timeout=10)

    def begin(self, directory: Directory) -> None:
        """Add up all Workloads of a directory, from nothing."""
        with self._lock:
            self._hours.close()
            self._hours, self._walk = Hours(), _UsageWalk(directory)
            self._changed.clear()

    def changed(self, names: Iterable[Name], newest: datetime) -> None:
        """Take word that there is news of Workloads; `newest` is when the newest event was recorded."""
        with self._lock:
            self._newest = max(self._newest, newest)
            self._changed.update(dict.fromkeys(names))

    def found(self, since: date, until: date, namespaces: Sequence[str] | None) -> HoursFound:
        """Return the hours from a day to before another, of some namespaces, None for all."""
        with self._lock:
            rows = list(self._hours.rows(since, until, namespaces, self._newest))
            complete = self._complete(datetime(since.year, since.month, since.day, tzinfo=UTC))
            walk = self._walk
            return HoursFound(rows, complete, walk.looked_at if walk else 0, walk.workloads if walk else 0)

    def running(
        self, cluster: str, at: datetime, namespaces: Sequence[str] | None, limit: int
    ) -> tuple[list[Name], bool]:
        """Return the Workloads that had a run on a cluster at a time, at most so many, and whether these are all."""
        with self._lock:
            return self._hours.running(cluster, at, namespaces, limit), self._complete(at)

    def _complete(self, since: datetime) -> bool:
        """Whether all Workloads that ran since a time have been looked at."""
        walk = self._walk
        reached = walk is not None and (walk.over or (walk.reached is not None and walk.reached < since.timestamp()))
        return reached and not self._changed and not self._looking

    def _run(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                with self._connect() as reader:
                    said = ""
                    self._keep(reader)
            except psycopg.Error as error:
                if said != (said := first_line(error)):
                    _log.warning("the hours cannot be added up now", error=said)
                self._stop.wait(_PAUSE)
            except Exception as error:  # whatever a run holds: what was looked at stays, and they are not complete
                if said != (said := f"{type(error).__name__}: {error}"):
                    _log.error("the hours cannot be added up", error=said)
                self._stop.wait(_PAUSE)

    def _keep(self, reader: LogReader) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            if not self._changes(reader) and not self._step(reader):
                self._stop.wait(_DOZE)
                continue
            self._stop.wait(_REST * (time.monotonic() - began))

    def _changes(self, reader: LogReader) -> bool:
        """Look at some Workloads of which there is news; return whether there were any."""
        with self._lock:
            names, hours = list(self._changed)[:_PIECE], self._hours
            for name in names:
                del self._changed[name]
            self._looking = bool(names)
        if not names:
            return False
        try:
            self._look(reader, names, hours)
        except Exception:
            with self._lock:
                self._changed.update(dict.fromkeys(names))
            raise
        finally:
            self._looking = False
        return True

    def _step(self, reader: LogReader) -> bool:
        """Go on through all Workloads; return whether there was anything to do."""
        with self._lock:
            walk, hours = self._walk, self._hours
        if walk is None or walk.over:
            return False
        if walk.cursor is None:
            rows = reader.rows(_ARCHIVED, after=walk.archived, limit=_PIECE)
            self._look(reader, [(row["namespace"], row["name"]) for row in rows], hours)
            with self._lock:
                walk.archived = rows[-1]["stream"] if rows else walk.archived
                walk.over = len(rows) < _PIECE
            return True
        with self._directory_lock:
            page = walk.directory.page(Wanted(), "changed", after=walk.cursor, limit=_PIECE)
        self._look(reader, [(row.namespace, row.name) for row in page.rows], hours)
        with self._lock:
            walk.looked_at += len(page.rows)
            walk.reached = page.rows[-1].changed if page.rows else walk.reached
            walk.cursor = page.after or None
        return True

    def _look(self, reader: LogReader, names: Sequence[Name], hours: Hours) -> None:
        found: dict[Name, list[Run]] = {name: [] for name in names}
        given = {"namespaces": [namespace for namespace, _ in found], "names": [name for _, name in found]}
        for row in reader.rows(_RUNS, **given) if found else ():
            run = Run(row["queue"], row["cluster"], row["since"], row["until"], row["resources"])
            found[row["namespace"], row["name"]].append(run)
        with self._lock:
            if hours is self._hours:
                hours.put((namespace, name, runs) for (namespace, name), runs in found.items())
