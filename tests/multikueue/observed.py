"""Objects as API servers show them, and what is made of them: for the tests of what MultiKueue observes."""

from __future__ import annotations

from typing import Any

from controlplane.kube.kinds import WORKLOADS, Json, Kind
from controlplane.runtime.controller import ObjectChange
from tests.multikueue.scene import NS, START, WL, Scene

HOME = "@management"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


def sighting(cluster: str, kind: Kind, obj: Json, *, gone: bool = False, rv: str = "42") -> ObjectChange:
    return ObjectChange(cluster, "inc", kind, obj, rv, gone)


def observe(cluster: str, kind: Kind, obj: Json, *, gone: bool = False, scene: Scene | None = None) -> Any:
    found = (scene or Scene("a")).fleet.observe(sighting(cluster, kind, obj, gone=gone), START)
    assert found is not None
    return found


def metadata(name: str = WL, **more: Any) -> Json:
    return {"namespace": NS, "name": name, "uid": f"uid-{name}", "resourceVersion": "42", "generation": 3, **more}


def workload(**changes: Any) -> Json:
    obj: Json = {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": metadata(
            labels={"kueue.x-k8s.io/job-uid": "job-uid", "team": "x"},
            annotations={"note": "y"},
            ownerReferences=[
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
            ],
        ),
        "spec": {
            "queueName": "user-queue",
            "active": True,
            "priority": 7,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}],
        },
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "m"},
            ],
            "admissionChecks": [
                {
                    "name": "multikueue",
                    "state": "Retry",
                    "message": "why",
                    "lastTransitionTime": "T",
                    "retryCount": 2,
                    "requeueAfterSeconds": 8,
                }
            ],
            "admission": {
                "clusterQueue": "cq",
                "podSetAssignments": [{"name": "main", "count": 1, "delayedTopologyRequest": "Pending"}],
            },
            "clusterName": "a",
            "nominatedClusterNames": ["a", "b"],
        },
    }
    return {**obj, **changes}


def job(name: str = "train", **changes: Any) -> Json:
    obj: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(name, labels={"kueue.x-k8s.io/queue-name": "user-queue"}),
        "spec": {"suspend": False, "managedBy": "kueue.x-k8s.io/multikueue", "template": {"spec": {}}},
        "status": {"active": 1, "conditions": [{"type": "Suspended", "status": "False"}]},
    }
    return {**obj, **changes}


def remote_job(**changes: Any) -> Json:
    found = job(**changes)
    found["metadata"] = {**found["metadata"], "annotations": {PREBUILT: WL}}
    return found
