"""Makes of a TrainJob and the runtime that it names the JobSet that the trainer makes of them, as far as Kueue counts
it.

In: a TrainJob, the spec of its runtime. Out: a JobSet; pure. What a machine learning policy does to environment
variables and volumes asks for nothing, and is left out as Kueue leaves it out. Sources: `getChildJobSet`
(kubernetes-sigs/kueue pkg/controller/jobs/trainjob/trainjob_controller.go, ff69552e); kubeflow/trainer v2
pkg/runtime/core/trainingruntime.go, pkg/runtime/framework/plugins/jobset/builder.go, plainml, torch, mpi, coscheduling;
k8s.io/apimachinery pkg/util/strategicpatch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controlplane.kube.kinds import Json, meta, nested

KUEUES_PATCH = "kueue.x-k8s.io/manager"
"""The manager of the patch with which Kueue puts into a runtime what pods were admitted with."""
_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER, _NODE = "trainer", "node"
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
_STORAGE = "STORAGE_URI"
_POD_GROUP = "scheduling.x-k8s.io/pod-group"
_MERGED_BY = {
    **dict.fromkeys(("replicatedJobs", "containers", "initContainers", "volumes", "env", "claims"), "name"),
    **dict.fromkeys(("imagePullSecrets", "schedulingGates"), "name"),
    "volumeMounts": "mountPath",
}
"""The fields whose lists are merged entry by entry, and what tells the entries apart. Others are replaced."""


def child_job_set(job: Mapping[str, Any], runtime: Mapping[str, Any]) -> Json:
    """Return the JobSet of a TrainJob whose runtime has this spec, without what Kueue's own patch adds to it."""
    spec: Json = copy.deepcopy(nested(runtime, "template", "spec"))
    order = {str(one.get("name")): at for at, one in enumerate(spec.get("replicatedJobs") or ())}
    for patch in job["spec"].get("runtimePatches") or ():
        part = nested(patch, "trainingRuntimeSpec", "template", "spec")
        if part and patch.get("manager") != KUEUES_PATCH:
            spec = _patched(spec, part)
    jobs: list[Json] = sorted(spec.get("replicatedJobs") or (), key=lambda one: order.get(str(one.get("name")), 0))
    trainer = nested(job, "spec", "trainer")
    for one, count in zip(jobs, _counts(jobs, trainer, runtime), strict=True):
        _filled(one, count, job, runtime)
    return {"metadata": {"name": meta(job).get("name")}, "spec": {**spec, "replicatedJobs": jobs}}


def _filled(one: Json, count: int, job: Mapping[str, Any], runtime: Mapping[str, Any]) -> None:
    """Put into a Job of the JobSet what the TrainJob and the runtime say of its pods."""
    trainer = nested(job, "spec", "trainer")
    template: Json = one.setdefault("template", {}).setdefault("spec", {})
    template.update(parallelism=count, completions=count)
    if _has_nodes(one, runtime) and trainer.get("resourcesPerNode"):
        _give(one, trainer["resourcesPerNode"])
    _initialized(one, nested(job, "spec", "initializer"))
    _trained(one, trainer, runtime)
    if nested(runtime, "podGroupPolicy").get("coscheduling") is not None:
        labels = template.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
        labels[_POD_GROUP] = meta(job).get("name")


def _ancestor(one: Json) -> str:
    return str(nested(one, "template", "metadata", "labels").get(_ANCESTOR) or "")


def _mpi(runtime: Mapping[str, Any]) -> Json | None:
    found: Json | None = nested(runtime, "mlPolicy").get("mpi")
    return found


def _launcher_is_node(runtime: Mapping[str, Any]) -> bool:
    return (_mpi(runtime) or {}).get("runLauncherAsNode") is True


def _counts(jobs: Sequence[Json], trainer: Json, runtime: Mapping[str, Any]) -> list[int]:
    """Return how many pods each Job of a JobSet has: as many as the TrainJob asks for, else as its runtime says."""
    policy, counts = runtime.get("mlPolicy"), []
    for one in jobs:
        found = nested(one, "template", "spec").get("parallelism")
        if _ancestor(one) == _TRAINER and policy is not None:
            found = policy.get("numNodes")
        counts.append(max(1 if found is None else int(found), 1))
    if (nodes := trainer.get("numNodes")) is None:
        return counts
    by_mpi = _mpi(runtime) is not None
    of_nodes = [one.get("name") == _NODE if by_mpi else _ancestor(one) == _TRAINER for one in jobs]
    if any(of_nodes):
        launched = by_mpi and _launcher_is_node(runtime)
        counts[of_nodes.index(True)] = max(int(nodes) - 1, 1) if launched else int(nodes)
    return counts


def _has_nodes(one: Json, runtime: Mapping[str, Any]) -> bool:
    """Whether the pods of a Job are the nodes of whose resources a TrainJob speaks."""
    if runtime.get("mlPolicy") is None:
        return False
    return _ancestor(one) == _TRAINER or (_launcher_is_node(runtime) and one.get("name") == _NODE)


def _containers(one: Json, name: str) -> Iterator[Json]:
    pod = (one["template"]["spec"].get("template") or {}).get("spec") or {}
    return (container for container in pod.get("containers") or () if container.get("name") == name)


def _give(one: Json, resources: Json) -> None:
    container = next(_containers(one, _NODE), None)
    if container is not None:
        container["resources"] = _patched(container.get("resources") or {}, resources)


def _initialized(one: Json, initializer: Json) -> None:
    """Put into the Job of an initializer what the TrainJob says of it."""
    ancestor = _ancestor(one)
    if ancestor not in _INITIALIZERS:
        return
    one["replicas"] = 1
    said: Json | None = initializer.get(_INITIALIZERS[ancestor])
    if said is None:
        return
    for container in _containers(one, ancestor):
        storage = said.get("storageUri")
        _upsert(container, [{"name": _STORAGE, "value": storage}] if storage is not None else [])
        _upsert(container, said.get("env") or ())
        if (secret := said.get("secretRef")) is not None:
            source = {"secretRef": {"name": secret.get("name")}}
            container["envFrom"] = [*(container.get("envFrom") or ()), source]


def _trained(one: Json, trainer: Json, runtime: Mapping[str, Any]) -> None:
    """Put into the Job of the trainer what the TrainJob says of it."""
    if is_trainer := _ancestor(one) == _TRAINER:
        one["replicas"] = 1
    for container in _containers(one, _NODE):
        if is_trainer:
            container.update({name: trainer[name] for name in ("image", "command", "args") if trainer.get(name)})
        if is_trainer or (_launcher_is_node(runtime) and one.get("name") == _NODE):
            _upsert(container, trainer.get("env") or ())


def _upsert(container: Json, variables: Sequence[Json]) -> None:
    """Put environment variables in the place of those with their names, or after all others."""
    if variables:
        by_name = {str(one.get("name")): one for one in container.get("env") or ()}
        container["env"] = list((by_name | {str(one.get("name")): one for one in variables}).values())


def _patched(there: Json, patch: Mapping[str, Any]) -> Json:
    """Return an object after a strategic merge patch; what is null in it, or an empty list, is not there for Go's
    types."""
    made = dict(there)
    for name, value in patch.items():
        old = made.get(name)
        if value is None or value == []:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            made[name] = _patched(old, value)
        elif isinstance(value, list) and isinstance(old, list) and name in _MERGED_BY:
            made[name] = _listed(old, value, _MERGED_BY[name])
        else:
            made[name] = copy.deepcopy(value)
    return made


def _listed(there: Sequence[Json], patch: Sequence[Json], key: str) -> list[Json]:
    """Return a list after a patch: the entries of the patch in its order; each other one before the first of those that
    it was before.
    """
    old = {str(one.get(key)): one for one in there}
    order = {name: at for at, name in enumerate(old)}
    new = {str(one.get(key)): _patched(old.get(str(one.get(key)), {}), one) for one in patch}
    left, made = [name for name in old if name not in new], []
    for name, one in new.items():
        while left and name in order and order[left[0]] < order[name]:
            made.append(old[left.pop(0)])
        made.append(one)
    return made + [old[name] for name in left]
