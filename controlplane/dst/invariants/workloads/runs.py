"""At most one cluster runs a workload, as long as the grace of the other one has not passed.

In: the jobs of our origin on the workers, as they change, and the log's own record of which clusters are lost. Out: a
violation when a copy starts to run beside another one. Two copies are forgiven where nobody could know better: the
first one's cluster was lost, or what runs there out of view, for as long as the grace is, before the second job was
created, and the job does not ask for never-twice; or its etcd was put back, and the copy with it. And, never-twice or
not, where an operator was wrong: he had given the cluster up on which the first job had been decided, and the second
was decided before that cluster was back. And where the first one's API server had said no to its removal, if the job
does not ask for never-twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controlplane.controllers.connectivity.events import ClusterConnected, ClusterForgotten, KindSynced
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.events import EffectFailed, JobCreationDecided, RemovalDecided
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.kube.kinds import PODS, Json, Kind, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, ORIGIN_UID, PREBUILT
from controlplane.kube.slices import ELASTIC_JOB
from controlplane.log.event import Recorded
from controlplane.runtime.writes import NO
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.kueue.common import parse_timestamp
from controlplane.simulation.kueue.sets import SETS, names_of

_RESOLUTION = timedelta(seconds=1)  # of creationTimestamp


@dataclass(frozen=True, slots=True)
class RunningCopy:
    """A copy that runs: when its job was created, at which position of the log it had been decided, since when it runs,
    whether it asks for never-twice, whether it came back with a restored etcd, or was given up in a log that went back,
    and the UIDs of what runs: the pods of a group are one copy.
    """

    created: datetime
    decided: int
    since: datetime
    once: bool
    restored: bool
    uids: frozenset[str]


def runs(kind: Kind, job: Json) -> bool:
    """Whether a job is unsuspended and has active pods. The pods of a set lose their gates one by one, and its template
    does not. A pod that nothing but its finalizers keeps does not run.
    """
    if kind == PODS and meta(job).get("deletionGracePeriodSeconds") == 0:
        return False
    adapter = ADAPTERS[kind]
    status = job.get("status") or {}
    waits = adapter.suspended(job) and (adapter.delegates or kind == PODS)
    return not waits and adapter.active(status) and adapter.outcome(status) is None


class RunRules:
    """Who runs what, where. `connection` gives the log's view of a cluster, `place` says which cluster a name of the
    log means, `now` the true time.
    """

    def __init__(
        self,
        trace: Trace,
        grace: timedelta,
        now: Callable[[], datetime],
        connection: Callable[[str], Connection | None],
        place: Callable[[str], str] = lambda name: name,
    ) -> None:
        self._trace, self._grace, self._now, self._connection, self._place = trace, grace, now, connection, place
        self._running: dict[str, dict[str, RunningCopy]] = {}
        self._expired: dict[str, datetime] = {}
        self._restored: set[str] = set()
        self._decided: dict[tuple[str, str], int] = {}
        self._kept: dict[tuple[str, str], int] = {}
        self._made: dict[str, int] = {}
        self._given_up: dict[str, list[list[int]]] = {}
        self._owners: dict[str, str] = {}
        self.most = self.by_operators = 0

    def before_fold(self, recorded: Recorded) -> None:
        """Take note of what the log says that may excuse two copies."""
        event, cluster = recorded.event, self._place(recorded.stream.partition("/")[2])
        if isinstance(event, JobCreationDecided):
            self._decided[recorded.stream, self._place(event.cluster)] = recorded.position
        elif isinstance(event, EffectFailed) and event.action == RemovalDecided.__name__ and event.code in NO:
            self._kept[recorded.stream, self._place(event.target.partition("/")[0])] = recorded.position
        elif isinstance(event, ClusterForgotten):
            self._given_up.setdefault(cluster, []).append([recorded.position, sys.maxsize])
        elif isinstance(event, (ClusterConnected, KindSynced)):
            expiry = self._expiry(self._connection(cluster))
            if expiry is not None and expiry <= self._now():
                self._expired[cluster] = expiry
        if isinstance(event, ClusterConnected):
            for period in self._given_up.get(cluster, ()):
                period[1] = min(period[1], recorded.position)

    def log_went_back(self, position: int) -> None:
        """The log ends at a position now: what was decided after it was decided before all that comes."""
        for here in self._running.values():
            here.update(
                {name: replace(run, restored=run.restored or self._left(name, run)) for name, run in here.items()}
            )
        self._decided = {key: min(decided, position) for key, decided in self._decided.items()}
        self._kept = {key: refused for key, refused in self._kept.items() if refused <= position}
        self._made = {uid: min(decided, position) for uid, decided in self._made.items()}
        for here in self._running.values():
            here.update({name: replace(run, decided=min(run.decided, position)) for name, run in here.items()})
        for periods in self._given_up.values():
            periods[:] = [[since, until] for since, until in periods if since <= position]

    def _left(self, cluster: str, run: RunningCopy) -> bool:
        """Whether an operator has given a copy up with its cluster: he has, whatever becomes of the log that he
        told."""
        return any(run.decided < since and until == sys.maxsize for since, until in self._given_up.get(cluster, ()))

    def on_commit(self, cluster: str, commit: Commit) -> None:
        """Look at a change on a worker."""
        record = commit.record
        if record.kind not in ADAPTERS or ORIGIN_LABEL not in record.labels:
            return
        job = record.obj
        if commit.type == "ADDED":
            made = [self._decided.get((f"workload/{record.namespace}/{one}", cluster), 0) for one in workloads_of(job)]
            self._made[record.uid] = max(made, default=0)
        work = self._work_of(job)
        here = self._running.setdefault(work, {})
        if commit.type == "DELETED" or not runs(record.kind, job):
            self._ended(here, cluster, record.uid)
        elif cluster not in here:
            self._start(work, cluster, self._run(job), here)
        else:
            here[cluster] = replace(here[cluster], uids=here[cluster].uids | {record.uid})

    def on_workload(self, workload: Json) -> None:
        """Look at a Workload of the management cluster: whose it is."""
        for owner in meta(workload).get("ownerReferences") or ():
            self._owners[str(meta(workload)["name"])] = str(owner["uid"])

    def _work_of(self, job: Json) -> str:
        """Return by what copies are of the same work: their Workload; of an elastic job, which has several, its name
        and the UID of the user's, since another one of the name is other work; of a job with several components, that
        UID.
        """
        annotations = meta(job).get("annotations") or {}
        bound = str(annotations.get(PREBUILT) or "")
        if annotations.get(ELASTIC_JOB) == "true":
            return f"{meta(job)['name']} {self._owners.get(bound, '')}"
        return bound or str(annotations.get(ORIGIN_UID) or "")

    def _ended(self, here: dict[str, RunningCopy], cluster: str, uid: str) -> None:
        """Take note that a job, or a pod of a group, does not run on a cluster."""
        if cluster in here:
            left = here[cluster].uids - {uid}
            if left:
                here[cluster] = replace(here[cluster], uids=left)
            else:
                del here[cluster]

    def on_incarnation(self, cluster: str, restored: Iterable[Record]) -> None:
        """A cluster began anew: with what a backup held, or with nothing."""
        for here in self._running.values():
            here.pop(cluster, None)
        for record in restored:
            self._restored.add(record.uid)
            if runs(record.kind, record.obj):
                here = self._running.setdefault(self._work_of(record.obj), {})
                run = self._run(record.obj)
                here[cluster] = replace(run, uids=run.uids | here[cluster].uids) if cluster in here else run

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
        if not first[1].once and self._was_kept(*first, second[1]):
            return True
        older, newer = ((other, run), mine) if run.created <= mine.created else ((cluster, mine), run)
        return self._was_lost(*older, newer)

    def _was_given_up(self, cluster: str, first: RunningCopy, second: RunningCopy) -> bool:
        """Whether an operator gave a cluster up after the first job was decided there, and it was still away when the
        second was.
        """
        periods = self._given_up.get(cluster, ())
        return any(first.decided < since < second.decided < until for since, until in periods)

    def _was_kept(self, cluster: str, first: RunningCopy, second: RunningCopy) -> bool:
        """Whether a cluster had said no to the removal of the first job before the second was decided."""
        return any(
            where == cluster and first.decided < refused < second.decided
            for (stream, where), refused in self._kept.items()
            if self._decided.get((stream, where)) == first.decided
        )

    def _was_lost(self, cluster: str, older: RunningCopy, newer: RunningCopy) -> bool:
        """Whether the grace of the older job's cluster ended between the creations of the two, and the job does not ask
        for more.
        """
        expiries = [self._expired.get(cluster), self._expiry(self._connection(cluster))]
        until = newer.created + _RESOLUTION
        return not older.once and any(e is not None and older.created <= e <= until for e in expiries)

    def _expiry(self, connection: Connection | None) -> datetime | None:
        """Return when the grace ends: it began with the loss, or when a kind there went out of view, before it or
        without any; None while all is in view."""
        if connection is None:
            return None
        began = [at for at in (connection.lost_clock, *connection.out_since.values()) if at is not None]
        return min(began) + self._grace if began else None

    def _run(self, job: Json) -> RunningCopy:
        metadata = meta(job)
        uid, once = metadata["uid"], (metadata.get("annotations") or {}).get(EXECUTION_POLICY) == NEVER_TWICE
        created = parse_timestamp(metadata["creationTimestamp"])
        return RunningCopy(created, self._made.get(uid, 0), self._now(), once, uid in self._restored, frozenset({uid}))


def workloads_of(job: Json) -> list[str]:
    """Return the names of the Workloads that a copy may have been created for."""
    annotations = meta(job).get("annotations") or {}
    if bound := annotations.get(PREBUILT):
        return [str(bound)]
    adapter = next((one for one in SETS if one.kind.kind == job.get("kind")), None)
    return names_of(adapter, job) if adapter is not None else []
