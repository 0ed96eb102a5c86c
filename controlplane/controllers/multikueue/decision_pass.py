"""Collects the decisions of one pass over one Workload, and keeps the rules that all of them share.

At most one write to an object is open at a time; a target that an API server refused rests until its time has come."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import MAXYEAR, datetime

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.observations import (
    CheckState,
    JobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.removal_pass import RemovalPass
from controlplane.controllers.multikueue.unobserved_jobs import unseen, unshown

_LONGEST_REQUEUE = 300  # seconds
_DOUBLINGS = (
    10  # more make no longer pause, and a number that anybody may write makes one that takes minutes to compute
)
_ENDINGS = (
    events.RemovalDecided,
    events.FinalizerRemovalDecided,
    events.FinalizerAdditionDecided,
    events.DeactivationDecided,
)


class WorkloadPass(RemovalPass):
    """The decisions of one pass, under construction."""

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


def stamp(text: str, otherwise: datetime) -> datetime:
    """Return a Kubernetes timestamp as a time; `otherwise` if it is none, has no zone, or lies so far ahead that
    nothing can be added to it: whoever may write a status may write `9999-12-31T23:59:59Z`.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return found if found.tzinfo is not None and found.year < MAXYEAR else otherwise
