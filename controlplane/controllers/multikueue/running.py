"""Serves a Workload that has a cluster: relays its status, finishes it, takes it back when the copy is evicted, gone or
lost.

In: a pass over a Workload with quota, its check Ready, or with a finished copy. Out: the writes of
Kueue's own procedure for it (`reconcileGroup` in kubernetes-sigs/kueue
pkg/controller/admissionchecks/multikueue/workload.go, ff69552e)."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.multikueue.components import kept_by_another
from controlplane.controllers.multikueue.context import NEVER_TWICE, Route
from controlplane.controllers.multikueue.decision_pass import WorkloadPass, stamp
from controlplane.controllers.multikueue.dispatch import ready_topology, select
from controlplane.controllers.multikueue.drift import mend
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    FinishDecided,
    SpecUpdateDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.final_status import final_status_waits
from controlplane.controllers.multikueue.members import (
    create_members,
    end_is_forgotten,
    free_names,
    name_taken,
    relay_members,
    remove_members,
)
from controlplane.controllers.multikueue.observations import (
    CheckState,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import admitted, usable
from controlplane.controllers.multikueue.slices import follow_size, keep_size, take_over
from controlplane.controllers.multikueue.told import is_not_kept
from controlplane.job_kinds.base import JobKind
from controlplane.kube.conditions import REMOTE_LOST, Condition
from controlplane.kube.slices import SLICE_REPLACED

GONE = "Admitting remote no longer exists"
_CORE_FINISHES_WITHIN = timedelta(seconds=1)


def finish(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, job: JobObserved) -> bool:
    """Finish the Workload as its copy finished; return whether there is a finished copy to deal with."""
    found = _finished(pass_, local)
    if found is None:
        return False
    cluster, condition = found
    unfinished = condition.reason in ("OutOfSync", "OwnerNotFound") or _replaced_by_none(pass_, condition)
    # It is no result. Queued again, the Workload does not wait for such a copy that nobody can remove now.
    unseen = check.state != "Ready" and not pass_.context.in_view(cluster)
    if unfinished and (local.is_true("Evicted") or unseen):
        return False
    if condition.reason == "OutOfSync":
        _out_of_sync(pass_, local, check, cluster)
    elif unfinished:
        # The job was deleted on the worker. It did not finish: it is queued again (KEP-693; Kueue's code finishes it).
        _taken_back(pass_, local, check, cluster)
    elif not final_status_waits(pass_, job, cluster) and not _core_finishes(pass_, local, job, cluster):
        pass_.write(
            FinishDecided(
                resource_version=local.resource_version,
                source=cluster,
                finish_reason=condition.reason,
                message=condition.message,
                reason=WorkloadReason.FINISHED,
            )
        )
    return True


def _replaced_by_none(pass_: WorkloadPass, condition: Condition) -> bool:
    """Whether a slice was replaced on the worker, and here is none that did so: the management cluster was put back to
    before there was one.
    """
    others = (other.local for other in pass_.context.slices if other.local is not None)
    return condition.reason == SLICE_REPLACED and all(local.is_true("Finished") for local in others)


def _core_finishes(pass_: WorkloadPass, local: WorkloadObserved, job: JobObserved, cluster: str) -> bool:
    """Whether Kueue's core is about to finish the Workload, by the status of the user's job that was written a moment
    ago (`ReconcileGenericJob` in kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go, ff69552e).

    It does in most cases, and a second write of the same would only meet a conflict."""
    if not job.finished or local.is_true("Evicted"):
        return False
    known = [at for at in (pass_.state.remote(cluster).finished_at, pass_.state.relayed_at) if at is not None]
    until = max(known, default=pass_.now) + _CORE_FINISHES_WITHIN
    if pass_.now >= until:
        return False
    pass_.wake_at(until)
    return True


def _finished(pass_: WorkloadPass, local: WorkloadObserved) -> tuple[str, Condition] | None:
    pinned = local.cluster_name or pass_.state.winner
    best: tuple[str, Condition] | None = None
    for cluster, remote in sorted(pass_.state.remotes.items()):
        condition = remote.finished
        counts = not pinned or cluster == pinned or pass_.verdicts.get(cluster) == "Finish"
        if condition is None or not counts or _was_stopped(pass_, cluster, condition):
            continue
        if best is None or stamp(condition.last_transition_time, pass_.now) < stamp(
            best[1].last_transition_time, pass_.now
        ):
            best = cluster, condition
    return best


def _was_stopped(pass_: WorkloadPass, cluster: str, finished: Condition) -> bool:
    """Whether a copy ended because Kueue took its quota: of a kind that cannot be suspended, that is no result."""
    clone = pass_.state.remote(cluster).clone
    evicted = clone is not None and clone.is_true("Evicted")
    return evicted and finished.reason != "Succeeded" and pass_.context.fences


def _out_of_sync(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, cluster: str) -> None:
    if check.state == "Ready":
        text = (
            f'Remote workload on worker cluster "{cluster}" is out of sync with its user job, resetting for re-dispatch'
        )
        pass_.set_check(local, check, "Retry", text, WorkloadReason.OUT_OF_SYNC)
        return
    # Kueue stops here and holds quota for ever. The copy goes, and the cluster is left out for a while.
    if not pass_.refused(cluster):
        said = "the prebuilt workload is out of sync with its user job"
        pass_.leave_out(cluster, said, WorkloadReason.OUT_OF_SYNC)
    if pass_.context.in_view(cluster):
        pass_.remove(cluster, WorkloadReason.OUT_OF_SYNC)


def _taken_back(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, cluster: str) -> None:
    if check.state == "Ready":
        pass_.set_check(local, check, "Retry", GONE, WorkloadReason.REMOTE_GONE)
    elif pass_.context.in_view(cluster):
        pass_.remove(cluster, WorkloadReason.STALE_COPY)


def steady(
    pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route, adapter: JobKind, job: JobObserved
) -> None:
    """Keep a dispatched Workload as it is, or take it back: evicted on the worker, gone, or lost for longer than the
    grace.
    """
    cluster = local.cluster_name or _serving(pass_, local)
    if not cluster and may_run_unseen(pass_, route):
        return
    if not cluster:
        text = "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it"
        pass_.set_check(local, check, "Retry", text, WorkloadReason.NO_CLUSTER_NAME)
        return
    if not local.cluster_name and pass_.context.in_view(cluster):
        select(pass_, local, check, cluster)
    pass_.remove_everywhere(WorkloadReason.ANOTHER_CLUSTER_WON, keep=cluster)
    remote = pass_.state.remote(cluster)
    if not pass_.context.in_view(cluster):
        away(pass_, local, check, cluster)
    elif remote.clone is not None and remote.clone.is_true("Evicted"):
        # Kueue's full stop before `Previously` is part of the message.
        text = f'Workload evicted on worker cluster: "{cluster}", resetting for re-admission. Previously: "Ready"'
        pass_.set_check_message(local, check, "Retry", text, WorkloadReason.REMOTE_EVICTED)
    elif not admitted(remote, local) or cluster not in route.clusters or _job_vanished(pass_, cluster):
        _reclaim(pass_, local, check, route, cluster)
    else:
        _serve(pass_, local, check, adapter, job, cluster)


def _serving(pass_: WorkloadPass, local: WorkloadObserved) -> str:
    """Return the cluster that runs a Workload whose `clusterName` somebody took away; "" if none is known to.

    The name is written again, and until then everything goes on as with it: what runs is not stopped for a field.
    """
    running = [
        cluster
        for cluster, remote in sorted(pass_.state.remotes.items())
        if remote.job is not None and not remote.job.deleting and admitted(remote, local)
    ]
    winner = pass_.state.winner
    if winner in running or (winner and not pass_.context.in_view(winner)):
        return winner
    return running[0] if len(running) == 1 else ""


def may_run_unseen(pass_: WorkloadPass, route: Route) -> bool:
    """Whether a cluster out of view may have a Workload of which neither the log, which went back, nor `clusterName`
    (an eviction takes it away) says where it is.
    """
    return not pass_.state.attempt and waits_for_unseen(pass_, route)


def waits_for_unseen(pass_: WorkloadPass, route: Route) -> bool:
    """Whether any cluster is out of view, and its grace is not over: it may be the one that has a Workload."""
    held = False
    for cluster in route.clusters:
        if pass_.context.unknown_on(cluster):
            until = pass_.context.lost_until(cluster, pass_.now)
            held = held or until is None or pass_.now < until
            pass_.wake_at(until)
    return held


def away(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, cluster: str) -> None:
    """The winner cannot be reached: queue the Workload again once its grace is over, unless that would do more harm
    than good.
    """
    context = pass_.context
    until = context.lost_until(cluster, stamp(check.last_transition_time, pass_.now))
    if until is None:
        return
    if pass_.now < until:
        pass_.wake_at(until)
    elif context.requeue_at is not None:
        pass_.wake_at(context.requeue_at)
    else:
        pass_.set_check(local, check, "Retry", REMOTE_LOST, WorkloadReason.REMOTE_LOST)


def _job_vanished(pass_: WorkloadPass, cluster: str) -> bool:
    return pass_.state.remote(cluster).job is None and cluster in pass_.state.job_seen


def _reclaim(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route, cluster: str) -> None:
    """The copy is not what it should be: take it away if it is still there, then queue the Workload again.

    A cluster that was taken out of the config would run its copy on: it goes before the Workload does."""
    remote = pass_.state.remote(cluster)
    never_twice = pass_.context.execution_policy == NEVER_TWICE
    runs = remote.job is not None and (never_twice or not pass_.removal_failed(cluster))
    if remote.clone is None and kept_by_another(pass_.context, cluster):
        runs = False  # what is left there is the others'
    if runs and (cluster not in route.clusters or not usable(remote, local)):
        pass_.remove(
            cluster, WorkloadReason.NOT_NOMINATED if cluster not in route.clusters else WorkloadReason.SPEC_DIFFERS
        )
        return
    pass_.set_check(local, check, "Retry", GONE, WorkloadReason.REMOTE_GONE)


def _serve(
    pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, adapter: JobKind, job: JobObserved, cluster: str
) -> None:
    if pass_.state.remote(cluster).job is None:
        take_over(pass_, local, job, cluster)
        return
    if said := name_taken(pass_, cluster):
        _without_its_pods(pass_, local, check, cluster, said)
        return
    free_names(pass_, cluster)
    remove_members(pass_, cluster)
    create_members(pass_, cluster)
    keep_size(pass_, local, cluster)
    mend(pass_, local, cluster)
    topology = ready_topology(pass_, local, cluster)
    if topology:
        pass_.write(
            CheckStateDecided(
                resource_version=local.resource_version,
                check=check.name,
                state="Ready",
                message=check.message,
                winner=cluster,
                topology=topology,
                reason=WorkloadReason.TOPOLOGY_ASSIGNED,
            )
        )
    if not follow_size(pass_, local, job, cluster):
        _follow_spec(pass_, job, cluster)
    relay(pass_, check, adapter, job, cluster)
    relay_members(pass_, cluster)


def _without_its_pods(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, cluster: str, said: str) -> None:
    """A group of pods is taken from a cluster where it cannot be whole, and goes elsewhere. Kueue tries for ever."""
    if not pass_.refused(cluster):
        pass_.leave_out(cluster, said, WorkloadReason.JOB_NAME_TAKEN)
    text = f'A pod of the group cannot be created on worker cluster: "{cluster}", its name is taken'
    pass_.set_check(local, check, "Retry", text, WorkloadReason.JOB_NAME_TAKEN)


def _follow_spec(pass_: WorkloadPass, job: JobObserved, cluster: str) -> None:
    """Let the copy follow a change of those fields that may change while it runs (`RemoteSpecSyncer` in
    kubernetes-sigs/kueue pkg/controller/jobs/ray/ray_multikueue_adapter.go, ff69552e).
    """
    remote = pass_.state.remote(cluster).job
    if remote is None or remote.deleting or job.deleting or remote.finished or remote.synced == job.synced:
        return
    pass_.write(
        SpecUpdateDecided(
            cluster=cluster,
            resource_version=remote.resource_version,
            kind=job.kind,
            template=job.template,
            reason=WorkloadReason.SPEC_CHANGED,
        )
    )


def _is_news(pass_: WorkloadPass, adapter: JobKind, job: JobObserved, remote: RemoteJobObserved) -> bool:
    """Whether a copy's status differs from what the user's job is to show."""
    if job.deleting or remote.status == job.status:
        return False
    if remote.status == pass_.state.relayed and not end_is_forgotten(job, remote):
        return False
    if is_not_kept(pass_.state.told, remote.status) and end_is_forgotten(job, remote):
        return False
    if not adapter.relays:
        return False  # the management cluster's own controller writes it
    if job.finished and not remote.finished:
        return (
            False  # its worker was put back to before its end: what has ended does not run again in what its user sees
        )
    # A pod that its worker takes away fails, and its user's has not.
    return not remote.deleting or adapter.delegates


def _relay_due(pass_: WorkloadPass, check: CheckState) -> datetime:
    """Return when a status may be relayed: an interval after the last one, or after the check became ready. A time that
    is yet to come is nobody's who made it ready: another controller's clock may have been ahead.
    """
    interval = pass_.context.policy.status_interval
    ready = stamp(check.last_transition_time, pass_.now - interval)
    known = [at for at in (pass_.state.relayed_at, ready) if at is not None and at <= pass_.now]
    return max(known, default=pass_.now - interval) + interval


def relay(pass_: WorkloadPass, check: CheckState, adapter: JobKind, job: JobObserved, cluster: str) -> None:
    """Write the copy's status to the user's job when it differs: at most once an interval, so that many changes are few
    writes.
    """
    remote = pass_.state.remote(cluster).job
    if remote is None or not _is_news(pass_, adapter, job, remote):
        return
    allowed = adapter.may_relay(
        local_suspended=job.suspended, remote_suspended=remote.suspended, remote_finished=remote.finished
    )
    suspend = not allowed and adapter.marks_suspended() and not job.says_suspended
    if not allowed and not suspend:
        return
    due = _relay_due(pass_, check)
    if pass_.now < due and (not remote.finished or remote.status == pass_.state.relayed):
        pass_.wake_at(due)
        return
    pass_.write(
        StatusRelayDecided(
            kind=job.kind,
            resource_version=job.resource_version,
            source=cluster,
            status=job.status if suspend else remote.status,
            mark_suspended=suspend,
            reason=WorkloadReason.FINAL_STATUS if remote.finished else WorkloadReason.STATUS_CHANGED,
        )
    )
