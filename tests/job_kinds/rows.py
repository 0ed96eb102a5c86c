"""A row for each kind of job: a job of a user, its statuses, and what Kueue makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controlplane.kube.kinds import Json

TEMPLATE: Json = {"spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}


@dataclass(frozen=True, slots=True)
class Row:
    """`spec` is a user's, not suspended and not delegated; `pods` are the pod sets that follow, by name and count.

    The statuses: while its pods run, and at the two ends.
    """

    spec: Json
    pods: tuple[tuple[str, int], ...]
    running: Json
    succeeded: Json
    failed: Json
    templates: int = field(default=1)

    def job(self, **metadata: Any) -> Json:
        return {"metadata": {"namespace": "team", "name": "train", **metadata}, "spec": self.spec}


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
