"""A management cluster and workers with nodes, Tekton and tekton-kueue over HTTP, and a service that dispatches
PipelineRuns between them.

In: what each worker has. Out: runs submitted, workers cut and healed; objects, the log and what people are told to see.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from controlplane.clock import SystemClock
from controlplane.clusters.protocol import ApiError
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.local.witness import Witness
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.kinds.nodes import SCHEDULING_KINDS
from controlplane.simulation.kinds.own_cluster import CLAIMS, LOCAL_KINDS, TASK_RUNS
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import ClusterSpec, World
from tests.outages.stage import Stage, settings
from tests.support.machinery import Machinery

NS, RUN = "default", "build"
OURS = "kueue.x-k8s.io/multikueue"
TEKTON = "tekton-pipelines"
KINDS = (*LOCAL_KINDS, *(served for served in SCHEDULING_KINDS if served.kind == kinds.STORAGE_CLASSES))
DISPATCHED = ("batch/job", "jobset.x-k8s.io/jobset", "tekton.dev/pipelinerun")


class Fleet(Stage):
    """See the module."""

    def __init__(self, url: str, folder: Path, *workers: str, cpu: str = "100", **more: Any) -> None:
        super().__init__(url, folder, *workers, settings=settings(kinds=DISPATCHED, **more))
        spec = ClusterSpec(kinds=KINDS, quota={"cpu": cpu, "memory": "100Gi"})
        self.world = World(spec, dict.fromkeys(workers, spec), folder=folder)
        self.witness = Witness(self.world)
        self._stack = contextlib.AsyncExitStack()
        self._prepared = False

    async def start(self) -> None:
        for name, cluster in self.world.workers.items():
            machinery = Machinery(name, cluster.store, SystemClock())
            await self._stack.enter_async_context(machinery.running())
            ensure(cluster.store, kinds.NAMESPACES, TEKTON)
            self.flag(name, "disabled")  # nobody makes placeholders here
            self.node(name)
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        await self._stack.aclose()

    # what workers have

    def make(self, cluster: str, kind: Kind, name: str, namespace: str = NS, **more: Any) -> Json:
        metadata = {"name": name, **({"namespace": namespace} if kind.namespaced else {}), **more.pop("metadata", {})}
        made: Json = self.world.clusters[cluster].store.create(kind, {"metadata": metadata, **more})
        return made

    def node(self, cluster: str, name: str = "n1", cpu: str = "8") -> None:
        self.make(cluster, kinds.NODES, name, metadata={"labels": {"kubernetes.io/hostname": name}}, spec={})
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
        }
        self.worker(cluster).store.patch(kinds.NODES, "", name, {"status": status}, subresource="status")

    def claim(self, cluster: str, name: str = "data") -> None:
        self.make(cluster, CLAIMS, name, spec={"accessModes": ["ReadWriteOnce"]})

    def flag(self, cluster: str, mode: str) -> None:
        ensure(self.worker(cluster).store, CONFIG_MAPS, "feature-flags", TEKTON, keep=False, data={"coschedule": mode})

    # runs

    def submit_run(self, *workspaces: Json, duration: str = "200ms", cpu: str = "1", **annotations: str) -> Json:
        """A run of two tasks, one after the other, for the queue that leads to MultiKueue."""
        step = {"name": "s", "computeResources": {"requests": {"cpu": cpu}}}
        uses = [{"name": one["name"]} for one in workspaces]
        tasks = [
            {"name": "one", "taskSpec": {"steps": [step]}, "workspaces": uses},
            {"name": "two", "taskSpec": {"steps": [step]}, "workspaces": uses, "runAfter": ["one"]},
        ]
        notes = {DURATION: duration, **annotations}
        labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
        spec = {"managedBy": OURS, "pipelineSpec": {"tasks": tasks, "workspaces": uses}, "workspaces": list(workspaces)}
        return self.make(
            "management", kinds.PIPELINE_RUNS, RUN, metadata={"labels": labels, "annotations": notes}, spec=spec
        )

    def run(self, cluster: str = "management") -> Json | None:
        with contextlib.suppress(ApiError):
            found: Json = self.world.clusters[cluster].store.get(kinds.PIPELINE_RUNS, NS, RUN)
            return found
        return None

    def copies(self) -> set[str]:
        return {name for name in self.world.workers if self.run(name)}

    def workload_of_run(self) -> Json | None:
        found = [
            one for one in self.manager.store.list(kinds.WORKLOADS)[0] if meta(one)["name"].startswith("pipelinerun-")
        ]
        return found[0] if found else None

    def check_message(self) -> str:
        checks = ((self.workload_of_run() or {}).get("status") or {}).get("admissionChecks") or [{}]
        return str(checks[0].get("message") or "")

    def succeeded(self, cluster: str = "management") -> bool:
        entries = ((self.run(cluster) or {}).get("status") or {}).get("conditions") or []
        return any(one["type"] == "Succeeded" and one["status"] == "True" for one in entries)

    def finished_run(self) -> bool:
        """Whether the run has an end here, good or bad."""
        entries = ((self.run() or {}).get("status") or {}).get("conditions") or []
        return any(one["type"] == "Succeeded" and one["status"] != "Unknown" for one in entries)

    def started(self, cluster: str) -> bool:
        return bool(((self.run(cluster) or {}).get("status") or {}).get("startTime"))

    def tasks(self, cluster: str) -> list[str]:
        return sorted(meta(one)["name"] for one in self.worker(cluster).store.list(TASK_RUNS)[0])

    def notes(self) -> list[str]:
        """The notes of the Kubernetes Events that we wrote."""
        return [str(one.get("note")) for one in self.manager.store.list(kinds.EVENTS)[0]]


def existing(name: str, claim: str) -> Json:
    """A workspace on a claim that is there already."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}
