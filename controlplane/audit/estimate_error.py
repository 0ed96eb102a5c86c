"""How good the estimates of when quota is reserved were: made again as of moments in the past, and held against what
came.

In: a reader, the engine's settings, a time. Out: for each LocalQueue how many waits were looked at, how far the
estimates were off, and how often their bound held. The log is folded once, in order, and an estimate is made as soon as
all that was recorded until its moment is folded: it rests on nothing that was recorded later."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import Any, LiteralString

from controlplane.audit.quota_estimate import Estimate, estimate
from controlplane.audit.quota_runs import MOST_RUNS, NEWEST, Durations, EndedRun, identity
from controlplane.audit.quota_story import OF_WORKLOAD
from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.manifest import MANIFEST
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding
from controlplane.values import Value

MOST_RESERVATIONS = 20_000
# Reservations after a wait that was told: a wait begins when it is first said, after the reservation before. What was
# overtaken was none.
_WAITS: LiteralString = """
SELECT r.stream, r.position, r.recorded_at AS until, w.since, w.queue
FROM (
    SELECT e.log, e.stream, e.position, e.recorded_at FROM audit.events e
    WHERE e.log = %(log)s AND e.type = 'QuotaReservationDecided' AND e.position <= %(until)s
      AND (%(since)s::timestamptz IS NULL OR e.position > audit.position_at(%(log)s, %(since)s))
    ORDER BY e.position DESC LIMIT %(most)s
) r
CROSS JOIN LATERAL (
    SELECT min(e.recorded_at) AS since,
           (SELECT (s.data ->> 'namespace') || '/' || coalesce(s.data ->> 'queue', '') FROM audit.events s
            WHERE s.log = r.log AND s.stream = r.stream AND s.position < r.position AND s.type = 'AdmissionWorkloadObserved'
            ORDER BY s.position DESC LIMIT 1) AS queue
    FROM audit.events e
    WHERE e.log = r.log AND e.stream = r.stream AND e.position < r.position AND e.type = 'WorkloadInadmissible'
      AND e.position > coalesce((SELECT max(b.position) FROM audit.events b WHERE b.log = r.log AND b.stream = r.stream
                                 AND b.position < r.position AND b.type = 'QuotaReservationDecided'), 0)
) w
WHERE w.since < r.recorded_at
  AND coalesce((SELECT e.reason FROM audit.events e WHERE e.log = r.log AND e.stream = r.stream AND e.position > r.position
                AND e.type = 'QuotaPosted' ORDER BY e.position LIMIT 1), '') <> 'ReservationOvertaken'
ORDER BY r.position"""


class EndedWait(Value):
    """A wait for quota that has ended: of the Workload `key` in a LocalQueue, NAMESPACE/NAME; `moment` is the one in it
    as of which an estimate is made."""

    key: str
    queue: str
    since: datetime
    until: datetime
    moment: datetime


class Tried(Value):
    """An estimate of the past, beside what came."""

    wait: EndedWait
    estimate: Estimate

    @property
    def error(self) -> float | None:
        """By how many seconds quota was reserved later than estimated, negative for earlier; None without an
        estimate."""
        at = self.estimate.at
        return None if at is None else (self.wait.until - at).total_seconds()

    @property
    def held(self) -> bool | None:
        """Whether quota was reserved by the bound; None without one."""
        late = self.estimate.late
        return None if late is None else self.wait.until <= late


class Figures(Value):
    """The figures of a LocalQueue, or of all (`""`): how many waits there were and how many had an estimate; the
    medians, in seconds, of what was left of the wait, of how far the estimate was off, and of by how much quota came
    later than estimated; how many had a bound, and the share of those that kept it."""

    queue: str
    waits: int
    estimated: int
    left: float | None
    error: float | None
    bias: float | None
    bounds: int
    held: float | None


def ended_waits(
    reader: LogReader, since: datetime | None = None, queue: str | None = None, most: int = 200
) -> list[EndedWait]:
    """Return waits that have ended since a time, of a LocalQueue (its name or NAMESPACE/NAME) if one is named: at most
    so many, spread evenly over the log. Each has a moment in it that follows from its name."""
    until = reader.head() if reader.until is None else reader.until
    rows = reader.rows(_WAITS, since=since, until=until, most=MOST_RESERVATIONS)
    rows = [row for row in rows if queue is None or queue in (row["queue"], row["queue"].partition("/")[2])]
    if len(rows) > most:
        rows = [rows[place * len(rows) // most] for place in range(most)]
    return [_wait(row) for row in rows]


def _wait(row: dict[str, Any]) -> EndedWait:
    key, since, until = row["stream"].removeprefix(OF_WORKLOAD), row["since"], row["until"]
    share = int.from_bytes(hashlib.sha256(f"{key} {row['position']}".encode()).digest()[:6]) / 2**48
    return EndedWait(key=key, queue=row["queue"], since=since, until=until, moment=since + (until - since) * share)


class KnownRuns:
    """The runs that have ended so far, as events are folded: the newest, as `quota_runs.recorded` reads them."""

    def __init__(self) -> None:
        self._began: dict[str, datetime] = {}
        self._runs: deque[tuple[int, EndedRun]] = deque(maxlen=MOST_RUNS)

    def fold(self, recorded: Recorded, index: AdmissionIndex) -> None:
        """Take one more event; `index` has folded those before it."""
        match recorded.event:
            case (
                admission.QuotaReservationDecided() | admission.QuotaPosted(reason=AdmissionReason.OBSERVED_RESERVATION)
            ):
                self._began[recorded.stream] = recorded.recorded_at
            case admission.QuotaPosted(reason=AdmissionReason.WORKLOAD_FINISHED):
                began = self._began.pop(recorded.stream, None)
                seen = index.workload(recorded.stream.removeprefix(OF_WORKLOAD)).observed
                if began is not None and seen is not None:
                    run = EndedRun(*identity(seen), (recorded.recorded_at - began).total_seconds())
                    self._runs.append((recorded.position, run))
            case admission.AdmissionWorkloadGone():
                self._began.pop(recorded.stream, None)

    def durations(self, position: int) -> Durations:
        """Return how long they lasted, as of a position."""
        return Durations(run for at, run in self._runs if at > position - NEWEST)


def tried(events: Iterable[Recorded], settings: EngineSettings, waits: Sequence[EndedWait]) -> Iterator[Tried]:
    """Yield the estimates as of the moments of some waits. `events` are those of admission, in the log's order; those
    after the last moment are not asked for."""
    index, runs, position = AdmissionIndex(settings), KnownRuns(), 0
    folding = Folding(index.fold)
    open_ = deque(sorted(waits, key=lambda one: (one.moment, one.key)))
    for recorded in events:
        while open_ and open_[0].moment < recorded.recorded_at:
            yield from _tried(index, runs.durations(position), open_.popleft())
        if not open_:
            return
        runs.fold(recorded, index)
        folding(recorded)
        position = recorded.position
    for wait in open_:
        yield from _tried(index, runs.durations(position), wait)


def _tried(index: AdmissionIndex, durations: Durations, wait: EndedWait) -> Iterator[Tried]:
    why = explain(index.engine, wait.key, wait.moment.timestamp())
    if why is not None:
        yield Tried(wait=wait, estimate=estimate(index, durations, wait.key, why, wait.moment))


def measured(
    reader: LogReader, settings: EngineSettings, since: datetime | None, queue: str | None, most: int
) -> list[Figures]:
    """Return the figures of each LocalQueue, by name, and those of all together last; none if no wait has ended."""
    waits = ended_waits(reader, since, queue, most)
    events = reader.events(Filter(types=[kind.__name__ for kind in MANIFEST.events]))
    found = list(tried(events, settings, waits)) if waits else []
    queues = sorted({one.wait.queue for one in found})
    each = [figures(name, [one for one in found if one.wait.queue == name]) for name in queues]
    return [*each, figures("", found)] if found else []


def figures(queue: str, found: Sequence[Tried]) -> Figures:
    """Return the figures of some estimates."""
    errors = [one.error for one in found if one.error is not None]
    held = [one.held for one in found if one.held is not None]
    return Figures(
        queue=queue,
        waits=len(found),
        estimated=len(errors),
        left=_median([(one.wait.until - one.wait.moment).total_seconds() for one in found]),
        error=_median([abs(one) for one in errors]),
        bias=_median(errors),
        bounds=len(held),
        held=sum(held) / len(held) if held else None,
    )


def _median(found: Sequence[float]) -> float | None:
    return median(found) if found else None
