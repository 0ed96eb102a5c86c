"""Decides what to do about one Workload now: the procedure of MultiKueue, level-triggered.

In: the Workload's state, its context, the time. Out: decisions, in order, and when to look again. Pure. It follows
Kueue's own procedure (`reconcileGroup` in kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/workload.go,
ff69552e) with its messages, and differs on purpose in what docs/explanation/compared-with-kueue.md lists: the winner is
pinned, an evicted Workload is never offered, quota is never held by a status that nobody updates, a cluster that fails
delays no other, and nothing is written twice."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.multikueue.context import EXECUTION_POLICIES, KUEUES_GATE, Route, WorkloadContext
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.dispatch import dispatch
from controlplane.controllers.multikueue.draining import drain, rest_of_deleted
from controlplane.controllers.multikueue.elastic import NOT_RESIZED, follow, handed_over, outlast, refuses, seat
from controlplane.controllers.multikueue.ended import end_is_told, finish_as_another, finish_outgrown, report_end
from controlplane.controllers.multikueue.events import GroupPodChosen, WorkloadDecision
from controlplane.controllers.multikueue.final_status import late_status
from controlplane.controllers.multikueue.members import next_of_group
from controlplane.controllers.multikueue.named_copies import unseen_on
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.controllers.multikueue.observations import CheckState, JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.returning import judge_returned
from controlplane.controllers.multikueue.running import finish, steady
from controlplane.controllers.multikueue.scoring import selector_problem
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.gated import HELD
from controlplane.runtime.decision_pass import PassResult

RUNS_HERE = (
    "The owner is not managed by Kueue: the pod would be started on the management cluster as well. Create it with the "
    f"scheduling gate {HELD}, or set multikueue.podGate to kueue where Kueue's gate MultiKueue is on"
)


def decide(state: WorkloadState, context: WorkloadContext, now: datetime) -> PassResult[WorkloadDecision]:
    """Return what follows from the state; nothing while the management cluster is not in view."""
    pass_ = WorkloadPass(state, context, now)
    local = state.local
    if not context.ready:
        return pass_.plan
    if state.slice_of is not None and (local is None or local.deleting) and _exists(context.job):
        outlast(pass_, WorkloadReason.LOCAL_DELETED)
    elif local is None:
        _orphan(pass_)
    elif local.deleting:
        pass_.remove_everywhere(WorkloadReason.LOCAL_DELETED)
        rest_of_deleted(pass_)
    elif not unseen_on(state, context):
        _workload(pass_, local)
    return pass_.plan


def _exists(job: JobObserved | None) -> bool:
    return job is not None and not job.deleting


def _orphan(pass_: WorkloadPass) -> None:
    """No Workload of this name: copies go at once if we saw it deleted, else after one GC interval (`runGC` in
    kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/multikueuecluster.go, ff69552e). Kueue removes all
    that have its origin; here those stay that the log knows nothing of and that do not say that they were made for this
    management cluster: another one may have the same origin. Then its job is brought to rest."""
    if pass_.context.hidden:
        return  # there is one that nobody can read: its copies may be what it runs as
    if pass_.state.gone:
        pass_.remove_everywhere(WorkloadReason.LOCAL_DELETED)
        rest_of_deleted(pass_)
        return
    interval, since = pass_.context.policy.gc_interval, pass_.state.orphan_since
    if interval is not None and since is not None:
        if pass_.now >= since + interval:
            pass_.remove_marked(WorkloadReason.ORPHANED)
        else:
            pass_.wake_at(since + interval)
    if pass_.state.left is not None:
        rest_of_deleted(pass_)


def _workload(pass_: WorkloadPass, local: WorkloadObserved) -> None:
    if local.replaced:
        outlast(pass_, WorkloadReason.FINISHED)
        return
    judge_returned(pass_, local)
    if local.is_true("Finished"):
        waits = late_status(pass_, local)
        pass_.remove_everywhere(WorkloadReason.FINISHED, keep=waits)
        if not waits:
            report_end(pass_, local)  # a backup of the management cluster may lack what was written to the job
        return
    if report_end(pass_, local):
        return
    route = pass_.context.route
    check = next(entry for entry in local.checks if entry.name == route.check) if route is not None else None
    rejected = check is not None and _rejected(pass_, local, check)
    if not local.is_true("QuotaReserved"):
        _unreserved(pass_, local, check)
    elif route is not None and check is not None and not route.error:
        _reserved(pass_, local, check, route, rejected=rejected)


def _unreserved(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState | None) -> None:
    """One rule for what follows an eviction, a deactivation and every change that needs a new place in the queue."""
    job = pass_.context.job
    if (
        "Finish" in pass_.verdicts.values()
        and check is not None
        and job is not None
        and finish(pass_, local, check, job)
    ):
        return  # a copy finished while its cluster was away and its Workload had been queued again: it has run
    # What a slice is to replace runs on; once it has the job itself, it is like any other.
    if not local.replaces or any(remote.job is not None for remote in pass_.state.remotes.values()):
        pass_.remove_everywhere(WorkloadReason.QUOTA_NOT_RESERVED)
    if check is not None:
        pass_.clear_names(local)


def _rejected(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState) -> bool:
    """Keep our check Rejected as long as the Workload cannot be dispatched, whether it has quota or not;
    return whether it is.

    Kueue resets the check when it takes the quota back, and then waits for us to say it again. What was mended waits in
    the queue again."""
    problem = _problem(pass_, local, check)
    if problem is not None:
        if check.state != "Rejected":
            pass_.set_check(local, check, "Rejected", *problem)
        return True
    if check.state != "Rejected":
        return False
    if pass_.context.job is not None and not local.is_true("QuotaReserved"):
        text = "Nothing speaks against the workload any more"
        pass_.set_check(local, check, "Pending", text, WorkloadReason.NO_LONGER_REJECTED)
    return True


def _not_managed(pass_: WorkloadPass, adapter: JobKind, job: JobObserved) -> str:
    """Return why a job would run here as well, "" if it does not."""
    if not adapter.delegates:
        return "" if _stays(pass_, job) else RUNS_HERE
    wanted = pass_.context.policy.controller_name
    if job.managed_by == wanted:
        return ""
    return f'The owner is not managed by Kueue: Expecting spec.managedBy to be "{wanted}" not "{job.managed_by}"'


def _problem(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState) -> tuple[str, WorkloadReason] | None:
    """Return why a Workload cannot be dispatched, as far as its job was seen."""
    adapter, job = pass_.context.adapter, pass_.context.job
    if adapter is None:
        core = "/" if local.owner and "/" not in local.owner.api_version else ""  # Go writes the empty group's slash
        kind = f' for owner kind "{core}{local.owner.gvk}"' if local.owner else ""
        return f"No multikueue adapter found{kind}", WorkloadReason.NO_ADAPTER
    if refuses(pass_, local, check):
        return NOT_RESIZED, WorkloadReason.ELASTIC
    if job is None:
        return None
    if text := _not_managed(pass_, adapter, job):
        return text, WorkloadReason.NOT_MANAGED
    if pass_.context.policy.scoring is not None and (text := selector_problem(job.cluster_selector)):
        return text, WorkloadReason.INVALID_CLUSTER_SELECTOR
    text = _policy_problem(job.execution_policy, pass_.context.queue_policy, local.cluster_queue)
    return (text, WorkloadReason.CONTRADICTING_POLICIES) if text else None


def _stays(pass_: WorkloadPass, job: JobObserved) -> bool:
    """Whether all pods of a group stay gated on the management cluster when the Workload is admitted."""
    return pass_.context.policy.pod_gate == KUEUES_GATE or all(one.held for one in (job, *pass_.context.members))


def _policy_problem(job: str, queue: str, name: str) -> str:
    """Return what is wrong with the execution policies that a job and its ClusterQueue ask for, "" if nothing is."""
    known = " or ".join(f'"{policy}"' for policy in EXECUTION_POLICIES)
    for who, asked in (("the job", job), (f'ClusterQueue "{name}"', queue)):
        if asked and asked not in EXECUTION_POLICIES:
            return f'{who} asks for the execution policy "{asked}" in annotation {EXECUTION_POLICY}: use {known}'
    if job and queue and job != queue:
        return (
            f'the job asks for the execution policy "{job}" and ClusterQueue "{name}" for "{queue}": '
            f"set the annotation {EXECUTION_POLICY} on one of them, or the same on both"
        )
    return ""


def _reserved(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route, *, rejected: bool) -> None:
    adapter, job = pass_.context.adapter, pass_.context.job
    evicted = local.is_true("Evicted")
    if job is None and not evicted:
        _known_by_another(pass_, local, check)
    # What is rejected is stopped once Kueue has evicted it, and nothing else is done about it.
    if adapter is None or job is None or not _is_ours(pass_, adapter, job) or (rejected and not evicted):
        return
    if handed_over(pass_, local):
        # The slice that is to take its place may be lost; the end of the job is told all the same.
        late_status(pass_, local)
        return
    # A copy that finished counts, even if the Workload was evicted meanwhile: it is not run again.
    if finish(pass_, local, check, job) or finish_outgrown(pass_, local, job):
        return
    if evicted:
        drain(pass_, local, check, job)
    else:
        _advance(pass_, local, check, route, adapter, job)


def _is_ours(pass_: WorkloadPass, adapter: JobKind, job: JobObserved) -> bool:
    return not adapter.delegates or job.managed_by == pass_.context.policy.controller_name


def _known_by_another(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState) -> bool:
    """Have a group that waits for a cluster known by another one of its pods, where it must be; return whether."""
    pod = next_of_group(pass_, local) if check.state == "Pending" else None
    if pod is not None:
        pass_.say(GroupPodChosen(owner=pod, reason=WorkloadReason.POD_ENDED))
    return pod is not None


def _advance(
    pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route, adapter: JobKind, job: JobObserved
) -> None:
    """Dispatch a Workload that holds quota, or keep it where it is."""
    if check.state == "Ready":
        steady(pass_, local, check, route, adapter, job)
    elif local.sliced and (job.finished or end_is_told(pass_, job) or finish_as_another(pass_, local, job)):
        return  # it ran to its end as another slice's, whose copies may be gone already: Kueue finishes this one
    elif check.state == "Pending" and (cluster := seat(pass_, local)):
        follow(pass_, local, check, route, job, cluster)
    elif _known_by_another(pass_, local, check):
        return  # it is looked at again with that one
    elif check.state == "Pending":
        dispatch(pass_, local, check, route, job)
