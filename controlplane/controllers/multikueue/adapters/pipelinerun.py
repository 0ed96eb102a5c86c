"""`tekton.dev/v1` PipelineRun (docs/explanation/coscheduling.md, "Many clusters"): a run is dispatched whole, with all
of its pods, claims and placeholders.

Kueue's integrations do not know the kind; it takes part as an external one (tekton-kueue). The user's copy stays inert
because `spec.managedBy` names another controller than Tekton's; the worker's copy has no such field, and waits as
`PipelineRunPending` until the worker's Kueue lets it start.

Tekton lets no run be pending that has a start time. So Kueue stops the user's copy for good when it evicts it, which
stops nothing, since nothing of it runs; and a status with a start time is not written to it before Kueue has let it go.
"""

from __future__ import annotations

from controlplane.controllers.multikueue.adapters.base import clone_metadata, spec_of
from controlplane.kube.kinds import PIPELINE_RUNS, Json

_PENDING, _STOPPED = "PipelineRunPending", "StoppedRunFinally"
# What says that something runs. The child references are those of the worker; nothing of that name exists beside the
# user's run.
_RUNNING = ("startTime", "completionTime", "childReferences", "finallyStartTime")


class PipelineRunAdapter:
    """A PipelineRun."""

    integration = "tekton.dev/pipelinerun"
    kind = PIPELINE_RUNS

    def managed_by(self, job: Json) -> str:
        """Return `spec.managedBy`."""
        return str((job.get("spec") or {}).get("managedBy") or "")

    def suspended(self, job: Json) -> bool:
        """Whether `spec.status` says that it is not to start yet, or that Kueue has stopped it."""
        return (job.get("spec") or {}).get("status") in (_PENDING, _STOPPED)

    def finished(self, status: Json) -> bool:
        """Whether the condition Succeeded is True or False: a run that failed or was cancelled has ended too."""
        return _succeeded(status) in ("True", "False")

    def inactive(self, status: Json) -> bool:
        """Whether it has not started, or has ended."""
        return not status.get("startTime") or self.finished(status)

    def clone(self, template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
        """Return the copy: managedBy cleared, pending until the worker's Kueue starts it.

        The name is the run's own: names of placeholders follow from it. Names of claims follow from the copy's UID.
        """
        spec = spec_of(template)
        spec.pop("managedBy", None)
        spec["status"] = _PENDING
        metadata = clone_metadata(template, namespace, name, workload, origin)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata, "spec": spec}

    def may_relay(self, *, local_suspended: bool, remote_suspended: bool, remote_finished: bool) -> bool:
        """Once Kueue has let the user's run go; nobody else writes the status of an inert run."""
        return not local_suspended

    def drained(self, status: Json) -> Json:
        """Return the status as that of a run that has not started."""
        kept = {field: value for field, value in status.items() if field not in _RUNNING}
        if "conditions" in kept and not self.finished(status):
            kept["conditions"] = [one for one in kept["conditions"] or [] if one.get("type") != "Succeeded"]
        return kept

    def overtaken_counts(self) -> bool:
        """No: a new attempt began from the beginning, and what a run does outside its pods is done by that one (section
        8.9).
        """
        return False

    def marks_suspended(self) -> bool:
        """Kueue adds the condition for a Job only."""
        return False


def _succeeded(status: Json) -> str:
    found = status.get("conditions") or []
    return next((str(one.get("status")) for one in found if one.get("type") == "Succeeded"), "")
