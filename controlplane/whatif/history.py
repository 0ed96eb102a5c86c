"""Reads out of a recorded log what happened to the clusters and to each Workload: what a simulation of the same time
begins with.

In: the events of a log in order. Out: for each Workload when it came, for how long its job ran, and how long each
cluster took to admit it; what was seen of everything else, to be seen again at the same times. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
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
from controlplane.controllers.connectivity.watched import BESIDE
from controlplane.controllers.multikueue.events import (
    CloneDecided,
    DeactivationDecided,
    JobCreationDecided,
    NominationDecided,
    RemovalDecided,
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
from controlplane.whatif.past import (
    DELETING,
    MADE_AGAIN,
    PLACED_BEFORE,
    QUEUE_STOPPED,
    THEIRS,
    PastCopy,
    PastWorkload,
)
from controlplane.whatif.quota_history import ADMISSION, QuotaHistory

_LONGEST_SILENCE = timedelta(minutes=1)
_JUST_AFTER = timedelta(milliseconds=1)
_EVER = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_JOBS = "jobframework"
_USUAL_RUN = 60.0  # seconds, where no run was recorded
SLOTS = "workloads"
"""What every Workload asks for one of: the capacity of a cluster of which nothing else is known."""
Requests = Mapping[str, float]


class History:
    """What a log says up to some time. `requests`: what Workloads ask for, by stream, where the log's reader knows.
    `quota`: what quota was decided on, where this service decided about it; `outside`: what was seen beside Workloads
    and jobs; `silences`: since when nothing was seen of clusters that were suspected or lost at a time; `absences`:
    from when until when no process of the service led; `again`: the UIDs of Workloads that were made again under a
    name, which are not simulated, and `later` what is known of them; `stops`: from when until when a ClusterQueue was
    stopped as far as evictions tell, by its name."""

    def __init__(self, requests: Mapping[str, Requests] | None = None) -> None:
        self.requests = requests or {}
        self.workloads: dict[str, PastWorkload] = {}
        self.outside: list[Recorded] = []
        self.last: datetime | None = None
        self.absences: list[tuple[datetime, datetime]] = []
        self.silences: list[tuple[datetime, datetime, str]] = []
        self.quota = QuotaHistory()
        self.again: set[str] = set()
        self.later: list[PastWorkload] = []
        self.stops: list[tuple[datetime, datetime | None, str]] = []
        self._latest: dict[str, PastWorkload] = {}
        self._theirs: dict[str, set[str]] = {}
        self._stopped: dict[str, int] = {}
        self._led_at: datetime | None = None
        self._seen_at: dict[str, datetime] = {}
        self._silent: set[str] = set()
        self._away: dict[str, tuple[datetime, datetime]] = {}
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
            elif isinstance(recorded.event, ServiceStarted):
                self._began(recorded.event, recorded.recorded_at)
        if not isinstance(recorded.event, BESIDE):
            self._led_at = recorded.recorded_at + _JUST_AFTER

    def _began(self, event: ServiceStarted, at: datetime) -> None:
        """Note since when nobody led: a heartbeat is a sign of a process, and what it recorded after it is one too."""
        if event.unwatched_since is not None:
            self.absences.append((max(event.unwatched_since, self._led_at or event.unwatched_since), at))

    def _connection(self, recorded: Recorded) -> None:
        """Note when a cluster fell silent: nobody knows it sooner than when it was suspected."""
        event, cluster, at = recorded.event, recorded.cluster, recorded.recorded_at
        if isinstance(event, ClusterSuspected | ClusterLost) and cluster not in self._silent:
            self._silent.add(cluster)
            self.silences.append((max(self._seen_at.get(cluster, at), at - _LONGEST_SILENCE), at, cluster))
            self._away[cluster] = self.silences[-1][0], _EVER
        elif isinstance(event, ClusterRecovered | ClusterConnected):
            if cluster in self._silent:
                self._away[cluster] = self._away[cluster][0], at
            self._silent.discard(cluster)

    def request(self, stream: str) -> dict[str, float]:
        """Return what a Workload asks for; what is not known of it, as of one that never ran, is as usual."""
        found = self.requests.get(stream)
        return {**(self._usual if found is None else found), SLOTS: 1.0}

    def resources(self) -> set[str]:
        """Return the resources that Workloads ask for, as far as the log knows; each asks for one of `SLOTS`."""
        return {SLOTS, *(name for one in self.requests.values() for name in one)}

    @cached_property
    def mean_request(self) -> dict[str, float]:
        """What a Workload asks for on average, of those of which that is known; each asks for one of `SLOTS`."""
        names = {name for one in self.requests.values() for name in one}
        count = len(self.requests)
        return {SLOTS: 1.0} | {
            name: sum(one.get(name, 0.0) for one in self.requests.values()) / count for name in names
        }

    @cached_property
    def _usual(self) -> dict[str, float]:
        names = {name for one in self.requests.values() for name in one}
        return {name: median(one.get(name, 0.0) for one in self.requests.values()) for name in sorted(names)}

    def run_seconds(self, past: PastWorkload) -> float | None:
        """Return for how long a job runs: as long as it did, or as is usual if it never ended and was never seen to
        run for longer; None if it never ended, and that is not so."""
        here = past.reserved is None and past.granted is not None
        if past.ran is not None or past.running_since is not None or here:
            return past.ran
        return self._usual_run if self._usual_run > past.ran_least else None

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
        decides about it here: the `engine`; one `capacity`, where their Workloads were not seen by this service
        before they had quota; or `both`, of a log in which that changed."""
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
                workload.own(stream, event)

    def _workload(self, recorded: Recorded) -> None:
        if not self._is_theirs(recorded):
            self._own(recorded)

    def _own(self, recorded: Recorded) -> None:
        event, past = recorded.event, self._latest.get(recorded.stream)
        if isinstance(event, WorkloadObserved):
            if past is None:
                past = self.workloads[recorded.stream] = self._latest[recorded.stream] = self._new(recorded, event)
            elif event.uid != past.first.uid:
                past = self._again(past, event, recorded)
            self._seen(past, event, recorded)
        elif past is None:
            return
        elif isinstance(event, WorkloadGone):
            if event.uid == past.first.uid:
                past.gone = recorded.recorded_at
                past.left(recorded.recorded_at)
        elif isinstance(event, WorkloadDecision) and past.gone is None:
            self._decided(past, event, recorded)
        else:
            self._copy(past, recorded)

    def _is_theirs(self, recorded: Recorded) -> bool:
        """Whether something is of a copy that was made for another management cluster; note which there are."""
        event, stream = recorded.event, recorded.stream
        if not isinstance(event, CloneObserved | RemoteJobObserved | CloneGone | RemoteJobGone):
            return False
        theirs, is_seen = self._theirs.setdefault(stream, set()), isinstance(event, CloneObserved | RemoteJobObserved)
        found = bool(event.made_for) if isinstance(event, CloneObserved | RemoteJobObserved) else event.uid in theirs
        (theirs.add if found and is_seen else theirs.discard)(event.uid)
        past = self._latest.get(stream)
        if found:
            self._seen_at[recorded.cluster] = recorded.recorded_at + _JUST_AFTER
            if past is not None and past.gone is None:
                past.why_not = past.why_not or THEIRS
        return found

    def _seen(self, past: PastWorkload, event: WorkloadObserved, recorded: Recorded) -> None:
        at, before = recorded.recorded_at, (len(past.stays), len(past.taken_back))
        past.seen(event, at, recorded.position)
        if len(past.stays) > before[0]:
            self._opened(past.stays[-1].queue, at)
        evicted = event.condition("Evicted") if len(past.taken_back) > before[1] else None
        if evicted is not None and evicted.reason == QUEUE_STOPPED and past.stays:
            self._closed(past.stays[-1].queue, at)
        if event.nominated and (asked := self._asked.pop((past.stream, MANAGEMENT), None)) is not None:
            past.nominated.append((asked, (at - asked).total_seconds()))

    def _closed(self, queue: str, at: datetime) -> None:
        if queue not in self._stopped:
            self._stopped[queue] = len(self.stops)
            self.stops.append((at, None, queue))

    def _opened(self, queue: str, at: datetime) -> None:
        """Note that somebody got quota of a ClusterQueue: it is not stopped any more."""
        if (number := self._stopped.pop(queue, None)) is not None:
            self.stops[number] = (self.stops[number][0], at, queue)

    def _again(self, past: PastWorkload, event: WorkloadObserved, recorded: Recorded) -> PastWorkload:
        """Note that a Workload was made again under its name; a list may say later that the one before is gone."""
        if event.uid in self.again:
            return past
        self.again.add(event.uid)
        past.gone = past.gone or recorded.recorded_at
        past.left(recorded.recorded_at)
        found = self._latest[recorded.stream] = self._new(recorded, event)
        found.why_not = MADE_AGAIN
        self.later.append(found)
        return found

    def _new(self, recorded: Recorded, event: WorkloadObserved) -> PastWorkload:
        past = PastWorkload(recorded.stream, event, recorded.recorded_at)
        past.why_not = past.why_not or (THEIRS if self._theirs.get(recorded.stream) else "")
        uid = event.owner.uid if event.owner is not None else ""
        if uid in self._jobs:
            past.own(*self._jobs[uid])
        else:
            self._owners.setdefault(uid, []).append(past)
        return past

    def _decided(self, past: PastWorkload, event: WorkloadDecision, recorded: Recorded) -> None:
        at = recorded.recorded_at
        if isinstance(event, NominationDecided):
            self._asked[past.stream, MANAGEMENT] = at
        elif isinstance(event, CloneDecided):
            copies = past.copies.setdefault(event.cluster, [])
            if not copies or copies[-1].created is not None:  # else it is decided again
                copies.append(PastCopy(event.cluster, at))
        elif isinstance(event, WinnerChosen):
            past.placed.append((recorded.position, at, event.cluster))
        elif isinstance(event, JobCreationDecided):
            self._asked[past.stream, event.cluster] = at
        elif isinstance(event, DeactivationDecided) and event.cluster in past.copies:
            past.copies[event.cluster][-1].told = at
        elif isinstance(event, RemovalDecided) and event.cluster in past.copies:
            past.copies[event.cluster][-1].removed.setdefault(event.of, at)

    def _copy(self, past: PastWorkload, recorded: Recorded) -> None:
        event, at, cluster = recorded.event, recorded.recorded_at, recorded.cluster
        self._seen_at[cluster] = at + _JUST_AFTER
        copies = past.copies.get(cluster)
        if isinstance(event, RemoteJobObserved | RemoteJobGone):
            self._remote_job(past, recorded)
        if not copies and past.why_not == PLACED_BEFORE and isinstance(event, CloneObserved):
            copies = past.copies[cluster] = [PastCopy(cluster, at)]  # nobody decided it in this log
        if not copies:
            return
        if isinstance(event, CloneGone | RemoteJobGone):
            of = "Workload" if isinstance(event, CloneGone) else "Job"
            if copies[-1].gone is None and copies[-1].vanished(of, at):
                past.deletions.append((self._meanwhile(cluster, at), cluster, of))
        elif isinstance(event, CloneObserved):
            _clone(past, copies[-1], event, recorded)

    def _meanwhile(self, cluster: str, at: datetime) -> datetime:
        """Return when something happened that was seen at a time: in the midst, if its cluster was out of view."""
        since, until = self._away.get(cluster, (at, at))
        return since if since < at <= until + _JUST_AFTER * 1000 else at

    def _remote_job(self, past: PastWorkload, recorded: Recorded) -> None:
        event, at = recorded.event, recorded.recorded_at
        asked = self._asked.get((past.stream, recorded.cluster))
        if isinstance(event, RemoteJobObserved) and asked is not None:
            past.job_seen(asked, at)
        if isinstance(event, RemoteJobObserved) and event.finished:
            self._ran(past, recorded.cluster, at)
        elif isinstance(event, RemoteJobObserved) and not event.suspended:
            if self._asked.pop((past.stream, recorded.cluster), None) is not None and asked is not None:
                past.starts.append((at - asked).total_seconds())
                past.running_since, past.run_cluster = at, recorded.cluster
                past.began.append((at, recorded.cluster))
        elif past.run_cluster == recorded.cluster:
            past.job_stopped(at)

    def _ran(self, past: PastWorkload, cluster: str, at: datetime) -> None:
        """Note for how long a job ran. Of one that ended out of view only a bound is known, which counts where nothing
        else does."""
        if past.finished is None:
            past.ended = at
        asked = self._asked.pop((past.stream, cluster), None)
        since = next((began for began, where in reversed(past.began) if where == cluster), asked)
        if past.run_cluster == cluster:
            past.running_since = None
        again = past.finished is not None and past.run_seconds is not None  # what a backup brought back ends once more
        if since is not None and not again and (past.run_seconds is None or cluster not in self._silent):
            past.run_seconds = (at - since).total_seconds()


def _clone(past: PastWorkload, copy: PastCopy, event: CloneObserved, recorded: Recorded) -> None:
    """Take what was seen of a copy, and what others did to it."""
    at, cluster = recorded.recorded_at, recorded.cluster
    if copy.seen(event, at, recorded.position):
        past.evictions.append((at, cluster, event))
    told = past.deletions and past.deletions[-1][1:] == (cluster, DELETING)
    if event.deleting and not copy.removed and not told:
        past.deletions.append((at, cluster, DELETING))


_OURS = (MassOutageBegan, MassOutageEnded, WorkloadDecision, WriteFailed, WriteUnneeded)
"""What follows from the rest, and is left to the simulation."""
