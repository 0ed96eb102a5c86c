"""Removes the copies of a Workload from workers: job first, Workload second, as Kueue does (`RemoveRemoteObjects` in
kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/workload.go, ff69552e).

In: a pass over a Workload, a cluster, the reason. Out: the writes that come next there."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import structs

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.components import kept_by_another, written_by_another
from controlplane.controllers.multikueue.context import NEVER_TWICE, WorkloadContext
from controlplane.controllers.multikueue.observations import CloneObserved, RemoteJobObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote
from controlplane.controllers.multikueue.restrained_pass import RestrainedPass
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds.pod import MANAGED
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.runtime.writes import says_no

_TRIES = 3
_REMOVALS = (events.RemovalDecided.__name__, events.FinalizerRemovalDecided.__name__)
_FINALIZED_WITHIN = timedelta(minutes=1)
"""How long a worker's Kueue has for taking its finalizers off the pods of a copy that is deleted."""


class RemovalPass(RestrainedPass):
    """A pass that can remove what is on a cluster."""

    def __init__(self, state: WorkloadState, context: WorkloadContext, now: datetime) -> None:
        super().__init__(state, now)
        self.context = context
        self.verdicts: dict[str, str] = {}

    def remove_everywhere(self, reason: WorkloadReason, keep: str = "") -> bool:
        """Remove the copies on every reachable cluster but one; return whether any is still there to wait for.

        What is on a cluster that cannot be reached stays known, and goes when the cluster is back.
        """
        waiting = False
        for cluster in sorted(self.state.remotes):
            if cluster != keep and self.context.in_view(cluster) and self.verdicts.get(cluster) != "Wait":
                waiting = self.remove(cluster, reason) or waiting
        return waiting

    def remove_marked(self, reason: WorkloadReason) -> None:
        """Remove the copies on every reachable cluster that say that they were made for this management cluster."""
        for cluster, remote in sorted(self.state.remotes.items()):
            if not remote.unmarked and self.context.in_view(cluster):
                self.remove(cluster, reason)

    def remove(self, cluster: str, reason: WorkloadReason) -> bool:
        """Remove the copy on one cluster, job first; return whether it is still going."""
        remote = self.state.remote(cluster)
        for name, member in sorted(remote.members.items()):
            self.remove_member(cluster, name, member, reason)
        job = None if kept_by_another(self.context, cluster) else remote.job
        own = remote if job is remote.job else structs.replace(remote, job=None)
        if job is not None and not job.deleting and not written_by_another(self.context, cluster):
            self._remove_job(cluster, job, _version(remote.job_version, job.resource_version, reason), reason)
            self._stop_what_stays(cluster, job)
        elif not own.may_run:
            self._remove_rest(cluster, own, reason)
        return (own.clone is not None or own.may_run) and not self.removal_failed(cluster)

    def remove_member(self, cluster: str, name: str, member: RemoteJobObserved, reason: WorkloadReason) -> None:
        """Remove the copy of a pod of a group beside the first one, unless it is going."""
        if not member.deleting:
            self._remove_job(cluster, member, member.resource_version, reason, name)

    def _stop_what_stays(self, cluster: str, job: RemoteJobObserved) -> None:
        """Have a copy stopped whose job an API server does not let us delete: its worker's Kueue would start it again
        whenever there is quota, beside the one elsewhere."""
        trouble = self.state.trouble.get(f"{cluster}/Job")
        if trouble is not None and trouble.action in _REMOVALS and says_no(trouble) and not job.finished:
            self.deactivate(cluster, f"Evicted on manager: its job cannot be deleted: {trouble.message}")

    def deactivate(self, cluster: str, message: str) -> None:
        """Let the worker's Kueue stop a copy, unless it was told to already."""
        clone = self.state.remote(cluster).clone
        if clone is not None and clone.active and not clone.is_true("DeactivationTarget"):
            self.write(
                events.DeactivationDecided(
                    cluster=cluster,
                    resource_version=clone.resource_version,
                    message=message,
                    reason=WorkloadReason.EVICTED_ON_MANAGER,
                )
            )

    def _remove_job(
        self, cluster: str, job: RemoteJobObserved, version: str, reason: WorkloadReason, member: str = ""
    ) -> None:
        self.write(
            events.RemovalDecided(
                cluster=cluster,
                of="Job",
                kind=job.kind,
                uid=job.uid,
                resource_version=version,
                member=member,
                reason=reason,
            )
        )

    def holds_nothing(self, cluster: str) -> bool:
        """Whether there is a copy of the Workload on a cluster and nothing to lose with it: no job and no result, nor a
        sign of either.

        Then its UID is precondition enough, and whatever its Kueue writes to it meanwhile makes no conflict."""
        remote = self.state.remote(cluster)
        clone = remote.clone
        return (
            clone is not None
            and not remote.clone_version
            and remote.job is None
            and not clone.bound_to
            and not clone.is_true("Finished")
            and cluster not in self.state.unsure
            and cluster not in self.state.refused
            and cluster not in self.state.job_seen
            and f"{cluster}/Job" not in self.state.effects
        )

    def removal_failed(self, cluster: str) -> bool:
        """Whether an API server said no to the last removal of one of the copies on a cluster. Its own failures say
        nothing: only under at-least-once they count as well, once there were three. Under never-twice no refusal to
        remove a job lets another one start."""
        patient = self.context.execution_policy == NEVER_TWICE
        for where in ("Workload",) if patient else ("Workload", "Job"):
            trouble = self.state.trouble.get(f"{cluster}/{where}")
            if trouble is None or trouble.action not in _REMOVALS:
                continue
            if says_no(trouble) or (trouble.decides_nothing and trouble.failures >= _TRIES and not patient):
                return True
        return False

    def _remove_rest(self, cluster: str, remote: Remote, reason: WorkloadReason) -> None:
        """Remove what is left where nothing of the job may run any more."""
        if remote.clone is None:
            for pod in remote.jobs:
                self.free_pod(cluster, pod, reason)
        elif remote.jobs:
            self._remove_with_pods(cluster, remote, remote.clone, reason)
        else:
            self._remove_clone(cluster, remote, remote.clone, reason)

    def _remove_clone(self, cluster: str, remote: Remote, clone: CloneObserved, reason: WorkloadReason) -> None:
        if RESOURCE_IN_USE in clone.finalizers:
            self._set_finalizers(events.FinalizerRemovalDecided, cluster, clone, [], reason)
        elif not clone.deleting:
            self._delete_clone(cluster, clone, remote.clone_version, reason)

    def _remove_with_pods(self, cluster: str, remote: Remote, clone: CloneObserved, reason: WorkloadReason) -> None:
        """Remove a clone whose pods nothing but Kueue's finalizers keeps. Of pods that name their Workload, and are of
        a group, Kueue takes them off once it sees that Workload deleted, so there has to be something that keeps that
        one as well (`Pod.Stop` in kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go, ff69552e). If it
        does not in time, the clone goes alone, as Kueue's own dispatching has it, and its quota is free."""
        if not clone.deleting and RESOURCE_IN_USE not in clone.finalizers:
            self._set_finalizers(events.FinalizerAdditionDecided, cluster, clone, [RESOURCE_IN_USE], reason)
        elif not clone.deleting:
            self._delete_clone(cluster, clone, remote.clone_version, reason)
        elif remote.deleting_since is None or self.now >= remote.deleting_since + _FINALIZED_WITHIN:
            self._remove_clone(cluster, remote, clone, reason)
        else:
            self.wake_at(remote.deleting_since + _FINALIZED_WITHIN)

    def free_pod(self, cluster: str, pod: RemoteJobObserved, reason: WorkloadReason) -> None:
        """Take Kueue's finalizer off a pod that nothing else keeps: its worker's Kueue does not, as long as the group
        goes on or without its Workload, and nobody else can have its name there."""
        if MANAGED in pod.finalizers:
            self.write(
                events.FinalizerRemovalDecided(
                    cluster=cluster,
                    of="Job",
                    kind=pod.kind,
                    uid=pod.uid,
                    member="" if pod is self.state.remote(cluster).job else pod.name,
                    finalizers=[name for name in pod.finalizers if name != MANAGED],
                    resource_version=pod.resource_version,
                    reason=reason,
                )
            )

    def _set_finalizers(
        self,
        decision: type[events.FinalizerRemovalDecided | events.FinalizerAdditionDecided],
        cluster: str,
        clone: CloneObserved,
        kueues: list[str],
        reason: WorkloadReason,
    ) -> None:
        """Write the finalizers of a clone: what others put there, and these of Kueue's."""
        names = [*(name for name in clone.finalizers if name != RESOURCE_IN_USE), *kueues]
        version = clone.resource_version
        self.write(decision(cluster=cluster, uid=clone.uid, finalizers=names, resource_version=version, reason=reason))

    def _delete_clone(self, cluster: str, clone: CloneObserved, unread: str, reason: WorkloadReason) -> None:
        self.write(
            events.RemovalDecided(
                cluster=cluster,
                of="Workload",
                uid=clone.uid,
                resource_version=""
                if self.holds_nothing(cluster)
                else _version(unread, clone.resource_version, reason),
                reason=reason,
            )
        )


def _version(unread: str, read: str, reason: WorkloadReason) -> str:
    """Return the version in which a copy may be removed: as it is, readable or not; after the end only once its last
    status was read.
    """
    return read if not unread or reason is WorkloadReason.FINISHED else unread
