"""One simulated cluster without a server or a loop: a store, its behaviours, and a clock that stands still until it is
moved.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    APPLY_PATCH,
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Json,
    Kind,
    meta,
)
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, PREBUILT, QUEUE_LABEL
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.jobs import JobController, JobPace
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.kueue.cluster import KUEUE_KINDS
from controlplane.simulation.kueue.common import Gates, timestamp
from controlplane.simulation.kueue.manager import KueueManager
from controlplane.simulation.kueue.worker import KueueWorker

RUNNING: Json = {"startTime": "2026-01-01T00:00:05Z", "active": 1, "ready": 1}


class ManualClock:
    def __init__(self) -> None:
        self._at = datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._at + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here may sleep")

    def move(self, seconds: float) -> None:
        self._elapsed += seconds


class Cluster:
    """A cluster whose controllers run when `settle` is called; `move` lets time pass and settles."""

    def __init__(self, *, manager: bool = False, gates: Gates | None = None, pace: JobPace | None = None) -> None:
        self.clock = ManualClock()
        uids = itertools.count(1)
        self.store = Store("here", kinds=DEFAULT_KINDS, now=self.clock.now, new_uid=lambda: f"uid-{next(uids)}")
        self.view = View(self.store, KUEUE_KINDS)
        make = KueueManager if manager else KueueWorker
        self.kueue = make("kueue", self.view, self.clock, gates or Gates(multikueue=manager))
        self.jobs = JobController("jobs", self.view, self.clock, pace or JobPace(duration=timedelta(seconds=10)))
        self.view.start()

    def settle(self) -> None:
        for _ in range(1000):
            if not (self.kueue.drain() + self.jobs.drain()):
                return
        raise AssertionError("the controllers do not come to rest")

    def move(self, seconds: float) -> None:
        self.clock.move(seconds)
        self.settle()

    def queues(self, cpu: str = "4", *, checks: tuple[str, ...] = (), active: bool = True, **spec: Any) -> None:
        self.store.create(
            RESOURCE_FLAVORS,
            {"metadata": {"name": "default-flavor"}, "spec": {"nodeLabels": {"pool": "general"}}},
        )
        quota = {
            "name": "default-flavor",
            "resources": [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "64Gi"}],
        }
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
        for name in checks:
            self.store.create(ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": {"controllerName": MULTIKUEUE}})
            if active:
                self.activate(name)
        groups = [{"coveredResources": ["cpu", "memory"], "flavors": [quota]}]
        self.store.create(
            CLUSTER_QUEUES,
            {
                "metadata": {"name": "cluster-queue"},
                "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec},
            },
        )
        self.local_queue("user-queue")
        self.settle()

    def activate(self, check: str, *, active: bool = True) -> None:
        conditions = [
            {
                "type": "Active",
                "status": str(active),
                "reason": "Active",
                "message": "",
                "lastTransitionTime": self.stamp(),
            }
        ]
        self.store.patch(ADMISSION_CHECKS, "", check, {"status": {"conditions": conditions}}, subresource="status")

    def local_queue(self, name: str, cluster_queue: str = "cluster-queue") -> None:
        body = {"metadata": {"namespace": "default", "name": name}, "spec": {"clusterQueue": cluster_queue}}
        self.store.create(LOCAL_QUEUES, body)

    def stamp(self) -> str:
        return timestamp(self.clock.now())

    def submit(self, name: str, *, kind: Kind = JOBS, **options: Any) -> Json:
        make = job if kind == JOBS else job_set
        return self.store.create(kind, make(name, **options))

    def job(self, name: str, kind: Kind = JOBS) -> Json:
        return self.store.get(kind, "default", name)

    def workload(self, name: str) -> Json:
        return self.store.get(WORKLOADS, "default", name)

    def workload_of(self, job_name: str) -> Json:
        found = [
            workload
            for workload in self.store.list(WORKLOADS)[0]
            if any(owner["name"] == job_name for owner in meta(workload).get("ownerReferences") or ())
        ]
        assert len(found) == 1, f"{len(found)} Workloads of {job_name}"
        return found[0]

    def status(self, name: str, changes: Json, *, manager: str = "external") -> None:
        """Write a Workload's status by merge patch, as a controller from outside might."""
        self.store.patch(WORKLOADS, "default", name, {"status": changes}, subresource="status", field_manager=manager)

    def check(self, name: str, state: str, message: str = "", **changes: Any) -> None:
        """Set the state of every check of a Workload, with whatever else belongs into the same write."""
        checks = [
            {**entry, "state": state, "message": message, "lastTransitionTime": self.stamp()}
            for entry in self.workload(name)["status"]["admissionChecks"]
        ]
        self.status(name, {"admissionChecks": checks, **changes})

    def apply_status(self, name: str, status: Json) -> None:
        """Apply a Workload's status as `kueue-admission`, by force, as MultiKueue does."""
        head = {"namespace": "default", "name": name}
        body = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": head, "status": status}
        self.store.patch(
            WORKLOADS, "default", name, body,
            content_type=APPLY_PATCH, subresource="status", field_manager="kueue-admission", force=True,
        )  # fmt: skip

    def mirror(self, name: str, status: Json, kind: Kind = JOBS) -> None:
        """Write a job's status, as whoever mirrors it from a worker does."""
        self.store.patch(kind, "default", name, {"status": status}, subresource="status", field_manager="external")


def job(
    name: str,
    *,
    cpu: str = "1",
    pods: int = 1,
    queue: str = "user-queue",
    prebuilt: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    marks = {
        **(labels or {}),
        **({QUEUE_LABEL: queue} if queue else {}),
        **({ORIGIN_LABEL: "here"} if prebuilt else {}),
    }
    notes = {**(annotations or {}), **({PREBUILT: prebuilt} if prebuilt else {})}
    return {
        "metadata": {"namespace": "default", "name": name, "labels": marks, "annotations": notes},
        "spec": {"parallelism": pods, "completions": pods, "template": template(cpu), **spec},
    }


def job_set(name: str, *, cpu: str = "1", replicas: int = 2, queue: str = "user-queue", **spec: Any) -> Json:
    workers = {
        "name": "workers",
        "replicas": replicas,
        "template": {"spec": {"parallelism": 1, "completions": 1, "template": template(cpu)}},
    }
    return {
        "metadata": {"namespace": "default", "name": name, "labels": {QUEUE_LABEL: queue}},
        "spec": {"replicatedJobs": [workers], **spec},
    }


def template(cpu: str) -> Json:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def clone(
    name: str, *, cpu: str = "1", count: int = 1, queue: str = "user-queue", priority: int = 0, **spec: Any
) -> Json:
    """A Workload without an owner, as a dispatcher puts it on a worker."""
    pod_set = {"name": "main", "count": count, "template": template(cpu)}
    return {
        "metadata": {"namespace": "default", "name": name, "labels": {ORIGIN_LABEL: "here"}},
        "spec": {"queueName": queue, "podSets": [pod_set], "priority": priority, "active": True, **spec},
    }


def says(obj: Json, type_: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition."""
    found = condition(obj, type_)
    assert found is not None, f"no condition {type_}"
    return found["status"], found["reason"], found["message"]


__all__ = ["JOBS", "JOBSETS", "WORKLOADS", "Cluster", "clone", "is_true", "job", "job_set", "says", "template"]


def dispatch(cluster: Cluster, job: str, to: str = "worker-1") -> str:
    """Nominate, select, and say that it runs there, in the writes in which a dispatching controller does."""
    name = str(meta(cluster.workload_of(job))["name"])
    owner = ("kueue-admission", cluster.apply_status) if cluster.kueue.gates.ssa else None
    if owner:
        core = cluster.workload(name)["status"]
        cluster.apply_status(name, {**core, "nominatedClusterNames": [to]})
        ready = [{**entry, "state": "Ready"} for entry in core["admissionChecks"]]
        cluster.apply_status(name, {**core, "clusterName": to, "admissionChecks": ready})
    else:
        cluster.status(name, {"nominatedClusterNames": [to]})
        cluster.check(name, "Ready", f'The workload was admitted on "{to}"', clusterName=to, nominatedClusterNames=None)
    cluster.settle()
    return name
