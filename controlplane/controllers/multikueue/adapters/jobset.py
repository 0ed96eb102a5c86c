"""`jobset.x-k8s.io/v1alpha2` JobSet: the status is copied whole and always, as by Kueue (kubernetes-sigs/kueue
pkg/controller/jobs/jobset/jobset_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from controlplane.controllers.multikueue.adapters.base import SuspendedJobAdapter
from controlplane.kube.kinds import JOBSETS, Json


class JobSetAdapter(SuspendedJobAdapter):
    """A JobSet."""

    integration = "jobset.x-k8s.io/jobset"
    kind = JOBSETS
    FINAL = ("Completed", "Failed")

    def inactive(self, status: Json) -> bool:
        """Whether no replicated job has an active Job."""
        return not any(replicated.get("active") for replicated in status.get("replicatedJobsStatus") or [])

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

    def marks_suspended(self) -> bool:
        """Kueue adds the condition for a Job only."""
        return False
