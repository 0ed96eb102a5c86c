"""What both stages of KEP-693's list share: the names and kinds on them, a user's job, and patience."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from tests.support.waiting import PATIENCE

NS, JOB, WL = "default", "train", "job-train-12345"
CHECK = "multikueue"
ORIGIN = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
HOME_KINDS = (
    kinds.ADMISSION_CHECKS,
    kinds.MULTIKUEUE_CONFIGS,
    kinds.MULTIKUEUE_CLUSTERS,
    kinds.CLUSTER_QUEUES,
    kinds.WORKLOADS,
    kinds.JOBS,
    kinds.JOBSETS,
)
WORKER_KINDS = (kinds.WORKLOADS, kinds.JOBS, kinds.JOBSETS)
STATUS_INTERVAL = timedelta(milliseconds=300)


async def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Poll until something holds, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.01)
    return found


def user_job(name: str = JOB, namespace: str = NS, **annotations: str) -> Json:
    """A Job as a user submits it to a MultiKueue queue."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kueue.x-k8s.io/queue-name": "user-queue"},
            "annotations": annotations,
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                }
            },
        },
    }


def condition(obj: Json | None, kind: str) -> Json | None:
    """A condition of an object, if it is True."""
    for found in ((obj or {}).get("status") or {}).get("conditions") or ():
        if found["type"] == kind and found["status"] == "True":
            return dict(found)
    return None


def check_of(workload: Json) -> Json:
    """The state of our admission check on a Workload."""
    (entry,) = workload["status"]["admissionChecks"]
    return dict(entry)
