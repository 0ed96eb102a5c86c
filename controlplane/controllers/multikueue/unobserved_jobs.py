"""Finds where a job may run unseen: it is not started elsewhere before that cluster's grace is over.

In: the Workload and what the log knows of its copies, the connections, the time. Out: the clusters to wait for, and
until when. Pure. A Workload may have forgotten that it was dispatched (its quota was taken, or the management cluster
was put back to a backup); the log has not. What it knows is a job that was seen, or a creation that may have been
carried out before anybody saw its result (KEP-693)."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.state import WorkloadState


def unseen(state: WorkloadState, context: WorkloadContext, now: datetime, but: str = "") -> dict[str, datetime | None]:
    """Return the clusters, all but one, where a job may run unseen, and until when that counts; None: until they are
    seen or given up.
    """
    if of_another_job(state):
        return {}
    found: dict[str, datetime | None] = {}
    for cluster in sorted(state.remotes.keys() | state.unsure.keys()):
        if cluster != but and not context.in_view(cluster) and may_run(state, cluster):
            until = context.lost_until(cluster, now)
            if until is None or now < until:
                found[cluster] = until
    return found


def rests_on(state: WorkloadState, context: WorkloadContext, cluster: str, now: datetime) -> bool:
    """Whether a job may run on a cluster that is away, or was sent there, and the Workload still has to wait
    until the cluster shows it."""
    if state.local is None or state.local.is_true("Finished") or of_another_job(state):
        return False
    if not may_run(state, cluster) and f"{cluster}/Job" not in state.effects:
        return False
    connection = context.connections.get(cluster)
    if connection is None or connection.lost_since is None:
        return True  # it is not recorded yet that it is away: its grace has not begun
    until = context.lost_until(cluster, now)
    return until is None or now < until


def of_another_job(state: WorkloadState) -> bool:
    """Whether what runs elsewhere is another job's, that had a Workload of this name."""
    owner = state.local.owner if state.local is not None else None
    return bool(state.runs_for) and (owner is None or owner.uid != state.runs_for)


def may_run(state: WorkloadState, cluster: str) -> bool:
    """Whether the job was seen on a cluster, or may have been created there since its jobs were last listed.

    One that was stopped by deactivating its Workload is not started again by anybody.
    """
    remote = state.remote(cluster)
    if remote.job is None:
        return cluster in state.unsure
    return not (remote.job.inactive and remote.clone is not None and not remote.clone.active)
