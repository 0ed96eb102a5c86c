"""Collects the decisions of one pass over one Workload, and keeps the rules that all of them share.

At most one write to an object is open at a time; a target that an API server refused rests until its time has come;
copies are removed job first, Workload second, as by Kueue (`RemoveRemoteObjects` in kubernetes-sigs/kueue
pkg/controller/admissionchecks/multikueue/workload.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import MAXYEAR, datetime, timedelta

from msgspec import structs

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.components import kept_by_another, written_by_another
from controlplane.controllers.multikueue.context import NEVER_TWICE, WorkloadContext
from controlplane.controllers.multikueue.observations import (
    CheckState,
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote
from controlplane.controllers.multikueue.restrained_pass import RestrainedPass
from controlplane.controllers.multikueue.state import WorkloadState
from controlplane.controllers.multikueue.unobserved_jobs import unseen, unshown
from controlplane.job_kinds.pod import MANAGED
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.runtime.writes import says_no

_LONGEST_REQUEUE = 300  # seconds
_DOUBLINGS = (
    10  # more make no longer pause, and a number that anybody may write makes one that takes minutes to compute
)
_TRIES = 3
_REMOVALS = (events.RemovalDecided.__name__, events.FinalizerRemovalDecided.__name__)
_FINALIZED_WITHIN = timedelta(minutes=1)
"""How long a worker's Kueue has for taking its finalizers off the pods of a copy that is deleted."""
_ENDINGS = (
    events.RemovalDecided,
    events.FinalizerRemovalDecided,
    events.FinalizerAdditionDecided,
    events.DeactivationDecided,
)


class WorkloadPass(RestrainedPass):
    """The decisions of one pass, under construction."""

    def __init__(self, state: WorkloadState, context: WorkloadContext, now: datetime) -> None:
        super().__init__(state, now)
        self.context = context
        self.verdicts: dict[str, str] = {}

    def set_check(
        self, local: WorkloadObserved, check: CheckState, state: str, message: str, reason: WorkloadReason
    ) -> None:
        """Set our check's state with a message in Kueue's form, with the state before."""
        self.set_check_message(local, check, state, f'{message}, Previously: "{check.state}"', reason)

    def set_check_message(
        self, local: WorkloadObserved, check: CheckState, state: str, message: str, reason: WorkloadReason
    ) -> None:
        """Set our check's state with a message as it is. A Workload that was retried before waits longer each time."""
        again = check.retry_count if state == "Retry" else 0
        self.write(
            events.CheckStateDecided(
                resource_version=local.resource_version,
                check=check.name,
                state=state,
                message=message,
                requeue_after_seconds=min(2 ** min(again, _DOUBLINGS), _LONGEST_REQUEUE) if again else 0,
                reason=reason,
            )
        )

    def clear_names(self, local: WorkloadObserved) -> None:
        """Remove the cluster names that Kueue's own clean-up could not remove, because we own the fields too.

        Kueue applies the status as the field manager `kueue-admission`, and a field that another manager owns as well
        stays (https://kubernetes.io/docs/reference/using-api/server-side-apply/).
        Those of a slice that is to replace another one are Kueue's, which copies them from there, until it is evicted.
        """
        ours = not local.replaces or local.is_true("Evicted")
        if (local.cluster_name or local.nominated) and ours:
            self.write(
                events.NamesClearDecided(
                    resource_version=local.resource_version, reason=WorkloadReason.NAMES_LEFT_BEHIND
                )
            )

    def ready(self, local: WorkloadObserved, check: CheckState, winner: str, topology: Sequence[str] = ()) -> None:
        """Set our admission check Ready: the job is on the cluster that has the Workload."""
        self.write(
            events.CheckStateDecided(
                resource_version=local.resource_version,
                check=check.name,
                state="Ready",
                message=f'The workload was admitted on "{winner}"',
                winner=winner,
                topology=list(topology),
                reason=WorkloadReason.ADMITTED_ON_WORKER,
            )
        )

    def create_job(self, cluster: str, job: JobObserved) -> None:
        """Create the job's copy on the cluster that has the Workload."""
        self.write(
            events.JobCreationDecided(
                cluster=cluster,
                attempt=self.state.attempt,
                kind=job.kind,
                template=job.template,
                reason=WorkloadReason.ADMITTED_ON_WORKER,
            )
        )

    def leave_out(self, cluster: str, message: str, reason: WorkloadReason) -> None:
        """Leave a cluster out of this attempt for a while, and say why."""
        self.say(
            events.ClusterRefused(
                cluster=cluster,
                attempt=self.state.attempt,
                message=message,
                until=self.now + self.context.policy.refusal_pause,
                reason=reason,
            )
        )

    def nominate(self, local: WorkloadObserved, cluster: str) -> None:
        """Nominate one cluster alone: only one that the stored object nominates can be selected."""
        self.write(
            events.NominationDecided(
                resource_version=local.resource_version,
                attempt=self.state.attempt,
                clusters=[cluster],
                reason=WorkloadReason.NOMINATED,
            )
        )

    def rest(self, job: JobObserved, member: str = "") -> None:
        """Write a status in which nothing runs to the user's job, or to a pod of its group."""
        if not member and not self.may_tell(""):
            return
        self.write(
            events.StatusRelayDecided(
                kind=job.kind,
                resource_version=job.resource_version,
                status=job.status,
                drain=True,
                member=member,
                reason=WorkloadReason.NOTHING_RUNS,
            )
        )

    def relay(self, job: JobObserved, cluster: str, status: str, reason: WorkloadReason) -> None:
        """Write the status of the job's copy on a cluster to the user's job, after a pause where it did not keep it."""
        if not self.may_tell(status):
            return
        self.write(
            events.StatusRelayDecided(
                kind=job.kind,
                resource_version=job.resource_version,
                source=cluster,
                status=status,
                reason=reason,
            )
        )

    def remove_everywhere(self, reason: WorkloadReason, keep: str = "") -> bool:
        """Remove the copies on every reachable cluster but one; return whether any is still there to wait for.

        What is on a cluster that cannot be reached stays known, and goes when the cluster is back.
        """
        waiting = False
        for cluster in sorted(self.state.remotes):
            if cluster != keep and self.context.in_view(cluster) and self.verdicts.get(cluster) != "Wait":
                waiting = self.remove(cluster, reason) or waiting
        return waiting

    def remove(self, cluster: str, reason: WorkloadReason) -> bool:
        """Remove the copy on one cluster, job first; return whether it is still going."""
        remote = self.state.remote(cluster)
        for name, member in sorted(remote.members.items()):
            self.remove_member(cluster, name, member, reason)
        job = None if kept_by_another(self.context, cluster) else remote.job
        own = remote if job is remote.job else structs.replace(remote, job=None)
        if job is not None and not job.deleting and not written_by_another(self.context, cluster):
            self._remove_job(cluster, job, _version(remote.job_version, job.resource_version, reason), reason)
        elif not own.may_run:
            self._remove_rest(cluster, own, reason)
        return (own.clone is not None or own.may_run) and not self.removal_failed(cluster)

    def remove_member(self, cluster: str, name: str, member: RemoteJobObserved, reason: WorkloadReason) -> None:
        """Remove the copy of a pod of a group beside the first one, unless it is going."""
        if not member.deleting:
            self._remove_job(cluster, member, member.resource_version, reason, name)

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

    def must_wait(self, but: str = "") -> bool:
        """Whether the job may run unseen on a cluster that is not given up yet, or is there under the name of another
        slice: it must not be started anywhere else.
        """
        held = {**unshown(self.state, self.context, self.now, but), **unseen(self.state, self.context, self.now, but)}
        for until in held.values():
            if until is not None:
                self.wake_at(until)
        return bool(held) or any(
            remote.job is not None and cluster != but and self.context.in_view(cluster)
            for other in (*self.context.slices, *self.context.strays)
            for cluster, remote in other.remotes.items()
        )

    def others_may_run(self, winner: str) -> bool:
        """Whether a job is, or may be, on a cluster in view that is not the winner: the winner's has to wait until it
        is gone.

        What is on a cluster out of view is waited for elsewhere (`must_wait`). A job that an API server does not let us
        delete holds nothing up for ever, unless it must never run twice, and a clone that some job is bound to, which
        we do not see, for a while only."""
        others = [
            cluster
            for cluster in sorted(self.state.remotes)
            if cluster != winner and self.context.in_view(cluster) and not self.removal_failed(cluster)
        ]
        others = [one for one in others if self.state.remote(one).clone is not None or self.state.remote(one).may_run]
        # Of a group whose pods were all replaced, what runs there is none that its job is now.
        if any(remote.may_run for remote in map(self.state.remote, others)):
            return True
        return not self._out_of_patience([cluster for cluster in others if not self.holds_nothing(cluster)])

    def _out_of_patience(self, clusters: Collection[str]) -> bool:
        """Whether these clusters had their time to remove what they have since that was decided."""
        effects = self.state.effects
        since = [effect.decided_at for target, effect in effects.items() if target.partition("/")[0] in clusters]
        until = min(since, default=self.now) + self.context.policy.loser_patience
        if clusters and self.now < until:
            self.wake_at(until)
            return False
        return True

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

    def is_ending(self, cluster: str) -> bool:
        """Whether what is on a cluster is about to be removed or stopped: a write of an attempt before is open, or its
        Kueue was told to deactivate the copy. Either may come about at any time, and would end what is begun there now.
        """
        clone = self.state.remote(cluster).clone
        open_ = (effect.decision for effect in self.state.effects.values())
        return (clone is not None and clone.is_true("DeactivationTarget")) or any(
            isinstance(one, _ENDINGS) and one.cluster == cluster for one in open_
        )

    def refused(self, cluster: str) -> bool:
        """Whether a cluster is left out now; after its pause it is offered the Workload again, and may refuse again."""
        known = self.state.refused.get(cluster)
        return known is not None and known.until > self.now

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


def stamp(text: str, otherwise: datetime) -> datetime:
    """Return a Kubernetes timestamp as a time; `otherwise` if it is none, has no zone, or lies so far ahead that
    nothing can be added to it: whoever may write a status may write `9999-12-31T23:59:59Z`.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return found if found.tzinfo is not None and found.year < MAXYEAR else otherwise
