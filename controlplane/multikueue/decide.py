"""What to do about one Workload now: the procedure of MultiKueue, level-triggered.

In: the Workload's state, its context, the time. Out: decisions, in order, and when to look again. Pure. It follows Kueue's own
procedure (specs sections 2.3–2.7) with its messages, and leaves it where Kueue is known to go wrong (section 9): the winner is pinned,
an evicted Workload is never offered, quota is never held by a status that nobody updates, a cluster in trouble delays nobody else,
and nothing is written twice.
"""

from __future__ import annotations

from datetime import datetime

from controlplane.multikueue.adapters.base import Adapter
from controlplane.multikueue.context import EXECUTION_POLICIES, Context, Route
from controlplane.multikueue.dispatch import dispatch
from controlplane.multikueue.draining import drain
from controlplane.multikueue.events import CheckState, Decision, JobObserved, WorkloadObserved
from controlplane.multikueue.objects import EXECUTION_POLICY
from controlplane.multikueue.passing import Pass
from controlplane.multikueue.reasons import Reason
from controlplane.multikueue.returning import judge_returned
from controlplane.multikueue.running import finish, late_status, steady
from controlplane.multikueue.state import WorkloadState
from controlplane.passes import Plan


def decide(state: WorkloadState, context: Context, now: datetime) -> Plan[Decision]:
    """Return what follows from the state; nothing while the management cluster is not in view."""
    turn = Pass(state, context, now)
    local = state.local
    if not context.ready:
        return turn.plan
    if local is None:
        _orphan(turn)
    elif local.deleting:
        turn.remove_everywhere(Reason.LOCAL_DELETED)
    else:
        _workload(turn, local)
    return turn.plan


def _orphan(turn: Pass) -> None:
    """No Workload of this name: copies go at once if we saw it deleted, else after one GC interval (specs 4.8)."""
    if turn.state.gone:
        turn.remove_everywhere(Reason.LOCAL_DELETED)
        return
    interval, since = turn.context.policy.gc_interval, turn.state.orphan_since
    if interval is None or since is None:
        return
    if turn.now >= since + interval:
        turn.remove_everywhere(Reason.ORPHANED)
    else:
        turn.wake_at(since + interval)


def _workload(turn: Pass, local: WorkloadObserved) -> None:
    judge_returned(turn, local)
    if local.is_true("Finished"):
        turn.remove_everywhere(Reason.FINISHED, keep=late_status(turn, local))
        return
    if not local.is_true("QuotaReserved"):
        if "Finish" in turn.verdicts.values() and _finish_unreserved(turn, local):
            return
        # One rule for what follows an eviction, a deactivation and every change that needs a new place in the queue (specs 2.5 step 2).
        turn.remove_everywhere(Reason.QUOTA_NOT_RESERVED)
        if turn.context.route is not None:
            turn.clear_names(local)
        return
    route = turn.context.route
    if route is None:
        return
    check = next(entry for entry in local.checks if entry.name == route.check)
    if check.state == "Rejected":
        return
    accepted = _accepted(turn, local, check)
    if accepted is None or route.error:
        return
    adapter, job = accepted
    _reserved(turn, local, check, route, adapter, job)


def _finish_unreserved(turn: Pass, local: WorkloadObserved) -> bool:
    """A copy finished while its cluster was away and its Workload had been queued again: the result counts, nothing is run again."""
    route, job = turn.context.route, turn.context.job
    if route is None or job is None:
        return False
    check = next(entry for entry in local.checks if entry.name == route.check)
    return finish(turn, local, check, job)


def _accepted(turn: Pass, local: WorkloadObserved, check: CheckState) -> tuple[Adapter, JobObserved] | None:
    """Return the adapter and the job, or reject the Workload, or wait for the job to be seen (specs 2.3)."""
    adapter, job = turn.context.adapter, turn.context.job
    if adapter is None:
        text = (
            f'No multikueue adapter found for owner kind "{local.owner.gvk}"'
            if local.owner
            else "No multikueue adapter found"
        )
        turn.set_check(local, check, "Rejected", text, Reason.NO_ADAPTER)
        return None
    if job is None:
        return None
    wanted = turn.context.policy.controller_name
    if job.managed_by != wanted:
        text = f'The owner is not managed by Kueue: Expecting spec.managedBy to be "{wanted}" not "{job.managed_by}"'
        turn.set_check(local, check, "Rejected", text, Reason.NOT_MANAGED)
        return None
    text = _policy_problem(job.execution_policy, turn.context.queue_policy, local.cluster_queue)
    if text:
        turn.set_check(local, check, "Rejected", text, Reason.CONTRADICTING_POLICIES)
        return None
    return adapter, job


def _policy_problem(job: str, queue: str, name: str) -> str:
    """Return what is wrong with the execution policies that a job and its ClusterQueue ask for, "" if nothing is."""
    known = " or ".join(f'"{policy}"' for policy in EXECUTION_POLICIES)
    for whose, asked in (("the job", job), (f'ClusterQueue "{name}"', queue)):
        if asked and asked not in EXECUTION_POLICIES:
            return f'{whose} asks for the execution policy "{asked}" in annotation {EXECUTION_POLICY}: use {known}'
    if job and queue and job != queue:
        return (
            f'the job asks for the execution policy "{job}" and ClusterQueue "{name}" for "{queue}": '
            f"set the annotation {EXECUTION_POLICY} on one of them, or the same on both"
        )
    return ""


def _reserved(
    turn: Pass, local: WorkloadObserved, check: CheckState, route: Route, adapter: Adapter, job: JobObserved
) -> None:
    # A copy that finished counts, even if the Workload was evicted meanwhile: it is not run again.
    if finish(turn, local, check, job):
        return
    if local.is_true("Evicted"):
        drain(turn, local, check, job)
    elif check.state == "Ready":
        steady(turn, local, check, route, adapter, job)
    elif check.state == "Pending":
        dispatch(turn, local, check, route, job)
