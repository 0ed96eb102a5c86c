"""At most one cluster runs a workload, as long as the grace of the other one has not passed.

In: the jobs of our origin on the workers, as they change, and the log's own record of which clusters are lost. Out: a violation when a copy
starts to run beside another one. Two copies are forgiven where nobody could know better: the first one's cluster was lost for as
long as the grace is, before the second job was created, and the job does not ask for never-twice; or its etcd was put back, and the
copy with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.connectivity.state import Connection
from controlplane.kube import Json, Kind, meta
from controlplane.multikueue.adapters.base import ORIGIN_LABEL, PREBUILT
from controlplane.multikueue.context import NEVER_TWICE
from controlplane.multikueue.objects import EXECUTION_POLICY
from controlplane.simulation.deterministic.trace import Trace
from controlplane.simulation.history import Commit, Record
from controlplane.simulation.kueue_common import parse_timestamp
from controlplane.simulation.kueue_podsets import INTEGRATIONS, suspended

_RESOLUTION = timedelta(seconds=1)  # of creationTimestamp


@dataclass(frozen=True, slots=True)
class Run:
    """A copy that runs: when its job was created, since when it runs, whether it asks for never-twice, and whether it came back with a
    restored etcd."""

    created: datetime
    since: datetime
    once: bool
    restored: bool


def runs(kind: Kind, job: Json) -> bool:
    """Whether a job is unsuspended and has active pods."""
    integration = INTEGRATIONS[kind]
    return not suspended(job) and integration.active(job) and integration.finished(job) is None


class Runs:
    """Who runs what, where. `connections` gives the log's view of the clusters, `now` the true time."""

    def __init__(
        self,
        trace: Trace,
        grace: timedelta,
        now: Callable[[], datetime],
        connection: Callable[[str], Connection | None],
    ) -> None:
        self._trace, self._grace, self._now, self._connection = trace, grace, now, connection
        self._running: dict[str, dict[str, Run]] = {}
        self._expired: dict[str, datetime] = {}
        self._restored: set[str] = set()
        self.most = 0

    def on_commit(self, cluster: str, commit: Commit) -> None:
        """Look at a change on a worker."""
        record = commit.record
        if record.kind not in INTEGRATIONS or ORIGIN_LABEL not in record.labels:
            return
        job = record.obj
        workload = str((meta(job).get("annotations") or {}).get(PREBUILT, ""))
        here = self._running.setdefault(workload, {})
        if commit.type == "DELETED" or not runs(record.kind, job):
            here.pop(cluster, None)
        elif cluster not in here:
            self._start(workload, cluster, job, here)

    def on_connected(self, cluster: str, before: Connection | None) -> None:
        """Remember that a cluster came back after its grace."""
        expiry = self._expiry(before)
        if expiry is not None and expiry <= self._now():
            self._expired[cluster] = expiry

    def on_life(self, cluster: str, restored: Iterable[Record]) -> None:
        """A cluster began anew: with what a backup held, or with nothing."""
        for here in self._running.values():
            here.pop(cluster, None)
        for record in restored:
            job = record.obj
            self._restored.add(record.uid)
            if runs(record.kind, job):
                workload = str((meta(job).get("annotations") or {}).get(PREBUILT, ""))
                self._running.setdefault(workload, {})[cluster] = _run(job, self._now(), restored=True)

    def _start(self, workload: str, cluster: str, job: Json, here: dict[str, Run]) -> None:
        mine = _run(job, self._now(), restored=str(meta(job)["uid"]) in self._restored)
        for other, run in here.items():
            older, newer = ((other, run), mine) if run.created <= mine.created else ((cluster, mine), run)
            if not run.restored and not mine.restored and not self._forgiven(*older, newer):
                since = (self._now() - run.since).total_seconds()
                detail = f"{workload} starts on {cluster} while it has been running on {other} for {since:.1f} s"
                self._trace.violate("one cluster runs a workload", detail)
        here[cluster] = mine
        self.most = max(self.most, len(here))

    def _forgiven(self, cluster: str, older: Run, newer: Run) -> bool:
        """Whether the grace of the older job's cluster ended between the creations of the two, and the job does not ask for more."""
        expiries = [self._expired.get(cluster), self._expiry(self._connection(cluster))]
        until = newer.created + _RESOLUTION
        return not older.once and any(e is not None and older.created <= e <= until for e in expiries)

    def _expiry(self, connection: Connection | None) -> datetime | None:
        if connection is None or connection.lost_since is None:
            return None
        return connection.lost_since + self._grace


def _run(job: Json, now: datetime, *, restored: bool = False) -> Run:
    once = (meta(job).get("annotations") or {}).get(EXECUTION_POLICY) == NEVER_TWICE
    return Run(parse_timestamp(meta(job)["creationTimestamp"]), now, once, restored)
