"""Tells which of the Workloads of an elastic job counts, and lets them follow the job's size.

In: a pass of deciding about an elastic job. Out: the Workload, and whether the job can go on with it. A job that grows
while it has quota gets another Workload, a slice, which takes the place of the one before when it gets quota; any other
size is written to the Workload that it has. Pure. Source: `EnsureWorkloadSlices` and `prepareWorkloadSlice`
(kubernetes-sigs/kueue pkg/workloadslicing/workloadslicing.go, pkg/controller/jobframework/reconciler.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from controlplane.controllers.jobframework import events, matching, writes
from controlplane.controllers.jobframework.context import WorkloadPriority
from controlplane.controllers.jobframework.parts import SliceFacts
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.stopping import stop
from controlplane.controllers.jobframework.writes import JobPass, finish, release
from controlplane.kube.kueue_names import MULTIKUEUE
from controlplane.kube.slices import ELASTIC_GATE, SLICE_REPLACED

_OUT_OF_SYNC = "OutOfSync"
_REPLACED = "Replaced to accommodate a new workload slice"
_STALE = "The workload slice is out of sync with its parent job"

Workloads = Sequence[events.JobWorkloadObserved]


class Slices(NamedTuple):
    """The slices of a job: which one counts, which one has its quota, and those that are `over`, each with whether
    another one has taken its place."""

    chosen: events.JobWorkloadObserved | None
    head: events.JobWorkloadObserved | None
    over: list[tuple[events.JobWorkloadObserved, bool]]


def ensure(step: JobPass, job: events.QueuedJobObserved) -> matching.Found | None:
    """Return the Workload of an elastic job, and whether the job can go on with it; None where slices do not help,
    since its pod sets are others or it has none: it is treated like any other job then."""
    mine = [one for one in step.workloads() if one.owner is not None and one.owner.uid == job.uid]
    ended = [one for one in mine if one.is_true("Finished")]
    if not all(release(step, one, JobReason.WORKLOAD_FINISHED) for one in ended):
        return None, False
    live = _by_age(one for one in mine if not one.is_true("Finished"))
    if not live:
        return _without(step, job, ended)
    if job.end is not None:
        return live[-1], True
    return None if job.problem else _one_of(step, job, live)


def _one_of(step: JobPass, job: events.QueuedJobObserved, live: Workloads) -> matching.Found | None:
    """See to the unfinished Workloads of a job that goes on, oldest first."""
    leaving = next((one for one in live if _has_quota(one) and (one.deleting or one.is_true("Evicted"))), None)
    if leaving is not None:
        # Its pods run until the job is stopped, whichever other slice waits: only then is its quota free.
        return leaving, True
    gone = [one for one in live if one.deleting]
    if len(live) > 1 and gone:
        for one in gone:
            release(step, one, JobReason.WORKLOAD_DELETED)
        return None, False
    found = settled(live)
    for one, taken in found.over:
        reason, message = (SLICE_REPLACED, _REPLACED) if taken else (_OUT_OF_SYNC, _STALE)
        finish(step, one, reason, message, JobReason.SLICE_OVERTAKEN)
    return (None, False) if found.over else _sized(step, job, found)


def settled(live: Workloads) -> Slices:
    """Return which of a job's unfinished Workloads, oldest first, counts: the one that waits to take the place of the
    one with quota, that one itself, or the newest. An old one whose place was taken by one with quota is left to
    whoever admits, who ends it."""
    if len(live) == 1:
        return Slices(live[0], live[0] if _has_quota(live[0]) else None, [])
    fresh = [one for one in live if not one.is_true("Evicted")]
    successors = _successors(fresh)
    with_heirs = {old for old, one in successors.items() if _has_quota(one)}
    taken = {one.uid for one in live if _key(one) in with_heirs}
    head = next((one for one in reversed(fresh) if _has_quota(one) and one.uid not in taken), None)
    chosen = head or (fresh[-1] if fresh else None)
    if head is not None:
        chosen = successors.get(_key(head), head)
    kept = taken | {one.uid for one in (chosen, head) if one is not None}
    return Slices(chosen, head, [(one, _key(one) in successors) for one in live if one.uid not in kept])


def _successors(fresh: Workloads) -> dict[str, events.JobWorkloadObserved]:
    """Return which Workload is to take the place of which, by its key: of several the first with quota, else the
    first."""
    found: dict[str, events.JobWorkloadObserved] = {}
    for one in fresh:
        old = one.slice.replaces if one.slice is not None else ""
        if old and (old not in found or (_has_quota(one) and not _has_quota(found[old]))):
            found[old] = one
    return found


def _key(one: events.JobWorkloadObserved) -> str:
    return f"{one.namespace}/{one.name}"


def _without(step: JobPass, job: events.QueuedJobObserved, ended: Workloads) -> matching.Found:
    """See to a job that has no Workload which counts. One that failed for good, or that the job's end finished, stays
    the job's."""
    last = next((one for one in reversed(_by_age(ended)) if not _superseded(one)), None)
    if last is not None or job.end is not None:
        return last, True
    if not writes.is_suspended(job) and not stop(step, job, None, JobReason.NO_MATCHING_WORKLOAD, matching.MISSING):
        return None, False
    return None, True


def _superseded(one: events.JobWorkloadObserved) -> bool:
    finished = one.condition("Finished")
    return finished is not None and finished.reason in (SLICE_REPLACED, _OUT_OF_SYNC)


def _sized(step: JobPass, job: events.QueuedJobObserved, found: Slices) -> matching.Found | None:
    """Have the Workload that counts follow the job's size; return it once it does."""
    chosen = found.chosen
    if chosen is None:
        return None, True
    wants, has = _counts(job.pod_sets), _counts(chosen.pod_sets)
    if wants.keys() != has.keys():
        return None
    if not _has_quota(chosen):
        if writes.is_suspended(job) and not _alike(job.pod_sets, chosen.pod_sets):
            matching.rewrite(step, job, chosen)
            return None, False
    elif any(count > has[name] for name, count in wants.items()):
        return (None, True) if _waits_for_slices(job) else None
    if wants != has:
        step.write(
            events.JobWorkloadUpdateDecided(
                **writes.head(chosen), what="counts", body=chosen.spec, pods=wants, reason=JobReason.JOB_RESIZED
            )
        )
        return None, False
    both = {one.uid: one for one in (chosen, found.head) if one is not None}
    # The one that has the quota is preempted by its priority too.
    return chosen, all(matching.kept_up(step, job, one) for one in both.values())


def with_quota(step: JobPass, job: events.QueuedJobObserved) -> events.JobWorkloadObserved | None:
    """Return the newest slice of a job that has quota and stays, None if there is none: what its pods run by."""
    mine = [one for one in step.workloads() if one.owner is not None and one.owner.uid == job.uid]
    return newest_with_quota(mine) if job.elastic else None


def newest_with_quota(found: Iterable[events.JobWorkloadObserved]) -> events.JobWorkloadObserved | None:
    """Return the newest of some Workloads that has quota and is neither evicted nor finished
    (`FindLatestActiveWorkload`)."""
    held = [one for one in found if _has_quota(one) and not (one.is_true("Evicted") or one.is_true("Finished"))]
    return _by_age(held)[-1] if held else None


def keeps_running(step: JobPass, job: events.QueuedJobObserved) -> bool:
    """Whether a job runs on though the Workload that counts is not admitted: one before it has the quota, or that one
    has taken the place of one that was admitted, and waits for its admission checks."""
    found = with_quota(step, job)
    return found is not None and (found.is_true("Admitted") or (found.slice is not None and bool(found.slice.replaces)))


def creation(
    step: JobPass, job: events.QueuedJobObserved, priority: WorkloadPriority
) -> events.JobWorkloadCreationDecided | None:
    """Return the decision to create the next slice of a job; None if it had one of this name: as with Kueue it is named
    by the job's generation, and a job of the same one is no other."""
    made = writes.creation(step, job, priority)
    if any(one.name == made.name for one in step.state.workloads.values()):
        return None
    old = with_quota(step, job)
    if old is None:
        return msgspec.structs.replace(made, slice=SliceFacts(name=made.name))
    # The job's templates have what the old slice was admitted with, which the new one is not to ask for: another
    # flavor's labels would keep it from any other one once it is evicted. Kueue takes the templates as they are.
    same = _alike(job.pod_sets, old.pod_sets)
    slice_ = SliceFacts(name=old.slice.name if old.slice else old.name, replaces=_key(old))
    return msgspec.structs.replace(made, slice=slice_, of=old.spec if same else "", reason=JobReason.JOB_GROWN)


def _waits_for_slices(job: events.QueuedJobObserved) -> bool:
    """Whether pods that a job makes now wait until a slice has room for them. Those of one that was started before it
    was elastic, or by an earlier version, do not: it has to be stopped to grow."""
    if writes.is_suspended(job) or job.managed_by == MULTIKUEUE:
        return True
    return all(ELASTIC_GATE in one.gates for one in job.pod_sets)


def gated(job: events.QueuedJobObserved, found: Sequence[events.PodSetInfo]) -> list[events.PodSetInfo]:
    """Return what the pods of a job are started with: those of an elastic one behind the gate, from which they are let
    as far as there is quota for them. A job that runs on a worker gets the gate from the Kueue there."""
    if not job.elastic or job.managed_by == MULTIKUEUE:
        return list(found)
    return [msgspec.structs.replace(one, gates=[*one.gates, ELASTIC_GATE]) for one in found]


def _has_quota(one: events.JobWorkloadObserved) -> bool:
    return one.is_true("QuotaReserved")


def _by_age(found: Iterable[events.JobWorkloadObserved]) -> list[events.JobWorkloadObserved]:
    return sorted(found, key=lambda one: (one.created, one.uid))


def _counts(found: Iterable[events.PodSetFacts]) -> dict[str, int]:
    return {one.name: one.count for one in found}


def _alike(one: Sequence[events.PodSetFacts], other: Sequence[events.PodSetFacts]) -> bool:
    """Whether pod sets differ in nothing but their sizes, and what an admission puts into them."""
    return [(a.name, a.containers) for a in one] == [(b.name, b.containers) for b in other]
