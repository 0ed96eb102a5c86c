"""Keeps the one job of an elastic job's slices in step with them: which slice has it on a cluster, and how large it is.

In: a pass over a slice, and what the other slices of the same job have on workers. Out: writes to the job's copy, and
to the slice's. Kueue's own: kubernetes-sigs/kueue pkg/controller/jobs/job/job_multikueue_adapter.go,
pkg/controller/jobs/ray/ray_multikueue_adapter.go, ff69552e."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.events import SpecUpdateDecided
from controlplane.controllers.multikueue.observations import JobObserved, RemoteJobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason


def held_elsewhere(pass_: WorkloadPass) -> Mapping[str, RemoteJobObserved]:
    """Return the job's copies that run under the names of other slices, by cluster; not of those that are gone and that
    none replaced, which are being removed.
    """
    found: dict[str, RemoteJobObserved] = {}
    for other in pass_.context.slices:
        if other.left is None:
            found.update({cluster: remote.job for cluster, remote in other.remotes.items() if remote.job is not None})
    return found


def take_over(pass_: WorkloadPass, local: WorkloadObserved, job: JobObserved, cluster: str) -> None:
    """Bind the job to a slice that is admitted where the job is, and give it the slice's size: in one write, so that no
    Kueue sees a job that does not match its Workload. If it is nowhere, create it.
    """
    held = held_elsewhere(pass_)
    theirs = held.get(cluster)
    if theirs is not None:
        if not theirs.deleting and not theirs.finished and not job.deleting and _is_current(local, job):
            _resize(pass_, job, theirs, cluster, prebuilt=local.name)
    elif (
        not held
        and not pass_.is_ending(cluster)
        and not pass_.must_wait(but=cluster)
        and not pass_.others_may_run(cluster)
    ):
        pass_.create_job(cluster, job)


def keep_size(pass_: WorkloadPass, local: WorkloadObserved, cluster: str) -> None:
    """Make the copy of a slice as small as the slice: Kueue does it in place, without another slice."""
    clone = pass_.state.remote(cluster).clone
    if clone is None or not _smaller(local.size, clone.size):
        return
    pass_.write(
        SpecUpdateDecided(
            cluster=cluster,
            resource_version=clone.resource_version,
            uid=clone.uid,
            kind="",
            template=local.template,
            of="Workload",
            reason=WorkloadReason.SIZE_CHANGED,
        )
    )


def follow_size(pass_: WorkloadPass, local: WorkloadObserved, job: JobObserved, cluster: str) -> bool:
    """Let the job's copy follow a change of its size, if the slice is of that size already; return whether it is to.

    A slice that is smaller than the job is about to be replaced: the job becomes larger under the next one's name."""
    remote = pass_.state.remote(cluster).job
    if remote is None or not job.size or not remote.size or remote.size == job.size or not _is_current(local, job):
        return False
    if not remote.deleting and not remote.finished and not job.deleting:
        _resize(pass_, job, remote, cluster)
    return True


def _resize(pass_: WorkloadPass, job: JobObserved, remote: RemoteJobObserved, cluster: str, prebuilt: str = "") -> None:
    pass_.write(
        SpecUpdateDecided(
            cluster=cluster,
            resource_version=remote.resource_version,
            uid=remote.uid,
            kind=job.kind,
            template=job.template,
            resized=True,
            prebuilt=prebuilt,
            sized=remote.sized,
            reason=WorkloadReason.SLICE_ADMITTED if prebuilt else WorkloadReason.SIZE_CHANGED,
        )
    )


def outgrown(local: WorkloadObserved, job: JobObserved) -> bool:
    """Whether a slice that has quota is not what its job asks for, and cannot be made so in place: Kueue makes
    another."""
    return bool(job.size) and not _is_current(local, job) and not _smaller(job.size, local.size)


def _is_current(local: WorkloadObserved, job: JobObserved) -> bool:
    """Whether a slice is the one for the job as it now is: of its size."""
    return local.size == job.size


def _smaller(size: Mapping[str, int], than: Mapping[str, int]) -> bool:
    return size != than and size.keys() == than.keys() and all(count <= than[name] for name, count in size.items())
