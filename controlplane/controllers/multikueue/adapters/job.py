"""`batch/v1` Job (kubernetes-sigs/kueue pkg/controller/jobs/job/job_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from controlplane.controllers.multikueue.adapters.base import clone_metadata, spec_of
from controlplane.kube.kinds import JOBS, Json

# Set by the worker's own API server or controller when the copy is created: the manager's values would be refused
# there.
_GENERATED_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid")


class JobAdapter:
    """A Job."""

    integration = "batch/job"
    kind = JOBS

    def managed_by(self, job: Json) -> str:
        """Return `spec.managedBy`."""
        return str(job.get("spec", {}).get("managedBy") or "")

    def suspended(self, job: Json) -> bool:
        """Whether `spec.suspend` is true."""
        return job.get("spec", {}).get("suspend") is True

    def finished(self, status: Json) -> bool:
        """Whether a Complete or Failed condition is True."""
        return any(
            condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
            for condition in status.get("conditions") or []
        )

    def inactive(self, status: Json) -> bool:
        """Whether `status.active` is 0."""
        return not status.get("active")

    def clone(self, template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
        """Return the copy: no selector, no generated labels in the template, managedBy cleared."""
        spec = spec_of(template)
        spec.pop("selector", None)
        spec.pop("managedBy", None)
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        for label in _GENERATED_LABELS if labels else ():
            labels.pop(label, None)
        # The worker's Kueue starts it when the clone's quota is there; until it has seen the job it must not run.
        spec["suspend"] = True
        metadata = clone_metadata(template, namespace, name, workload, origin)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata, "spec": spec}

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

    def overtaken_counts(self) -> bool:
        """Yes: what succeeded need not be done again."""
        return True

    def marks_suspended(self) -> bool:
        """Kueue adds the condition for a Job."""
        return True
