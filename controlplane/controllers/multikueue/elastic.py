"""Follows an elastic job from one of its Workloads to the next: Kueue replaces a Workload by a larger slice while the
job runs, and makes one smaller in place.

In: a pass over a slice, and the other slices of the same job with what they have on workers. Out: the next slice's copy
on the cluster that has the job; the job bound to it, and made larger, in one write, once it is admitted there; and
nothing where a job runs under the name of another slice. There is one job at any time: as long as a cluster may have it
under another slice's name, no slice creates one. Kueue's own way: kubernetes-sigs/kueue
pkg/workloadslicing/workloadslicing.go, pkg/controller/jobs/job/job_multikueue_adapter.go, ff69552e."""

from __future__ import annotations

from controlplane.controllers.multikueue.context import Route
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.dispatch import ready_topology
from controlplane.controllers.multikueue.drift import mend
from controlplane.controllers.multikueue.ended import relay_end
from controlplane.controllers.multikueue.events import (
    AttemptBegun,
    CloneDecided,
    DeactivationDecided,
)
from controlplane.controllers.multikueue.final_status import late_status
from controlplane.controllers.multikueue.observations import (
    CheckState,
    JobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.preemption import open_gate
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote, admitted, usable
from controlplane.controllers.multikueue.running import GONE, away
from controlplane.controllers.multikueue.slices import held_elsewhere, keep_size, take_over
from controlplane.kube.slices import ELASTIC_JOB, SLICE_REPLACED

NOT_RESIZED = f"Jobs of this kind cannot be made larger while they run: create it without the annotation {ELASTIC_JOB}"


def refuses(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState) -> bool:
    """Whether a slice is to be rejected: it replaces another one, and nothing makes a job of this kind larger."""
    adapter = pass_.context.adapter
    return bool(local.replaces) and adapter is not None and not adapter.elastic and check.state != "Ready"


def handed_over(pass_: WorkloadPass, local: WorkloadObserved) -> bool:
    """Whether a worker's Kueue has replaced this slice already, and that of the management cluster is about to. If the
    one that took its place is lost, to a backup say, that is so while the job is there or may run under its name.
    """
    remote = pass_.state.remote(local.cluster_name)
    replaced = local.sliced and remote.finished is not None and remote.finished.reason == SLICE_REPLACED
    return replaced and (remote.job is not None or bool(_heirs(pass_)) or pass_.must_wait())


def seat(pass_: WorkloadPass, local: WorkloadObserved) -> str:
    """Return the cluster that a slice has to go to, because the job is there: what Kueue copied from the slice before,
    else where the job is seen; "" if it may go anywhere.
    """
    if local.replaces and local.cluster_name:
        return local.cluster_name
    held = {} if pass_.state.winner else held_elsewhere(pass_)
    seen = next((cluster for cluster in sorted(held) if pass_.context.in_view(cluster)), "")
    return seen if seen or held or pass_.state.winner or not local.replaces else _unseen_seat(pass_)


def _unseen_seat(pass_: WorkloadPass) -> str:
    """Return the cluster that another slice has, and that is out of view, also under every other name: the job may run
    there, though a log that went back knows of no copy.
    """
    chosen = sorted({other.winner for other in pass_.context.slices if other.winner})
    return next((cluster for cluster in chosen if pass_.context.unknown_on(cluster)), "")


def follow(
    pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route, job: JobObserved, cluster: str
) -> None:
    """Bring a slice one step nearer to the cluster that has the job."""
    if local.cluster_name and not local.replaces:
        pass_.clear_names(local)
    elif not pass_.context.available(cluster):
        away(pass_, local, check, cluster)
    elif cluster not in route.clusters:
        pass_.set_check(local, check, "Retry", GONE, WorkloadReason.REMOTE_GONE)
    elif not pass_.state.dispatching:
        reason = WorkloadReason.SLICE_FOLLOWS
        pass_.say(AttemptBegun(attempt=pass_.state.attempt + 1, clusters=[cluster], reason=reason))
    elif not pass_.must_wait(but=cluster):
        _settle(pass_, local, check, job, cluster)


def _create_copy(pass_: WorkloadPass, local: WorkloadObserved, cluster: str) -> None:
    """Create the slice's copy on a cluster, unless it refused it a moment ago or has its job."""
    refusal = pass_.state.refused.get(cluster)
    if refusal is not None and refusal.until > pass_.now:
        pass_.wake_at(refusal.until)
    elif pass_.state.remote(cluster).job is None:
        pass_.write(
            CloneDecided(
                cluster=cluster,
                attempt=pass_.state.attempt,
                template=local.template,
                gated=pass_.context.policy.orchestrated_preemption,
                reason=WorkloadReason.SLICE_FOLLOWS,
            )
        )


def _settle(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, job: JobObserved, cluster: str) -> None:
    """Create the slice's copy, and hand the job over to it once it is admitted."""
    remote = pass_.state.remote(cluster)
    pass_.remove_everywhere(WorkloadReason.ANOTHER_CLUSTER_WON, keep=cluster)
    if not local.replaces and cluster not in local.nominated:
        # Kueue takes a cluster's name without that only for a slice that replaces another one.
        pass_.nominate(local, cluster)
    elif remote.clone is None:
        _create_copy(pass_, local, cluster)
    elif remote.clone.deleting:
        return
    elif not usable(remote, local):
        text = f'Workload evicted on worker cluster: "{cluster}", resetting for re-admission'
        pass_.set_check(local, check, "Retry", text, WorkloadReason.REMOTE_EVICTED)
    elif not admitted(remote, local) and not _runs(pass_, cluster):
        # What it was to follow does not run there any more: another cluster may have room for it.
        pass_.set_check(local, check, "Retry", GONE, WorkloadReason.REMOTE_GONE)
    elif not admitted(remote, local):
        keep_size(pass_, local, cluster)
        mend(pass_, local, cluster)
        open_gate(pass_, local, [cluster])
    elif remote.job is not None and not remote.job.deleting:
        pass_.ready(local, check, cluster, ready_topology(pass_, local, cluster))
    elif remote.job is None:
        take_over(pass_, local, job, cluster)


def _runs(pass_: WorkloadPass, cluster: str) -> bool:
    """Whether the job runs on a cluster, or may: its copy is there, and the slice that has it was not deactivated, nor
    is gone there, without which nobody starts it.
    """
    if pass_.state.remote(cluster).job is not None:
        return True
    for other in pass_.context.slices:
        remote = other.remote(cluster)
        stopped = remote.clone is None or not remote.clone.active
        if remote.job is not None and not (remote.job.suspended and remote.job.inactive and stopped):
            return True
    return False


# --- a slice that was replaced ----------------------------------------------------------------------------------------


def outlast(pass_: WorkloadPass, reason: WorkloadReason) -> None:
    """Leave what runs of a slice that was replaced, until the next one has taken the job over, and report its end,
    which is the job's. What has ended is removed, and what another slice left behind when it was evicted or placed
    elsewhere.
    """
    local = pass_.state.local
    waits = late_status(pass_, local) if local is not None or not held_elsewhere(pass_) else ""
    _tell_end(pass_)
    for cluster, remote in sorted(pass_.state.remotes.items()):
        if cluster == waits or not pass_.context.in_view(cluster):
            continue
        if remote.job is None:
            over = _is_over(pass_) or (remote.finished is None and _was_lost(pass_))
        else:
            over = remote.job.finished or _has_ended(pass_)
        if over:
            pass_.remove(cluster, reason)
        elif remote.job is None:
            continue
        elif _left_behind(pass_, cluster):
            pass_.remove(cluster, WorkloadReason.QUOTA_NOT_RESERVED)
        elif _to_stop(pass_):
            _stop(pass_, cluster, remote)


def _tell_end(pass_: WorkloadPass) -> None:
    """Report the end of the job whose copy went the moment it had ended, unless another slice has it."""
    job, ended = pass_.context.job, sorted(pass_.state.ended)
    if job is None or held_elsewhere(pass_) or any(one.job is not None for one in pass_.state.remotes.values()):
        return
    if ended:
        relay_end(pass_, job, ended[0])


def _is_over(pass_: WorkloadPass) -> bool:
    """Whether the user's job has ended, or is gone: nothing is kept of slices that were replaced."""
    job = pass_.context.job
    return job is None or job.finished


def _has_ended(pass_: WorkloadPass) -> bool:
    """Whether the user's job has ended: on another cluster, if not where a copy of it has not."""
    return pass_.context.job is not None and pass_.context.job.finished


def _was_lost(pass_: WorkloadPass) -> bool:
    """Whether the management cluster knows neither this slice nor one after it any more, as after a backup: its copy
    must not be admitted, and take the place of the slice before, which counts again.
    """
    heirs = _heirs(pass_)
    return pass_.state.local is None and bool(heirs) and not any(heir.replaces for heir in heirs)


def _heirs(pass_: WorkloadPass) -> list[WorkloadObserved]:
    """Return the slices of the job that are not over: one of them has taken the place of this one."""
    found = [other.local for other in pass_.context.slices]
    return [local for local in found if local is not None and not local.deleting and not local.is_true("Finished")]


def _left_behind(pass_: WorkloadPass, cluster: str) -> bool:
    """Whether no slice wants what runs here: evicted, and without quota, or placed on another cluster."""
    heirs = _heirs(pass_)
    seats = {
        other.local.cluster_name or other.winner
        for other in pass_.context.slices
        if other.local is not None and other.local in heirs
    }
    evicted = all(local.is_true("Evicted") and not local.is_true("QuotaReserved") for local in heirs)
    return bool(heirs) and (evicted or (cluster not in seats and "" not in seats))


def _to_stop(pass_: WorkloadPass) -> bool:
    heirs = _heirs(pass_)
    return bool(heirs) and all(local.is_true("Evicted") for local in heirs)


def _stop(pass_: WorkloadPass, cluster: str, remote: Remote) -> None:
    """Have a copy stopped under whose name the job runs still, since the slice that is to take it over was evicted."""
    clone = remote.clone
    if clone is None or clone.is_true("Finished"):
        # Its worker has replaced it, so nothing that is asked of it reaches the job.
        pass_.remove(cluster, WorkloadReason.DRAINING)
    elif not clone.is_true("DeactivationTarget") and not clone.is_true("Evicted"):
        pass_.write(
            DeactivationDecided(
                cluster=cluster,
                resource_version=clone.resource_version,
                message="Evicted on manager: the slice that was to take its place was evicted",
                reason=WorkloadReason.EVICTED_ON_MANAGER,
            )
        )
