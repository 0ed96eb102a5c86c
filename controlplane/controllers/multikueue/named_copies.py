"""Finds the copy that `status.clusterName` names and that no watch shows: watches select by `multikueue.origin`, and a
log that has just begun cannot tell a copy that is gone from one that has another origin.

In: a Workload of which the log knows no attempt. Out: the cluster that has to be asked for the copy by its name
(`controlplane.controllers.multikueue.copy_reads`). Pure. Until it has answered, nothing is decided; what it has counts
as a copy that cannot be read, so that its job is not started elsewhere."""

from __future__ import annotations

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kueue_names import ORIGIN_LABEL

ORIGIN_FIELD = f"metadata.labels[{ORIGIN_LABEL}]"
"""The field that is wrong with a copy of another origin."""


def unseen_on(state: WorkloadState, context: WorkloadContext) -> str:
    """Return the cluster that has to be asked before anything is decided, "" if none has."""
    cluster = named(state)
    return cluster if cluster and context.route is not None and context.in_view(cluster) else ""


def found_on(state: WorkloadState, context: WorkloadContext) -> str:
    """Return the cluster that has what is not ours in the place of the copy, as far as was asked; "" if none has."""
    if state.attempt or not context.unread:
        return ""
    found = (cluster for cluster in sorted(context.unread) if context.unread_on(cluster) is not None)
    return next((cluster for cluster in found if context.unread[cluster].field == ORIGIN_FIELD), "")


def named(state: WorkloadState) -> str:
    """Return the cluster that a Workload names without the log knowing why; "" if it names none, or once something of
    it was seen there. The name of a slice that replaces another is Kueue's."""
    local = state.local
    if local is None or state.attempt or local.deleting or local.sliced or local.is_true("Finished"):
        return ""
    cluster = local.cluster_name
    known = cluster in state.absent or cluster in state.job_seen or cluster in state.unsure
    return cluster if cluster and not known and state.remote(cluster).empty else ""
