"""Tells what KubeRay adds to the pods of a Ray cluster when it makes them, and that Kueue counts as quota.

In: templates, the spec of a cluster. Out: templates. Pure. Sources: `BuildPodSets`, `addSidecarSubmitterToHeadPodSet`,
`getSubmitterTemplate` (kubernetes-sigs/kueue pkg/controller/jobs/raycluster/common.go, rayjob/rayjob_controller.go,
ff69552e), and what they name of ray-project/kuberay."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import Json
from controlplane.kube.pod_templates import stored_template
from controlplane.kube.quantities import nanos

_FAULT_TOLERANT = "ray.io/ft-enabled"
_SUBMITTER = "ray-job-submitter"
_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
_CLEANUP = {"cpu": "200m", "memory": "256Mi"}  # what the Job that cleans Redis up asks for, in the place of the head
_NO_CONTAINER = "cannot account for Redis cleanup resources: head pod template must include the Ray container"


def is_fault_tolerant(cluster: Mapping[str, Any], annotations: Mapping[str, str]) -> bool:
    """Return whether the state of a cluster's head is kept outside of it (`IsGCSFaultToleranceEnabled`)."""
    said = str(annotations.get(_FAULT_TOLERANT, "")).lower() == "true"
    return said or cluster.get("gcsFaultToleranceOptions") is not None


def complete_head(template: Json, cluster: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
    """Put into the template of a head what its pod asks for beside; `BadValue` if it has no container."""
    containers: list[Json] = template["spec"].setdefault("containers", [])
    if is_fault_tolerant(cluster, annotations):
        if not containers:
            raise BadValue("headGroupSpec.template", _NO_CONTAINER)
        requests = containers[0].setdefault("resources", {}).setdefault("requests", {})
        for resource, least in _CLEANUP.items():
            if resource not in requests or nanos(requests[resource]) < nanos(least):
                requests[resource] = least
    if cluster.get("enableInTreeAutoscaling"):
        options = cluster.get("autoscalerOptions") or {}
        resources = options.get("resources")
        if resources is None:
            resources = {"requests": dict(_AUTOSCALER), "limits": dict(_AUTOSCALER)}
        containers.append({"name": "autoscaler", "resources": copy.deepcopy(resources)})
        template["spec"] = stored_template(template)["spec"]


def submitting_container() -> Json:
    """Return the container that submits a job from its head."""
    return {"name": _SUBMITTER, "resources": _submitting()}


def submitting_pod(image: str) -> Json:
    """Return the template of the pod that submits a job; `image` is the head's."""
    named = {"image": image} if image else {}
    return {
        "spec": {"containers": [{"name": _SUBMITTER, **named, "resources": _submitting()}], "restartPolicy": "Never"}
    }


def _submitting() -> Json:
    return {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
