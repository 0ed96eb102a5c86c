"""What each event of MultiKueue's dispatch says, in a few words, and why each decision was taken.

A reason's clause completes "because …"; `means` is the same without parameters, for the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import events as multikueue
from controlplane.controllers.multikueue import observations, worker_queues
from controlplane.controllers.multikueue.events import (
    AttemptBegun,
    ClustersScored,
    NominationDecided,
    RemovalDecided,
    SpecUpdateDecided,
    StatusRelayDecided,
    WinnerChosen,
    WorkloadDecision,
)
from controlplane.controllers.multikueue.observations import (
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, Sentence, listed, told


def face(seen: WorkloadObserved | CloneObserved) -> str:
    """Return how far a Workload, or a copy of it, has come by its conditions."""
    if seen.is_true("Finished"):
        return "finished" + _in_brackets(seen, "Finished")
    if seen.deleting:
        return "is being deleted"
    if not seen.active:
        return "is deactivated"
    reserved = seen.is_true("QuotaReserved")
    if seen.is_true("Evicted"):
        return "is evicted" + _in_brackets(seen, "Evicted") if reserved else "waits for quota again"
    if seen.is_true("Admitted"):
        return "is admitted"
    if not reserved:
        return "waits for quota"
    queue = seen.cluster_queue if isinstance(seen, WorkloadObserved) else ""
    return f"has quota in {queue}" if queue else "has quota"


def _in_brackets(seen: observations.Conditioned, kind: str) -> str:
    condition = seen.condition(kind)
    return f" ({condition.reason})" if condition is not None and condition.reason else ""


def not_ours(seen: CloneObserved | RemoteJobObserved) -> str:
    """Return what completes the words about a copy that was made for another management cluster; "" of one of ours."""
    return ", made for another management cluster" if seen.made_for else ""


def activity(seen: JobObserved | RemoteJobObserved) -> str:
    """Return what a job, or its copy, does."""
    if seen.finished:
        return "finished"
    if seen.deleting:
        return "is being deleted"
    if seen.suspended:
        return "is suspended"
    return "may start" if seen.inactive else "runs"


def _relay(event: StatusRelayDecided) -> str:
    if event.drain:
        return "job's status is to show that nothing runs"
    if event.mark_suspended:
        return "job's status is to say Suspended"
    if event.outcome:
        return f"pod, whose end nobody saw, is to end as its Workload: {event.outcome}"
    last = event.reason == WorkloadReason.FINAL_STATUS
    return "job's last status is to be copied" if last else "job's status is to be copied"


def _removal(event: RemovalDecided | multikueue.FinalizerRemovalDecided) -> str:
    return "job's copy is to be removed" if event.of == "Job" else "copy is to be removed"


def _scores(event: ClustersScored) -> str:
    return ", ".join(f"{one.cluster} {one.score}" for one in event.clusters)


def _left(seen: worker_queues.WorkerClusterQueueObserved) -> str:
    flavors = [flavor for group in seen.groups or () for flavor in group.flavors]
    each = (f"{', '.join(f'{name} {left}' for name, left in one.free.items())} in {one.name}" for one in flavors)
    return f"left: {'; '.join(each)}" if seen.groups is not None else "not said yet what is left"


def _spec_update(event: SpecUpdateDecided) -> str:
    if event.of == "Workload":
        return "copy is to be as small as the Workload"
    if event.prebuilt:
        return "job's copy is to go on as that of this Workload"
    return "job's copy is to follow the change of its " + ("size" if event.resized else "spec")


def _attempted(text: str) -> Callable[[Any], str]:
    return lambda event: f"{text} (attempt {event.attempt})"


def _active(seen: observations.Conditioned) -> str:
    condition = seen.condition("Active")
    if condition is None:
        return "has no condition Active yet"
    return f"is {'active' if condition.status == 'True' else 'not active'}{_in_brackets(seen, 'Active')}"


R = WorkloadReason

PHRASES: Mapping[type[Event], Phrase] = told(
    {
        observations.WorkloadObserved: lambda e: f"Workload {face(e)}",
        observations.WorkloadGone: "Workload is gone",
        observations.JobObserved: lambda e: f"job {activity(e)}",
        observations.JobGone: "job is gone",
        observations.AdmissionCheckObserved: lambda e: f"AdmissionCheck {_active(e)}",
        observations.AdmissionCheckGone: "AdmissionCheck is gone",
        observations.MultiKueueConfigObserved: lambda e: (
            f"MultiKueueConfig names {', '.join(e.clusters) or 'no cluster'}"
        ),
        observations.MultiKueueConfigGone: "MultiKueueConfig is gone",
        observations.MultiKueueClusterObserved: lambda e: f"MultiKueueCluster {_active(e)}",
        observations.MultiKueueClusterGone: "MultiKueueCluster is gone",
        observations.ClusterQueueObserved: lambda e: (
            f"ClusterQueue asks for {e.execution_policy or 'no execution policy'}"
        ),
        observations.ClusterQueueGone: "ClusterQueue is gone",
        observations.LocalQueueObserved: "LocalQueue leads to ClusterQueue {e.cluster_queue}",
        observations.LocalQueueGone: "LocalQueue is gone",
        observations.CloneObserved: lambda e: f"copy {face(e)}{not_ours(e)}",
        observations.CloneGone: "copy is gone",
        observations.CloneAbsent: "copy was asked for by its name, and is not there",
        observations.RemoteJobObserved: lambda e: f"job's copy {activity(e)}{not_ours(e)}",
        observations.RemoteJobGone: "job's copy is gone",
        worker_queues.WorkerClusterQueueObserved: lambda e: f"worker's ClusterQueue {e.name} has {_left(e)}",
        worker_queues.WorkerClusterQueueGone: "worker's ClusterQueue {e.name} is gone",
        worker_queues.WorkerLocalQueueObserved: "worker's LocalQueue {e.namespace}/{e.name} leads to {e.cluster_queue}",
        worker_queues.WorkerLocalQueueGone: "worker's LocalQueue {e.namespace}/{e.name} is gone",
        observations.ObservationRefused: "{e.kind} {e.namespace}/{e.name} cannot be understood: {e.error}",
        multikueue.NominationDecided: lambda e: _attempted(f"offered to {', '.join(e.clusters)}")(e),
        multikueue.AttemptBegun: lambda e: _attempted(
            f"{'follows to' if e.reason == R.SLICE_FOLLOWS else 'nominated by somebody else:'} {', '.join(e.clusters)}"
        )(e),
        multikueue.GroupPodChosen: "group of pods is known by {e.owner.name} from now on",
        multikueue.ClustersScored: lambda e: _attempted(f"scored: {_scores(e)}")(e),
        multikueue.CloneDecided: _attempted("copy is to be created"),
        multikueue.GateOpeningDecided: _attempted("copy may preempt others"),
        multikueue.WinnerChosen: _attempted("chosen"),
        multikueue.WinnerReleased: _attempted("choice taken back"),
        multikueue.ClusterRefused: _attempted("left out for a while"),
        multikueue.CopyJudged: lambda e: f"copy on the cluster that came back: {e.verdict.lower()}",
        multikueue.JobCreationDecided: _attempted("job's copy is to be created"),
        multikueue.CheckStateDecided: "admission check is to be {e.state}",
        multikueue.StatusRelayDecided: _relay,
        multikueue.FinishDecided: "Workload is to finish ({e.finish_reason})",
        multikueue.NamesClearDecided: "cluster names are to be removed",
        multikueue.RemovalDecided: _removal,
        multikueue.FinalizerRemovalDecided: _removal,
        multikueue.FinalizerAdditionDecided: "copy is to be removed, and its pods' finalizers with it",
        multikueue.SpecUpdateDecided: _spec_update,
        multikueue.CloneUpdateDecided: "copy's priority is to be {e.priority.value}",
        multikueue.DeactivationDecided: "copy is to stop",
        multikueue.ConditionDecided: lambda e: f"{e.of} is to be {'active' if e.status == 'True' else 'not active'}",
        multikueue.EffectFailed: lambda e: f"write refused ({f'{e.code} {e.error}'.rstrip()})",
        multikueue.EffectUnneeded: "write changed nothing",
    }
)

REASONS: Mapping[WorkloadReason, Sentence] = {
    R.AVAILABLE_CLUSTERS: Sentence(
        "these are the clusters of the configuration that can take it now",
        "of its configuration, {clusters} can take it now",
    ),
    R.FIRST_ROUND: Sentence(
        "these are the first clusters of the configuration that can take it now",
        "of its configuration, {clusters} are the first that can take it now",
    ),
    R.NEXT_ROUND: Sentence(
        "none of those asked so far admitted it within the round: more are asked",
        "nobody admitted it within the round: {clusters} are asked now",
    ),
    R.BEST_SCORES: Sentence(
        "these have the best scores of the clusters that can take it now, by the rules of the settings",
        "of the clusters that can take it now, {clusters} have the best scores",
    ),
    R.NOMINATED_BY_ANOTHER: Sentence(
        "another controller nominated these clusters", "another controller nominated {clusters}"
    ),
    R.NOMINATED: Sentence(
        "the cluster was nominated and has no copy yet", "{cluster} was nominated and has no copy of it yet"
    ),
    R.BLOCKED_ON_PREEMPTION_GATES: Sentence(
        "only by preempting others the copy can be admitted, and it asked for that first of those that may not yet",
        "the copy on {cluster} can be admitted only by preempting others there, and nobody was let five minutes before",
    ),
    R.CLUSTERS_JUDGED: Sentence(
        "which clusters can take the job whole was judged anew",
        "which clusters can take it whole was judged anew: {message}",
    ),
    R.ONLY_ADMITTED: Sentence("one cluster had admitted it", "{cluster} was the only one that had admitted it"),
    R.FIRST_ADMITTED: Sentence(
        "several had admitted it; this one was first", "{cluster} was the first of {count} to admit it ({among})"
    ),
    R.ADMITTED_ON_WORKER: Sentence(
        "the winner admitted it: the job can go there, and the check can be Ready", "{cluster} admitted it"
    ),
    R.EVICTED_BEFORE_READY: Sentence(
        "the winner evicted it before the check was Ready", "{cluster} evicted it before its job was there"
    ),
    R.GONE_BEFORE_READY: Sentence(
        "the winner's copy disappeared before the check was Ready",
        "its copy disappeared from {cluster} before its job was there",
    ),
    R.LOST_BEFORE_READY: Sentence(
        "the winner could not be reached any more before the check was Ready",
        "{cluster} could not be reached any more before its job was there",
    ),
    R.JOB_NAME_TAKEN: Sentence(
        "the winner has a job of that name that is not ours", "{cluster} has a job of that name that is not ours"
    ),
    R.JOB_REFUSED: Sentence(
        "the winner's API server refuses the job", "the API server of {cluster} refuses the job: {message}"
    ),
    R.REJECTED_BY_WORKER: Sentence(
        "the worker's Kueue deactivated the copy", "the Kueue of {cluster} deactivated the copy: {message}"
    ),
    R.PUT_OFF_BY_WORKER: Sentence(
        "a check of the worker put the copy off, and its Kueue evicted it before it had a job",
        "a check of {cluster} put the copy off: {message}",
    ),
    R.ALTERED_BY_WORKER: Sentence(
        "the worker's API server stored another copy than was sent", "the copy on {cluster} is another one: {message}"
    ),
    R.ANOTHER_CLUSTER_WON: Sentence(
        "the copy is on a cluster that did not win", "another cluster than {cluster} got the job"
    ),
    R.FINISHED: Sentence("the Workload, or its copy, has finished", "it has finished"),
    R.QUOTA_NOT_RESERVED: Sentence("the Workload holds no quota (any more)", "it holds no quota any more"),
    R.LOCAL_DELETED: Sentence("the Workload was deleted", "the Workload was deleted"),
    R.POD_GONE: Sentence(
        "the pod of a group that it is a copy of is gone, or is being deleted", "its pod is gone, or going"
    ),
    R.POD_ENDED: Sentence(
        "the pod by which a group is known has ended, or is going",
        "the pod by which it was known has ended, or is going",
    ),
    R.ORPHANED: Sentence(
        "there is a copy, and no Workload for longer than the garbage collection's interval",
        "{cluster} has a copy of a Workload that is no longer there",
    ),
    R.NOT_NOMINATED: Sentence(
        "the cluster is not, or no longer, offered the Workload", "{cluster} is not, or no longer, offered the Workload"
    ),
    R.SPEC_DIFFERS: Sentence(
        "the copy is not one of the Workload as it now is",
        "the copy on {cluster} is not one of the Workload as it now is",
    ),
    R.STALE_COPY: Sentence(
        "the copy cannot be used: deactivated, finished, going, without its job, or evicted before it had one",
        "the copy on {cluster} cannot be used: it is deactivated, finished, going, without its job, or evicted before "
        "it had one",
    ),
    R.DRAINING: Sentence(
        "the Workload was evicted, and nothing may stay behind",
        "it was evicted, and nothing may stay behind on {cluster}",
    ),
    R.REMOTE_EVICTED: Sentence("the worker evicted the copy", "{cluster} evicted its copy"),
    R.REMOTE_GONE: Sentence(
        "the copy, or its job, is no longer there", "its copy, or the copy's job, is no longer on {cluster}"
    ),
    R.REMOTE_LOST: Sentence(
        "the worker could not be reached until the grace was over: `multikueue.workerLostTimeout`, or an operator "
        "gave it up",
        "{cluster} could not be reached until its grace (multikueue.workerLostTimeout) was over",
    ),
    R.OUT_OF_SYNC: Sentence(
        "the worker's Kueue says that copy and job do not match",
        "the Kueue of {cluster} says that copy and job do not match",
    ),
    R.NO_CLUSTER_NAME: Sentence(
        "the check is Ready and no cluster is recorded", "its admission check is Ready and no cluster is recorded"
    ),
    R.EVICTED_ON_MANAGER: Sentence(
        "the Workload was evicted on the management cluster, so the copy has to stop",
        "it was evicted on the management cluster, so the copy on {cluster} has to stop",
    ),
    R.STILL_THE_WINNER: Sentence(
        "the cluster came back, and the Workload is still its own",
        "{cluster} came back, and the Workload is still its own",
    ),
    R.READMITTED: Sentence(
        "the cluster came back with a copy that runs, and the Workload holds quota again",
        "{cluster} came back with a copy that runs, and the Workload holds quota again",
    ),
    R.AWAITS_QUOTA: Sentence(
        "the cluster came back with a copy that runs, and the Workload has no quota for it yet",
        "{cluster} came back with a copy that runs, and the Workload has no quota for it yet",
    ),
    R.WINNER_UNHEARD_OF: Sentence(
        "the cluster came back with a copy that runs, and the one that has the Workload may be the same under a name "
        "that is gone",
        "{cluster} came back with a copy that runs, and the cluster that has the Workload may be the same under a name "
        "that is gone",
    ),
    R.FINISHED_MEANWHILE: Sentence(
        "the copy finished while its cluster was away", "the copy finished while {cluster} was away"
    ),
    R.FENCED: Sentence(
        "another attempt began elsewhere while the cluster was away, and attempts of this kind are fenced",
        "another attempt began elsewhere while {cluster} was away, and this one is fenced",
    ),
    R.CONTRADICTING_POLICIES: Sentence(
        "the execution policies of the job and its ClusterQueue contradict each other, or are none",
        "the execution policies of its job and its ClusterQueue contradict each other, or are none",
    ),
    R.INVALID_CLUSTER_SELECTOR: Sentence(
        "the job's annotation `controlplane/cluster-selector` is no label selector",
        "its job's annotation controlplane/cluster-selector is no label selector",
    ),
    R.NO_ADAPTER: Sentence("jobs of this kind are not dispatched", "jobs of its kind are not dispatched"),
    R.NOT_MANAGED: Sentence("the job's `spec.managedBy` is not ours", "its job's spec.managedBy is not ours"),
    R.ELASTIC: Sentence(
        "the job was made larger, and jobs of its kind cannot be while they run",
        "its job was made larger, and jobs of its kind cannot be while they run",
    ),
    R.NO_LONGER_REJECTED: Sentence(
        "what spoke against dispatching the Workload is mended", "what spoke against dispatching it is mended"
    ),
    R.STATUS_CHANGED: Sentence("the copy's status is newer", "the status on {source} is newer"),
    R.FINAL_STATUS: Sentence(
        "the last status goes before the Workload is finished",
        "the job on {source} has finished, and this is its last status",
    ),
    R.NOTHING_RUNS: Sentence(
        "no copy runs, and no copy is left to say so", "nothing of it runs, and no copy is left to say so"
    ),
    R.SPEC_CHANGED: Sentence(
        "fields of the job's spec that follow it to its copy were changed", "its spec was changed while it runs"
    ),
    R.COMPONENT_FOLLOWS: Sentence(
        "the Workload goes where the others of the same job are", "the others of its job are there"
    ),
    R.SLICE_FOLLOWS: Sentence(
        "the slice goes where the elastic job is", "its job is there, under the name of the slice before"
    ),
    R.SLICE_ADMITTED: Sentence(
        "the next slice of the elastic job is admitted where the job is", "{cluster} admitted this slice of the job"
    ),
    R.SIZE_CHANGED: Sentence("the elastic job's size is another one now", "its size is another one now"),
    R.PRIORITY_CHANGED: Sentence(
        "the Workload's priority is another one now", "the Workload's priority is another one now"
    ),
    R.NAMES_LEFT_BEHIND: Sentence("cluster names stayed after an eviction", "cluster names stayed after an eviction"),
    R.TOPOLOGY_ASSIGNED: Sentence(
        "the worker assigned the topology that was asked for", "{cluster} assigned the topology that was asked for"
    ),
    R.CONDITION_CHANGED: Sentence(
        "the condition would say something else now", "its condition Active would say something else now: {message}"
    ),
    R.CONDITION_OVERWRITTEN: Sentence(
        "somebody else wrote another condition in the place of ours",
        "somebody else wrote another condition Active in the place of ours, which says: {message}",
    ),
}


def because(decision: WorkloadDecision, cluster: str = "") -> str:
    """Return why a decision was taken, to follow "because"; `cluster` is the one that it is about, if it does not say
    so itself.
    """
    return REASONS[decision.reason].clause.format_map(_parameters(decision, cluster)).removesuffix(": ")


def _parameters(decision: WorkloadDecision, about: str) -> dict[str, str]:
    own = str(getattr(decision, "winner", "") or getattr(decision, "cluster", ""))
    cluster = own if own not in ("", MANAGEMENT) else about
    among = decision.among if isinstance(decision, WinnerChosen) else {}
    return {
        "cluster": cluster or "its cluster",
        "clusters": listed(decision.clusters if isinstance(decision, (NominationDecided, AttemptBegun)) else [])
        or "none",
        "source": str(getattr(decision, "source", "")) or cluster or "its cluster",
        "message": str(getattr(decision, "message", "")),
        "count": str(len(among)),
        "among": ", ".join(f"{name} at {at or 'an unknown time'}" for name, at in sorted(among.items())),
    }
