"""What an event says, in a few words: for lists, where the columns beside it tell when, where and why.

In: an event of the log, known or not. Out: one short line. Every event type has its words here, and a test says so. The
words about Workloads and jobs are those of the view `audit.workload_timeline`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.audit.group_words import GROUP_WORDS
from controlplane.audit.judging_words import JUDGING_WORDS
from controlplane.audit.pod_words import POD_WORDS
from controlplane.audit.run_words import RUN_WORDS
from controlplane.audit.scheduler_words import SCHEDULER_WORDS
from controlplane.audit.target_words import TARGET_WORDS
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.multikueue import events as multikueue
from controlplane.controllers.multikueue.events import (
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    RemovalDecided,
    StatusRelayDecided,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.durations import show
from controlplane.log.event import Event, Recorded, Unknown


def type_of(recorded: Recorded) -> str:
    """Return the name of an event's type, also of one that this version does not know."""
    event = recorded.event
    return event.type if isinstance(event, Unknown) else type(event).__name__


def reason_of(recorded: Recorded) -> str:
    """Return the reason that the log has in its column: of decisions and of failures; "" elsewhere."""
    event = recorded.event
    if isinstance(event, Unknown):
        return str(fields_of(event).get("reason", ""))
    return str(getattr(event, "reason", ""))


def fields_of(event: Event | Unknown) -> dict[str, Any]:
    """Return an event's fields as plain values; one that has its default is left out."""
    if not isinstance(event, Unknown):
        fields: dict[str, Any] = msgspec.to_builtins(event)
        return fields
    found = msgspec.json.decode(event.data)
    return found if isinstance(found, dict) else {"data": found}


def what(event: Event | Unknown) -> str:
    """Return what an event says, in a few words; of an unknown one its type."""
    if isinstance(event, Unknown):
        return event.type
    say = next((words[type(event)] for words in (WORDS, *_OTHERS) if type(event) in words), None)
    return say(event) if say else type(event).__name__


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


def _in_brackets(seen: multikueue.Conditioned, kind: str) -> str:
    condition = seen.condition(kind)
    return f" ({condition.reason})" if condition is not None and condition.reason else ""


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
    last = event.reason == WorkloadReason.FINAL_STATUS
    return "job's last status is to be copied" if last else "job's status is to be copied"


def _removal(event: RemovalDecided) -> str:
    return "job's copy is to be removed" if event.of == "Job" else "copy is to be removed"


def _attempted(text: str) -> Callable[[Any], str]:
    return lambda event: f"{text} (attempt {event.attempt})"


def _active(seen: multikueue.Conditioned) -> str:
    condition = seen.condition("Active")
    if condition is None:
        return "has no condition Active yet"
    return f"is {'active' if condition.status == 'True' else 'not active'}{_in_brackets(seen, 'Active')}"


def _failed(event: connectivity.ClusterConnectFailed) -> str:
    return f"cannot be connected to, attempt {event.attempt}: {event.message}"


def _lost(event: connectivity.ClusterLost) -> str:
    seen = (
        f"; {event.seen_by} saw it, and reached {event.others_connected} of {event.others} others"
        if event.seen_by
        else ""
    )
    return f"is lost: {event.message}{seen}"


def _synced(event: connectivity.KindSynced) -> str:
    gap = "; changes before were missed" if event.gap else ""
    return f"{event.kind} listed: {event.count}{gap}"


WORDS: Mapping[type[Event], Callable[[Any], str]] = {
    connectivity.LogWentBack: lambda e: (
        f"the log ended at {e.ends_at} and had been read up to {e.read_to}: what clusters show is recorded anew"
    ),
    connectivity.LogRebound: lambda e: f"{e.by} lets the log follow another management cluster",
    connectivity.EventRefused: lambda e: f"the database refused {e.type} on {e.stream}",
    connectivity.ServiceStarted: lambda e: f"{e.holder} took the log over (epoch {e.epoch}, version {e.version})",
    connectivity.ServiceStopped: lambda e: f"{e.holder} let the log go (epoch {e.epoch})",
    connectivity.PolicyInForce: lambda e: (
        f"decisions rest on {e.execution_policy}, a grace of {show(timedelta(seconds=e.worker_lost_timeout_seconds))},"
        f" and {', '.join(e.kinds) or 'no kinds'}"
    ),
    connectivity.ClusterConnected: lambda e: f"is connected{f' ({e.server_version})' if e.server_version else ''}",
    connectivity.ClusterConnectFailed: _failed,
    connectivity.ClusterSuspected: lambda e: f"has not answered in time: {e.message}",
    connectivity.ClusterRecovered: lambda e: "answers again",
    connectivity.ClusterRestored: lambda e: f"was restored from a backup: {e.message}",
    connectivity.ClusterForgotten: lambda e: f"was given up by {e.by}",
    connectivity.MassOutageBegan: lambda e: f"mass outage: {len(e.away)} of {e.of} clusters are away",
    connectivity.MassOutageEnded: lambda e: f"mass outage is over: {len(e.away)} of {e.of} clusters are away",
    connectivity.MassOutageAccepted: lambda e: f"mass outage was accepted by {e.by}",
    connectivity.ClusterLost: _lost,
    connectivity.ClusterDisconnected: lambda e: "was let go",
    connectivity.KindSynced: _synced,
    connectivity.KindOff: lambda e: f"{e.kind} cannot be watched: {e.message}",
    multikueue.WorkloadObserved: lambda e: f"Workload {face(e)}",
    multikueue.WorkloadGone: lambda e: "Workload is gone",
    multikueue.JobObserved: lambda e: f"job {activity(e)}",
    multikueue.JobGone: lambda e: "job is gone",
    multikueue.AdmissionCheckObserved: lambda e: f"AdmissionCheck {_active(e)}",
    multikueue.AdmissionCheckGone: lambda e: "AdmissionCheck is gone",
    multikueue.MultiKueueConfigObserved: lambda e: f"MultiKueueConfig names {', '.join(e.clusters) or 'no cluster'}",
    multikueue.MultiKueueConfigGone: lambda e: "MultiKueueConfig is gone",
    multikueue.MultiKueueClusterObserved: lambda e: f"MultiKueueCluster {_active(e)}",
    multikueue.MultiKueueClusterGone: lambda e: "MultiKueueCluster is gone",
    multikueue.ClusterQueueObserved: lambda e: f"ClusterQueue asks for {e.execution_policy or 'no execution policy'}",
    multikueue.ClusterQueueGone: lambda e: "ClusterQueue is gone",
    multikueue.CloneObserved: lambda e: f"copy {face(e)}",
    multikueue.CloneGone: lambda e: "copy is gone",
    multikueue.RemoteJobObserved: lambda e: f"job's copy {activity(e)}",
    multikueue.RemoteJobGone: lambda e: "job's copy is gone",
    multikueue.ObservationRefused: lambda e: f"{e.kind} {e.namespace}/{e.name} cannot be understood: {e.error}",
    multikueue.NominationDecided: lambda e: _attempted(f"offered to {', '.join(e.clusters)}")(e),
    multikueue.CloneDecided: _attempted("copy is to be created"),
    multikueue.WinnerChosen: _attempted("chosen"),
    multikueue.WinnerReleased: _attempted("choice taken back"),
    multikueue.ClusterRefused: _attempted("left out for a while"),
    multikueue.CopyJudged: lambda e: f"copy on the cluster that came back: {e.verdict.lower()}",
    multikueue.JobCreationDecided: _attempted("job's copy is to be created"),
    multikueue.CheckStateDecided: lambda e: f"admission check is to be {e.state}",
    multikueue.StatusRelayDecided: _relay,
    multikueue.FinishDecided: lambda e: f"Workload is to finish ({e.finish_reason})",
    multikueue.NamesClearDecided: lambda e: "cluster names are to be removed",
    multikueue.RemovalDecided: _removal,
    multikueue.FinalizerRemovalDecided: lambda e: "copy is to be removed",
    multikueue.CloneUpdateDecided: lambda e: f"copy's priority is to be {e.priority.value}",
    multikueue.DeactivationDecided: lambda e: "copy is to stop",
    multikueue.ConditionDecided: lambda e: f"{e.of} is to be {'active' if e.status == 'True' else 'not active'}",
    multikueue.EffectFailed: lambda e: f"write refused ({f'{e.code} {e.error}'.rstrip()})",
    multikueue.EffectUnneeded: lambda e: "write changed nothing",
}
_OTHERS = (POD_WORDS, GROUP_WORDS, RUN_WORDS, JUDGING_WORDS, SCHEDULER_WORDS, TARGET_WORDS)
