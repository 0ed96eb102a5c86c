"""A row for each kind of job: a job of a user, its statuses, and what Kueue makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.generic_job import RUNTIME as READ_WITH
from controlplane.kube.kinds import Json

TEMPLATE: Json = {"spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}


RUNTIME: Json = {
    "mlPolicy": {"numNodes": 1},
    "template": {
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "replicas": 1,
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "runtime"}]}}},
                    },
                }
            ]
        }
    },
}
"""A runtime of the trainer, that has nodes and nothing else."""


@dataclass(frozen=True, slots=True)
class Row:
    """`spec` is a user's, not suspended and not delegated; `pods` are the pod sets that follow, by name and count.

    The statuses: while its pods run, and at the two ends; None for a kind that has no end.
    """

    spec: Json
    pods: tuple[tuple[str, int], ...]
    running: Json
    succeeded: Json | None
    failed: Json | None
    templates: int = field(default=1)

    def job(self, **metadata: Any) -> Json:
        return {"metadata": {"namespace": "team", "name": "train", **metadata}, "spec": self.spec}

    def read(self, kind: JobKind) -> Json:
        """The job as a kind reads it, with the runtime that it names."""
        return {**self.job(), **({READ_WITH: RUNTIME} if kind.runtimes else {})}


def ended(type_: str, status: str = "True") -> Json:
    return {"conditions": [{"type": type_, "status": status, "message": f"it is {type_}"}]}


ROWS: dict[str, Row] = {
    "batch/job": Row(
        spec={"parallelism": 3, "completions": 2, "template": TEMPLATE},
        pods=(("main", 2),),
        running={"active": 2, "ready": 1, "startTime": "t"},
        succeeded=ended("Complete"),
        failed=ended("Failed"),
    ),
    "jobset.x-k8s.io/jobset": Row(
        spec={
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": {"template": TEMPLATE}}},
                {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": TEMPLATE}}},
            ]
        },
        pods=(("driver", 1), ("workers", 8)),
        running={"replicatedJobsStatus": [{"name": "driver", "active": 1, "ready": 0}]},
        succeeded=ended("Completed"),
        failed=ended("Failed"),
        templates=2,
    ),
    "tekton.dev/pipelinerun": Row(
        spec={"pipelineSpec": {"tasks": [{"name": "build"}, {"name": "test"}, {"name": "push", "runAfter": ["test"]}]}},
        pods=(("build", 1), ("test", 1)),
        running={"startTime": "t", "conditions": [{"type": "Succeeded", "status": "Unknown"}]},
        succeeded=ended("Succeeded"),
        failed=ended("Succeeded", "False"),
        templates=2,
    ),
}


def replicas(field: str, *types: str) -> Json:
    """A job of Kubeflow's with two pods of each type; the worker's number is left to its default."""
    specs = {one: {"replicas": 2, "template": TEMPLATE} for one in types}
    specs["Worker"] = {"template": TEMPLATE}
    return {"runPolicy": {"cleanPodPolicy": "None"}, field: specs}


def of_kubeflow(field: str, *types: str) -> Row:
    spec = replicas(field, *types)
    return Row(
        spec=spec,
        pods=(*((one.lower(), 2) for one in types), ("worker", 1)),
        running={"replicaStatuses": {"Worker": {"active": 1}}, **ended("Running")},
        succeeded={"replicaStatuses": {"Worker": {"succeeded": 1}}, **ended("Succeeded")},
        failed={"replicaStatuses": {"Worker": {"failed": 1}}, **ended("Failed")},
        templates=len(types) + 1,
    )


HEAD_AND_WORKERS: Json = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"groupName": "small", "replicas": 3, "numOfHosts": 2, "template": TEMPLATE}],
}
_RAY = (("head", 1), ("small", 6))

ROWS |= {
    "kubeflow.org/tfjob": of_kubeflow("tfReplicaSpecs", "Chief", "PS"),
    "kubeflow.org/pytorchjob": of_kubeflow("pytorchReplicaSpecs", "Master"),
    "kubeflow.org/xgboostjob": of_kubeflow("xgbReplicaSpecs", "Master"),
    "kubeflow.org/paddlejob": of_kubeflow("paddleReplicaSpecs", "Master"),
    "kubeflow.org/jaxjob": of_kubeflow("jaxReplicaSpecs"),
    "kubeflow.org/mpijob": of_kubeflow("mpiReplicaSpecs", "Launcher"),
    "trainer.kubeflow.org/trainjob": Row(
        spec={
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "plain"},
            "trainer": {"numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "1"}}},
            "runtimePatches": [{"manager": "kueue.x-k8s.io/manager"}, {"manager": "me"}],
        },
        pods=(("node", 3),),
        running={"jobsStatus": [{"name": "node", "active": 1}]},
        succeeded={"jobsStatus": [{"name": "node", "active": 0}], **ended("Complete")},
        failed=ended("Failed"),
    ),
    "sparkoperator.k8s.io/sparkapplication": Row(
        spec={
            "type": "Scala",
            "mode": "cluster",
            "driver": {"coreRequest": "1", "template": TEMPLATE},
            "executor": {"instances": 2, "coreRequest": "1", "template": TEMPLATE},
        },
        pods=(("driver", 1), ("executor", 2)),
        running={"applicationState": {"state": "RUNNING"}},
        succeeded={"applicationState": {"state": "COMPLETED", "errorMessage": "it is done"}},
        failed={"applicationState": {"state": "FAILED", "errorMessage": "it is broken"}},
        templates=2,
    ),
    "ray.io/rayjob": Row(
        spec={"entrypoint": "python", "shutdownAfterJobFinishes": True, "rayClusterSpec": HEAD_AND_WORKERS},
        pods=_RAY,
        running={"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"},
        succeeded={"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "it is done"},
        failed={"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "it is broken"},
        templates=2,
    ),
    "ray.io/raycluster": Row(
        spec=HEAD_AND_WORKERS, pods=_RAY, running={"state": "ready"}, succeeded=None, failed=None, templates=2
    ),
    "ray.io/rayservice": Row(
        spec={"serveConfigV2": "a: 1", "rayClusterConfig": HEAD_AND_WORKERS},
        pods=_RAY,
        running=ended("Ready"),
        succeeded=None,
        failed=None,
        templates=2,
    ),
    "pod": Row(
        spec={"containers": TEMPLATE["spec"]["containers"]},
        pods=(("main", 1),),
        running={
            "phase": "Running",
            "startTime": "t",
            "containerStatuses": [{"name": "main", "state": {"running": {}}}],
        },
        succeeded={"phase": "Succeeded", "message": "it is done"},
        failed={"phase": "Failed", "message": "it is broken"},
        templates=0,
    ),
    "deployment": Row(
        spec={"replicas": 2, "selector": {}, "template": TEMPLATE},
        pods=(("main", 2),),
        running={"replicas": 2, "readyReplicas": 1, "availableReplicas": 1},
        succeeded=None,
        failed=None,
    ),
    "statefulset": Row(
        spec={"replicas": 2, "serviceName": "s", "template": TEMPLATE},
        pods=(("main", 2),),
        running={"replicas": 2, "readyReplicas": 1, "availableReplicas": 1},
        succeeded=None,
        failed=None,
    ),
    "leaderworkerset.x-k8s.io/leaderworkerset": Row(
        spec={
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 3, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
        },
        pods=(("leader", 1), ("worker", 2)),
        running={"replicas": 2, "readyReplicas": 1, "updatedReplicas": 1},
        succeeded=None,
        failed=None,
        templates=2,
    ),
    "workload.codeflare.dev/appwrapper": Row(
        spec={
            "components": [
                {
                    "template": {"spec": {"template": TEMPLATE}},
                    "podSets": [{"replicas": 2, "path": "template.spec.template"}],
                }
            ]
        },
        pods=(("train-0", 2),),
        running={"phase": "Running", **ended("QuotaReserved")},
        succeeded={"phase": "Succeeded"},
        failed={"phase": "Failed", "conditions": [{"type": "ResourcesDeployed", "status": "False"}]},
    ),
}
