"""Makes the Kubernetes Events about jobs, with Kueue's reasons and words (kubernetes-sigs/kueue
pkg/controller/jobframework/events.go, reconciler.go, ff69552e).

In: a write, and the job that it is of. Out: the creation of an Event; None for what is not told. Pure."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.pod_events import PodDeletionDecided, PodStartDecided
from controlplane.controllers.jobframework.set_events import SetWorkloadCreationDecided
from controlplane.kube.kinds import ObjectRef, Request
from controlplane.kube.requests import event_about
from controlplane.kube.slices import SLICE_REPLACED
from controlplane.values import Value

_FINISHED = ("OwnerNotFound", "FailedToStart", "OutOfSync", SLICE_REPLACED)


class Reporter(Value):
    """Who reports Events: the process, and the controller by the name that Kueue gives it (`setup.go`)."""

    identity: str
    integration: str

    @property
    def controller(self) -> str:
        """Return the `reportingController`."""
        return f"{self.integration}-kueue-controller"


def announcement(
    place: ObjectRef, uid: str, decision: events.JobWrite, suffix: str, by: Reporter, now: datetime
) -> Request | None:
    """Return the Event that tells of a write that succeeded; `suffix` makes its name."""
    told = _told(place, decision)
    if told is None or not uid:
        return None
    reason, note = told
    return event_about(place, uid, "Normal", reason, note, suffix, by.identity, now, controller=by.controller)


def notice(place: ObjectRef, decision: events.JobNoticeDecided, by: Reporter, now: datetime) -> Request:
    """Return the Event that a notice is. What it says makes its name: said again, it is there already."""
    reason, note = decision.event_reason, decision.note
    return event_about(
        place, decision.uid, decision.type, reason, note, note, by.identity, now, controller=by.controller
    )


def _told(place: ObjectRef, decision: events.JobWrite) -> tuple[str, str] | None:
    key = f"{place.namespace}/{decision.name}"
    match decision:
        case events.JobWorkloadCreationDecided() | SetWorkloadCreationDecided():
            return "CreatedWorkload", f"Created Workload: {key}"
        case events.JobWorkloadRemovalDecided():
            return "DeletedWorkload", f"Deleted not matching Workload: {key}"
        case events.JobWorkloadUpdateDecided():
            return _updated(key, decision)
        case events.JobWorkloadFinishDecided() if decision.finish_reason not in _FINISHED:
            return "FinishedWorkload", f"Workload '{key}' is declared finished"
        case events.JobStartDecided(step="prepare"):
            return None
        case events.JobStartDecided() | PodStartDecided():
            return "Started", f"Admitted by clusterQueue {decision.cluster_queue}"
        case events.JobDeletionDecided():
            return "Deleted", "Deleted job: deactivation retention period expired"
        case events.JobStopDecided() if decision.step == "suspend":
            return "Suspended" if decision.quiet else "Stopped", decision.message
        case PodDeletionDecided():
            return ("ExcessPodDeleted" if decision.excess else "Stopped"), decision.message
    return None


def _updated(key: str, decision: events.JobWorkloadUpdateDecided) -> tuple[str, str] | None:
    match decision.what:
        case "spec":
            return "UpdatedWorkload", f"Updated not matching Workload for suspended job: {key}"
        case "priority":
            return "UpdatedWorkload", f"Updated workload priority class: {key}"
        case "gate":
            return "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{decision.gated_by}"'
    return None
