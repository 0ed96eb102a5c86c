"""`trainer.kubeflow.org/v1alpha1` TrainJob (kubernetes-sigs/kueue pkg/controller/jobs/trainjob/trainjob_controller.go,
trainjob_webhook.go, trainjob_multikueue_adapter.go, ff69552e).

Its pods are those of the runtime that it names, which `train_runtime` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import Phase, PodSet, SimulatedKind
from controlplane.job_kinds.generic_job import RUNTIME, infos_digest
from controlplane.job_kinds.jobset import JobSet
from controlplane.job_kinds.train_outline import job_outline, runtime_outline, template_outline
from controlplane.job_kinds.train_runtime import KUEUES_PATCH, child_job_set
from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import Json, Kind, ObjectRef, meta, nested

_GROUP = "trainer.kubeflow.org"
_RUNTIMES = {
    kind: Kind(_GROUP, "v1alpha1", kind, f"{kind.lower()}s", namespaced=kind == "TrainingRuntime")
    for kind in ("ClusterTrainingRuntime", "TrainingRuntime")
}
_JOB_SET = JobSet()


class TrainJob(SimulatedKind):
    """A TrainJob."""

    integration = "trainer.kubeflow.org/trainjob"
    kind = Kind(_GROUP, "v1alpha1", "TrainJob", "trainjobs")
    own_controller = "trainer.kubeflow.org/trainjob-controller"
    status_manager = "trainer"
    succeeded = "Complete"
    columns = (("State", ".status.conditions[-1:].type", "string"),)
    reconciled = True
    infos_apart = True
    changes_at_rest = True
    runtimes = tuple(_RUNTIMES.values())
    index_label = JobSet.index_label

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return none that has a template in the job: it is the runtime's."""
        return []

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return those of its runtime."""
        return _JOB_SET.pod_sets(_child(job))

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return those of its runtime; `BadValue` if that is not known."""
        if RUNTIME not in job:
            reference = job["spec"].get("runtimeRef") or {}
            if self.runtime_of(job) is None:
                kind, group = reference.get("kind"), reference.get("apiGroup")
                raise BadValue("spec.runtimeRef", f"unsupported runtime: {kind}.{group}")
            raise BadValue("spec.runtimeRef", f"runtime '{reference.get('name')}' not found")
        return _JOB_SET.workload_pod_sets(_child(job))

    def runtime_of(self, job: Mapping[str, Any]) -> ObjectRef | None:
        """Return the runtime that it names."""
        reference = job["spec"].get("runtimeRef") or {}
        kind = _RUNTIMES.get(str(reference.get("kind") or "ClusterTrainingRuntime"))
        if kind is None or reference.get("apiGroup") not in (None, _GROUP):
            return None
        namespace = str(meta(job).get("namespace") or "") if kind.namespaced else ""
        return ObjectRef(kind, namespace, str(reference.get("name") or ""))

    def outlined(self, job: Mapping[str, Any]) -> Json:
        """Return the spec with digests of what containers say."""
        return job_outline(job["spec"])

    def outlined_runtime(self, spec: Mapping[str, Any]) -> Json:
        """Return the spec with digests of what containers say."""
        return runtime_outline(spec)

    def outlined_template(self, template: Json) -> Json:
        """Return the template with digests of what containers say."""
        return template_outline(template)

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the templates of the pod sets."""
        return [one["template"] for one in self.pod_sets(job)]

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return nothing: where pods go is a patch of the runtime."""
        return {}

    def with_infos(self, job: Mapping[str, Any], infos: Sequence[Json]) -> Json:
        """Return the patches of the runtime, of which Kueue's says what pods were admitted with."""
        jobs = [
            {
                "name": one["name"],
                "template": {
                    "spec": {
                        "template": {
                            "metadata": {name: one[name] for name in ("annotations", "labels") if name in one},
                            "spec": {name: one[name] for name in _PLACED if name in one},
                        }
                    }
                },
            }
            for one in infos
        ]
        patches = list(job["spec"].get("runtimePatches") or ())
        if not any(one.get("manager") == KUEUES_PATCH for one in patches):
            if not jobs:
                return {}
            patches.append({"manager": KUEUES_PATCH})
        spec = {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs} if jobs else {}}}}
        return {"runtimePatches": [{**one, **spec} if one.get("manager") == KUEUES_PATCH else one for one in patches]}

    def injected(self, job: Mapping[str, Any]) -> str:
        """Return what Kueue's patch of the runtime says of where pods go."""
        found = []
        for patch in nested(job, "spec").get("runtimePatches") or ():
            if patch.get("manager") != KUEUES_PATCH:
                continue
            jobs = nested(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs") or ()
            found += [{"name": one.get("name"), **nested(one, "template", "spec", "template", "spec")} for one in jobs]
        return infos_digest(found)

    def submitted(self, job: Mapping[str, Any]) -> Json:
        """Return it suspended, and with Kueue's patch of the runtime, which says nothing yet."""
        made = super().submitted(job)
        patches = made["spec"].get("runtimePatches") or ()
        if any(one.get("manager") == KUEUES_PATCH for one in patches):
            return made
        own = {"manager": KUEUES_PATCH, "trainingRuntimeSpec": {"template": {"spec": {}}}}
        return {**made, "spec": {**made["spec"], "runtimePatches": [*patches, own]}}

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether all Jobs are ready or have succeeded."""
        return _JOB_SET.ready(_child(job))

    def reclaimable(self, job: Mapping[str, Any]) -> dict[str, int] | None:
        """Return the pods of the Jobs that have succeeded."""
        return _JOB_SET.reclaimable(_child(job))

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether any of its Jobs is active."""
        return any(one.get("active") for one in status.get("jobsStatus") or ())

    def clone_spec(self, template: Json) -> Json:
        """Return the spec without Kueue's own patch of the runtime: the worker's Kueue adds its own."""
        spec = super().clone_spec(template)
        if "runtimePatches" in spec:
            spec["runtimePatches"] = [one for one in spec["runtimePatches"] or [] if one.get("manager") != KUEUES_PATCH]
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


_PLACED = ("nodeSelector", "tolerations", "schedulingGates")


def _child(job: Mapping[str, Any]) -> Json:
    """Return the JobSet of a TrainJob, with the counts of the TrainJob's own status. A simulated cluster has a runtime
    of nodes and nothing else.
    """
    made = child_job_set(job, job[RUNTIME]) if RUNTIME in job else _simulated(job)
    return {**made, "status": {"replicatedJobsStatus": (job.get("status") or {}).get("jobsStatus") or []}}


def _simulated(job: Mapping[str, Any]) -> Json:
    trainer = job["spec"].get("trainer") or {}
    container = {"name": "node", "image": trainer.get("image", "runtime")}
    if trainer.get("resourcesPerNode"):
        container["resources"] = trainer["resourcesPerNode"]
    nodes = {"parallelism": int(trainer.get("numNodes") or 1), "template": {"spec": {"containers": [container]}}}
    return {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": nodes}}]}}
