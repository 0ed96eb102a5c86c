"""Reads out of a recorded log what happened to the clusters and to each Workload: what a simulation of the same time
begins with.

In: the events of a log in order. Out: for each Workload when it came, for how long its job ran, and how long each
cluster took to admit it; what was seen of everything else, to be seen again at the same times. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property
from statistics import median

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterLost,
    ClusterRecovered,
    ClusterSuspected,
    MassOutageBegan,
    MassOutageEnded,
    ServiceStarted,
)
from controlplane.controllers.multikueue.events import (
    CloneDecided,
    JobCreationDecided,
    NominationDecided,
    WinnerChosen,
    WorkloadDecision,
)
from controlplane.controllers.multikueue.observations import (
    CloneGone,
    CloneObserved,
    JobObserved,
    MultiKueueClusterObserved,
    MultiKueueConfigObserved,
    RemoteJobGone,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.log.event import Recorded
from controlplane.runtime.writes import WriteFailed, WriteUnneeded
from controlplane.whatif.quota_history import ADMISSION, QuotaHistory

_LONGEST_SILENCE = timedelta(minutes=1)
_JUST_AFTER = timedelta(milliseconds=1)
_JOBS = "jobframework"
_USUAL_RUN = 60.0  # seconds, where no run was recorded
SLOTS = "workloads"
"""What every Workload asks for one of: the capacity of a cluster of which nothing else is known."""
Requests = Mapping[str, float]


class PastCopy:
    """A copy on a cluster: when it was asked for, seen, admitted, and seen to be gone or over; None for what was not.
    `lag`: the seconds by which its admission was seen later than its condition says; `made` and `order`: where its
    creation and its admission stand in the log."""

    __slots__ = ("admitted", "asked", "cluster", "created", "ended", "lag", "made", "order")

    def __init__(self, cluster: str, asked: datetime) -> None:
        self.cluster, self.asked = cluster, asked
        self.created: datetime | None = None
        self.admitted: datetime | None = None
        self.ended: datetime | None = None
        self.lag = 0.0
        self.made = self.order = 0


class PastWorkload:
    """What the log says of one Workload; times are the log's. `evictions`: when its copy on a cluster was evicted
    there; `taken_back`: when Kueue evicted it on the management cluster for a reason of its own; `turn`: where in the
    log it got quota; `granted`: when it did the last time, whether it had checks or not."""

    __slots__ = (
        "arrived", "began", "copies", "ended", "evictions", "finished", "first", "gone", "granted", "job", "job_stream",
        "nominated", "placed", "reserved", "reserved_at", "run_cluster", "run_seconds", "running_since", "starts", "stream",
        "taken_back", "turn", "why_not",
    )  # fmt: skip

    def __init__(self, stream: str, first: WorkloadObserved, at: datetime) -> None:
        self.stream, self.first, self.arrived = stream, first, at
        self.granted: datetime | None = None
        self.reserved: WorkloadObserved | None = None
        self.reserved_at: datetime | None = None
        self.turn = 0
        self.job: JobObserved | None = None
        self.job_stream = ""
        self.copies: dict[str, list[PastCopy]] = {}
        self.starts: list[float] = []
        self.nominated: list[tuple[datetime, float]] = []
        self.running_since: datetime | None = None
        self.run_cluster = ""
        self.ended: datetime | None = None
        self.began: list[tuple[datetime, str]] = []
        self.run_seconds: float | None = None
        self.placed: list[tuple[int, datetime, str]] = []
        self.evictions: list[tuple[datetime, str, CloneObserved]] = []
        self.taken_back: list[tuple[datetime, WorkloadObserved]] = []
        self.finished: datetime | None = None
        self.gone: datetime | None = None
        self.why_not = _beyond(first)

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


def _beyond(seen: WorkloadObserved) -> str:
    """Return why a Workload is not simulated, "" if it is."""
    if seen.sliced:
        return "a slice of an elastic job"
    if seen.component >= 0 or len(seen.owners) > 1:
        return "one of several Workloads of a job, or of a group of pods"
    return "" if seen.owner is not None else "it has no job"


class History:
    """What a log says up to some time. `requests`: what Workloads ask for, by stream, where the log's reader knows.
    `quota`: what quota was decided on, where this service decided about it; `outside`: what was seen beside Workloads
    and jobs; `silences`: since when nothing was seen of clusters that were then suspected or lost; `absences`: from
    when until when no process of the service led; `again`: the UIDs of Workloads that were made again under a name,
    which are not simulated."""

    def __init__(self, requests: Mapping[str, Requests] | None = None) -> None:
        self.requests = requests or {}
        self.workloads: dict[str, PastWorkload] = {}
        self.outside: list[Recorded] = []
        self.last: datetime | None = None
        self.delays: dict[str, list[float]] = {}
        self.absences: list[tuple[datetime, datetime]] = []
        self.silences: list[tuple[datetime, str]] = []
        self.quota = QuotaHistory()
        self.again: set[str] = set()
        self._seen_at: dict[str, datetime] = {}
        self._silent: set[str] = set()
        self._jobs: dict[str, tuple[str, JobObserved]] = {}
        self._owners: dict[str, list[PastWorkload]] = {}
        self._asked: dict[tuple[str, str], datetime] = {}

    def take(self, recorded: Recorded) -> None:
        """Take the next event."""
        self.last = recorded.recorded_at
        word, _, rest = recorded.stream.partition("/")
        if word == "workload":
            self._workload(recorded)
        elif word == ADMISSION:
            past = self.workloads.get(rest)
            if self.quota.take(recorded, simulated=past is not None and not past.why_not):
                self.outside.append(recorded)
        elif word == "job":
            if isinstance(recorded.event, JobObserved):
                self._job(recorded.stream, recorded.event)
        elif word != _JOBS and not isinstance(recorded.event, _OURS):
            self.outside.append(recorded)
            if word == "cluster":
                self._connection(recorded)
            elif isinstance(recorded.event, ServiceStarted) and recorded.event.unwatched_since is not None:
                self.absences.append((recorded.event.unwatched_since, recorded.recorded_at))

    def _connection(self, recorded: Recorded) -> None:
        """Note when a cluster fell silent: nobody knows it sooner than when it was suspected."""
        event, cluster, at = recorded.event, recorded.cluster, recorded.recorded_at
        if isinstance(event, ClusterSuspected | ClusterLost) and cluster not in self._silent:
            self._silent.add(cluster)
            self.silences.append((max(self._seen_at.get(cluster, at), at - _LONGEST_SILENCE), cluster))
        elif isinstance(event, ClusterRecovered | ClusterConnected):
            self._silent.discard(cluster)

    def request(self, stream: str) -> dict[str, float]:
        """Return what a Workload asks for; what is not known of it, as of one that never ran, is as usual."""
        found = self.requests.get(stream)
        return {**(self._usual if found is None else found), SLOTS: 1.0}

    @cached_property
    def _usual(self) -> dict[str, float]:
        names = {name for one in self.requests.values() for name in one}
        return {name: median(one.get(name, 0.0) for one in self.requests.values()) for name in sorted(names)}

    def delay(self, cluster: str) -> float:
        """Return the usual seconds from the creation of a copy on a cluster to its admission where there is room."""
        return median(self.delays[cluster]) if self.delays.get(cluster) else 0.0

    def run_seconds(self, past: PastWorkload) -> float | None:
        """Return for how long a job runs: as long as it did, or as is usual if it never did; None if it never ended."""
        here = past.reserved is None and past.granted is not None
        return self._usual_run if past.ran is None and past.running_since is None and not here else past.ran

    @cached_property
    def _usual_run(self) -> float:
        runs = [past.ran for past in self.workloads.values() if past.ran is not None]
        return median(runs) if runs else _USUAL_RUN

    def clusters(self) -> list[str]:
        """Return the names of the workers that the log knows."""
        named = {one.event.name for one in self.outside if isinstance(one.event, MultiKueueClusterObserved)}
        listed = {
            name
            for one in self.outside
            if isinstance(one.event, MultiKueueConfigObserved)
            for name in one.event.clusters
        }
        return sorted(named | listed)

    def queues(self) -> dict[str, str]:
        """Return the ClusterQueues of the management cluster that are known, or in which Workloads had quota, and who
        decides about it here: the `engine`; one `capacity`, where their Workloads were not seen by this service before
        they had quota; or `both`, of a log in which that changed."""
        ways = {name: {"engine"} for name in self.quota.queues}
        for stream, past in self.workloads.items():
            if past.reserved is not None:
                request = self.quota.requests.get(stream)
                way = "engine" if request is not None and request.by_engine else "capacity"
                ways.setdefault(past.reserved.cluster_queue, set()).add(way)
        return {name: next(iter(found)) if len(found) == 1 else "both" for name, found in sorted(ways.items())}

    def _job(self, stream: str, event: JobObserved) -> None:
        if event.uid not in self._jobs:
            self._jobs[event.uid] = (stream, event)
            for workload in self._owners.pop(event.uid, ()):
                _own(workload, stream, event)

    def _workload(self, recorded: Recorded) -> None:
        event, past = recorded.event, self.workloads.get(recorded.stream)
        if isinstance(event, WorkloadObserved):
            if past is None:
                past = self.workloads[recorded.stream] = self._new(recorded, event)
            if event.uid != past.first.uid:
                self._again(past, event, recorded)
                return
            _seen(past, event, recorded.recorded_at)
            if past.reserved is event:
                past.turn = recorded.position
            if event.nominated and (asked := self._asked.pop((past.stream, MANAGEMENT), None)) is not None:
                past.nominated.append((asked, (recorded.recorded_at - asked).total_seconds()))
        elif past is None:
            return
        elif isinstance(event, WorkloadGone):
            if event.uid == past.first.uid:
                past.gone = recorded.recorded_at
        elif isinstance(event, WorkloadDecision) and past.gone is None:
            self._decided(past, event, recorded)
        else:
            self._copy(past, recorded)

    def _again(self, past: PastWorkload, event: WorkloadObserved, recorded: Recorded) -> None:
        """Note that a Workload was made again under its name; a list may say later that the one before is gone."""
        self.again.add(event.uid)
        past.gone = past.gone or recorded.recorded_at

    def _new(self, recorded: Recorded, event: WorkloadObserved) -> PastWorkload:
        past = PastWorkload(recorded.stream, event, recorded.recorded_at)
        uid = event.owner.uid if event.owner is not None else ""
        if uid in self._jobs:
            _own(past, *self._jobs[uid])
        else:
            self._owners.setdefault(uid, []).append(past)
        return past

    def _decided(self, past: PastWorkload, event: WorkloadDecision, recorded: Recorded) -> None:
        at = recorded.recorded_at
        if isinstance(event, NominationDecided):
            self._asked[past.stream, MANAGEMENT] = at
        elif isinstance(event, CloneDecided):
            past.copies.setdefault(event.cluster, []).append(PastCopy(event.cluster, at))
        elif isinstance(event, WinnerChosen):
            past.placed.append((recorded.position, at, event.cluster))
        elif isinstance(event, JobCreationDecided):
            self._asked[past.stream, event.cluster] = at

    def _copy(self, past: PastWorkload, recorded: Recorded) -> None:
        event, at, cluster = recorded.event, recorded.recorded_at, recorded.cluster
        self._seen_at[cluster] = at + _JUST_AFTER
        copies = past.copies.get(cluster)
        if isinstance(event, RemoteJobObserved | RemoteJobGone):
            self._remote_job(past, recorded)
        elif not copies:
            return
        elif isinstance(event, CloneGone):
            copies[-1].ended = copies[-1].ended or at
        elif isinstance(event, CloneObserved) and _clone(copies[-1], event, recorded) and not past.first.deleting:
            past.evictions.append((at, cluster, event))

    def _remote_job(self, past: PastWorkload, recorded: Recorded) -> None:
        event, at = recorded.event, recorded.recorded_at
        if isinstance(event, RemoteJobObserved) and event.finished:
            self._ran(past, recorded.cluster, at)
        elif isinstance(event, RemoteJobObserved) and not event.suspended:
            asked = self._asked.pop((past.stream, recorded.cluster), None)
            if asked is not None:
                past.starts.append((at - asked).total_seconds())
                past.running_since, past.run_cluster = at, recorded.cluster
                past.began.append((at, recorded.cluster))
        elif past.run_cluster == recorded.cluster and past.run_seconds is None:
            past.running_since = None

    def _ran(self, past: PastWorkload, cluster: str, at: datetime) -> None:
        """Note for how long a job ran. Of one that ended out of view only a bound is known, which counts where nothing
        else does."""
        if past.finished is None:
            past.ended = at
        asked = self._asked.pop((past.stream, cluster), None)
        since = next((began for began, where in reversed(past.began) if where == cluster), asked)
        if past.run_cluster == cluster:
            past.running_since = None
        if since is not None and (past.run_seconds is None or cluster not in self._silent):
            past.run_seconds = (at - since).total_seconds()


_OURS = (MassOutageBegan, MassOutageEnded, WorkloadDecision, WriteFailed, WriteUnneeded)
"""What follows from the rest, and is left to the simulation."""


def _own(past: PastWorkload, stream: str, job: JobObserved) -> None:
    past.job_stream, past.job = stream, job
    if job.group or job.components > 1:
        past.why_not = "one of several Workloads of a job, or of a group of pods"


def _seen(past: PastWorkload, event: WorkloadObserved, at: datetime) -> None:
    _granted(past, event, at)
    if event.is_true("Finished"):
        past.finished = past.finished or at
    elif event.is_true("Evicted"):
        evicted = event.condition("Evicted")
        told = past.taken_back[-1][1].condition("Evicted") if past.taken_back else None
        if evicted is not None and evicted.reason != "AdmissionCheck" and evicted != told:
            past.taken_back.append((at, event))


def _granted(past: PastWorkload, event: WorkloadObserved, at: datetime) -> None:
    if not event.is_true("QuotaReserved"):
        past.granted = past.granted if event.is_true("Finished") else None
        return
    past.granted = past.granted or at
    if past.reserved is None and event.checks:
        past.reserved, past.reserved_at = event, at


def _clone(copy: PastCopy, event: CloneObserved, recorded: Recorded) -> bool:
    """Take what was seen of a copy; return whether it was evicted after its admission."""
    at = recorded.recorded_at
    if copy.created is None:
        copy.created, copy.made = at, recorded.position
    if event.is_true("Admitted") and copy.admitted is None:
        copy.admitted = at
        copy.lag, copy.order = _lag(event, at), recorded.position
    if event.is_true("Finished"):
        copy.ended = copy.ended or at
    elif event.is_true("Evicted") and copy.admitted is not None and copy.ended is None:
        copy.ended = at
        return True
    return False


def _lag(clone: CloneObserved, at: datetime) -> float:
    said = clone.condition("Admitted")
    try:
        return (at - datetime.fromisoformat(said.last_transition_time)).total_seconds() if said is not None else 0.0
    except ValueError:
        return 0.0
