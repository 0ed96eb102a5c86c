"""Measures a time of a log, whether it was recorded or simulated: how long Workloads waited, what ran where, what was
lost.

In: events in order. Out: figures, by the same rules for both. A Workload waits from when it was first seen until its
job was first seen to run, or it was admitted without checks, with which its job runs on the management cluster; one
that did not run by the end has waited until then, or until it was gone. One that is made again under its name is
another Workload; one that had finished when it was first seen does not count. A run is an unbroken time in which a copy
of the job was seen that is neither suspended nor finished; one that ends otherwise than finished is lost. On a cluster
that is out of view it goes on, as in `audit.runs`, unless it was given up there: then it ended, and was lost, when the
cluster was, if that did not come back with it. Copies that were made for another management cluster do not count.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterLost,
)
from controlplane.controllers.multikueue.events import CheckStateDecided, WinnerChosen, WinnerReleased
from controlplane.controllers.multikueue.observations import (
    RemoteJobGone,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.event import Recorded
from controlplane.values import Value
from controlplane.whatif.capacity import Capacity
from controlplane.whatif.history import SLOTS, Requests

_HOUR = 3600.0
_GIVEN_UP = (WorkloadReason.REMOTE_LOST, WorkloadReason.LOST_BEFORE_READY)


class ClusterFigures(Value):
    """What ran on a cluster: how many Workloads were placed there, hours of runs, and the share of its capacity that
    they used of the resource of which most was used; None where no capacity is known."""

    placed: int
    run_hours: float
    utilisation: float | None


class QueueFigures(Value):
    """What became of a ClusterQueue's quota: how often some was given; for how many seconds the Workloads that came
    waited until they were first given some; and how many times one that had some was preempted."""

    given: int
    wait_p50: float
    wait_p95: float
    preemptions: int


class Figures(Value):
    """What a time was like. Waits are seconds, of the Workloads that came in it; `waiting`: those that had not run by
    its end. `moves`: choices of another cluster than the one before; `lost_hours`: of runs that were for nothing.
    `preemptions`: on the management cluster; `queues`: its ClusterQueues. Reports of earlier versions have neither."""

    arrived: int
    started: int
    waiting: int
    finished: int
    wait_p50: float
    wait_p95: float
    wait_max: float
    wait_total: float
    utilisation: float | None
    run_hours: float
    moves: int
    lost_hours: float
    clusters: dict[str, ClusterFigures]
    preemptions: int | None = None
    queues: dict[str, QueueFigures] = {}


class _Queue:
    __slots__ = ("given", "preemptions", "waits")

    def __init__(self) -> None:
        self.given = self.preemptions = 0
        self.waits: list[float] = []


class _Run:
    """A run of the job of a Workload, by the key of this. `lost_at`: since when its cluster is out of view; `given_up`:
    it is not waited for any more; `moved`: the job was seen to run elsewhere since."""

    __slots__ = ("cluster", "given_up", "key", "lost_at", "moved", "since")

    def __init__(self, cluster: str, since: datetime, key: str) -> None:
        self.cluster, self.since, self.key = cluster, since, key
        self.lost_at: datetime | None = None
        self.given_up = self.moved = False


class Measures:
    """The figures of the time after `begin` up to `end`; it takes the events from before as well."""

    def __init__(self, begin: datetime, end: datetime, requests: Mapping[str, Requests]) -> None:
        self._begin, self._end, self._requests = begin, end, requests
        self._uids: dict[str, str] = {}
        self._keys: dict[str, str] = {}  # of streams whose Workload was made again
        self._arrived: dict[str, datetime] = {}
        self._gone: dict[str, datetime] = {}
        self._ran: set[str] = set()
        self._waits: list[float] = []
        self._runs: dict[str, dict[str, _Run]] = {}  # by stream and cluster
        self._winner: dict[str, str] = {}
        self._finished: set[str] = set()
        self._placed: Counter[str] = Counter()
        self._hours: dict[str, Counter[str]] = {}
        self._holds: dict[str, str] = {}
        self._given: set[str] = set()
        self._queues: dict[str, _Queue] = {}
        self._moves = self._done = 0
        self._lost = timedelta(0)

    def take(self, recorded: Recorded) -> None:
        """Take the next event."""
        event, stream, at = recorded.event, recorded.stream, recorded.recorded_at
        if isinstance(event, WorkloadObserved):
            self._seen(self._key_of(stream, event.uid, at), event, at)
        elif isinstance(event, WorkloadGone):
            if self._uids.get(stream) == event.uid:
                self._gone[self._key(stream)] = at
        elif isinstance(event, RemoteJobObserved | RemoteJobGone):
            self._job(stream, recorded.cluster, event, at)
        elif isinstance(event, WinnerChosen):
            self._chosen(self._key(stream), event.cluster, at)
        elif isinstance(event, WinnerReleased | CheckStateDecided) and event.reason in _GIVEN_UP:
            for run in self._runs.get(stream, {}).values():
                run.given_up = run.lost_at is not None
        elif isinstance(event, ClusterConnected | ClusterLost | ClusterConnectFailed | ClusterDisconnected):
            self._connection(recorded.cluster, None if isinstance(event, ClusterConnected) else at)

    def _connection(self, cluster: str, lost_at: datetime | None) -> None:
        """Note that a cluster went out of view, or came back: what still runs there then has run all the time."""
        for runs in self._runs.values():
            if (run := runs.get(cluster)) is not None:
                run.lost_at = lost_at and (run.lost_at or lost_at)
                run.given_up = run.given_up and lost_at is not None

    def leave_out(self, stream: str) -> None:
        """Forget what runs of a Workload of which nothing more is told."""
        self._runs.pop(stream, None)

    def _key(self, stream: str) -> str:
        return self._keys.get(stream, stream)

    def _key_of(self, stream: str, uid: str, at: datetime) -> str:
        """Return what a Workload is kept by: its stream, and of one that was made again under its name its UID too."""
        if self._uids.setdefault(stream, uid) != uid:
            self._gone.setdefault(self._key(stream), at)
            self._uids[stream], self._keys[stream] = uid, f"{stream} {uid}"
        return self._key(stream)

    def _seen(self, key: str, event: WorkloadObserved, at: datetime) -> None:
        if key not in self._arrived and (key in self._finished or event.is_true("Finished")):
            self._finished.add(key)  # it was over before anybody looked
            return
        self._arrived.setdefault(key, at)
        self._quota(key, event, at)
        if event.is_true("Admitted") and not event.checks and not event.is_true("Finished"):
            self._starts(key, at)  # without checks a job runs on the management cluster
        if key not in self._finished and event.is_true("Finished"):
            self._finished.add(key)
            self._done += at > self._begin

    def _quota(self, stream: str, event: WorkloadObserved, at: datetime) -> None:
        """Note that a Workload was given quota, or preempted."""
        holds = self._holds.get(stream)
        if not event.is_true("QuotaReserved"):
            self._holds.pop(stream, None)
        elif holds is None and event.cluster_queue:
            self._holds[stream] = event.cluster_queue
            queue = self._queues.setdefault(event.cluster_queue, _Queue())
            queue.given += at > self._begin
            if stream not in self._given and (came := self._arrived[stream]) > self._begin:
                queue.waits.append((at - came).total_seconds())
            self._given.add(stream)
        elif holds and event.is_true("Evicted"):
            evicted = event.condition("Evicted")
            preempted = evicted is not None and evicted.reason == "Preempted"
            self._queues[holds].preemptions += preempted and at > self._begin
            self._holds[stream] = ""  # counted, and its quota is on its way back

    def _chosen(self, stream: str, cluster: str, at: datetime) -> None:
        before = self._winner.get(stream)
        self._winner[stream] = cluster
        if at > self._begin:
            self._placed[cluster] += 1
            self._moves += before is not None and before != cluster

    def _job(self, stream: str, cluster: str, event: RemoteJobObserved | RemoteJobGone, at: datetime) -> None:
        runs = self._runs.setdefault(stream, {})
        if isinstance(event, RemoteJobObserved) and event.made_for:
            return
        if isinstance(event, RemoteJobGone) or event.finished or event.suspended:
            if (run := runs.pop(cluster, None)) is not None:
                self._ended(stream, run, at, lost=self._in_vain(run, event))
        elif cluster not in runs:
            for other in runs.values():
                other.moved = True
            key = self._key(stream)
            runs[cluster] = _Run(cluster, at, key)
            self._starts(key, at)

    def _in_vain(self, run: _Run, event: RemoteJobObserved | RemoteJobGone) -> bool:
        """Whether a run that ends with an event was for nothing: nothing came of it, or another one was the result."""
        if isinstance(event, RemoteJobObserved) and not event.finished:
            return True
        return run.moved if run.key in self._finished else isinstance(event, RemoteJobGone)

    def _starts(self, key: str, at: datetime) -> None:
        """Note that the job of a Workload runs, and for how long this waited if it is the first time."""
        if key not in self._ran:
            self._ran.add(key)
            if (came := self._arrived.get(key, at)) > self._begin:
                self._waits.append((at - came).total_seconds())

    def _ended(self, stream: str, run: _Run, at: datetime, *, lost: bool) -> None:
        if run.given_up and run.lost_at is not None:
            at, lost = run.lost_at, True
        within = max(at, self._begin) - max(run.since, self._begin)
        if within <= timedelta(0):
            return
        hours = self._hours.setdefault(run.cluster, Counter())
        for name, amount in {**self._requests.get(stream, {}), SLOTS: 1.0}.items():
            hours[name] += amount * within.total_seconds() / _HOUR  # type: ignore[assignment]
        if lost:
            self._lost += within

    def result(self, capacities: Mapping[str, Capacity]) -> Figures:
        """Return the figures, with the capacities of the clusters."""
        self._close()
        came = [key for key, at in self._arrived.items() if at > self._begin]
        over = self._ran | self._finished
        never = [key for key in came if key not in over]
        waits = sorted([*self._waits, *map(self._waited, never)])
        names = sorted({*(name for name in capacities if "/" not in name), *self._placed, *self._hours})
        hours = (self._end - self._begin).total_seconds() / _HOUR
        share = {name: _share([(self._hours.get(name, {}), capacities.get(name, {}))], hours) for name in names}
        return Figures(
            arrived=len(came),
            started=len(self._waits),
            waiting=len(set(never) - self._gone.keys()),
            finished=self._done,
            wait_p50=_rank(waits, 0.5),
            wait_p95=_rank(waits, 0.95),
            wait_max=waits[-1] if waits else 0.0,
            wait_total=round(sum(waits), 3),
            utilisation=_share([(self._hours.get(one, {}), capacities.get(one, {})) for one in names], hours),
            run_hours=round(sum(one[SLOTS] for one in self._hours.values()), 4),
            moves=self._moves,
            lost_hours=round(self._lost.total_seconds() / _HOUR, 4),
            clusters={name: self._of_cluster(name, share[name]) for name in names},
            preemptions=sum(one.preemptions for one in self._queues.values()),
            queues={name: _of_queue(one) for name, one in sorted(self._queues.items())},
        )

    def _close(self) -> None:
        """Count what still runs, or may run, to the end."""
        for stream, runs in self._runs.items():
            for run in runs.values():
                self._ended(stream, run, self._end, lost=False)
        self._runs = {}

    def _waited(self, key: str) -> float:
        """Return for how many seconds a Workload waited that did not run: until it was gone, or the end."""
        return (self._gone.get(key, self._end) - self._arrived[key]).total_seconds()

    def _of_cluster(self, name: str, share: float | None) -> ClusterFigures:
        hours = round(self._hours.get(name, Counter())[SLOTS], 4)
        return ClusterFigures(placed=self._placed[name], run_hours=hours, utilisation=share)


def _of_queue(queue: _Queue) -> QueueFigures:
    waits = sorted(queue.waits)
    return QueueFigures(
        given=queue.given, wait_p50=_rank(waits, 0.5), wait_p95=_rank(waits, 0.95), preemptions=queue.preemptions
    )


def _rank(values: Sequence[float], share: float) -> float:
    """Return the value at a rank of sorted ones: the least of which so large a share is not above; 0 of none."""
    return values[max(0, -(-int(share * 1000) * len(values) // 1000) - 1)] if values else 0.0


def _share(used: Sequence[tuple[Mapping[str, float], Capacity]], hours: float) -> float | None:
    """Return the largest share of what there is of a resource that was used in some hours; None if nothing is known."""
    shares = []
    for name in {name for _, capacity in used for name in capacity}:
        most = sum(capacity.get(name, 0.0) for _, capacity in used) * hours
        if most > 0:
            shares.append(sum(amounts.get(name, 0.0) for amounts, _ in used) / most)
    return round(max(shares), 4) if shares else None
