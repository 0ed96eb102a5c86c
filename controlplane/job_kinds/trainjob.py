"""`trainer.kubeflow.org/v1alpha1` TrainJob (kubernetes-sigs/kueue pkg/controller/jobs/trainjob/trainjob_controller.go,
trainjob_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import Phase, PodSet, SimulatedKind
from controlplane.kube.kinds import Json, Kind

# Kueue's own patch of the runtime: the worker's Kueue adds its own to the copy.
_PATCHED_BY = "kueue.x-k8s.io/manager"


class TrainJob(SimulatedKind):
    """A TrainJob."""

    integration = "trainer.kubeflow.org/trainjob"
    kind = Kind("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")
    own_controller = "trainer.kubeflow.org/trainjob-controller"
    status_manager = "trainer"
    succeeded = "Complete"
    columns = (("State", ".status.conditions[-1:].type", "string"),)

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return none that has a template in the job: it is the runtime's."""
        return []

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return those of a runtime that has nodes and nothing else, as a simulated cluster has it."""
        trainer = job["spec"].get("trainer") or {}
        container = {"name": "node", "image": trainer.get("image", "runtime")}
        if trainer.get("resourcesPerNode"):
            container["resources"] = trainer["resourcesPerNode"]
        template = {"spec": {"containers": [container]}}
        return [{"name": "node", "count": int(trainer.get("numNodes") or 1), "template": template}]

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the templates of the pod sets."""
        return [one["template"] for one in self.pod_sets(job)]

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return nothing: where pods go is a patch of the runtime."""
        return {}

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether any of its Jobs is active."""
        return any(one.get("active") for one in status.get("jobsStatus") or ())

    def clone_spec(self, template: Json) -> Json:
        """Return the spec without Kueue's own patch of the runtime."""
        spec = super().clone_spec(template)
        if "runtimePatches" in spec:
            spec["runtimePatches"] = [one for one in spec["runtimePatches"] or [] if one.get("manager") != _PATCHED_BY]
        return spec

    def drained(self, status: Json) -> Json:
        """Return the status with no active Jobs."""
        found = status.get("jobsStatus")
        resting = [{**one, "active": 0} if one.get("active") else one for one in found or ()]
        return {**status, "jobsStatus": resting} if found else dict(status)

    def fields(self, job: Json, phase: Phase) -> Json:
        """Return the counts of its one Job."""
        counts = dict.fromkeys(("active", "failed", "ready", "succeeded", "suspended"), 0)
        counted = {"started": ("active",), "ready": ("active", "ready")}.get(phase, (phase,))
        return {"jobsStatus": [{"name": "node", **counts, **dict.fromkeys(counted, 1)}]}
