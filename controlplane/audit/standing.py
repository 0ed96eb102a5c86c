"""How far a Workload has come, by one name, and what it waits for, in a few.

In: the fold of a Workload and its context (`Index.context`), the time. Out: a `Standing`. Pure. The words are Kueue's
where Kueue has one; the order of the questions is that of `controlplane.controllers.multikueue.decide`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from controlplane.audit.devices_wait import waits_for_devices
from controlplane.controllers.multikueue import strays
from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.decision_pass import stamp
from controlplane.controllers.multikueue.observations import CheckState, WorkloadObserved
from controlplane.controllers.multikueue.unobserved_jobs import unseen
from controlplane.controllers.multikueue.unread_copies import MADE_FOR_FIELD
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.runtime.explanation import Standing


def standing(state: WorkloadState, context: WorkloadContext, now: datetime) -> Standing:
    """Return how far a Workload has come."""
    local = state.local
    if local is None:
        return Standing("Deleted", "", _copies(state))
    if local.is_true("Finished"):
        return Standing("Finished", local.cluster_name, "")
    if local.deleting:
        return Standing("Deleting", local.cluster_name, _copies(state))
    reserved = local.is_true("QuotaReserved")
    if local.is_true("Evicted") and reserved:
        return Standing("Evicted", "", f"{_copies(state)} to stop" if _copies(state) else "its quota to be given back")
    if not local.active:
        return Standing("Inactive", "", "somebody to activate it")
    if not reserved:
        refused = [entry.name for entry in local.checks if entry.state == "Rejected"]
        said = local.condition("QuotaReserved")
        place = quota_of(local.queue_name, said.message if said is not None else "")
        return Standing("Pending", "", check_to_change(refused) or place)
    return _with_quota(state, local, context, now)


def quota_of(queue: str, message: str) -> str:
    """Return what a Workload without quota waits for: a queue that is not there, or holds, or devices, where Kueue's
    message says so."""
    if found := _UNUSABLE.match(message):
        what, wrong = found.groups()
        return f"{what}, which does not exist" if wrong == "doesn't exist" else f"{what} to be active"
    if message.split() == _NAMES_NONE:
        return f"LocalQueue {queue} to name a ClusterQueue"
    if _OTHER_NAMESPACE in message:
        return (
            f"the ClusterQueue of {queue} to take its namespace" if queue else "a ClusterQueue that takes its namespace"
        )
    return waits_for_devices(message) or (f"quota in {queue}" if queue else "quota")


def check_to_change(rejected: Sequence[str]) -> str:
    """Return what a Workload without quota waits for that an admission check has rejected, "" if none has: it is not
    tried for quota, and Kueue deactivates for a check only one that has quota (kubernetes-sigs/kueue
    pkg/scheduler/scheduler.go, nominate; pkg/controller/core/workload_controller.go, Reconcile; v0.18).
    """
    if not rejected:
        return ""
    names = ", ".join(rejected)
    if len(rejected) == 1:
        return f"its admission check {names}, which is Rejected, to be reset"
    return f"its admission checks {names}, which are Rejected, to be reset"


_OTHER_NAMESPACE = "namespace doesn't match ClusterQueue selector"
_NAMES_NONE = ["ClusterQueue", "doesn't", "exist"]  # the LocalQueue has no spec.clusterQueue
_UNUSABLE = re.compile(r"((?:LocalQueue|ClusterQueue) \S+) (doesn't exist|is inactive)\.?$")
# Kueue, pkg/controller/core/workload_controller.go, reconcileOnLocalQueueActiveState and its neighbours.


def check_of(state: WorkloadState, context: WorkloadContext) -> CheckState | None:
    """Return the Workload's admission check that is ours."""
    if state.local is None or context.route is None:
        return None
    return next((entry for entry in state.local.checks if entry.name == context.route.check), None)


def grace(state: WorkloadState, context: WorkloadContext, cluster: str, now: datetime) -> datetime | None:
    """Return until when a Workload stays with a cluster that cannot be reached; None: for as long as that lasts."""
    check = check_of(state, context)
    return context.lost_until(cluster, stamp(check.last_transition_time if check else "", now))


def _with_quota(state: WorkloadState, local: WorkloadObserved, context: WorkloadContext, now: datetime) -> Standing:
    check = check_of(state, context)
    if check is None:
        return Standing("Admitted" if local.is_true("Admitted") else "Reserved", local.cluster_name, "")
    if check.state == "Rejected":
        return Standing("Rejected", "", "Kueue to deactivate it")
    if check.state == "Retry":
        return Standing("Retry", local.cluster_name, "Kueue to evict it")
    if check.state == "Ready":
        return _placed(state, local, context, now)
    held = waited_for(state, context, now)
    if state.winner:
        return Standing("Chosen", state.winner, held or _before_the_job(state, context, state.winner))
    if held:
        return Standing("Nominated" if state.dispatching else "Reserved", "", held)
    if state.dispatching:
        return Standing("Nominated", "", f"admission on {', '.join(local.nominated) or 'a cluster'}")
    return Standing("Reserved", "", _before_the_offer(local, check, context))


def waited_for(state: WorkloadState, context: WorkloadContext, now: datetime) -> str:
    """Say which clusters have to come back, or to be given up, and which copies have to go, before the job may be
    started anywhere else; "" if none.
    """
    held = unseen(state, context, now, state.winner)
    each = []
    for cluster, until in held.items():
        awaited = _readable(context, cluster) or f"{cluster} to come back"
        limit = f", until {until:%Y-%m-%dT%H:%M:%SZ}" if until is not None else ""
        each.append(f"{awaited}, where the job may run{limit}")
    each += [unknown_copy(copy) for copy in strays.waited_for(context)]
    return " and ".join(each)


def _readable(context: WorkloadContext, cluster: str) -> str:
    """Say what is waited for of a copy in view that cannot be read, or may be another's; "" if there is none."""
    unread = context.unread_on(cluster)
    if unread is None:
        return ""
    return f"what is on {cluster} to {'go' if unread.field == MADE_FOR_FIELD else 'be readable'}"


def unknown_copy(copy: strays.StrayCopy) -> str:
    """Say of which copy an elastic job waits to go, and whether it is removed."""
    name = copy.stream.partition("/")[2]
    ends = (
        "which nobody removes: multikueue.gcInterval is 0"
        if copy.goes is None
        else f"at {copy.goes:%Y-%m-%dT%H:%M:%SZ}"
    )
    return f"the job on {copy.cluster} to go that runs for {name}, a Workload that nobody knows, {ends}"


def _placed(state: WorkloadState, local: WorkloadObserved, context: WorkloadContext, now: datetime) -> Standing:
    cluster = local.cluster_name or state.winner  # somebody may have taken the name away
    if not cluster:
        return Standing("Admitted", "", "its cluster to be named")
    connection = context.connections.get(cluster)
    if connection is not None and not connection.connected and connection.phase != "Unknown":
        until = grace(state, context, cluster, now)
        limit = f", until {until:%Y-%m-%dT%H:%M:%SZ}" if until is not None else ""
        return Standing("Lost", cluster, f"{cluster} to come back{limit}")
    if awaited := _readable(context, cluster):
        return Standing("Admitted", cluster, awaited)
    job = state.remote(cluster).job
    if job is not None and not job.suspended:
        return Standing("Running", cluster, "")
    others = [entry.name for entry in local.checks if entry.state != "Ready"]
    if others:
        return Standing("Admitted", cluster, f"the admission check {', '.join(others)}")
    return Standing("Admitted", cluster, f"{cluster} to start its job")


def _before_the_job(state: WorkloadState, context: WorkloadContext, cluster: str) -> str:
    if not context.in_view(cluster):
        return f"{cluster} to come back"
    if state.remote(cluster).job is not None:
        return "its admission check to be Ready"
    losers = [name for name, remote in sorted(state.remotes.items()) if name != cluster and remote.job is not None]
    return f"the other copies to go ({', '.join(losers)})" if losers else f"its job to be created on {cluster}"


def _before_the_offer(local: WorkloadObserved, check: CheckState, context: WorkloadContext) -> str:
    assert context.route is not None
    clusters = context.route.clusters
    others = [entry.name for entry in local.checks if entry.name != check.name and entry.state != "Ready"]
    if context.route.error:
        return "a MultiKueueConfig that can be used"
    if context.job is None:
        return "its job to be seen"
    if others:
        return f"the admission check {', '.join(others)}"
    reachable = [cluster for cluster in clusters if context.available(cluster)]
    if not reachable:
        return f"a cluster that can be reached ({', '.join(clusters) or 'none is configured'})"
    if not any(map(context.takes, reachable)):
        return f"a cluster that can take it ({', '.join(clusters)})"
    return "its nomination"


def _copies(state: WorkloadState) -> str:
    going = sorted(state.remotes.keys() - set(state.unknown_on))  # the others stay
    return f"its copies on {', '.join(going)}" if going else ""
