"""KubeRay's `ray.io/v1` RayJob, RayCluster and RayService: a head, and groups of workers (kubernetes-sigs/kueue
pkg/controller/jobs/rayjob/rayjob_controller.go, rayjob_webhook.go, raycluster/common.go, raycluster_webhook.go,
rayservice/rayservice_controller.go, ray/ray_multikueue_adapter.go, ff69552e). What KubeRay adds to pods when it makes
them is in `ray_pods`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from controlplane.job_kinds import ray_pods
from controlplane.job_kinds.base import JobOutcome, Path, Phase, PodSet, SimulatedKind, merged
from controlplane.kube.conditions import is_true
from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import Json, Kind, ObjectRef, meta
from controlplane.kube.pod_templates import stored_template
from controlplane.kube.requests import merge_diff
from controlplane.kube.slices import ELASTIC_JOB, is_elastic

_MOST_POD_SETS = 18


class RayKind(SimulatedKind):
    """What is the same for all: `cluster` is the way to the spec of the Ray cluster; `autoscaling`: what is said where
    it is made larger and smaller, and is not elastic; `made`: where the name stands of the RayCluster that is made of
    it, which is made larger and smaller then, and not the job."""

    own_controller = "ray.io/kuberay-operator"
    status_manager = "kuberay-operator"
    reconciled = True
    sliced = True
    cluster: ClassVar[Path] = ("spec",)
    made: ClassVar[Path] = ()
    autoscaling: ClassVar[str] = "a kueue managed job should only use autoscaling when workload slicing is enabled"

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return a pod set for the head, and one for each group of workers."""
        found = [PodSet("head", 1, (*self.cluster, "headGroupSpec", "template"))]
        for at, group in enumerate(self._cluster(job).get("workerGroupSpecs") or ()):
            replicas = group.get("replicas")
            pods = (1 if replicas is None else int(replicas)) * max(int(group.get("numOfHosts") or 1), 1)
            found.append(PodSet(group["groupName"], pods, (*self.cluster, "workerGroupSpecs", at, "template")))
        return found

    def sized_by(self, job: Mapping[str, Any]) -> ObjectRef | None:
        """Return the RayCluster that is made of the job, if KubeRay makes that larger and smaller."""
        if not self.made or not self._cluster(job).get("enableInTreeAutoscaling"):
            return None
        name = str(_at(job, self.made) or "")
        return ObjectRef(RayCluster.kind, str(meta(job).get("namespace") or ""), name)

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets, with what KubeRay adds to the head; `BadValue` for what Kueue's webhook refuses."""
        self.check(job)
        found = super().workload_pod_sets(job)
        ray_pods.complete_head(found[0]["template"], self._cluster(job), meta(job).get("annotations") or {})
        return found

    def check(self, job: Mapping[str, Any]) -> None:
        """Raise `BadValue`, in Kueue's words, for a job that its webhook refuses."""
        cluster, where = self._cluster(job), ".".join(map(str, self.cluster))
        if cluster.get("enableInTreeAutoscaling") and not (is_elastic(job) or self.is_made(job)):
            raise BadValue(f"{where}.enableInTreeAutoscaling", self.autoscaling)
        groups = cluster.get("workerGroupSpecs") or ()
        if len(groups) + 1 > _MOST_POD_SETS:
            raise BadValue(f"{where}.workerGroupSpecs", f"must have at most {_MOST_POD_SETS} items")
        for at, group in enumerate(groups):
            if group.get("groupName") == "head":
                raise BadValue(f"{where}.workerGroupSpecs[{at}].groupName", '"head" is reserved for the head group')

    def is_made(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is made of another of KubeRay's jobs, which says whether it is elastic."""
        return False

    def _cluster(self, job: Mapping[str, Any]) -> Json:
        found: Json = _at(job, self.cluster)
        return found

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return None: what serves does not end."""
        return None


class RayJob(RayKind):
    """A RayJob."""

    integration = "ray.io/rayjob"
    kind = Kind("ray.io", "v1", "RayJob", "rayjobs")
    cluster = ("spec", "rayClusterSpec")
    made = ("status", "rayClusterName")
    conditions = False
    columns = (
        ("job status", ".status.jobStatus", "string"),
        ("deployment status", ".status.jobDeploymentStatus", "string"),
    )

    def skipped(self, job: Mapping[str, Any]) -> bool:
        """Return whether it runs on a cluster that is there already, which Kueue leaves alone."""
        return bool((job.get("spec") or {}).get("clusterSelector"))

    def check(self, job: Mapping[str, Any]) -> None:
        """Raise `BadValue` for a job without a cluster of its own, or that keeps it."""
        if job["spec"].get("rayClusterSpec") is None:
            raise BadValue("spec.rayClusterSpec", _CLUSTER_MISSING)
        if job["spec"].get("shutdownAfterJobFinishes") is not True:
            raise BadValue(
                "spec.shutdownAfterJobFinishes", "a kueue managed job should delete the cluster after finishing"
            )
        super().check(job)

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return those of the cluster, and the pod that submits the job, where KubeRay makes a Job for that."""
        submitter = [PodSet("submitter", 1, ("spec", _SUBMITTER))] if _has_submitter(job) else []
        return [*super().pods(job), *submitter]

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets; the pod that submits is KubeRay's, unless the job has a template for it."""
        return super().pod_sets(_with_submitter(job))

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets; where a container of the head submits the job, KubeRay adds it."""
        found = super().workload_pod_sets(job)
        if job["spec"].get("submissionMode") == "SidecarMode":
            found[0]["template"]["spec"].setdefault("containers", []).append(ray_pods.submitting_container())
        return found

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod templates."""
        return super().templates(_with_submitter(job))

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return the part of a spec that puts these templates in place; KubeRay's own is left out."""
        spec: Json = merged(dict(job["spec"]), super().with_templates(templates, job))
        if not job["spec"].get(_SUBMITTER) and _has_submitter(job):
            default = _with_submitter(job)["spec"][_SUBMITTER]
            if stored_template(spec[_SUBMITTER]) == stored_template(default):
                del spec[_SUBMITTER]
        return merge_diff(job["spec"], spec)

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether its cluster is ready."""
        return ((job.get("status") or {}).get("rayClusterStatus") or {}).get("state") == "ready"

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return how it ended, once its deployment is Complete or Failed."""
        if status.get("jobDeploymentStatus") not in ("Complete", "Failed"):
            return None
        return JobOutcome(str(status.get("message") or ""), status.get("jobStatus") == "SUCCEEDED")

    def refused(self, status: Mapping[str, Any]) -> bool:
        """Return whether KubeRay found it invalid."""
        return bool(status.get("jobDeploymentStatus") == "ValidationFailed")

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether it is deployed: neither new nor suspended, and not at its end."""
        return status.get("jobDeploymentStatus", "") not in ("", "Suspended", "Complete", "Failed")

    def drained(self, status: Json) -> Json:
        """Return the status of a suspended one, unless it has ended."""
        if not self.active(status):
            return dict(status)
        return {**status, "jobDeploymentStatus": "Suspended", "rayClusterStatus": {}}  # as KubeRay empties it

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return the start time."""
        return (job.get("status") or {}).get("startTime")

    def fields(self, job: Json, phase: Phase) -> Json:
        """Return what it is deployed as."""
        deployed = {"suspended": "Suspended", "started": "Initializing", "ready": "Running", "succeeded": "Complete"}
        found: Json = {"jobDeploymentStatus": deployed.get(phase, "Failed")}
        if phase not in ("succeeded", "failed"):
            found["rayClusterStatus"] = {"state": "ready"} if phase == "ready" else {}
        else:
            found |= {"jobStatus": phase.upper(), "message": f"Job {phase}"}
        return found


class RayCluster(RayKind):
    """A RayCluster."""

    integration = "ray.io/raycluster"
    kind = Kind("ray.io", "v1", "RayCluster", "rayclusters")
    columns = (("status", ".status.state", "string"),)
    conditions = False
    elastic = True
    autoscaling = (
        "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the ElasticJobsViaWorkloadSlices feature "
        f'gate and set the "{ELASTIC_JOB}": "true" annotation'
    )

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether its state is ready."""
        return self.active(job.get("status") or {})

    def is_made(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is made of a RayJob or a RayService."""
        owners = (one for one in meta(job).get("ownerReferences") or () if one.get("controller"))
        return any(str(one.get("apiVersion")).startswith("ray.io/") and one.get("kind") in _MAKERS for one in owners)

    def sized(self, spec: Mapping[str, Any]) -> Json:
        """Return the groups of workers: a merge patch replaces the list as a whole."""
        return {"workerGroupSpecs": spec.get("workerGroupSpecs") or []}

    def resized(self, part: Json, job: Mapping[str, Any]) -> Json:
        """Return the copy's groups of workers with the sizes that the user's have, by their names."""
        wanted = {group["groupName"]: group for group in job["spec"].get("workerGroupSpecs") or ()}
        return {"workerGroupSpecs": [_sized_as(group, wanted) for group in part.get("workerGroupSpecs") or ()]}

    def of_size(self, spec: Json, size: Mapping[str, int]) -> Json:
        """Return the spec with the replicas of each group of workers."""
        groups = []
        for group in spec.get("workerGroupSpecs") or ():
            pods = size.get(str(group["groupName"]).lower())
            hosts = int(group.get("numOfHosts") or 1)
            groups.append(group if pods is None else {**group, "replicas": pods // hosts})
        return {**spec, "workerGroupSpecs": groups} if groups else spec

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether its state is ready."""
        return status.get("state") == "ready"

    def drained(self, status: Json) -> Json:
        """Return the status of a suspended one."""
        return {**status, "state": "suspended"} if self.active(status) else dict(status)

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return None: it runs until it is deleted."""
        return None

    def fields(self, job: Json, phase: Phase) -> Json:
        """Return its state."""
        return {"state": {"suspended": "suspended", "failed": "failed"}.get(phase, "ready")}


class RayService(RayKind):
    """A RayService: the application that it serves may change while it runs."""

    integration = "ray.io/rayservice"
    kind = Kind("ray.io", "v1", "RayService", "rayservices")
    cluster = ("spec", "rayClusterConfig")
    made = ("status", "activeServiceStatus", "rayClusterName")
    suspend_path = ("rayClusterConfig", "suspend")
    columns = (("service status", ".status.serviceStatus", "string"),)
    synced = ("serveConfigV2",)

    def skipped(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is being deleted, and KubeRay may have to clean Redis up first, by a Job that is not kept
        from running."""
        notes = meta(job).get("annotations") or {}
        return "deletionTimestamp" in meta(job) and ray_pods.is_fault_tolerant(self._cluster(job), notes)

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is ready to serve."""
        return self.active(job.get("status") or {})

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether it is ready to serve."""
        return is_true({"status": status}, "Ready")

    def drained(self, status: Json) -> Json:
        """Return the status of one that is not ready."""
        found = [
            {**one, "status": "False"} if one["type"] == "Ready" else one for one in status.get("conditions") or ()
        ]
        return {**status, "conditions": found} if found else dict(status)

    def show_started(self, job: Json, status: Json, at: str, *, ready: bool) -> None:
        """Show that it is ready."""
        self._show(job, status, "ready", at, Suspended=False, Ready=True)

    def show_suspended(self, job: Json, status: Json, at: str) -> None:
        """Show that it is not ready."""
        self._show(job, status, "suspended", at, Suspended=True, Ready=False)


def _at(job: Mapping[str, Any], path: Path) -> Any:
    """Return what stands there in a job, {} if nothing does."""
    found: Any = job
    for step in path:
        found = found.get(step) or {}
    return found


def _has_submitter(job: Mapping[str, Any]) -> bool:
    return bool(job["spec"].get("submissionMode") == "K8sJobMode")


def _with_submitter(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a job with the template of the pod that submits it, as KubeRay makes it where the job has none."""
    if not _has_submitter(job) or job["spec"].get(_SUBMITTER):
        return job
    containers = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    return {**job, "spec": {**job["spec"], _SUBMITTER: ray_pods.submitting_pod(str(containers[0].get("image") or ""))}}


def _sized_as(group: Json, wanted: Mapping[str, Json]) -> Json:
    """Return a group of workers with the size of that of its name; as it is if there is none."""
    other = wanted.get(group["groupName"])
    if other is None:
        return group
    kept = {name: value for name, value in group.items() if name not in _SIZE}
    return kept | {name: other[name] for name in _SIZE if other.get(name) is not None}


_SIZE = ("replicas", "numOfHosts")
_MAKERS = ("RayJob", "RayService")
_SUBMITTER = "submitterPodTemplate"
_CLUSTER_MISSING = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
