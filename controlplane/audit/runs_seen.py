"""When a Workload's job ran where, by what the log saw of it: the runs on each cluster, and those that overlap.

In: the events of a Workload and of what is around it, in order, and the policy that they are folded by. Out: `JobRun`s,
each with the events that began and ended it. Pure. A job that was seen to run runs; one whose cluster is out of view
may run: unknown is not gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import combinations

import msgspec

from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.events import NominationDecided
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import RemoteJobObserved, WorkloadGone, WorkloadObserved
from controlplane.controllers.multikueue.unobserved_jobs import may_run, of_another_job
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.log.folding import Folding
from controlplane.values import Value


class JobRun(Value):
    """A time in which the job ran on a cluster, or may have: `seen` tells which. `ended` is None while it lasts."""

    cluster: str
    uid: str
    seen: bool
    began: Recorded
    ended: Recorded | None = None

    def until(self, end: datetime) -> datetime:
        """Return when it ended, `end` if it has not."""
        return self.ended.recorded_at if self.ended is not None else end


class Overlap(Value):
    """A time in which a job was on two clusters; `seen`: both were in view, and it ran on both."""

    clusters: tuple[str, str]
    seen: bool
    began: Recorded
    ended: Recorded | None
    lasted: timedelta


def begin_of(events: Iterable[Recorded], stream: str) -> Recorded | None:
    """Return the first observation of the Workload of a stream, of those that had its name the last one; None if none
    was ever seen."""
    first: Recorded | None = None
    for recorded in events:
        if recorded.stream != stream or not isinstance(recorded.event, WorkloadObserved):
            continue
        before = first.event if first is not None else None
        if not isinstance(before, WorkloadObserved) or before.uid != recorded.event.uid:
            first = recorded
    return first


def runs(policy: MultiKueuePolicy, events: Iterable[Recorded], stream: str, uid: str) -> list[JobRun]:
    """Return the runs of the job of a Workload, in the order in which they began; `uid` is the Workload's own: of one
    that had its name before, nothing counts."""
    index = WorkloadIndex(policy)
    folding = Folding(index.fold)
    open_now: dict[str, JobRun] = {}
    over: list[JobRun] = []
    mine = False
    for recorded in events:
        folding(recorded)
        mine = mine or (
            recorded.stream == stream and isinstance(recorded.event, WorkloadObserved) and recorded.event.uid == uid
        )
        now = _running(index, index.workloads.get(stream)) if mine else {}
        for cluster, run in list(open_now.items()):
            if now.get(cluster) != (run.uid, run.seen):
                over.append(msgspec.structs.replace(open_now.pop(cluster), ended=recorded))
        for cluster, (job, seen) in now.items():
            if cluster not in open_now:
                open_now[cluster] = JobRun(cluster=cluster, uid=job, seen=seen, began=recorded)
    return sorted(_joined([*over, *open_now.values()]), key=lambda run: run.began.position)


def _running(index: WorkloadIndex, state: WorkloadState | None) -> dict[str, tuple[str, bool]]:
    """Return the clusters on which a job runs or may run: its UID there ("" if it was not seen), and whether it is in
    view.
    """
    if state is None or of_another_job(state):
        return {}
    found: dict[str, tuple[str, bool]] = {}
    for cluster in sorted(state.remotes.keys() | state.unsure.keys()):
        if state.remote(cluster).made_for:
            continue  # it is the job of another management cluster
        job, connection = state.remote(cluster).job, index.connections.get(cluster)
        in_view = connection is not None and connection.in_view(WORKLOADS.name)
        if job is None:
            if may_run(state, cluster):
                found[cluster] = ("", False)
        elif not job.finished and (_unsuspended(job) if in_view else may_run(state, cluster)):
            found[cluster] = (job.uid, in_view)
    return found


def _unsuspended(job: RemoteJobObserved) -> bool:
    return not (job.finalizing or (job.suspended and job.inactive))


def _joined(found: list[JobRun]) -> list[JobRun]:
    """Return the runs of which one that was out of view, and was seen to run before and after, is one run."""
    joined: list[JobRun] = []
    for run in sorted(found, key=lambda run: (run.cluster, run.began.position)):
        before = joined[-2:]
        if (
            len(before) == 2
            and run.seen
            and not before[1].seen
            and before[0].seen
            and _follow(before[0], before[1], run)
        ):
            joined[-2:] = [msgspec.structs.replace(before[0], ended=run.ended)]
        else:
            joined.append(run)
    return joined


def _follow(first: JobRun, second: JobRun, third: JobRun) -> bool:
    """Whether three runs are of one object without a time between them."""
    return (
        first.uid == second.uid == third.uid
        and first.cluster == third.cluster
        and first.ended is not None
        and second.ended is not None
        and first.ended.position == second.began.position
        and second.ended.position == third.began.position
    )


def overlaps(found: Sequence[JobRun], end: datetime) -> list[Overlap]:
    """Return the times in which the job was on two clusters; `end` is when what has not ended is looked at."""
    both: list[Overlap] = []
    for one, other in combinations(found, 2):
        later = max(one.began, other.began, key=lambda recorded: recorded.position)
        ends = [run.ended for run in (one, other) if run.ended is not None]
        ended = min(ends, key=lambda recorded: recorded.position, default=None)
        if one.cluster == other.cluster or (ended is not None and ended.position <= later.position):
            continue
        until = ended.recorded_at if ended is not None else end
        clusters = (
            (one.cluster, other.cluster) if one.began.position < other.began.position else (other.cluster, one.cluster)
        )
        both.append(
            Overlap(
                clusters=clusters,
                seen=one.seen and other.seen,
                began=later,
                ended=ended,
                lasted=max(until - later.recorded_at, timedelta()),
            )
        )
    return sorted(both, key=lambda overlap: overlap.began.position)


def times(found: Sequence[JobRun], first: datetime, end: datetime) -> tuple[timedelta, timedelta, timedelta]:
    """Return for how long a job was queued before its runs, for how long it ran, and for how long it may have run
    unseen besides.

    On two clusters at once is once; a job that never ran was queued until `end`.
    """
    seen = _covered([(run.began.recorded_at, run.until(end)) for run in found if run.seen])
    every = _covered([(run.began.recorded_at, run.until(end)) for run in found])
    queued, at = timedelta(), first
    for began, until in every:
        queued, at = queued + max(began - at, timedelta()), max(at, until)
    ran, perhaps = _length(seen), _length(every)
    return queued if found else end - first, ran, perhaps - ran


def _covered(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    covered: list[tuple[datetime, datetime]] = []
    for began, until in sorted(spans):
        if covered and began <= covered[-1][1]:
            covered[-1] = (covered[-1][0], max(covered[-1][1], until))
        else:
            covered.append((began, until))
    return covered


def _length(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    return sum((until - began for began, until in spans), timedelta())


def admitted_here(events: Iterable[Recorded], stream: str, since: int, cluster: str) -> list[JobRun]:
    """Return the times in which the Workload of a stream was admitted without being dispatched, from a position on, as
    runs on `cluster`, the management cluster; none if it was ever offered to a worker. Whether pods ran meanwhile is
    not recorded.
    """
    found: list[JobRun] = []
    for recorded in events:
        event = recorded.event
        if recorded.stream != stream or recorded.position < since:
            continue
        if isinstance(event, NominationDecided):
            return []
        if not isinstance(event, WorkloadObserved | WorkloadGone):
            continue
        if _admitted(event):
            if not found or found[-1].ended is not None:
                found.append(JobRun(cluster=cluster, uid="", seen=True, began=recorded))
        elif found and found[-1].ended is None:
            found[-1] = JobRun(cluster=cluster, uid="", seen=True, began=found[-1].began, ended=recorded)
    return found


def _admitted(event: Event | Unknown) -> bool:
    if not isinstance(event, WorkloadObserved) or event.cluster_name or event.is_true("Finished"):
        return False
    return event.is_true("Admitted") and not event.is_true("Evicted")


def bounds_of(times: Sequence[JobRun]) -> list[Recorded]:
    """Return the events that began and ended these times, in order, each once."""
    unique = {one.position: one for time in times for one in (time.began, time.ended) if one is not None}
    return [unique[at] for at in sorted(unique)]
