"""Brings a Workload that waits to a cluster: nominates, clones, chooses the winner, creates the job there, and only
then sets the check Ready.

In: a pass over a Workload with quota, not evicted, whose check is Pending. Out: decisions. Three writes wait for each
other. The nomination is stored before a cluster is selected, since Kueue refuses a `clusterName` that the stored object
does not nominate (kubernetes-sigs/kueue pkg/webhooks/workload_webhook.go, ff69552e); the clones come with the
nomination, for a clone alone runs nothing. The job comes with the removal of the losers, since they hold none: only the
winner ever gets it, and who it is stands in the log before. A loser that holds or may hold a job, from an attempt
before, is gone first. The job is there before Ready."""

from __future__ import annotations

from collections.abc import Collection

from controlplane.controllers.multikueue.components import awaits, kept_by_another, seat, written_by_another
from controlplane.controllers.multikueue.context import Route
from controlplane.controllers.multikueue.decision_pass import WorkloadPass, stamp
from controlplane.controllers.multikueue.drift import mend
from controlplane.controllers.multikueue.events import (
    AttemptBegun,
    CloneDecided,
    ClustersScored,
    JobCreationDecided,
    NominationDecided,
    WinnerChosen,
    WinnerReleased,
)
from controlplane.controllers.multikueue.ineligible import report_left_out
from controlplane.controllers.multikueue.members import pods_replaced
from controlplane.controllers.multikueue.nominate import OWN, Nominated, nominees
from controlplane.controllers.multikueue.objects import EVICTED_ON_MANAGER
from controlplane.controllers.multikueue.observations import CheckState, JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.preemption import open_gate
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote, admitted, usable
from controlplane.controllers.multikueue.slices import keep_size
from controlplane.controllers.multikueue.spec_keys import is_same

_ALTERED = "it has another spec than was sent: a webhook changes it, or its Kueue is of another version"


def dispatch(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route, job: JobObserved) -> None:
    """Bring the Workload one step nearer to a cluster."""
    if local.cluster_name:
        # Left over from an attempt before: as long as it is set, nothing can be nominated.
        pass_.clear_names(local)
        return
    if job.deleting and pass_.state.remote(pass_.state.winner).job is None:
        # Pods of a group that Kueue evicted: what is started for them is taken back for those in their place.
        pass_.remove_everywhere(WorkloadReason.STALE_COPY)
        return
    if pass_.state.winner:
        if not _keeps(pass_, local, pass_.state.winner):
            return
        _install(pass_, local, check, job, pass_.state.winner)
        return
    if pass_.must_wait() or _asked_before(pass_, local) or awaits(pass_.state, pass_.context):
        return
    _refuse(pass_, local)
    eligible = _eligible(pass_, route)
    winner = _choose(pass_, local, eligible)
    if winner:
        _install(pass_, local, check, job, winner)
    else:
        _offer(pass_, local, check, eligible)
        open_gate(pass_, local, [cluster for cluster in eligible if cluster in local.nominated])
        report_left_out(pass_, local, check, route)


def _asked_before(pass_: WorkloadPass, local: WorkloadObserved) -> bool:
    """Whether a cluster out of view may have the job although the log knows of no attempt: the stored nomination says
    that it was asked.

    The log was put back to before that, or another controller dispatched the Workload. Its grace counts as that of any
    cluster where the job may run. What somebody else's dispatcher nominates may be news, and is not held up for it once
    each cluster was tried."""
    if pass_.state.dispatching:
        return False
    held = False
    for cluster in local.nominated:
        connection = pass_.context.connections.get(cluster)
        if connection is None or pass_.context.in_view(cluster):
            continue
        if connection.phase == "Unknown":
            held = True
        elif pass_.context.policy.dispatcher in OWN:
            until = pass_.context.lost_until(cluster, pass_.now)
            held = held or until is None or pass_.now < until
            pass_.wake_at(until)
    return held


def _eligible(pass_: WorkloadPass, route: Route) -> list[str]:
    eligible = []
    excluded, with_others = pass_.context.excluded(route.clusters), seat(pass_.context)
    for cluster in dict.fromkeys(route.clusters):
        if with_others not in ("", cluster):
            continue
        refused = pass_.state.refused.get(cluster)
        if refused is not None and refused.until > pass_.now:
            pass_.wake_at(refused.until)
        elif pass_.context.available(cluster) and (
            (cluster not in excluded and pass_.context.takes(cluster)) or pass_.state.remote(cluster).job
        ):
            # Where its job is already, perhaps since an attempt before, it goes on whatever the judgement on the
            # cluster is now.
            eligible.append(cluster)
    return eligible


def _refuse(pass_: WorkloadPass, local: WorkloadObserved) -> None:
    """Leave out, for a while, a cluster whose Kueue deactivated the copy, or put it off for good: offered again at once
    it would be rejected again.
    """
    for cluster, remote in pass_.state.remotes.items():
        clone = remote.clone
        reason = _refusal(remote, local) if local.active and not pass_.refused(cluster) else None
        if clone is None or reason is None:
            continue
        evicted = clone.condition("Evicted")
        said = evicted.message if evicted is not None else "the worker deactivated its copy"
        pass_.leave_out(cluster, _ALTERED if reason is WorkloadReason.ALTERED_BY_WORKER else said, reason)


def _refusal(remote: Remote, local: WorkloadObserved) -> WorkloadReason | None:
    """Return why a copy cannot become the one that has the job, if its worker's Kueue said so, or its API server."""
    clone = remote.clone
    if clone is None or clone.deleting:
        return None
    if _is_altered(remote, local):
        return WorkloadReason.ALTERED_BY_WORKER
    evicted, target = clone.condition("Evicted"), clone.condition("DeactivationTarget")
    # Where the worker's Kueue writes by merge patch, the target is gone with the eviction.
    reasons = [one.reason for one in (evicted, target) if one is not None]
    if EVICTED_ON_MANAGER in reasons or f"DeactivatedDueTo{EVICTED_ON_MANAGER}" in reasons:
        return None  # we had it stopped, and quota came back before it was gone
    if not clone.active:
        return WorkloadReason.REJECTED_BY_WORKER
    if evicted is not None and evicted.reason == "AdmissionCheck" and _evicted_without_job(remote):
        return WorkloadReason.PUT_OFF_BY_WORKER
    return None


def _is_altered(remote: Remote, local: WorkloadObserved) -> bool:
    """Whether an API server stored another copy than was sent: made again at once it would be that again."""
    clone = remote.clone
    differs = clone is not None and not is_same(clone.spec_key, local.spec_key)
    return differs and not local.sliced and remote.made_of == local.template


def _evicted_without_job(remote: Remote) -> bool:
    """Whether a copy was evicted by its worker before it had a job. Kueue takes the quota of what it evicted back by
    its job (`ReconcileGenericJob` in kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go, ff69552e): a copy
    without one would keep it for ever, and never be admitted again.
    """
    clone = remote.clone
    kept = clone is not None and clone.is_true("Evicted") and clone.is_true("QuotaReserved") and not clone.bound_to
    return kept and remote.job is None


def _choose(pass_: WorkloadPass, local: WorkloadObserved, eligible: list[str]) -> str:
    """Choose the cluster that admitted first by its own clock; equal seconds are decided by the order in which the log
    saw them.

    Only a cluster that is nominated in the stored object can be selected (see the module). One whose copy is being
    removed or stopped has to show first what became of that.
    """
    if not pass_.state.dispatching:
        return ""
    ready = [
        c
        for c in eligible
        if c in local.nominated
        and admitted(pass_.state.remote(c), local)
        and not _cannot_go_on(pass_, c)
        and not pass_.is_ending(c)
    ]
    if not ready:
        return ""
    times = {}
    for cluster in ready:
        clone = pass_.state.remote(cluster).clone
        condition = clone.condition("Admitted") if clone else None
        times[cluster] = condition.last_transition_time if condition else ""
    winner = min(ready, key=lambda c: (stamp(times[c], pass_.now), pass_.state.remote(c).admitted_at))
    pass_.say(
        WinnerChosen(
            cluster=winner,
            attempt=pass_.state.attempt,
            among=times,
            reason=WorkloadReason.FIRST_ADMITTED if len(ready) > 1 else WorkloadReason.ONLY_ADMITTED,
        )
    )
    return winner


def _lost_its_job(pass_: WorkloadPass, cluster: str) -> bool:
    """Whether a copy had a job that was deleted: it is on its way out, and choosing it would be releasing it again."""
    return pass_.state.remote(cluster).job is None and cluster in pass_.state.job_seen


def _cannot_go_on(pass_: WorkloadPass, cluster: str) -> bool:
    """Whether a copy cannot go on with the job as it is here now: it goes, and another comes in its place."""
    going = any(one.finalizing for one in pass_.state.remote(cluster).jobs)
    return going or _lost_its_job(pass_, cluster) or pods_replaced(pass_, cluster)


def _keeps(pass_: WorkloadPass, local: WorkloadObserved, winner: str) -> bool:
    """Whether the chosen cluster still has the copy admitted; if not, release it, or wait while the job may run there
    unseen.
    """
    remote = pass_.state.remote(winner)
    connection = pass_.context.connections.get(winner)
    if connection is not None and connection.phase == "Unknown":
        return False  # we have only just started: the first attempt to connect shows more
    if not pass_.context.in_view(winner):
        if _may_have_started(pass_, winner):
            return False
        reason = WorkloadReason.LOST_BEFORE_READY
    elif admitted(remote, local):
        # It may have been chosen before an eviction that nobody saw, while it was another cluster's turn.
        return not pass_.is_ending(winner)
    elif f"{winner}/Job" in pass_.state.effects:
        return False  # the job may be there already: another cluster would get a second one
    elif remote.clone is None or remote.clone.deleting:
        reason = WorkloadReason.GONE_BEFORE_READY
    else:
        reason = WorkloadReason.EVICTED_BEFORE_READY
    pass_.say(WinnerReleased(cluster=winner, attempt=pass_.state.attempt, reason=reason))
    return False


def _may_have_started(pass_: WorkloadPass, winner: str) -> bool:
    """Whether the job may have been created and be running on a lost cluster: elsewhere only after the grace."""
    started = winner in pass_.state.job_seen or winner in pass_.state.unsure or f"{winner}/Job" in pass_.state.effects
    until = pass_.context.lost_until(winner, pass_.now)
    if started and until is not None and pass_.now < until:
        pass_.wake_at(until)
    return started and (until is None or pass_.now < until)


def _install(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, job: JobObserved, winner: str) -> None:
    pass_.remove_everywhere(WorkloadReason.ANOTHER_CLUSTER_WON, keep=winner)
    waiting = pass_.others_may_run(winner)
    remote = pass_.state.remote(winner)
    if winner not in local.nominated:
        # Taken back while no process watched.
        pass_.nominate(local, winner)
    elif remote.job is not None and not remote.job.deleting:
        pass_.ready(local, check, winner, ready_topology(pass_, local, winner))
    elif _lost_its_job(pass_, winner):
        # It was there and was deleted: the copy has no job any more, and goes.
        pass_.remove(winner, WorkloadReason.STALE_COPY)
        pass_.say(WinnerReleased(cluster=winner, attempt=pass_.state.attempt, reason=WorkloadReason.GONE_BEFORE_READY))
    elif (
        remote.job is None
        and not waiting
        and not pass_.must_wait(but=winner)
        and not written_by_another(pass_.context, winner)
        and not _job_refused(pass_, winner)
    ):
        pass_.create_job(winner, job)


def select(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, winner: str) -> None:
    """Write the name of the cluster that has the Workload, which only a stored nomination allows."""
    if winner in local.nominated:
        pass_.ready(local, check, winner, ready_topology(pass_, local, winner))
    else:
        pass_.nominate(local, winner)


def _job_refused(pass_: WorkloadPass, winner: str) -> bool:
    """Leave the winner out if its API server refuses the job: the name is taken by another's, or it refused
    twice.

    Where it cannot be told whether an earlier attempt created the job, the winner counts as a cluster that is away: the
    grace applies."""
    trouble = pass_.state.trouble.get(f"{winner}/Job")
    if trouble is None or trouble.action != JobCreationDecided.__name__:
        return False
    foreign = trouble.error == "Foreign"
    if trouble.error == "Unclear":
        until = pass_.context.grace_ends(trouble.since)
        if until is None or pass_.now < until:
            if until is not None:
                pass_.wake_at(until)
            return False
    elif not foreign and (trouble.failures < 2 or trouble.decides_nothing):
        return False
    reason = WorkloadReason.JOB_NAME_TAKEN if foreign else WorkloadReason.JOB_REFUSED
    pass_.leave_out(winner, trouble.message, reason)
    return True


def _has_to_wait(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState) -> bool:
    """Whether another check is not Ready yet, or Kueue may still be about to write: then it is looked at again
    later."""
    if any(entry.state != "Ready" for entry in local.checks if entry.name != check.name):
        return True
    until = pass_.context.core_writes_until
    if until is None or pass_.now >= until or pass_.state.dispatching:
        return False
    pass_.wake_at(until)
    return True


def _own_nominees(pass_: WorkloadPass, local: WorkloadObserved, eligible: list[str]) -> Nominated | None:
    """Return whom to nominate; None where another dispatcher does."""
    found = nominees(pass_, local, eligible) if pass_.context.policy.dispatcher in OWN else None
    return Nominated(eligible, WorkloadReason.COMPONENT_FOLLOWS) if seat(pass_.context) else found


def _offer(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, eligible: list[str]) -> None:
    """Nominate clusters, and create the clones on those whose nomination is stored."""
    if _has_to_wait(pass_, local, check):
        return
    found = _own_nominees(pass_, local, eligible)
    asked = found.clusters if found is not None else [one for one in eligible if one in local.nominated]
    _withdraw(pass_, asked)
    if not asked:
        return
    begun = pass_.state.dispatching
    attempt = pass_.state.attempt + (0 if begun else 1)
    if found is not None:
        begun = _nominate(pass_, local, found, attempt) or begun
    elif not begun:
        reason = WorkloadReason.NOMINATED_BY_ANOTHER
        pass_.say(AttemptBegun(attempt=attempt, clusters=asked, reason=reason))
        begun = True
    if begun:
        for cluster in sorted(asked):
            _clone(pass_, local, cluster, attempt)


def _withdraw(pass_: WorkloadPass, asked: Collection[str]) -> None:
    """Remove the copies on clusters that are not asked any more."""
    for cluster in sorted(pass_.state.remotes):
        if cluster not in asked and pass_.context.in_view(cluster):
            pass_.remove(cluster, WorkloadReason.NOT_NOMINATED)


def _nominate(pass_: WorkloadPass, local: WorkloadObserved, found: Nominated, attempt: int) -> bool:
    """Keep the stored nomination in line with the clusters that are to be asked; return whether that was decided
    now."""
    if pass_.state.dispatching and set(found.clusters) == set(local.nominated):
        return False
    nomination = NominationDecided(
        resource_version=local.resource_version,
        attempt=attempt,
        clusters=found.clusters,
        round=found.round,
        reason=found.reason,
    )
    if not pass_.write(nomination):
        return False
    if found.scores:
        route = pass_.context.route
        left_out = pass_.context.excluded(route.clusters if route is not None else ())
        pass_.say(
            ClustersScored(
                attempt=attempt,
                round=found.round,
                clusters=list(found.scores),
                left_out=dict(left_out),
                reason=WorkloadReason.BEST_SCORES,
            )
        )
    return True


def _clone(pass_: WorkloadPass, local: WorkloadObserved, cluster: str, attempt: int) -> None:
    """Create the clone on a cluster that is asked, keep the one that is there in step, or remove it if it cannot be
    used."""
    remote = pass_.state.remote(cluster)
    anew = _evicted_without_job(remote) and _refusal(remote, local) is None
    if remote.empty or (remote.clone is None and kept_by_another(pass_.context, cluster)):
        pass_.write(
            CloneDecided(
                cluster=cluster,
                attempt=attempt,
                template=local.template,
                # What follows the others of its job has no other cluster that could preempt for it as well.
                gated=pass_.context.policy.orchestrated_preemption and not seat(pass_.context),
                reason=WorkloadReason.NOMINATED,
            )
        )
    elif usable(remote, local) and not _cannot_go_on(pass_, cluster) and not anew:
        keep_size(pass_, local, cluster)
        mend(pass_, local, cluster)
    else:
        pass_.remove(cluster, WorkloadReason.STALE_COPY)


def ready_topology(pass_: WorkloadPass, local: WorkloadObserved, winner: str) -> list[str]:
    """Return the pod sets whose delayed topology request the winner has answered (`updateDelayedTopologyRequest` in
    kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/workload.go, ff69552e).
    """
    clone = pass_.state.remote(winner).clone
    return [name for name in local.delayed_topology if clone is not None and name in clone.topology]
