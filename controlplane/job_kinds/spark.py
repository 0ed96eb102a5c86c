"""The Spark operator's `sparkoperator.k8s.io/v1beta2` SparkApplication: a driver and its executors
(kubernetes-sigs/kueue pkg/controller/jobs/sparkapplication/sparkapplication_controller.go, sparkapplication_podset.go,
sparkapplication_webhook.go, ff69552e). Kueue does not dispatch it to other clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import JobOutcome, Phase, PodSet, SimulatedKind
from controlplane.job_kinds.generic_job import topology_request
from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import Json, Kind, nested
from controlplane.kube.pod_templates import stored_template
from controlplane.kube.quantities import canonical_quantity
from controlplane.kube.requests import merge_diff
from controlplane.kube.slices import is_elastic

_ROLES = ("driver", "executor")
_CONTAINERS = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
_NAMED = {"driver": "spark-kubernetes-driver", "executor": "executor"}
"""The containers that get what a role asks for; the first one where there is none of this name."""
_LOCAL_VOLUMES = "spark-local-dir-"
_JAVA_UNITS = {f"{one}{end}": f"{one.upper()}i" for one in "kmgtp" for end in ("", "b")}
_ENDS = ("COMPLETED", "FAILED", "SUBMISSION_FAILED")
_RUNNING = "RUNNING"
_CLUSTER_ONLY = "only Cluster mode is supported for a kueue managed job"
_NOT_DYNAMIC = (
    "a kueue managed job can use dynamicAllocation only when the ElasticJobsViaWorkloadSlices feature gate is on and "
    "the job is an elastic job"
)


class SparkApplication(SimulatedKind):
    """A SparkApplication."""

    integration = "sparkoperator.k8s.io/sparkapplication"
    kind = Kind("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications")
    status_manager = "spark-operator"
    dispatched = False
    reconciled = True
    sliced = True
    conditions = False
    columns = (("Status", ".status.applicationState.state", "string"),)

    def managed_by(self, job: Mapping[str, Any]) -> str:
        """Return "": nothing in it says so."""
        return ""

    def delegated(self, controller: str) -> Json:
        """Return nothing."""
        return {}

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return the driver and the executors; what is said of their pods is no template."""
        instances = job["spec"].get("executor", {}).get("instances")
        counts = {"driver": 1, "executor": 0 if instances is None else int(instances)}
        return [PodSet(one, counts[one], ("spec", one)) for one in _ROLES]

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets, with the pods that the operator makes; `BadValue` for an amount that is none."""
        return [
            {"name": one.name, "count": one.pods, "template": _pod(job["spec"], one.name)} for one in self.pods(job)
        ]

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets; `BadValue` for what Kueue's webhook refuses."""
        spec = job["spec"]
        if spec.get("mode") != "cluster":
            raise BadValue("spec.mode", _CLUSTER_ONLY)
        if not is_elastic(job) and (spec.get("dynamicAllocation") or {}).get("enabled") is True:
            raise BadValue("spec.dynamicAllocation.enabled", _NOT_DYNAMIC)
        made = []
        for one in self.pod_sets(job):
            found = {**one, "template": stored_template(one["template"])}
            if request := topology_request(one["template"], "", "", None):
                found["topologyRequest"] = request
            made.append(found)
        return made

    def facts_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets with the labels, annotations and node selectors that stand beside the templates."""
        found = []
        for one, beside in zip(self.workload_pod_sets(job), self.templates(job), strict=True):
            spec = {**one["template"]["spec"], "nodeSelector": beside["spec"].get("nodeSelector") or {}}
            found.append({**one, "template": {"metadata": beside["metadata"], "spec": spec}})
        return found

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return what an admission changes of each role, as of a template. A node selector for both roles takes the
        place of their own.
        """
        spec, made = job["spec"], []
        for role in _ROLES:
            said = spec.get(role) or {}
            shared = spec.get("nodeSelector")
            placed = {
                "nodeSelector": said.get("nodeSelector") if shared is None else shared,
                "tolerations": said.get("tolerations"),
                "schedulingGates": ((said.get("template") or {}).get("spec") or {}).get("schedulingGates"),
            }
            metadata = {name: said[name] for name in ("labels", "annotations") if said.get(name)}
            made.append({"metadata": metadata, "spec": {name: one for name, one in placed.items() if one}})
        return made

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return the part of a spec that has this of each role, as a merge patch."""
        made: Json = dict(job["spec"])
        made.pop("nodeSelector", None)
        for role, template in zip(_ROLES, templates, strict=True):
            made[role] = _role_with(made.get(role) or {}, role, template)
        return merge_diff(job["spec"], made)

    def priority_class(self, job: Mapping[str, Any]) -> str:
        """Return the PriorityClass of the driver, else that of the executors."""
        named = [(job["spec"].get(role) or {}).get("priorityClassName") for role in _ROLES]
        return str(next(filter(None, named), ""))

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether the driver runs, and as many executors as are asked for run or have completed."""
        status = job.get("status") or {}
        if not self.active(status):
            return False
        states = list((status.get("executorState") or {}).values())
        return sum(one in (_RUNNING, "COMPLETED") for one in states) >= self.pods(job)[1].pods

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return how it ended."""
        state = _state(status)
        if state not in _ENDS:
            return None
        message = (status.get("applicationState") or {}).get("errorMessage") or ""
        return JobOutcome(str(message), state == "COMPLETED")

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether it is RUNNING."""
        return _state(status) == _RUNNING

    def drained(self, status: Json) -> Json:
        """Return the status of a suspended one, unless it has ended."""
        return {**status, "applicationState": {"state": "SUSPENDED"}} if self.active(status) else dict(status)

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return when it was submitted last."""
        found = (job.get("status") or {}).get("lastSubmissionAttemptTime")
        return str(found) if found else None

    def show_started(self, job: Json, status: Json, at: str, *, ready: bool) -> None:
        """Show the driver, and when it was submitted."""
        super().show_started(job, status, at, ready=ready)
        status["lastSubmissionAttemptTime"] = at

    def fields(self, job: Json, phase: Phase) -> Json:
        """Return its state, and those of its executors."""
        states = {"suspended": "SUSPENDED", "succeeded": "COMPLETED", "failed": "FAILED"}
        executors = {f"exec-{at}": _RUNNING for at in range(self.pods(job)[1].pods)} if phase == "ready" else {}
        error = {"errorMessage": "the driver failed"} if phase == "failed" else {}
        return {
            "applicationState": {"state": states.get(phase, _RUNNING), **error},
            "executorState": executors,
        }


def _state(status: Mapping[str, Any]) -> str:
    return str((status.get("applicationState") or {}).get("state") or "")


def _role_with(said: Json, role: str, template: Json) -> Json:
    """Return what is said of a role, with this of its pods."""
    made = dict(said)
    placed = {**template.get("metadata", {}), **template["spec"]}
    for name in ("labels", "annotations", "nodeSelector", "tolerations"):
        if placed.get(name):
            made[name] = placed[name]
        else:
            made.pop(name, None)
    inner: Json = said.get("template") or {"spec": {"containers": [{"name": _CONTAINERS[role]}]}}
    spec = {name: one for name, one in (inner.get("spec") or {}).items() if name != "schedulingGates"}
    if gates := template["spec"].get("schedulingGates"):
        spec["schedulingGates"] = gates
    return {**made, "template": {**inner, "spec": spec}}


def _pod(spec: Mapping[str, Any], role: str) -> Json:
    """Return the pod of a role: what of it asks for quota, or says where it may run (`mutateSparkPod`)."""
    said = nested(spec, role)
    first: Json = {"name": _CONTAINERS[role]}
    containers = _with_others([first], said.get("sidecars") or ())
    pod: Json = {"containers": containers}
    main = next((one for one in containers if one["name"] == _NAMED[role]), first)
    if mounted := _mounted(spec, said):
        pod["volumes"], first["volumeMounts"] = mounted
    pod["initContainers"] = _with_others([], said.get("initContainers") or ())
    for name in ("priorityClassName", "nodeSelector", "affinity", "tolerations"):
        if said.get(name):
            pod[name] = said[name]
    if resources := _resources(said, nested(main, "resources")):
        main["resources"] = resources
    inner = nested(said, "template", "metadata")
    notes = {name: {**nested(inner, name), **nested(said, name)} for name in ("labels", "annotations")}
    return {"metadata": {**inner, **notes}, "spec": pod}


def _mounted(spec: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[list[Json], list[Json]] | None:
    """Return the volumes of a role that are of the application, and where they are mounted; None if there are none."""
    volumes = {one["name"]: one for one in spec.get("volumes") or ()}
    used = [one for one in said.get("volumeMounts") or () if one["name"] in volumes]
    mounts = [one for one in used if not one["name"].startswith(_LOCAL_VOLUMES)]
    return ([volumes[name] for name in dict.fromkeys(one["name"] for one in mounts)], mounts) if mounts else None


def _with_others(there: list[Json], more: Sequence[Json]) -> list[Json]:
    """Return containers with those that have another name or image."""
    found = list(there)
    for one in more:
        if not any((one.get("name"), one.get("image")) == (other.get("name"), other.get("image")) for other in found):
            found.append(dict(one))
    return found


def _resources(said: Mapping[str, Any], there: Json) -> Json:
    requests, limits = dict(there.get("requests") or {}), dict(there.get("limits") or {})
    amounts = (
        (requests, "cpu", "coreRequest", said.get("coreRequest")),
        (limits, "cpu", "coreLimit", said.get("coreLimit")),
        (requests, "memory", "memory", _of_java(said.get("memory"))),
        (limits, "memory", "memoryLimit", _of_java(said.get("memoryLimit"))),
    )
    for place, resource, field, amount in amounts:
        if amount is not None:
            try:
                place[resource] = canonical_quantity(amount)
            except ValueError:
                raise BadValue(field, f'"{amount}" is no amount') from None
    gpu = said.get("gpu") or {}
    if gpu.get("name") and int(gpu.get("quantity") or 0) > 0:
        limits[gpu["name"]] = str(gpu["quantity"])
    made = {"requests": requests, "limits": limits}
    return {**there, **{name: one for name, one in made.items() if one}}


def _of_java(memory: str | None) -> str | None:
    """Return an amount of memory as Kubernetes spells it: `1g` is 1Gi for Spark."""
    for unit, spelled in _JAVA_UNITS.items() if memory is not None else ():
        if memory is not None and memory.lower().endswith(unit):
            return memory.removesuffix(unit) + spelled
    return memory
