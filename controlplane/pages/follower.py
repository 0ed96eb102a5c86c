"""Follows a log for the pages: what is live is folded as the service folds it, and a directory has a row of everything.

In: a way to open a reader. Out: an index and a directory, to be looked at under `lock`, and word of new positions. It
runs in a thread of its own; what the database does not answer is tried again, and `trouble` says so meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import psycopg
import structlog

from controlplane.audit.fleet import folded
from controlplane.audit.leading import in_force, not_recorded
from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.workloads_now import one_of
from controlplane.clock import SystemClock
from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.controllers.multikueue.hosting import reading_policy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.log.connect import first_line
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding
from controlplane.pages.directory import Directory
from controlplane.pages.past import Pasts
from controlplane.pages.pending_pods import PendingPods
from controlplane.pages.pending_pods import read as pending_pods_of
from controlplane.pages.rows import LastSeen, is_workloads, name_of, row_of, row_of_live, row_of_past
from controlplane.pages.trends import STEP, STEPS, TYPES, Trends
from controlplane.pages.usage_keeper import UsageKeeper
from controlplane.pages.workloads_seen import Seen, workloads_seen
from controlplane.settings import Settings

READING = "the log is being read"
"""What is said to be the trouble until the log was read for the first time."""
_log = structlog.get_logger(__name__)
_BATCH = 500  # events that are folded before a page may look
_NEWEST = 300_000  # events at the end of the log in which the past of the trends is looked for
_PAUSE = 2.0  # seconds between two attempts to reach the database
_DOZE = 1.0  # seconds after which it is looked for new events unasked
_LOOKED = 3.0  # seconds for which it is known whether anybody records
_CALM = 0.05  # seconds in which events gather before they are read


class Follower:
    """The present of a log, kept up to date. Look at it only `with follower.lock`."""

    def __init__(self, connect: Callable[[], LogReader], settings: Settings) -> None:
        self.lock = threading.RLock()
        self.trouble = READING
        """Why what there is may be old: "" if it is not."""
        self.unrecorded = ""
        """Since when the log does not follow what happens, and why: "" if it does."""
        self.ready = False
        self.read = 0
        """How many Workloads were read, while the log is read for the first time."""
        self.usage = UsageKeeper(connect, self.lock)
        self._connect, self._settings = connect, settings
        self._listeners: set[Callable[[int], None]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.ready, self.read, self._shown = False, 0, 0
        self.directory = Directory()
        self.trends = Trends()
        self.pending_pods = PendingPods()
        self.pasts = Pasts()
        self.index = WorkloadIndex(reading_policy(self._settings))
        self._folding = Folding(self.index.fold)
        self._last = LastSeen()
        self._newest: Recorded | None = None

    @property
    def position(self) -> int:
        """The last position that is shown: whoever has a page of it need not ask again. The index is ahead of it in
        between."""
        return self._shown

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()
        self.usage.start()

    def stop(self) -> None:
        """End, and wait for that."""
        self._stop.set()
        self._thread.join(timeout=10)
        self.usage.stop()

    def listen(self, listener: Callable[[int], None]) -> Callable[[], None]:
        """Tell a listener each new position from now on, from the follower's thread; return what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._connect() as reader:
                    self._follow(reader)
            except psycopg.Error as error:
                self.trouble = first_line(error)
                self._stop.wait(_PAUSE)
            except Exception as error:  # whatever the log holds: what was followed may be wrong now
                _log.error("the log cannot be followed, and is read anew", error=f"{type(error).__name__}: {error}")
                with self.lock:
                    self._begin_anew()
                self.trouble = f"the log cannot be followed ({type(error).__name__})"
                self._stop.wait(_PAUSE)

    def _follow(self, reader: LogReader) -> None:
        if self.ready and self._is_another(reader):
            with self.lock:
                self._begin_anew()
        if not self.ready:
            self._fill(reader)
        looked = float("-inf")
        while not self._stop.is_set():
            if not self.catch_up(reader):
                reader.wait(_DOZE)
            self.trouble = ""
            if time.monotonic() - looked >= _LOOKED:
                self.unrecorded, looked = not_recorded(reader), time.monotonic()
            self._stop.wait(_CALM)

    def _is_another(self, reader: LogReader) -> bool:
        """Whether the log is another one than was followed, such as one from a backup, also if it is as long by now. Of
        an event that has left the database for an archive nobody can tell."""
        known, position = self._newest, self.index.position
        if reader.head() < position or known is None:
            return reader.head() < position
        found = next(reader.events(Filter(after=position - 1, until=position)), None)
        return found is not None and found != known

    def catch_up(self, reader: LogReader) -> bool:
        """Take the next events; return whether there were any."""
        events = list(reader.events(Filter(after=self.index.position), limit=_BATCH))
        if not events:
            return False
        # Before the position is told: whoever sees it knows that the hours up to it are not complete yet.
        news = dict.fromkeys(one.stream for one in events if is_workloads(one.stream))
        self.usage.changed(map(name_of, news), events[-1].recorded_at)
        with self.lock:
            for recorded in events:
                self._take(recorded)
            dirty = list(dict.fromkeys([*self._last.touched, *self.index.take_dirty()]))
        for first in range(0, len(dirty), _BATCH):
            with self.lock:
                self._show(dirty[first : first + _BATCH])
        self._last.clear()
        self._tell(events[-1].position)
        return True

    def _tell(self, position: int) -> None:
        """Say that all is shown up to a position."""
        self._shown = position
        for listener in list(self._listeners):
            listener(position)

    def _take(self, recorded: Recorded) -> None:
        self._folding(recorded)
        self.index.position, self._newest = recorded.position, recorded
        self.trends.take(recorded)
        self.pending_pods.take(recorded)
        if isinstance(recorded.event, PolicyInForce):
            self.index.policy = reading_policy(self._settings, recorded.event)
        self._last.take(recorded)

    def _show(self, streams: Sequence[str]) -> None:
        now = SystemClock().now()
        for stream in streams:
            if not is_workloads(stream):
                continue
            namespace, name = name_of(stream)
            row = row_of(self.index, self._last, stream, self.directory.get(namespace, name), now)
            if row is not None:
                self.directory.put(row)

    def _fill(self, reader: LogReader) -> None:
        """Read what there is: a row of each Workload that is over, and the events of the others, and of those of which
        there are copies alone."""
        self.trouble, head = READING, reader.head()
        directory, live, unseen = Directory(), dict[str, Seen](), list[str]()
        for piece in workloads_seen(reader, head, unseen):
            if self._stop.is_set():
                return
            found = [seen for seen in piece if is_workloads(seen.stream)]
            directory.fill(row_of_past(seen) for seen in found if seen.over)
            live |= {seen.stream: seen for seen in found if not seen.over}
            self.read += len(found)
        reader.until = head
        index = folded(reader, reading_policy(self._settings, in_force(reader)), [*live, *unseen])
        trends, first = Trends(), reader.clock() - STEP * STEPS
        began = reader.rows("SELECT audit.position_at(%(log)s, %(at)s) AS position", at=first)[0]["position"] or 0
        for recorded in reader.events(Filter(after=max(began, head - _NEWEST), types=TYPES)):
            trends.take(recorded)
        pending_pods = pending_pods_of(reader)
        newest = next(reader.events(Filter(), limit=1, newest=True), None)
        reader.until = None
        index.position = head
        index.take_dirty()
        now = SystemClock().now()
        for stream, known in live.items():
            state = index.workloads.get(stream)
            if state is not None and state.local is not None:
                at, position = known.at.timestamp(), known.position
                directory.put(row_of_live(one_of(index, state, known.since, now), state.local, at, position))
        directory.filled()
        with self.lock:
            self.directory.close()
            self.directory, self.index, self.trends = directory, index, trends
            self.pending_pods = pending_pods
            self._folding, self._newest = Folding(index.fold), newest
            self.usage.begin(directory)
            self.ready, self.trouble = True, ""
        if newest is not None:
            self.usage.changed((), newest.recorded_at)
        self._tell(head)
