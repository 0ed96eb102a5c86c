"""Takes care of the pods of a group beside the first one: they are created, shown, and removed with it.

In: a pass over a Workload of a group, the local pods and what is seen of their copies. Out: writes, one target for each
pod. The first pod of the Workload's owners is its job, for which the procedures decide; the others follow it, so what
keeps a job from being created twice keeps every pod of a group. Kueue's own: kubernetes-sigs/kueue
pkg/controller/jobs/pod/pod_multikueue_adapter.go, ff69552e."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controlplane.controllers.multikueue.context import KUEUES_GATE
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.ended import forbidden, refused
from controlplane.controllers.multikueue.events import JobCreationDecided, StatusRelayDecided
from controlplane.controllers.multikueue.observations import JobObserved, Owner, RemoteJobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import PODS


def create_members(pass_: WorkloadPass, cluster: str) -> None:
    """Create the pods that are not there yet: the rest of a group, and those that take the place of others.

    Of more pods that run or have succeeded than the Workload has its worker's Kueue says that the Workload is out of
    step with them, and stops them all (`Pod.EquivalentToWorkload` in kubernetes-sigs/kueue
    pkg/controller/jobs/pod/pod_controller.go, ff69552e). So they wait until those stopped whose places they take, and
    what has succeeded is not done again."""
    job, remote, staying = pass_.context.job, pass_.state.remote(cluster), _staying(pass_)
    staying |= {job.name} if job is not None and not job.deleting else set()
    left = [copy for copy in remote.jobs if copy.name not in staying]
    if any(not (copy.finished or copy.finalizing) for copy in left):
        return
    missing = [one for one in pass_.context.members if _is_to_run(pass_, one) and one.name not in remote.members]
    for local in _still_to_run(missing, [copy for copy in left if copy.succeeded]):
        pass_.write(
            JobCreationDecided(
                cluster=cluster,
                attempt=pass_.state.attempt,
                kind=local.kind,
                template=local.template,
                member=local.name,
                reason=WorkloadReason.ADMITTED_ON_WORKER,
            )
        )


def _still_to_run(missing: Sequence[JobObserved], done: Sequence[RemoteJobObserved]) -> Sequence[JobObserved]:
    """Return those of a group's pods that have no copy, without as many of each role as are done already; where the
    role of any is not known, without as many as are done."""
    if not (all(one.role for one in missing) and all(copy.role for copy in done)):
        return missing[: max(0, len(missing) - len(done))]
    places = Counter(one.role for one in missing) - Counter(copy.role for copy in done)
    found = []
    for local in missing:
        if places[local.role] > 0:
            places[local.role] -= 1
            found.append(local)
    return found


def _is_to_run(pass_: WorkloadPass, local: JobObserved) -> bool:
    """Whether a pod of a group stays gated here, and is neither over nor going."""
    stays = pass_.context.policy.pod_gate == KUEUES_GATE or local.held
    return stays and not local.deleting and not local.finished


def next_of_group(pass_: WorkloadPass, local: WorkloadObserved) -> Owner | None:
    """Return the pod by which a group is to be known from now on, where the one by which it is has ended, is going or
    is gone, and no copy of it is anywhere; None where it stays. Created as the group's job, it would run once more."""
    job, owner = pass_.context.job, local.owner
    stays = not pass_.context.listed_here(PODS.name)  # a pod that nobody has seen yet is not gone
    if job is not None:
        stays = not (job.group and (job.finished or job.deleting))
    if stays or owner is None or _may_have_copy(pass_, owner.name):
        return None
    to_run = (one for one in pass_.context.members if _is_to_run(pass_, one) and one.uid in local.owners)
    for one in to_run:
        return Owner(api_version=PODS.api_version, kind=PODS.kind, name=one.name, uid=one.uid)
    return None


def _may_have_copy(pass_: WorkloadPass, name: str) -> bool:
    """Whether a copy of a pod is anywhere, or may be. What was to be created long ago in view, and never showed, is
    not."""
    state = pass_.state
    there = {copy.name for remote in state.remotes.values() for copy in remote.jobs}
    creations = (effect for effect in state.effects.values() if isinstance(effect.decision, JobCreationDecided))
    return state.winner in state.unsure or name in there or any(creations) or pass_.must_wait()


def free_names(pass_: WorkloadPass, cluster: str) -> None:
    """Let go the copies that somebody deleted on the worker, and that have not succeeded: as long as they are there,
    no other copy can be made of the pods of which they are."""
    job, staying = pass_.context.job, _staying(pass_)
    staying |= {job.name} if job is not None and not job.deleting else set()
    for copy in pass_.state.remote(cluster).jobs:
        if copy.finalizing and not copy.succeeded and copy.name in staying:
            pass_.free_pod(cluster, copy, WorkloadReason.STALE_COPY)


def remove_members(pass_: WorkloadPass, cluster: str) -> None:
    """Remove the copies that may run of pods that are gone, or are going: those in their places would run beside them,
    with more than was admitted, and the ends of both would count. Kueue leaves them."""
    staying = _staying(pass_)
    staying |= {pass_.context.job.name} if pass_.context.job is not None else set()
    for name, copy in sorted(pass_.state.remote(cluster).members.items()):
        if name not in staying and not copy.finished:
            pass_.remove_member(cluster, name, copy, WorkloadReason.POD_GONE)


def pods_replaced(pass_: WorkloadPass, cluster: str) -> bool:
    """Whether none of the pods of a group that are on a cluster is in the group any more, of which pods are seen here.
    It was evicted meanwhile, and those that are in their place have done nothing yet.
    """
    job, there = pass_.context.job, {one.name for one in pass_.state.remote(cluster).jobs}
    if job is None or not job.group or not there:
        return False
    return not there & (_staying(pass_) | (set() if job.deleting else {job.name}))


def _staying(pass_: WorkloadPass) -> set[str]:
    return {one.name for one in pass_.context.members if not one.deleting}


def name_taken(pass_: WorkloadPass, cluster: str) -> str:
    """Return what an API server said of a pod of the group whose name is somebody else's there; "" if none is. The
    group cannot be whole there.
    """
    for local in pass_.context.members:
        trouble = pass_.state.trouble.get(f"{cluster}/Job/{local.name}")
        creation = trouble is not None and trouble.action == JobCreationDecided.__name__
        if trouble is not None and creation and trouble.error == "Foreign" and not local.finished:
            return trouble.message
    return ""


def end_is_forgotten(local: JobObserved, remote: RemoteJobObserved) -> bool:
    """Whether the end that was written to a job is not in it any more: the management cluster went back to before."""
    return remote.finished and not local.finished


def relay_members(pass_: WorkloadPass, cluster: str) -> None:
    """Write the status of each copy to its pod, at most once an interval, and at once where it has ended; an end again
    that a pod does not show any more, since the management cluster went back to before."""
    for local, remote in _pairs(pass_, cluster):
        last = pass_.state.relayed_members.get(local.name)
        known = last is not None and remote.status == last.status
        # One that its worker takes away fails, and its user's has not.
        if local.deleting or remote.deleting or remote.status == local.status:
            continue
        if known and not end_is_forgotten(local, remote):
            continue
        due = last.at + pass_.context.policy.status_interval if last is not None else pass_.now
        if pass_.now < due and (known or not remote.finished):
            pass_.wake_at(due)
            continue
        _relay(pass_, cluster, local, remote)


def final_statuses(pass_: WorkloadPass, cluster: str, *, late: bool) -> bool:
    """Write the last status of each pod; return whether any is still on its way. One that is forbidden for long is
    waited for only once the Workload is finished (`late`)."""
    waiting = False
    for local, remote in _pairs(pass_, cluster):
        # That it was written before says nothing: the management cluster may have gone back to before.
        if not remote.finished or remote.deleting or local.finished or local.deleting or remote.status == local.status:
            continue
        if refused(pass_, local.name):
            waiting = waiting or (late and forbidden(pass_, local.name))
        else:
            _relay(pass_, cluster, local, remote)
            waiting = True
    return waiting


def rest_members(pass_: WorkloadPass) -> bool:
    """Write that nothing of the pods runs, and return whether any still says that it does."""
    running = [local for local in pass_.context.members if not local.inactive and not local.deleting]
    for local in running:
        pass_.rest(local, local.name)
    return bool(running)


def _pairs(pass_: WorkloadPass, cluster: str) -> list[tuple[JobObserved, RemoteJobObserved]]:
    there = pass_.state.remote(cluster).members
    return [(local, there[local.name]) for local in pass_.context.members if local.name in there]


def _relay(pass_: WorkloadPass, cluster: str, local: JobObserved, remote: RemoteJobObserved) -> None:
    reason = WorkloadReason.FINAL_STATUS if remote.finished else WorkloadReason.STATUS_CHANGED
    tell(pass_, cluster, local, remote.status, reason, member=local.name)


def tell(
    pass_: WorkloadPass,
    cluster: str,
    local: JobObserved,
    status: str,
    reason: WorkloadReason,
    *,
    member: str,
    outcome: str = "",
) -> None:
    """Write a status to a pod: that of its copy on a cluster, or its own with the `outcome` of its Workload. The first
    pod of a group is no `member`."""
    pass_.write(
        StatusRelayDecided(
            kind=local.kind,
            resource_version=local.resource_version,
            source=cluster,
            status=status,
            member=member,
            outcome=outcome,
            reason=reason,
        )
    )
