"""Tells which pods the component of an AppWrapper has: those that it declares, or those that are known of its kind.

In: components. Out: pod sets, and templates as a Workload has them. Pure. Source: `InferPodSets` and
`GetPodTemplateSpec` (project-codeflare/appwrapper pkg/utils/utils.go, as kubernetes-sigs/kueue ff69552e vendors it)."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controlplane.job_kinds.base import Path
from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import Json, meta, nested
from controlplane.kube.quantities import canonical_quantity, milli, nanos
from controlplane.values import Value

_NOTE = "workload.codeflare.dev.appwrapper/tas-"
POD_INDEX, GROUP_INDEX, GROUPS = f"{_NOTE}pod-index-label", f"{_NOTE}sub-group-index-label", f"{_NOTE}sub-group-count"
_JOB_INDEX, _REPLICA_INDEX = "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index"
_JOB_SET_INDEX = "jobset.sigs.k8s.io/job-index"
_STEP = re.compile(r"\.([^.\[]+)|\[(\d{1,9})\]", re.ASCII)
_SCALED = (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"))
_RAY = {"RayCluster": ("spec",), "RayJob": ("spec", "rayClusterSpec")}


class ComponentPods(Value):
    """A pod set of a component; `path` is the way to its template in the component."""

    path: Path
    replicas: int = 1
    annotations: Mapping[str, str] = {}


def pods_of(component: Mapping[str, Any]) -> list[ComponentPods]:
    """Return the pod sets of a component that have a template; `BadValue` for a count that is no number."""
    declared = component.get("podSets") or ()
    sets = map(_declared, declared) if declared else _inferred(component)
    return [one for one in sets if isinstance(found(component, one.path), Mapping)]


def check(component: Mapping[str, Any], at: int) -> None:
    """Raise `BadValue` for a pod set that is declared where no template is: Kueue makes a Workload that can never
    start."""
    for one in component.get("podSets") or ():
        if not isinstance(found(component, _declared(one).path), Mapping):
            raise BadValue(f"spec.components[{at}].podSets[].path", f'"{one.get("path")}" leads to no template')


def found(place: Any, path: Path) -> Any:
    """Return what is at a path, None if nothing is."""
    for step in path:
        try:
            place = place[step]
        except (LookupError, TypeError):
            return None
    return place


def _declared(one: Mapping[str, Any]) -> ComponentPods:
    text = str(one.get("path") or "")
    steps = text.removeprefix("template")
    parsed: Path = ("template", *(int(index) if index else name for name, index in _STEP.findall(steps)))
    if not text.startswith("template") or "".join(m.group() for m in _STEP.finditer(steps)) != steps:
        parsed = ("none",)
    replicas = one.get("replicas")
    notes = {name: str(value) for name, value in (one.get("annotations") or {}).items()}
    return ComponentPods(path=parsed, replicas=1 if replicas is None else int(replicas), annotations=notes)


def _inferred(component: Mapping[str, Any]) -> Iterator[ComponentPods]:
    wrapped = component.get("template") or {}
    named = wrapped.get("apiVersion"), wrapped.get("kind")
    if named == ("v1", "Pod"):
        yield ComponentPods(path=("template",))
    elif named in _SCALED:
        yield _scaled(component, ("template", "spec"), "replicas")
    elif named == ("batch/v1", "Job"):
        place: Path = ("template", "spec")
        pods, notes = _at_once(component, place), {POD_INDEX: _JOB_INDEX}
        yield ComponentPods(path=(*place, "template"), replicas=pods, annotations=notes)
    elif named == ("jobset.x-k8s.io/v1alpha2", "JobSet"):
        yield from _of_job_set(component, found(wrapped, ("spec", "replicatedJobs")) or ())
    elif named == ("kubeflow.org/v1", "PyTorchJob"):
        for one in ("Master", "Worker"):
            place = ("template", "spec", "pytorchReplicaSpecs", one)
            yield _scaled(component, place, "replicas", {POD_INDEX: _REPLICA_INDEX})
    elif named[0] == "ray.io/v1" and named[1] in _RAY:
        place = ("template", *_RAY[str(named[1])])
        yield ComponentPods(path=(*place, "headGroupSpec", "template"))
        for at, _ in enumerate(found(component, (*place, "workerGroupSpecs")) or ()):
            yield _scaled(component, (*place, "workerGroupSpecs", at), "replicas")


def _of_job_set(component: Mapping[str, Any], jobs: Iterable[Json]) -> Iterator[ComponentPods]:
    for at, one in enumerate(jobs):
        place: Path = ("template", "spec", "replicatedJobs", at, "template", "spec")
        groups = _whole(one.get("replicas"), 1)
        notes = {POD_INDEX: _JOB_INDEX, GROUP_INDEX: _JOB_SET_INDEX, GROUPS: str(groups)}
        pods = groups * _at_once(component, place)
        yield ComponentPods(path=(*place, "template"), replicas=pods, annotations=notes)


def _scaled(
    component: Mapping[str, Any], place: Path, count: str, annotations: Mapping[str, str] | None = None
) -> ComponentPods:
    replicas = found(component, (*place, count))
    if replicas is not None and (not isinstance(replicas, int) or isinstance(replicas, bool)):
        raise BadValue(".".join(map(str, (*place, count))), f"non-int value {replicas}")
    number = 1 if replicas is None else replicas
    return ComponentPods(path=(*place, "template"), replicas=number, annotations=annotations or {})


def _at_once(component: Mapping[str, Any], place: Path) -> int:
    pods = _whole(found(component, (*place, "parallelism")), 1)
    return min(pods, _whole(found(component, (*place, "completions")), pods))


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


# --- templates -------------------------------------------------------------------------------------------------------


_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
}


def template_of(wrapped: Mapping[str, Any]) -> Json:
    """Return the template of a pod as an AppWrapper has its Workload made of: the fields that quota and placement
    depend on, with the defaults of an API server.
    """
    spec = wrapped.get("spec")
    if not isinstance(spec, Mapping):
        raise BadValue("template.spec", "does not contain a spec")
    made: Json = {
        "containers": [_container(one) for one in spec.get("containers") or ()],
        **{name: spec.get(name) or default for name, default in _DEFAULTS.items()},
        "securityContext": copy.deepcopy(nested(spec, "securityContext")),
    }
    if spec.get("terminationGracePeriodSeconds") is None:
        made["terminationGracePeriodSeconds"] = 30
    if first := spec.get("initContainers"):
        made["initContainers"] = [_container(one) for one in first]
    kept = ("nodeSelector", "nodeName", "affinity", "tolerations", "priorityClassName", "topologySpreadConstraints")
    made |= {name: copy.deepcopy(spec[name]) for name in kept if spec.get(name)}
    if overhead := _rounded(spec.get("overhead")):
        made["overhead"] = overhead
    said = {name: dict(nested(meta(wrapped), name)) for name in ("labels", "annotations")}
    return {"metadata": {name: one for name, one in said.items() if one}, "spec": made}


def _container(one: Mapping[str, Any]) -> Json:
    image, resources = str(one.get("image") or ""), one.get("resources") or {}
    amounts = {name: _rounded(resources.get(name)) for name in ("requests", "limits")}
    always = "Always" if _tag(image) == "latest" else "IfNotPresent"
    made: Json = {
        "name": one.get("name"),
        "resources": {name: value for name, value in amounts.items() if value},
        "terminationMessagePath": one.get("terminationMessagePath") or "/dev/termination-log",
        "terminationMessagePolicy": one.get("terminationMessagePolicy") or "File",
        "imagePullPolicy": one.get("imagePullPolicy") or always,
    }
    return made | {
        name: copy.deepcopy(one[name])
        for name in ("image", "command", "args", "securityContext")
        if one.get(name) not in (None, "", [])
    }


def _rounded(amounts: Mapping[str, Any] | None) -> Json:
    """Return amounts rounded up to thousandths."""
    return {
        name: canonical_quantity(one) if nanos(one) % 10**6 == 0 else f"{milli(one)}m"
        for name, one in (amounts or {}).items()
    }


def _tag(image: str) -> str:
    """Return the tag of an image, `latest` if it has neither tag nor digest, "" if it is none."""
    if not image:
        return ""
    named, _, digest = image.partition("@")
    tag = named.rpartition("/")[2].partition(":")[2]
    return tag or ("" if digest else "latest")
