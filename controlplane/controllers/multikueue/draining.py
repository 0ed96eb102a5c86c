"""An evicted Workload that still holds quota: stop its copy, mirror that it stopped, and offer it to nobody.

In: a pass over a Workload with Evicted and QuotaReserved both True. What Kueue waits for before it gives the quota back
is the *mirrored* status of the user's job, so whoever takes a copy away must also bring that status to rest (specs 8.2
step 3, 8.3)."""

from __future__ import annotations

from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.events import (
    CheckState,
    DeactivationDecided,
    JobObserved,
    StatusRelayDecided,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason


def drain(turn: WorkloadPass, local: WorkloadObserved, check: CheckState, job: JobObserved) -> None:
    """Bring an evicted Workload that still holds quota to rest: stop its copy, mirror that, and offer it to nobody
    (specs 8.2, 8.3).
    """
    if check.state == "Pending":
        turn.clear_names(local)
    evicted = local.condition("Evicted")
    message = f"Evicted on manager: {evicted.message if evicted else ''}"
    # A copy that may run on a cluster that is away keeps the quota: until the grace is over.
    running = turn.must_wait()
    for cluster, remote in sorted(turn.state.remotes.items()):
        if not turn.context.in_view(cluster) or turn.verdicts.get(cluster) == "Wait":
            continue
        if remote.job is None or remote.clone is None:
            # A job that lost its clone runs until it is gone. Under a slice's name, or the next one's, it may be meant to.
            if not local.sliced:
                turn.remove(cluster, WorkloadReason.DRAINING)
            running = running or remote.job is not None
        elif remote.clone.is_true("Evicted") or remote.clone.is_true("Finished"):
            running = True
            if not remote.job.inactive:
                continue
            if not turn.context.fences:
                _relay_rest(turn, job, cluster)
            elif not job.inactive and job.suspended:
                # What was stopped says that it has ended; the user's job has not, it begins anew.
                _write_rest(turn, job)
        else:
            running = True
            _deactivate(turn, cluster, message)
    # Of a slice that never had the job, the job may run under the name of the slice before.
    owns = not local.sliced or any(remote.job is not None for remote in turn.state.remotes.values())
    if owns and not running and not job.inactive and job.suspended:
        _write_rest(turn, job)


def _deactivate(turn: WorkloadPass, cluster: str, message: str) -> None:
    clone = turn.state.remote(cluster).clone
    if clone is not None and not clone.is_true("DeactivationTarget"):
        turn.write(
            DeactivationDecided(
                cluster=cluster,
                resource_version=clone.resource_version,
                message=message,
                reason=WorkloadReason.EVICTED_ON_MANAGER,
            )
        )


def _relay_rest(turn: WorkloadPass, job: JobObserved, cluster: str) -> None:
    """Mirror the status of a copy that rests, so that Kueue sees that nothing runs any more."""
    remote = turn.state.remote(cluster).job
    if remote is None or job.inactive or job.deleting or remote.status == job.status:
        return
    turn.write(
        StatusRelayDecided(
            kind=job.kind,
            resource_version=job.resource_version,
            source=cluster,
            status=remote.status,
            reason=WorkloadReason.STATUS_CHANGED,
        )
    )


def _write_rest(turn: WorkloadPass, job: JobObserved) -> None:
    """Nobody runs the job and nobody will say so: write a status in which nothing runs (specs section 9, 5)."""
    turn.write(
        StatusRelayDecided(
            kind=job.kind,
            resource_version=job.resource_version,
            status=job.status,
            drain=True,
            reason=WorkloadReason.NOTHING_RUNS,
        )
    )
