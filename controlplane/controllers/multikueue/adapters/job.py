"""`batch/v1` Job (kubernetes-sigs/kueue pkg/controller/jobs/job/job_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from controlplane.controllers.multikueue.adapters.base import SuspendedJobAdapter, spec_of
from controlplane.kube.kinds import JOBS, Json

# Set by the worker's own API server or controller when the copy is created: the manager's values would be refused
# there.
_GENERATED_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid")


class JobAdapter(SuspendedJobAdapter):
    """A Job."""

    integration = "batch/job"
    kind = JOBS
    FINAL = ("Complete", "Failed")

    def inactive(self, status: Json) -> bool:
        """Whether `status.active` is 0."""
        return not status.get("active")

    def clone_spec(self, template: Json) -> Json:
        """Return the spec without selector, and without generated labels in its template."""
        spec = spec_of(template)
        spec.pop("selector", None)
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        for label in _GENERATED_LABELS if labels else ():
            labels.pop(label, None)
        return spec

    def may_relay(self, *, local_suspended: bool, remote_suspended: bool, remote_finished: bool) -> bool:
        """A suspended Job cannot have a start time: relay when it runs here, when both rest, or when all is over."""
        return not local_suspended or remote_suspended or remote_finished

    def drained(self, status: Json) -> Json:
        """Return the status with no active, ready or terminating pods and no start time."""
        kept = {
            key: value for key, value in status.items() if key not in ("active", "ready", "terminating", "startTime")
        }
        if status.get("active"):
            kept["active"] = 0
        if status.get("ready"):
            kept["ready"] = 0
        return kept

    def marks_suspended(self) -> bool:
        """Kueue adds the condition for a Job."""
        return True
