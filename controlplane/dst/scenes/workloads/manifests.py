"""What users of a plan write: a job of each kind that the simulated clusters run, by how many CPUs it asks for.

In: a kind, a number of CPUs. Out: the job's spec, with values that its user would not like to find in the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from controlplane.dst.invariants.workloads.bodies import PRIVATE
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.job_kinds import INTEGRATIONS
from controlplane.job_kinds.kubeflow import KubeflowJob
from controlplane.kube.kinds import JOBS, JOBSETS, Json, Kind

ENDLESS: Final = frozenset({"RayCluster", "RayService", "StatefulSet", "LeaderWorkerSet"})
"""Kinds of job that run until their user takes them back."""
KINDS: Final[Mapping[str, Kind]] = {kind.kind: kind for kind in INTEGRATIONS}
"""The kinds of job that Kueue's job framework runs in the simulated clusters, by name."""
KINDS_BY_WORD: Final[Mapping[str, Kind]] = {kind.kind.lower(): kind for kind in ADAPTERS}
"""All that they run, by the word by which a job's name says its kind."""


def job_spec(cpus: int) -> Json:
    """Return the spec of a Job of one pod."""
    return {"template": _template(cpus)}


def job_set_spec(cpus: int) -> Json:
    """One driver, and as many workers as it takes."""
    parts = [("driver", 1), ("workers", cpus - 1)] if cpus > 1 else [("driver", 1)]
    return {
        "replicatedJobs": [
            {"name": name, "replicas": replicas, "template": {"spec": job_spec(1)}} for name, replicas in parts
        ]
    }


def spec_of(kind: Kind, cpus: int) -> Json:
    """Return the spec of a job of a kind."""
    adapter = ADAPTERS[kind]
    if isinstance(adapter, KubeflowJob):
        return {"runPolicy": {}, adapter.replicas: {"Worker": {"replicas": cpus, "template": _template(1)}}}
    return _SPECS[kind.kind](cpus)


def _template(cpus: int) -> Json:
    container = {
        "name": "main",
        "image": "example.com/work",
        "args": ["--token", PRIVATE],
        "env": [{"name": "TOKEN", "value": PRIVATE}],
        "resources": {"requests": {"cpu": str(cpus)}},
    }
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _ray(cpus: int) -> Json:
    """One head, and as many workers as it takes."""
    workers = [{"groupName": "small", "replicas": cpus - 1, "template": _template(1)}] if cpus > 1 else []
    return {"headGroupSpec": {"template": _template(1)}, "workerGroupSpecs": workers}


def _train(cpus: int) -> Json:
    return {"trainer": {"numNodes": cpus, "resourcesPerNode": {"requests": {"cpu": "1"}}}}


def _set(cpus: int) -> Json:
    return {"replicas": cpus, "selector": {}, "serviceName": "x", "template": _template(1)}


def _groups(cpus: int) -> Json:
    """As many groups of one pod as it takes."""
    return {"replicas": cpus, "leaderWorkerTemplate": {"size": 1, "workerTemplate": _template(1)}}


def _wrapper(cpus: int) -> Json:
    inner = {"apiVersion": "batch/v1", "kind": "Job", "spec": job_spec(1)}
    return {"components": [{"template": inner, "podSets": [{"replicas": cpus, "path": "template.spec.template"}]}]}


_SPECS: Final[Mapping[str, Callable[[int], Json]]] = {
    JOBS.kind: job_spec,
    JOBSETS.kind: job_set_spec,
    "TrainJob": _train,
    "AppWrapper": _wrapper,
    "Pod": lambda cpus: _template(cpus)["spec"],
    "StatefulSet": _set,
    "LeaderWorkerSet": _groups,
    "RayJob": lambda cpus: {"entrypoint": "python", "shutdownAfterJobFinishes": True, "rayClusterSpec": _ray(cpus)},
    "RayCluster": _ray,
    "RayService": lambda cpus: {"serveConfigV2": "a: 1", "rayClusterConfig": _ray(cpus)},
}
