"""Finds where a job may run unseen: it is not started elsewhere before that cluster's grace is over.

In: the Workload and what the log knows of its copies, the connections, the time. Out: the clusters to wait for, and
until when. Pure. A Workload may have forgotten that it was dispatched (its quota was taken, or the management cluster
was put back to a backup); the log has not. What it knows is a job that was seen, or a creation that may have been
carried out before anybody saw its result (KEP-693)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.events import JobCreationDecided
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import PODS, WORKLOADS
from controlplane.log.event import Recorded

SHOWS_WITHIN = timedelta(seconds=40)
"""How long a request and its news may take together while the cluster answers: thirty seconds until its client gives it
up (`Timeouts.request` of the transport), also when its decision was taken back meanwhile, and ten for the news."""


def unseen(state: WorkloadState, context: WorkloadContext, now: datetime, but: str = "") -> dict[str, datetime | None]:
    """Return the clusters, all but one, where a job may run unseen, and until when that counts; None: until they are
    seen or given up.
    """
    found = _unread(context, now, but)
    for one in (state, *context.slices, *context.strays, *context.components):
        if of_another_job(one):
            continue
        for cluster in sorted(one.remotes.keys() | one.unsure.keys()):
            if cluster == but:
                continue
            if context.in_view(cluster):
                waits, kind = _bound_unseen(one, context, cluster), context.adapter.kind.name if context.adapter else ""
            else:
                waits, kind = may_run(one, cluster), WORKLOADS.name
            until = context.lost_until(cluster, now, kind) if waits else now
            if until is None or now < until:
                found[cluster] = until
    return found


def _unread(context: WorkloadContext, now: datetime, but: str) -> dict[str, datetime | None]:
    """Return the clusters, all but one, where something of the Workload is that nobody could read, and until when that
    counts."""
    ends = {cluster: context.lost_until(cluster, now) for cluster in sorted(context.unread.keys() - {but})}
    return {cluster: until for cluster, until in ends.items() if until is None or now < until}


def _bound_unseen(state: WorkloadState, context: WorkloadContext, cluster: str) -> bool:
    """Whether a job that nobody has seen may be on a cluster in view, where jobs cannot be seen: one is bound to the
    copy there (the log went back to before it knew of the job), or was when the copy went, or its creation was under
    way.
    """
    remote = state.remote(cluster)
    return (remote.binds or cluster in state.unsure) and remote.job is None and not context.available(cluster)


def unshown(state: WorkloadState, context: WorkloadContext, now: datetime, but: str = "") -> dict[str, datetime | None]:
    """Return the clusters in view, all but one, on which the job may have been created a moment ago without having
    shown yet, and until when that counts; None: while its creation is under way. Of an elastic job each slice may have
    created it.

    A watch of one kind may be later than that of another. What has not shown in time was never created: a list of
    the jobs there tells for sure, and comes with each new connection."""
    begun: dict[str, None] = {}
    taken_back: dict[str, datetime] = {}
    for one in (state, *context.slices):
        if of_another_job(one):
            continue
        open_ = (effect.decision for effect in one.effects.values())
        begun |= {decision.cluster: None for decision in open_ if isinstance(decision, JobCreationDecided)}
        until = one.unsure_at + SHOWS_WITHIN if one.unsure_at is not None else now
        if now < until:
            taken_back |= {cluster: max(until, taken_back.get(cluster, until)) for cluster in one.unsure}
    found: dict[str, datetime | None] = {**taken_back, **begun}
    return {cluster: until for cluster, until in found.items() if cluster != but and context.in_view(cluster)}


def rests_on(state: WorkloadState, context: WorkloadContext, cluster: str, now: datetime) -> bool:
    """Whether a job may run on a cluster that is away, or was sent there, and the Workload still has to wait
    until the cluster shows it."""
    if state.local is None or state.local.is_true("Finished") or of_another_job(state):
        return False
    if not may_run(state, cluster) and not any(target.startswith(f"{cluster}/Job") for target in state.effects):
        return False
    connection = context.connections.get(cluster)
    if connection is None or connection.lost_since is None:
        return True  # it is not recorded yet that it is away: its grace has not begun
    until = context.lost_until(cluster, now)
    return until is None or now < until


def of_another_job(state: WorkloadState) -> bool:
    """Whether what runs elsewhere is another job's, that had a Workload of this name. A group of pods is not: evicted,
    its pods are deleted, and others come in their place.
    """
    owner = state.owner
    if owner is not None and owner.kind == PODS.kind:
        return False
    owners = state.local.owners if state.local is not None else []
    return bool(state.runs_for) and (owner is None or state.runs_for not in (owner.uid, *owners))


def may_run(state: WorkloadState, cluster: str) -> bool:
    """Whether the job was seen on a cluster, or may have been created there since its jobs were last listed.

    One that was stopped by deactivating its Workload is not started again by anybody.
    """
    remote = state.remote(cluster)
    if not remote.may_run:
        return cluster in state.unsure
    rests = all(job.inactive for job in remote.jobs)
    return not (rests and remote.clone is not None and not remote.clone.active)


def fold_evicted(
    before: WorkloadState,
    state: WorkloadState,
    recorded: Recorded,
    adapters: Mapping[str, JobKind],
    connections: Mapping[str, Connection],
) -> WorkloadState:
    """Return the state after an observation of the Workload with the cluster on which the job may run on unseen from
    there."""
    cluster = _ran_unseen(before, state) if isinstance(recorded.event, WorkloadObserved) else ""
    adapter = adapters.get(state.owner.gvk) if cluster and state.owner is not None else None
    connection = connections.get(cluster)
    if adapter is None or (connection is not None and connection.in_view(adapter.kind.name)):
        return state
    unsure = {**state.unsure, cluster: adapter.kind.name}
    return msgspec.structs.replace(state, unsure=unsure, unsure_at=recorded.recorded_at)


def _ran_unseen(before: WorkloadState, after: WorkloadState) -> str:
    """Return where a Workload was until it was seen to be evicted, or to have quota no more, if nothing of its job was
    ever seen or written there, "" if there is none: the log went back to before the job started.
    """
    was, local = before.local, after.local
    if local is None or local.is_true("Finished") or _runs(local):
        return ""
    if was is None:
        named = local.cluster_name
    elif was.uid == local.uid and not was.is_true("Evicted"):
        named = local.cluster_name or was.cluster_name
    else:
        named = ""
    return "" if named in after.unsure or _is_known(before, named) else named


def _runs(local: WorkloadObserved) -> bool:
    return local.is_true("QuotaReserved") and not local.is_true("Evicted")


def _is_known(state: WorkloadState, cluster: str) -> bool:
    """Whether the log has something of the job on a cluster: seen there, or written."""
    remote, target = state.remote(cluster), f"{cluster}/Job"
    seen = bool(remote.jobs) or cluster in state.job_seen
    return seen or target in state.effects or target in state.trouble
