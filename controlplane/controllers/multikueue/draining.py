"""Drains an evicted Workload that still holds quota: stops its copy, mirrors that it stopped, and offers it to no
cluster.

In: a pass over a Workload with Evicted and QuotaReserved both True. What Kueue waits for before it gives the quota back
is the *mirrored* status of the user's job, so whoever takes a copy away must also bring that status to rest
(`IsActive` in kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go, ff69552e)."""

from __future__ import annotations

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.members import rest_members
from controlplane.controllers.multikueue.observations import CheckState, JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote
from controlplane.controllers.multikueue.running import waits_for_unseen
from controlplane.controllers.multikueue.slices import held_elsewhere


def _relay_elsewhere(pass_: WorkloadPass, job: JobObserved) -> None:
    """Write that a copy has come to rest which other Workloads of the job hold."""
    for cluster, remote in sorted(held_elsewhere(pass_).items()):
        if pass_.context.in_view(cluster) and remote.inactive:
            pass_.relay(job, cluster, remote.status, WorkloadReason.STATUS_CHANGED)


def drain(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, job: JobObserved) -> None:
    """Bring an evicted Workload that still holds quota to rest: stop its copy, mirror that, and offer it to no
    cluster."""
    if check.state == "Pending":
        pass_.clear_names(local)
    # A copy that may run on a cluster that is away keeps the quota: until the grace is over.
    running = pass_.must_wait() or _says_that_it_runs(pass_, job)
    for cluster in sorted(pass_.state.remotes):
        if pass_.context.in_view(cluster) and pass_.verdicts.get(cluster) != "Wait":
            running = _drain_copy(pass_, local, job, cluster) or running
    if not job.inactive and not job.deleting:
        _relay_elsewhere(pass_, job)
    if not running and _told(pass_, local):
        rest_members(pass_)
        _write_rest(pass_, job)


def rest_of_deleted(pass_: WorkloadPass) -> None:
    """Write that nothing runs, once a Workload that is being deleted has no copies any more: no worker would report it,
    and no other Workload is made of its job before."""
    context, job = pass_.context, pass_.context.job
    if job is None or job.inactive or job.deleting or not _is_delegated(pass_, job):
        return
    if pass_.must_wait() or _may_run_anywhere(pass_):
        return
    remotes = [pass_.state.remote(cluster) for cluster in pass_.state.remotes if context.in_view(cluster)]
    if not any(remote.may_run for remote in remotes):
        _write_rest(pass_, job)


def _is_delegated(pass_: WorkloadPass, job: JobObserved) -> bool:
    """Whether the job runs on workers alone, and no slice has it, or is about to: one that is not ours runs here, and
    its own controller says how."""
    context = pass_.context
    elsewhere = any(other.remotes for other in context.slices)
    ours = (
        context.adapter is not None and context.adapter.delegates and job.managed_by == context.policy.controller_name
    )
    return ours and not elsewhere


def _may_run_anywhere(pass_: WorkloadPass) -> bool:
    """Whether a cluster out of view may have a copy that the log, which may have gone back, does not name."""
    held = False
    for cluster in pass_.context.connections:
        if cluster == MANAGEMENT or not pass_.context.unknown_on(cluster):
            continue
        until = pass_.context.lost_until(cluster, pass_.now)
        held = held or until is None or pass_.now < until
        pass_.wake_at(until)
    return held


def _says_that_it_runs(pass_: WorkloadPass, job: JobObserved) -> bool:
    """Whether the user's job runs by its status, and may do so on a cluster out of view that nothing else names.

    The log may have gone back to a moment in the attempt at which the job had not started yet."""
    route, state = pass_.context.route, pass_.state
    active = not all(one.inactive for one in (job, *pass_.context.members))
    jobs = any(remote.jobs for remote in state.remotes.values())
    told = bool(state.relayed or jobs or state.job_seen or state.ended) or state.relayed_at is not None
    return active and not told and route is not None and waits_for_unseen(pass_, route)


def _told(pass_: WorkloadPass, local: WorkloadObserved) -> bool:
    """Whether what is seen tells where the job is. Of a slice that never had it, it may run under the name of a slice
    before that nobody has seen yet.
    """
    route = pass_.context.route
    return (
        not local.replaces
        or bool(held_elsewhere(pass_))
        or any(remote.job is not None for remote in pass_.state.remotes.values())
        or (route is not None and all(pass_.context.in_view(cluster) for cluster in route.clusters))
    )


def _drain_copy(pass_: WorkloadPass, local: WorkloadObserved, job: JobObserved, cluster: str) -> bool:
    """Stop the copy on one cluster, or mirror that it stopped; return whether something of it may run there."""
    remote = pass_.state.remote(cluster)
    if remote.job is None or remote.clone is None:
        # A job that lost its clone runs until it is gone. Under a slice's name, or the next one's, it may be meant to,
        # as long as there is another one.
        if not local.sliced or not _has_another_slice(pass_):
            pass_.remove(cluster, WorkloadReason.DRAINING)
        return remote.may_run
    if not (remote.clone.is_true("Evicted") or remote.clone.is_true("Finished")):
        evicted = local.condition("Evicted")
        pass_.deactivate(cluster, f"Evicted on manager: {evicted.message if evicted else ''}")
    elif _stopped(pass_, remote) and _begins_anew(pass_):
        # The status of what was stopped is final; the user's job has not, it begins anew.
        rest_members(pass_)
        _write_rest(pass_, job)
    elif _stopped(pass_, remote):
        _relay_rest(pass_, job, cluster)
    return True


def _has_another_slice(pass_: WorkloadPass) -> bool:
    others = ((other.local, other.remotes) for other in pass_.context.slices)
    return any(seen is not None and (there or not seen.is_true("Finished")) for seen, there in others)


def _begins_anew(pass_: WorkloadPass) -> bool:
    """Whether what is stopped is over, and another copy is made: an attempt that is fenced, or a pod."""
    adapter = pass_.context.adapter
    return pass_.context.fences or (adapter is not None and not adapter.delegates)


def _stopped(pass_: WorkloadPass, remote: Remote) -> bool:
    """Whether nothing of a copy runs any more: by its status, or by its Kueue, which gives the quota back then."""
    adapter = pass_.context.adapter
    if remote.job is not None and (remote.job.inactive or adapter is None or adapter.tells_activity()):
        return remote.job.inactive and all(member.inactive for member in remote.members.values())
    return remote.clone is not None and not remote.clone.is_true("QuotaReserved")


def _relay_rest(pass_: WorkloadPass, job: JobObserved, cluster: str) -> None:
    """Mirror the status of a copy that rests, so that Kueue sees that nothing runs any more."""
    remote = pass_.state.remote(cluster).job
    if remote is None or job.inactive or job.deleting or remote.status == job.status:
        return
    pass_.relay(job, cluster, remote.status, WorkloadReason.STATUS_CHANGED)


def _write_rest(pass_: WorkloadPass, job: JobObserved) -> None:
    """Write a status in which nothing runs: nobody runs the job, and no worker will report that.

    Kueue keeps the quota until then.
    """
    adapter = pass_.context.adapter
    if job.inactive or not job.suspended or (adapter is not None and not adapter.relays):
        return
    pass_.rest(job)
