"""Keeps what a log says of one Workload: when it came, had room, ran and left, and the same of each of its copies.

In: what was seen of it, one after the other. Out: times, and the seconds that the clusters took for what they did.
What was seen of a Workload that is not simulated is kept as well: it takes room. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from controlplane.controllers.multikueue.objects import EVICTED_ON_MANAGER
from controlplane.controllers.multikueue.observations import CloneObserved, JobObserved, WorkloadObserved

MADE_AGAIN: Final = "made again under the name of one before it"
FINISHED_BEFORE: Final = "finished before it was first seen"
PLACED_BEFORE: Final = "placed before it was first seen"
THEIRS: Final = "beside a copy of its name that was made for another management cluster"
DELETING: Final = "deletion of the Workload"
QUEUE_STOPPED, LOCAL_QUEUE_STOPPED = "ClusterQueueStopped", "LocalQueueStopped"
"""Why Workloads of a stopped queue are evicted."""
_LATER: Final = 2**60
_BY_US: Final = (EVICTED_ON_MANAGER, f"DeactivatedDueTo{EVICTED_ON_MANAGER}")


class Stay:
    """A time in which something had a reservation: of which ClusterQueue, from when until when, None if it has it
    still, and the position in the log at which that was seen."""

    __slots__ = ("order", "queue", "since", "until")

    def __init__(self, since: datetime, order: int, queue: str = "") -> None:
        self.since, self.order, self.queue = since, order, queue
        self.until: datetime | None = None


class PastCopy:
    """A copy on a cluster: when it was asked for, seen, admitted, seen to be evicted, over or gone (`ended`), and
    seen to be gone; None for what was not. `lag`: the seconds by which its admission was seen later than its
    condition says; `made` and `order`: where its creation and its admission stand in the log. `stays`: the times in
    which it was admitted; `stops`: the seconds from each eviction until that was free again; `obeys`: those from each
    decision to deactivate it until it was evicted; `leaves`: those from the decision to remove it until it was gone,
    and of its job, by what is removed."""

    __slots__ = (
        "active", "admitted", "asked", "cluster", "created", "ended", "gone", "lag", "leaves", "made", "obeys", "order",
        "removed", "stays", "stopped", "stops", "told",
    )  # fmt: skip

    def __init__(self, cluster: str, asked: datetime) -> None:
        self.cluster, self.asked = cluster, asked
        self.created: datetime | None = None
        self.admitted: datetime | None = None
        self.ended: datetime | None = None
        self.gone: datetime | None = None
        self.stopped: datetime | None = None
        self.removed: dict[str, datetime] = {}
        self.leaves: dict[str, float] = {}
        self.stays: list[Stay] = []
        self.stops: Sequence[float] = ()
        self.told: datetime | None = None
        self.obeys: Sequence[float] = ()
        self.lag = 0.0
        self.made = self.order = 0
        self.active = True

    @property
    def rank(self) -> int:
        """Its number among those of one age: who was admitted is before who never was."""
        return self.order or _LATER + self.made

    def seen(self, event: CloneObserved, at: datetime, position: int) -> bool:
        """Take what was seen of it; return whether others than we evicted it, or deactivated it."""
        self._first(event, at, position)
        self._stays(event, at, position)
        was, self.active = self.active, event.active
        changed = was and not event.active
        if event.is_true("Finished"):
            self.ended = self.ended or at
        elif event.is_true("Evicted") and self.admitted is not None:
            self.ended = self.ended or at
            changed = self._evicted(at) or changed
        return changed and not any(
            one is not None and one.reason in _BY_US for one in map(event.condition, ("Evicted", "DeactivationTarget"))
        )

    def _first(self, event: CloneObserved, at: datetime, position: int) -> None:
        if self.created is None:
            self.created, self.made = at, position
        if event.is_true("Admitted") and self.admitted is None:
            self.admitted = at
            self.lag, self.order = _lag(event, at), position

    def _stays(self, event: CloneObserved, at: datetime, position: int) -> None:
        stays = self.stays and self.stays[-1].until is None
        has = event.is_true("QuotaReserved") and not event.is_true("Finished")
        if has and not stays and event.is_true("Admitted"):
            self.stays.append(Stay(at, position))
            self.stopped = None
        elif stays and not has:
            self._left(at)

    def _evicted(self, at: datetime) -> bool:
        first = self.stopped is None and bool(self.stays)
        if first:
            self.stopped = at
            if self.told is not None:
                self.obeys = [*self.obeys, (at - self.told).total_seconds()]
                self.told = None
            if self.stays[-1].until == at:
                self.stops = [*self.stops, 0.0]
        return first

    def _left(self, at: datetime) -> None:
        self.stays[-1].until = at
        if self.stopped is not None:
            self.stops = [*self.stops, (at - self.stopped).total_seconds()]

    def vanished(self, of: str, at: datetime) -> bool:
        """Note that it is gone, or its job (`of`); return whether nobody of ours had decided that."""
        asked = self.removed.get(of)
        if asked is not None:
            self.leaves.setdefault(of, (at - asked).total_seconds())
        if of == "Workload":
            self.gone, self.ended = self.gone or at, self.ended or at
            if self.stays and self.stays[-1].until is None:
                self._left(at)
        return not self.removed


class PastWorkload:
    """What the log says of one Workload; times are the log's. `made`: when a job of it on a cluster was asked for,
    and seen; `starts`: for how many seconds such a one was asked for until it ran; `evictions`: when its copy on a
    cluster was evicted there, or deactivated; `deletions`: when its copy on a cluster, or the job of it, was gone
    that nobody of ours removed, or was to go; `taken_back`: when Kueue evicted it on the management cluster for a
    reason of its own; `changes`: when its priority was changed, or whether it is active; `stays`: when it had a
    reservation there; `drains`: the seconds from each eviction until that was free again; `granted`: when it got some
    the last time, whether it had checks or not; `ran_least`: for how many seconds its job ran at most of those times
    in which it did not end."""

    __slots__ = (
        "arrived", "began", "changes", "copies", "deletions", "drains", "ended", "evictions", "finished", "first", "gone",
        "granted", "job", "job_stream", "made", "nominated", "placed", "ran_least", "reserved", "reserved_at", "run_cluster",
        "run_seconds", "running_since", "starts", "stays", "stopped", "stream", "taken_back", "wanted", "why_not",
    )  # fmt: skip

    def __init__(self, stream: str, first: WorkloadObserved, at: datetime) -> None:
        self.stream, self.first, self.wanted, self.arrived = stream, first, first, at
        self.granted: datetime | None = None
        self.reserved: WorkloadObserved | None = None
        self.reserved_at: datetime | None = None
        self.ran_least = 0.0
        self.stays: list[Stay] = []
        self.stopped: datetime | None = None
        self.drains: list[float] = []
        self.job: JobObserved | None = None
        self.job_stream = ""
        self.copies: dict[str, list[PastCopy]] = {}
        self.made: list[tuple[datetime, datetime]] = []
        self.starts: list[float] = []
        self.nominated: list[tuple[datetime, float]] = []
        self.running_since: datetime | None = None
        self.run_cluster = ""
        self.ended: datetime | None = None
        self.began: list[tuple[datetime, str]] = []
        self.run_seconds: float | None = None
        self.placed: list[tuple[int, datetime, str]] = []
        self.evictions: list[tuple[datetime, str, CloneObserved]] = []
        self.deletions: list[tuple[datetime, str, str]] = []
        self.taken_back: list[tuple[datetime, WorkloadObserved]] = []
        self.changes: list[tuple[datetime, WorkloadObserved]] = []
        self.finished: datetime | None = None
        self.gone: datetime | None = None
        self.why_not = _beyond(first)

    @property
    def is_elsewhere(self) -> bool:
        """Whether it takes room in its ClusterQueue as it did: it is not simulated, or had its reservation without
        our check."""
        return bool(self.why_not) or (self.reserved is None and bool(self.stays))

    def is_of(self, begin: datetime) -> bool:
        """Whether it was there after a time, and had not finished before."""
        ends = [at for at in (self.gone, self.finished) if at is not None]
        return not ends or min(ends) > begin

    @property
    def finish_seconds(self) -> float:
        """The seconds from when its job was seen to have ended on its cluster until it was Finished."""
        if self.ended is None or self.finished is None:
            return 0.0
        return max((self.finished - self.ended).total_seconds(), 0.0)

    @property
    def ran(self) -> float | None:
        """For how long its job ran, on a cluster or, without checks, on the management cluster; None if that is not
        known."""
        if self.run_seconds is None and self.granted and self.finished and self.reserved is None:
            return (self.finished - self.granted).total_seconds()
        return self.run_seconds

    def own(self, stream: str, job: JobObserved) -> None:
        """Note which job it is of."""
        self.job_stream, self.job = stream, job
        if job.group or job.components > 1:
            self.why_not = self.why_not or _SEVERAL

    def seen(self, event: WorkloadObserved, at: datetime, position: int) -> None:
        """Take what was seen of it."""
        self._stays(event, at, position)
        self._granted(event, at, position)
        if (event.priority, event.active) != (self.wanted.priority, self.wanted.active):
            self.changes.append((at, event))
            self.wanted = event
        if event.is_true("Finished"):
            self.finished = self.finished or at
        elif event.is_true("Evicted"):
            evicted = event.condition("Evicted")
            told = self.taken_back[-1][1].condition("Evicted") if self.taken_back else None
            if evicted is not None and evicted.reason != "AdmissionCheck" and evicted != told:
                self.taken_back.append((at, event))

    def _stays(self, event: WorkloadObserved, at: datetime, position: int) -> None:
        has = event.is_true("QuotaReserved") and not event.is_true("Finished")
        stays = self.stays and self.stays[-1].until is None
        if has and not stays:
            self.stays.append(Stay(at, position, event.cluster_queue))
            self.stopped = None
        elif not has and stays:
            self.left(at)
        if has and event.is_true("Evicted"):
            self.stopped = self.stopped or at

    def _granted(self, event: WorkloadObserved, at: datetime, position: int) -> None:
        if self.why_not == FINISHED_BEFORE:
            return  # how long it ran is not known
        if not event.is_true("QuotaReserved"):
            self.granted = self.granted if event.is_true("Finished") else None
            return
        self.granted = self.granted or at
        if self.reserved is None and event.checks:
            self.reserved, self.reserved_at = event, at
            if self.stays and self.stays[-1].until is None:  # nothing follows from it before it has its checks
                self.stays[-1].since, self.stays[-1].order = at, position

    def job_seen(self, asked: datetime, at: datetime) -> None:
        """Note that its job on a cluster is seen, which was asked for."""
        if not self.made or self.made[-1][0] != asked:
            self.made.append((asked, at))

    def job_stopped(self, at: datetime) -> None:
        """Note that its job does not run any more where it ran, and has not ended."""
        if self.run_seconds is None:
            if self.running_since is not None:
                self.ran_least = max(self.ran_least, (at - self.running_since).total_seconds())
            self.running_since = None

    def is_apart(self, evicted: WorkloadObserved) -> bool:
        """Whether it was evicted for something else than what the engine decides, or what queues say."""
        said = evicted.condition("Evicted")
        return said is not None and said.reason not in ("Preempted", QUEUE_STOPPED, LOCAL_QUEUE_STOPPED)

    def left(self, at: datetime) -> None:
        """Note that it has no reservation any more."""
        if self.stays and self.stays[-1].until is None:
            self.stays[-1].until = at
            if self.stopped is not None:
                self.drains.append((at - self.stopped).total_seconds())


_SEVERAL: Final = "one of several Workloads of a job, or of a group of pods"


def _beyond(seen: WorkloadObserved) -> str:
    """Return why a Workload is not simulated, "" if it is."""
    if seen.sliced:
        return "a slice of an elastic job"
    if seen.component >= 0 or len(seen.owners) > 1:
        return _SEVERAL
    if seen.is_true("Finished"):
        return FINISHED_BEFORE
    if seen.cluster_name:
        return PLACED_BEFORE
    return "" if seen.owner is not None else "it has no job"


def _lag(clone: CloneObserved, at: datetime) -> float:
    said = clone.condition("Admitted")
    try:
        return (at - datetime.fromisoformat(said.last_transition_time)).total_seconds() if said is not None else 0.0
    except ValueError:
        return 0.0
