"""`jobset.x-k8s.io/v1alpha2` JobSet: the status is copied whole and always, as by Kueue (kubernetes-sigs/kueue
pkg/controller/jobs/jobset/jobset_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from controlplane.controllers.multikueue.adapters.base import clone_metadata, spec_of
from controlplane.kube.kinds import JOBSETS, Json


class JobSetAdapter:
    """A JobSet."""

    integration = "jobset.x-k8s.io/jobset"
    kind = JOBSETS

    def managed_by(self, job: Json) -> str:
        """Return `spec.managedBy`."""
        return str(job.get("spec", {}).get("managedBy") or "")

    def suspended(self, job: Json) -> bool:
        """Whether `spec.suspend` is true."""
        return job.get("spec", {}).get("suspend") is True

    def finished(self, status: Json) -> bool:
        """Whether a Completed or Failed condition is True."""
        return any(
            condition.get("type") in ("Completed", "Failed") and condition.get("status") == "True"
            for condition in status.get("conditions") or []
        )

    def inactive(self, status: Json) -> bool:
        """Whether no replicated job has an active Job."""
        return not any(replicated.get("active") for replicated in status.get("replicatedJobsStatus") or [])

    def clone(self, template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
        """Return the copy: managedBy cleared."""
        spec = spec_of(template)
        spec.pop("managedBy", None)
        spec["suspend"] = True
        metadata = clone_metadata(template, namespace, name, workload, origin)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata, "spec": spec}

    def may_relay(self, *, local_suspended: bool, remote_suspended: bool, remote_finished: bool) -> bool:
        """Always."""
        return True

    def drained(self, status: Json) -> Json:
        """Return the status with nothing active or ready in any replicated job."""
        replicated = [
            {**job, **{field: 0 for field in ("active", "ready") if job.get(field)}}
            for job in status.get("replicatedJobsStatus") or []
        ]
        return {**status, "replicatedJobsStatus": replicated} if replicated else dict(status)

    def overtaken_counts(self) -> bool:
        """Yes: what succeeded need not be done again."""
        return True

    def marks_suspended(self) -> bool:
        """Kueue adds the condition for a Job only."""
        return False
