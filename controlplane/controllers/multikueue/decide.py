"""What to do about one Workload now: the procedure of MultiKueue, level-triggered.

In: the Workload's state, its context, the time. Out: decisions, in order, and when to look again. Pure. It follows
Kueue's own procedure (specs sections 2.3–2.7) with its messages, and leaves it where Kueue is known to go wrong
(section 9): the winner is pinned, an evicted Workload is never offered, quota is never held by a status that nobody
updates, a cluster in trouble delays nobody else, and nothing is written twice."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.multikueue.context import EXECUTION_POLICIES, Route, WorkloadContext
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.dispatch import dispatch
from controlplane.controllers.multikueue.draining import drain
from controlplane.controllers.multikueue.elastic import NOT_SUPPORTED, confirm, outlast, refuses
from controlplane.controllers.multikueue.events import CheckState, JobObserved, WorkloadDecision, WorkloadObserved
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.returning import judge_returned
from controlplane.controllers.multikueue.running import finish, late_status, steady
from controlplane.controllers.multikueue.state import WorkloadState
from controlplane.runtime.decision_pass import PassResult


def decide(state: WorkloadState, context: WorkloadContext, now: datetime) -> PassResult[WorkloadDecision]:
    """Return what follows from the state; nothing while the management cluster is not in view."""
    turn = WorkloadPass(state, context, now)
    local = state.local
    if not context.ready:
        return turn.plan
    if state.slice_of is not None and (local is None or local.deleting) and _lives(context.job):
        outlast(turn, WorkloadReason.LOCAL_DELETED)
    elif local is None:
        _orphan(turn)
    elif local.deleting:
        turn.remove_everywhere(WorkloadReason.LOCAL_DELETED)
    else:
        _workload(turn, local)
    return turn.plan


def _lives(job: JobObserved | None) -> bool:
    return job is not None and not job.deleting


def _orphan(turn: WorkloadPass) -> None:
    """No Workload of this name: copies go at once if we saw it deleted, else after one GC interval (specs 4.8)."""
    if turn.state.gone:
        turn.remove_everywhere(WorkloadReason.LOCAL_DELETED)
        return
    interval, since = turn.context.policy.gc_interval, turn.state.orphan_since
    if interval is None or since is None:
        return
    if turn.now >= since + interval:
        turn.remove_everywhere(WorkloadReason.ORPHANED)
    else:
        turn.wake_at(since + interval)


def _workload(turn: WorkloadPass, local: WorkloadObserved) -> None:
    if local.replaced:
        outlast(turn, WorkloadReason.FINISHED)
        return
    judge_returned(turn, local)
    if local.is_true("Finished"):
        turn.remove_everywhere(WorkloadReason.FINISHED, keep=late_status(turn, local))
        return
    route = turn.context.route
    check = next(entry for entry in local.checks if entry.name == route.check) if route is not None else None
    rejected = check is not None and _rejected(turn, local, check)
    if not local.is_true("QuotaReserved"):
        _unreserved(turn, local, check)
    elif route is not None and check is not None and not route.error:
        _reserved(turn, local, check, route, rejected=rejected)


def _unreserved(turn: WorkloadPass, local: WorkloadObserved, check: CheckState | None) -> None:
    """One rule for what follows an eviction, a deactivation and every change that needs a new place in the queue (specs
    2.5 step 2).
    """
    job = turn.context.job
    if "Finish" in turn.verdicts.values() and check is not None and job is not None and finish(turn, local, check, job):
        return  # a copy finished while its cluster was away and its Workload had been queued again: nothing is run again
    if not local.replaces:  # what a slice is to replace runs on, and may be bound to it already
        turn.remove_everywhere(WorkloadReason.QUOTA_NOT_RESERVED)
    if check is not None:
        turn.clear_names(local)


def _rejected(turn: WorkloadPass, local: WorkloadObserved, check: CheckState) -> bool:
    """Keep our check Rejected as long as the Workload cannot be dispatched, whether it has quota or not (specs 2.3);
    return whether it is.

    Kueue resets the check when it takes the quota back, and then waits for us to say it again. What was mended waits in
    the queue again."""
    problem = _problem(turn, local, check)
    if problem is not None:
        if check.state != "Rejected":
            turn.set_check(local, check, "Rejected", *problem)
        return True
    if check.state != "Rejected":
        return False
    if turn.context.job is not None and not local.is_true("QuotaReserved"):
        text = "Nothing speaks against the workload any more"
        turn.set_check(local, check, "Pending", text, WorkloadReason.NO_LONGER_REJECTED)
    return True


def _problem(turn: WorkloadPass, local: WorkloadObserved, check: CheckState) -> tuple[str, WorkloadReason] | None:
    """Return why a Workload cannot be dispatched, as far as its job was seen."""
    adapter, job = turn.context.adapter, turn.context.job
    if adapter is None:
        kind = f' for owner kind "{local.owner.gvk}"' if local.owner else ""
        return f"No multikueue adapter found{kind}", WorkloadReason.NO_ADAPTER
    if refuses(turn, local, check):
        return NOT_SUPPORTED, WorkloadReason.ELASTIC
    if job is None:
        return None
    wanted = turn.context.policy.controller_name
    if job.managed_by != wanted:
        text = f'The owner is not managed by Kueue: Expecting spec.managedBy to be "{wanted}" not "{job.managed_by}"'
        return text, WorkloadReason.NOT_MANAGED
    text = _policy_problem(job.execution_policy, turn.context.queue_policy, local.cluster_queue)
    return (text, WorkloadReason.CONTRADICTING_POLICIES) if text else None


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


def _reserved(turn: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route, *, rejected: bool) -> None:
    adapter, job = turn.context.adapter, turn.context.job
    evicted = local.is_true("Evicted")
    # What is rejected is stopped once Kueue has evicted it, and nothing else is done about it.
    if (
        adapter is None
        or job is None
        or job.managed_by != turn.context.policy.controller_name
        or (rejected and not evicted)
    ):
        return
    # A copy that finished counts, even if the Workload was evicted meanwhile: it is not run again.
    if finish(turn, local, check, job):
        return
    if evicted:
        drain(turn, local, check, job)
    elif check.state == "Ready":
        steady(turn, local, check, route, adapter, job)
    elif check.state == "Pending" and local.sliced:
        confirm(turn, local, check)
    elif check.state == "Pending":
        dispatch(turn, local, check, route, job)
