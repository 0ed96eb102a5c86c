"""Copies the last status of a job before its Workload is finished, or after it, where it came late.

In: a pass over a Workload of which a copy has finished. Out: the last status for the user's job, and whether it is still
waited for: nothing runs meanwhile, but quota is held."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.ended import relay_end
from controlplane.controllers.multikueue.events import StatusRelayDecided
from controlplane.controllers.multikueue.members import final_statuses
from controlplane.controllers.multikueue.observations import JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote
from controlplane.kube.kinds import PODS
from controlplane.runtime.writes import says_no

# After this many refusals of the last status the Workload is finished without it: the result matters more than its
# copy.
_TRIES = 3
_PATIENCE = timedelta(seconds=30)


def final_status_waits(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Write the last status before the Workload is finished; return whether there is still something to wait for.

    The Workload and the job come over two watches: the job's own last status may be a little behind.
    """
    if pass_.context.adapter is not None and not pass_.context.adapter.relays:
        return False  # the management cluster's own controller writes it
    if _end_not_seen(pass_, job, cluster):
        return True
    others = _pods_wait(pass_, job, cluster)
    return _relay_final(pass_, job, cluster) or others


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
    return remote is None and relay_end(pass_, job, cluster)


def _pods_wait(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Write how the pods of a group ended; return whether any of that is still to be done."""
    seen = final_statuses(pass_, cluster)
    return _end_as_their_workload(pass_, job, cluster) or seen


def _awaits_its_end(pass_: WorkloadPass, local: JobObserved, member: str) -> bool:
    """Whether a pod is to be told how it ended, which its API server has not refused too often."""
    if local.kind != PODS.name or local.finished or local.deleting:
        return False
    trouble = pass_.state.trouble.get("/".join(("@management/Job", *([member] if member else []))))
    return trouble is None or not says_no(trouble) or trouble.failures < _TRIES


def _end_as_their_workload(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Write to each pod whose copy was gone before its end was seen that it ended as its Workload; return whether that is
    still to be done. Of an end that is seen the news may be a little behind.
    """
    known, waiting = pass_.state.remote(cluster), False
    if known.finished is None or not pass_.context.available(cluster):
        return False
    copies = {known.job.name} if known.job is not None else set()
    for local in (job, *pass_.context.members):
        member = "" if local is job else local.name
        if not _awaits_its_end(pass_, local, member) or local.name in copies | known.members.keys():
            continue
        waiting = True
        until = (known.finished_at or pass_.now) + _PATIENCE
        if pass_.now < until:
            pass_.wake_at(until)
            continue
        pass_.write(
            StatusRelayDecided(
                kind=local.kind,
                resource_version=local.resource_version,
                source=cluster,
                status=local.status,
                member=member,
                outcome=known.finished.reason,
                reason=WorkloadReason.FINAL_STATUS,
            )
        )
    return waiting


def _may_come(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Whether the last status, which is out of view, is waited for: nothing runs meanwhile, but quota is held. A cluster
    that is lost is waited for as long as its grace; if it comes back, its status is written late.
    """
    until = pass_.context.lost_until(cluster, pass_.state.remote(cluster).finished_at or pass_.now, job.kind)
    if until is not None and pass_.now < until:
        pass_.wake_at(until)
    return until is None or pass_.now < until


def late_status(pass_: WorkloadPass, local: WorkloadObserved | None) -> str:
    """Write the last status that came after the Workload was finished without it, or was gone; return the cluster whose copy has
    to stay for it.

    A copy is removed at the version that was seen, so one whose last status is still on its way refuses to go.
    """
    job, adapter = pass_.context.job, pass_.context.adapter
    if job is None or (adapter is not None and not adapter.relays):
        return ""
    for cluster, remote in _ends(pass_, local):
        waits = _pods_wait(pass_, job, cluster)
        if remote.job is not None and remote.job.finished and not job.finished:
            waits = _relay_final(pass_, job, cluster) or waits
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
    """Whether a copy ended as the Workload says that it did, whose cluster is not used under its name any more: it may be that
    cluster under another one.
    """
    said, ended = local.condition("Finished"), remote.finished
    connection = pass_.context.connections.get(local.cluster_name)
    removed = connection is None or connection.phase == "Removed"
    return removed and said is not None and ended is not None and said.reason == ended.reason


def _relay_final(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Write the status of a copy to the user's job; return whether there is still something to wait for."""
    remote = pass_.state.remote(cluster).job
    if remote is None or remote.status == job.status or job.deleting:
        return False
    if remote.status == pass_.state.relayed and (job.finished or not remote.finished):
        return False
    trouble = pass_.state.trouble.get("@management/Job")
    # A conflict is no refusal, however often it comes: the next try is made of what is there then.
    refused = trouble is not None and 400 <= trouble.code < 500 and trouble.code not in (409, 429)
    if refused and trouble is not None and trouble.failures >= _TRIES:
        return False
    pass_.relay(job, cluster, remote.status, WorkloadReason.FINAL_STATUS)
    return True
