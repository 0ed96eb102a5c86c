"""Tells of TrainJobs and their runtimes what the log may have, and what suffices to tell which pods follow from both.

In: specs. Out: the same specs, with digests where a container says something else than what it asks for. What is made
of two outlines (`train_runtime`) is the outline of what is made of the specs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.kube.kinds import Json, nested
from controlplane.kube.kueue_names import KUEUE_PREFIX
from controlplane.kube.pod_templates import digest, stored_template

_AS_IT_IS = frozenset({"name", "resources", "securityContext", "envFrom"})
_KEYED = {"env": "name", "volumeMounts": "mountPath"}
_OF_PODS = ("nodeSelector", "tolerations", "schedulingGates", "priorityClassName")
_CONTAINERS = ("containers", "initContainers")


def template_outline(template: Mapping[str, Any]) -> Json:
    """Return of a pod template what is compared, and what says where its pods may run."""
    stored = stored_template(dict(template))
    metadata, spec = stored["metadata"], stored["spec"]
    made: Json = {name: spec[name] for name in _OF_PODS if name in spec}
    for field in _CONTAINERS:
        if field in spec:
            made[field] = [_container(one) for one in spec[field]]
    notes = {name: one for name, one in (metadata.get("annotations") or {}).items() if name.startswith(KUEUE_PREFIX)}
    said = {"labels": metadata.get("labels"), "annotations": notes}
    return {"metadata": {name: one for name, one in said.items() if one}, "spec": made}


def job_outline(spec: Mapping[str, Any]) -> Json:
    """Return the outline of a TrainJob's spec."""
    made: Json = {"runtimeRef": spec.get("runtimeRef") or {}}
    if trainer := spec.get("trainer"):
        made["trainer"] = _trainer(trainer)
    if initializer := spec.get("initializer"):
        said = {name: initializer.get(name) for name in ("dataset", "model")}
        made["initializer"] = {name: _initializer(one) for name, one in said.items() if one is not None}
    patches = []
    for one in spec.get("runtimePatches") or ():
        inner = nested(one, "trainingRuntimeSpec", "template", "spec")
        template = {"spec": {"replicatedJobs": [_job(job) for job in inner.get("replicatedJobs") or ()]}}
        patches.append({"manager": one.get("manager"), "trainingRuntimeSpec": {"template": template}})
    return {**made, "runtimePatches": patches}


def _trainer(said: Mapping[str, Any]) -> Json:
    named = {name: said[name] for name in ("image", "command", "args", "env") if said.get(name)}
    counted = {name: said[name] for name in ("numNodes", "resourcesPerNode") if said.get(name) is not None}
    return {**_stored_container(named), **counted}


def runtime_outline(spec: Mapping[str, Any]) -> Json:
    """Return the outline of a runtime's spec."""
    jobs = nested(spec, "template", "spec").get("replicatedJobs") or ()
    made: Json = {"template": {"spec": {"replicatedJobs": [_job(one) for one in jobs]}}}
    if (policy := spec.get("mlPolicy")) is not None:
        mpi = policy.get("mpi")
        said = {"runLauncherAsNode": mpi.get("runLauncherAsNode") is True} if mpi is not None else None
        made["mlPolicy"] = {"numNodes": policy.get("numNodes"), **({"mpi": said} if said is not None else {})}
    if nested(spec, "podGroupPolicy").get("coscheduling") is not None:
        made["podGroupPolicy"] = {"coscheduling": {}}
    return made


def _job(one: Mapping[str, Any]) -> Json:
    template = one.get("template") or {}
    spec = template.get("spec") or {}
    inner: Json = {name: spec[name] for name in ("parallelism", "completions") if spec.get(name) is not None}
    if spec.get("template"):
        inner["template"] = template_outline(spec["template"])
    labels = (template.get("metadata") or {}).get("labels") or {}
    made = {name: one[name] for name in ("name", "replicas") if one.get(name) is not None}
    return {**made, "template": {**({"metadata": {"labels": labels}} if labels else {}), "spec": inner}}


def _initializer(said: Mapping[str, Any]) -> Json:
    env = {"env": _stored_container({"env": said["env"]})["env"]} if said.get("env") else {}
    storage = {"storageUri": digest({"value": said["storageUri"]})} if said.get("storageUri") is not None else {}
    secret = {"secretRef": said["secretRef"]} if said.get("secretRef") is not None else {}
    return {**storage, **env, **secret}


def _stored_container(container: Json) -> Json:
    (found,) = template_outline({"spec": {"containers": [container]}})["spec"]["containers"]
    return {name: one for name, one in found.items() if name != "resources"}


def _container(one: Json) -> Json:
    made: Json = {}
    for name, value in one.items():
        if name in _AS_IT_IS:
            made[name] = value
        elif name in _KEYED:
            made[name] = [_entry(entry, _KEYED[name]) for entry in value]
        else:
            made[name] = digest(value)
    return made


def _entry(entry: Json, key: str) -> Json:
    said = {name: value for name, value in entry.items() if name != key and value != ""}
    return {key: entry.get(key), "value": digest(said)}
