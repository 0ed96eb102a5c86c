"""KubeRay's `ray.io/v1` RayJob, RayCluster and RayService: a head, and groups of workers (kubernetes-sigs/kueue
pkg/controller/jobs/rayjob/rayjob_controller.go, raycluster/common.go, rayservice/rayservice_controller.go,
ray/ray_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from controlplane.job_kinds.base import JobOutcome, Path, Phase, PodSet, SimulatedKind
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import Json, Kind


class RayKind(SimulatedKind):
    """What is the same for all: `cluster` is the way to the spec of the Ray cluster."""

    own_controller = "ray.io/kuberay-operator"
    status_manager = "kuberay-operator"
    cluster: ClassVar[Path] = ("spec",)

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return a pod set for the head, and one for each group of workers."""
        spec: Any = job
        for step in self.cluster:
            spec = spec.get(step) or {}
        found = [PodSet("head", 1, (*self.cluster, "headGroupSpec", "template"))]
        for at, group in enumerate(spec.get("workerGroupSpecs") or ()):
            pods = int(group.get("replicas", 1)) * int(group.get("numOfHosts") or 1)
            found.append(PodSet(group["groupName"], pods, (*self.cluster, "workerGroupSpecs", at, "template")))
        return found

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return None: what serves does not end."""
        return None


class RayJob(RayKind):
    """A RayJob."""

    integration = "ray.io/rayjob"
    kind = Kind("ray.io", "v1", "RayJob", "rayjobs")
    cluster = ("spec", "rayClusterSpec")
    conditions = False
    columns = (
        ("job status", ".status.jobStatus", "string"),
        ("deployment status", ".status.jobDeploymentStatus", "string"),
    )

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return how it ended, once its deployment is Complete or Failed."""
        if status.get("jobDeploymentStatus") not in ("Complete", "Failed"):
            return None
        return JobOutcome(str(status.get("message") or ""), status.get("jobStatus") == "SUCCEEDED")

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether it is deployed: neither new nor suspended, and not at its end."""
        return status.get("jobDeploymentStatus", "") not in ("", "Suspended", "Complete", "Failed")

    def drained(self, status: Json) -> Json:
        """Return the status of a suspended one, unless it has ended."""
        return {**status, "jobDeploymentStatus": "Suspended"} if self.active(status) else dict(status)

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return the start time."""
        return (job.get("status") or {}).get("startTime")

    def fields(self, job: Json, phase: Phase) -> Json:
        """Return what it is deployed as."""
        deployed = {"suspended": "Suspended", "started": "Initializing", "ready": "Running", "succeeded": "Complete"}
        found: Json = {"jobDeploymentStatus": deployed.get(phase, "Failed")}
        if phase in ("succeeded", "failed"):
            found |= {"jobStatus": phase.upper(), "message": f"Job {phase}"}
        return found


class RayCluster(RayKind):
    """A RayCluster."""

    integration = "ray.io/raycluster"
    kind = Kind("ray.io", "v1", "RayCluster", "rayclusters")
    columns = (("status", ".status.state", "string"),)
    conditions = False
    elastic = True

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
    suspend_path = ("rayClusterConfig", "suspend")
    columns = (("service status", ".status.serviceStatus", "string"),)
    synced = ("serveConfigV2",)

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


def _sized_as(group: Json, wanted: Mapping[str, Json]) -> Json:
    """Return a group of workers with the size of that of its name; as it is if there is none."""
    other = wanted.get(group["groupName"])
    if other is None:
        return group
    kept = {name: value for name, value in group.items() if name not in _SIZE}
    return kept | {name: other[name] for name in _SIZE if other.get(name) is not None}


_SIZE = ("replicas", "numOfHosts")
