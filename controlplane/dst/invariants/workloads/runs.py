"""At most one cluster runs a workload, as long as the grace of the other one has not passed.

In: the jobs of our origin on the workers, as they change, and the log's own record of which clusters are lost. Out: a
violation when a copy starts to run beside another one. Two copies are forgiven where nobody could know better: the
first one's cluster was lost for as long as the grace is, before the second job was created, and the job does not ask
for never-twice; or its etcd was put back, and the copy with it. And, never-twice or not, where an operator was wrong:
he had given the cluster up on which the first job had been decided, and the second was decided before that cluster was
back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controlplane.controllers.connectivity.events import ClusterConnected, ClusterForgotten
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.events import JobCreationDecided
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.dst.engine.trace import Trace
from controlplane.job_kinds import INTEGRATIONS
from controlplane.job_kinds.base import ORIGIN_LABEL, PREBUILT
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.kueue.common import parse_timestamp

_RESOLUTION = timedelta(seconds=1)  # of creationTimestamp


@dataclass(frozen=True, slots=True)
class RunningCopy:
    """A copy that runs: when its job was created, at which position of the log it had been decided, since when it runs,
    whether it asks for never-twice, and whether it came back with a restored etcd."""

    created: datetime
    decided: int
    since: datetime
    once: bool
    restored: bool


def runs(kind: Kind, job: Json) -> bool:
    """Whether a job is unsuspended and has active pods."""
    integration = INTEGRATIONS[kind]
    status = job.get("status") or {}
    return not integration.suspended(job) and integration.active(status) and integration.outcome(status) is None


class RunRules:
    """Who runs what, where. `connections` gives the log's view of the clusters, `now` the true time."""

    def __init__(
        self,
        trace: Trace,
        grace: timedelta,
        now: Callable[[], datetime],
        connection: Callable[[str], Connection | None],
    ) -> None:
        self._trace, self._grace, self._now, self._connection = trace, grace, now, connection
        self._running: dict[str, dict[str, RunningCopy]] = {}
        self._expired: dict[str, datetime] = {}
        self._restored: set[str] = set()
        self._decided: dict[tuple[str, str], int] = {}
        self._made: dict[str, int] = {}
        self._given_up: dict[str, list[list[int]]] = {}
        self.most = self.by_operators = 0

    def before_fold(self, recorded: Recorded) -> None:
        """Take note of what the log says that may excuse two copies."""
        event, cluster = recorded.event, recorded.stream.partition("/")[2]
        if isinstance(event, JobCreationDecided):
            self._decided[recorded.stream, event.cluster] = recorded.position
        elif isinstance(event, ClusterForgotten):
            self._given_up.setdefault(cluster, []).append([recorded.position, sys.maxsize])
        elif isinstance(event, ClusterConnected):
            expiry = self._expiry(self._connection(cluster))
            if expiry is not None and expiry <= self._now():
                self._expired[cluster] = expiry
            for period in self._given_up.get(cluster, ()):
                period[1] = min(period[1], recorded.position)

    def log_went_back(self, position: int) -> None:
        """The log ends at a position now: what was decided after it was decided before all that comes."""
        self._decided = {key: min(decided, position) for key, decided in self._decided.items()}
        self._made = {uid: min(decided, position) for uid, decided in self._made.items()}
        for here in self._running.values():
            here.update({name: replace(run, decided=min(run.decided, position)) for name, run in here.items()})
        for periods in self._given_up.values():
            periods[:] = [[since, until] for since, until in periods if since <= position]

    def on_commit(self, cluster: str, commit: Commit) -> None:
        """Look at a change on a worker."""
        record = commit.record
        if record.kind not in INTEGRATIONS or ORIGIN_LABEL not in record.labels:
            return
        job = record.obj
        workload = _workload_of(job)
        if commit.type == "ADDED":
            self._made[record.uid] = self._decided.get((f"workload/{record.namespace}/{workload}", cluster), 0)
        here = self._running.setdefault(workload, {})
        if commit.type == "DELETED" or not runs(record.kind, job):
            here.pop(cluster, None)
        elif cluster not in here:
            self._start(workload, cluster, self._run(job), here)

    def on_life(self, cluster: str, restored: Iterable[Record]) -> None:
        """A cluster began anew: with what a backup held, or with nothing."""
        for here in self._running.values():
            here.pop(cluster, None)
        for record in restored:
            self._restored.add(record.uid)
            if runs(record.kind, record.obj):
                self._running.setdefault(_workload_of(record.obj), {})[cluster] = self._run(record.obj)

    def _start(self, workload: str, cluster: str, mine: RunningCopy, here: dict[str, RunningCopy]) -> None:
        for other, run in here.items():
            if not (run.restored or mine.restored or self._forgiven(cluster, mine, other, run)):
                since = (self._now() - run.since).total_seconds()
                detail = f"{workload} starts on {cluster} while it has been running on {other} for {since:.1f} s"
                self._trace.violate("one cluster runs a workload", detail)
        here[cluster] = mine
        self.most = max(self.most, len(here))

    def _forgiven(self, cluster: str, mine: RunningCopy, other: str, run: RunningCopy) -> bool:
        """Whether there was leave to create the later one of two jobs while the earlier one might run."""
        first, second = sorted(((other, run), (cluster, mine)), key=lambda one: one[1].decided)
        if self._was_given_up(*first, second[1]):
            self.by_operators += 1
            return True
        older, newer = ((other, run), mine) if run.created <= mine.created else ((cluster, mine), run)
        return self._was_lost(*older, newer)

    def _was_given_up(self, cluster: str, first: RunningCopy, second: RunningCopy) -> bool:
        """Whether an operator gave a cluster up after the first job was decided there, and it was still away when the
        second was.
        """
        periods = self._given_up.get(cluster, ())
        return any(first.decided < since < second.decided < until for since, until in periods)

    def _was_lost(self, cluster: str, older: RunningCopy, newer: RunningCopy) -> bool:
        """Whether the grace of the older job's cluster ended between the creations of the two, and the job does not ask
        for more.
        """
        expiries = [self._expired.get(cluster), self._expiry(self._connection(cluster))]
        until = newer.created + _RESOLUTION
        return not older.once and any(e is not None and older.created <= e <= until for e in expiries)

    def _expiry(self, connection: Connection | None) -> datetime | None:
        """Return when the grace ends: it began with the loss, or before it, when a kind there went out of view."""
        if connection is None or connection.lost_clock is None:
            return None
        return min([connection.lost_clock, *connection.out_since.values()]) + self._grace

    def _run(self, job: Json) -> RunningCopy:
        metadata = meta(job)
        uid, once = metadata["uid"], (metadata.get("annotations") or {}).get(EXECUTION_POLICY) == NEVER_TWICE
        created = parse_timestamp(metadata["creationTimestamp"])
        return RunningCopy(created, self._made.get(uid, 0), self._now(), once, uid in self._restored)


def _workload_of(job: Json) -> str:
    return str((meta(job).get("annotations") or {}).get(PREBUILT, ""))
