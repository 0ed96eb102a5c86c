"""Copies the last status of a job before its Workload is finished, or after it, where it came late.

In: a pass over a Workload of which a copy has finished. Out: the last status for the user's job, and whether it is
still waited for: nothing runs meanwhile, but quota is held."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.ended import forbidden, met_conflicts, refused, relay_end
from controlplane.controllers.multikueue.members import final_statuses, tell
from controlplane.controllers.multikueue.observations import JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote
from controlplane.controllers.multikueue.told import is_not_kept
from controlplane.kube.kinds import PODS

_PATIENCE = timedelta(seconds=30)


def final_status_waits(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Write the last status before the Workload is finished; return whether there is still something to wait for.

    The Workload and the job come over two watches: the job's own last status may be a little behind.
    """
    if pass_.context.adapter is not None and not pass_.context.adapter.relays:
        return False  # the management cluster's own controller writes it
    if _end_not_seen(pass_, job, cluster):
        return True
    # Refused often enough, the Workload is finished without it: the result matters more than its copy.
    others = _pods_wait(pass_, job, cluster, late=False)
    return _relay_final(pass_, job, cluster, late=False) or others


def _end_not_seen(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Whether a copy's job was not seen to have finished, and is waited for."""
    known = pass_.state.remote(cluster)
    remote = known.job
    if remote is not None and remote.finished:
        return False
    if not pass_.context.available(cluster) and _may_come(pass_, job, cluster):
        return True
    bound = remote is not None or (known.clone is not None and known.clone.bound_to != "")
    until = (known.finished_at or pass_.now) + _PATIENCE
    if bound and pass_.now < until:
        pass_.wake_at(until)
        return True
    # Removed before its Workload was seen to have finished.
    return remote is None and not met_conflicts(pass_) and relay_end(pass_, job, cluster)


def _pods_wait(pass_: WorkloadPass, job: JobObserved, cluster: str, *, late: bool) -> bool:
    """Write how the pods of a group ended; return whether any of that is still to be done."""
    seen = final_statuses(pass_, cluster, late=late)
    return _end_as_their_workload(pass_, job, cluster, late=late) or seen


def _end_as_their_workload(pass_: WorkloadPass, job: JobObserved, cluster: str, *, late: bool) -> bool:
    """Write to each pod whose copy was gone before its end was seen that it ended as its Workload; return whether that
    is still to be done. Of an end that is seen the news may be a little behind.
    """
    known, waiting = pass_.state.remote(cluster), False
    if known.finished is None or not pass_.context.available(cluster):
        return False
    for local in _without_an_end(pass_, job, known):
        member = "" if local is job else local.name
        if refused(pass_, member):
            waiting = waiting or (late and forbidden(pass_, member))
            continue
        waiting = True
        until = (known.finished_at or pass_.now) + _PATIENCE
        if pass_.now < until:
            pass_.wake_at(until)
        else:
            outcome = known.finished.reason
            tell(pass_, cluster, local, local.status, WorkloadReason.FINAL_STATUS, member=member, outcome=outcome)
    return waiting


def _without_an_end(pass_: WorkloadPass, job: JobObserved, known: Remote) -> list[JobObserved]:
    """Return the pods that were not told how they ended, and of which there is no copy any more."""
    copies = {*known.members, *([known.job.name] if known.job is not None else [])}
    pods = [one for one in (job, *pass_.context.members) if one.kind == PODS.name]
    return [one for one in pods if not one.finished and not one.deleting and one.name not in copies]


def _may_come(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Whether the last status, which is out of view, is waited for: nothing runs meanwhile, but quota is held. A
    cluster that is lost is waited for as long as its grace; if it comes back, its status is written late.
    """
    until = pass_.context.lost_until(cluster, pass_.state.remote(cluster).finished_at or pass_.now, job.kind)
    if until is not None and pass_.now < until:
        pass_.wake_at(until)
    return until is None or pass_.now < until


def late_status(pass_: WorkloadPass, local: WorkloadObserved | None) -> str:
    """Write the last status that came after the Workload was finished without it, or was gone; return the cluster whose
    copy has to stay for it.

    A copy is removed at the version that was seen, so one whose last status is still on its way refuses to go.
    """
    job, adapter = pass_.context.job, pass_.context.adapter
    if job is None or (adapter is not None and not adapter.relays):
        return ""
    for cluster, remote in _ends(pass_, local):
        waits = _pods_wait(pass_, job, cluster, late=True)
        if remote.job is not None and remote.job.finished and not job.finished:
            waits = _relay_final(pass_, job, cluster, late=True) or waits
        if waits:
            return cluster
    return ""


def _ends(pass_: WorkloadPass, local: WorkloadObserved | None) -> list[tuple[str, Remote]]:
    """Return the copies that may tell how the job ended."""
    remotes = sorted(pass_.state.remotes.items())
    if local is None:
        return remotes
    own = local.cluster_name
    return [(name, one) for name, one in remotes if name == (own or name) or _is_its_end(pass_, local, one)]


def _is_its_end(pass_: WorkloadPass, local: WorkloadObserved, remote: Remote) -> bool:
    """Whether a copy ended as the Workload says that it did, whose cluster is not used under its name any more: it may
    be that cluster under another one.
    """
    said, ended = local.condition("Finished"), remote.finished
    connection = pass_.context.connections.get(local.cluster_name)
    removed = connection is None or connection.phase == "Removed"
    return removed and said is not None and ended is not None and said.reason == ended.reason


def _relay_final(pass_: WorkloadPass, job: JobObserved, cluster: str, *, late: bool) -> bool:
    """Write the status of a copy to the user's job; return whether there is still something to wait for. One that is
    forbidden for long is waited for only once the Workload is finished (`late`)."""
    remote = pass_.state.remote(cluster).job
    if remote is None or remote.status == job.status or job.deleting:
        return False
    if remote.status == pass_.state.relayed and (job.finished or not remote.finished):
        return False
    # A conflict is no refusal, however often it comes: the next try is made of what is there then.
    if refused(pass_):
        return late and forbidden(pass_)
    if is_not_kept(pass_.state.told, remote.status) and not job.finished:
        return False
    pass_.relay(job, cluster, remote.status, WorkloadReason.FINAL_STATUS)
    return True
