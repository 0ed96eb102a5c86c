"""`jobset.x-k8s.io/v1alpha2` JobSet: one pod set for each replicated job; the status is copied whole and always, as by
Kueue (kubernetes-sigs/kueue pkg/controller/jobs/jobset/jobset_controller.go, jobset_multikueue_adapter.go, ff69552e;
statuses: kubernetes-sigs/jobset pkg/controllers/jobset_controller.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.job_kinds.base import PodSet, SimulatedKind
from controlplane.job_kinds.batch_job import pods_at_once
from controlplane.kube.conditions import condition, set_condition
from controlplane.kube.kinds import JOBSETS, Json, meta


class JobSet(SimulatedKind):
    """A JobSet."""

    integration = "jobset.x-k8s.io/jobset"
    kind = JOBSETS
    own_controller = "jobset.sigs.k8s.io/jobset-controller"
    status_manager = "jobset-controller"
    succeeded = "Completed"
    failed = "Failed"
    reconciled = True
    index_label = "batch.kubernetes.io/job-completion-index"
    columns = (
        ("TerminalState", ".status.terminalState", "string"),
        ("Restarts", ".status.restarts", "string"),
        ("Completed", ".status.conditions[?(@.type=='Completed')].status", "string"),
        ("Suspended", ".spec.suspend", "string"),
    )
    list_map_keys = {
        "spec.replicatedJobs": ("name",),
        "spec.replicatedJobs.dependsOn": ("name",),
        "status.replicatedJobsStatus": ("name",),
    }
    pod_specs = ("spec.replicatedJobs.template.spec.template.spec",)

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return a pod set for each replicated job: replicas times the pods of one."""
        return [
            PodSet(
                str(one["name"]),
                int(one.get("replicas", 1)) * pods_at_once(one["template"]["spec"]),
                ("spec", "replicatedJobs", at, "template", "spec", "template"),
            )
            for at, one in enumerate(job["spec"]["replicatedJobs"])
        ]

    def sub_groups(self, job: Mapping[str, Any], at: int) -> tuple[str, int | None]:
        """Return the label of a Job's index, and how many Jobs there are."""
        return "jobset.sigs.k8s.io/job-index", int(job["spec"]["replicatedJobs"][at].get("replicas", 1))

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether all Jobs are ready or have succeeded."""
        wanted = sum(int(one.get("replicas", 1)) for one in job["spec"].get("replicatedJobs") or ())
        counted = (job.get("status") or {}).get("replicatedJobsStatus") or ()
        return wanted == sum(int(one.get("ready") or 0) + int(one.get("succeeded") or 0) for one in counted)

    def reclaimable(self, job: Mapping[str, Any]) -> dict[str, int] | None:
        """Return the pods of the Jobs that have succeeded."""
        counted = {one.get("name"): one for one in (job.get("status") or {}).get("replicatedJobsStatus") or ()}
        found = {}
        for one in job["spec"].get("replicatedJobs") or ():
            succeeded = int((counted.get(one["name"]) or {}).get("succeeded") or 0)
            if 0 < succeeded <= int(one.get("replicas", 1)):
                found[str(one["name"]).lower()] = succeeded * pods_at_once(one["template"]["spec"])
        return found

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether any replicated job has active Jobs."""
        return any(replicated.get("active") for replicated in status.get("replicatedJobsStatus") or [])

    def drained(self, status: Json) -> Json:
        """Return the status with nothing active or ready in any replicated job."""
        replicated = [
            {**job, **{field: 0 for field in ("active", "ready") if job.get(field)}}
            for job in status.get("replicatedJobsStatus") or []
        ]
        return {**status, "replicatedJobsStatus": replicated} if replicated else dict(status)

    def runs(self, job: Mapping[str, Any]) -> bool:
        """Return whether anything is active."""
        return self.active(job.get("status") or {})

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return when it was resumed, or created."""
        found = condition(job, "Suspended")
        if found is not None and found["status"] == "False":
            return str(found["lastTransitionTime"])
        return str(meta(job)["creationTimestamp"])

    def show_suspended(self, job: Json, status: Json, at: str) -> None:
        """Say so in the condition and in the counts."""
        set_condition(status, "Suspended", True, "SuspendedJobs", "jobset is suspended", at=at)
        status["replicatedJobsStatus"] = _counts(job, "suspended")

    def show_started(self, job: Json, status: Json, at: str, *, ready: bool) -> None:
        """Show the active Jobs."""
        if condition(job, "Suspended") is not None:
            set_condition(status, "Suspended", False, "ResumeJobs", "jobset is resumed", at=at)
        status["replicatedJobsStatus"] = _counts(job, "active", *(["ready"] if ready else []))
        status.setdefault("restarts", 0)

    def show_ready(self, job: Json, status: Json) -> None:
        """Show that all Jobs are ready."""
        status["replicatedJobsStatus"] = _counts(job, "active", "ready")

    def show_ended(self, job: Json, status: Json, at: str, *, success: bool, brief: bool) -> None:
        """Show how it ended."""
        if success:
            set_condition(status, self.succeeded, True, "AllJobsCompleted", "jobset completed successfully", at=at)
        else:
            set_condition(
                status, self.failed, True, "FailedJobs", "jobset failed due to one or more job failures", at=at
            )
        status["replicatedJobsStatus"] = _counts(job, "succeeded" if success else "failed")
        status["terminalState"] = self.succeeded if success else self.failed


def _counts(job_set: Json, *counts: str) -> list[Json]:
    """One entry for each replicated job; `counts` names the fields that hold its number of replicas, the others are
    0.
    """
    fields = ("active", "failed", "ready", "succeeded", "suspended")
    return [
        {"name": replicated["name"], **{f: int(replicated.get("replicas", 1)) if f in counts else 0 for f in fields}}
        for replicated in job_set["spec"]["replicatedJobs"]
    ]
