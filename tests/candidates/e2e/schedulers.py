"""A stage on which each target has nodes, kubelets and a real scheduler with the plugin Gang, in a log of its own,
instead of a double.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.scheduler import SCHEDULER_CHECKS, SchedulerService
from controlplane.app.scheduler_profiles import load
from controlplane.clock import SystemClock
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.streams import ApiServer as Port
from controlplane.clusters.transport import Transport
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, Json, meta
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.settings.model import LeaderSettings
from controlplane.settings.scheduler import SchedulerSettings
from controlplane.simulation.apiserver.pod_subresources import priority
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.kubelet import Kubelet
from controlplane.simulation.kinds.base import ServedKind
from controlplane.simulation.kinds.candidates import CANDIDATE_KINDS
from controlplane.simulation.kinds.nodes import NODE_KINDS
from controlplane.simulation.world import ClusterSpec, SimulatedCluster, World
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.candidates.e2e.stage import NS, SKEW, Stage
from tests.outages.stage import keep_tasks_apart
from tests.support.waiting import PATIENCE

KINDS = (*NODE_KINDS, *CANDIDATE_KINDS, ServedKind(POD_GROUPS, status_subresource=False))
PROFILE: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "podMaxBackoffSeconds": 1,
    "profiles": [
        {
            "schedulerName": "controlplane",
            "plugins": {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}},
            "pluginConfig": [{"name": "Gang", "args": {"maxBackoffSeconds": 1}}],
        }
    ],
}


class Beside:
    """The scheduler and the kubelets of one target."""

    def __init__(self, cluster: SimulatedCluster, url: str, config: Path) -> None:
        self.cluster = cluster
        self.view = View(cluster.store, [PODS, NODES])
        self.kubelet = Kubelet(f"kubelets of {cluster.name}", self.view, SystemClock())
        self.health = Health(SCHEDULER_CHECKS)
        self.health.set("schema", True, "newest")
        settings = Settings(
            scheduler=SchedulerSettings(log=f"scheduler-{cluster.name}", clock_skew=SKEW),
            leader=LeaderSettings(identity=f"scheduler-{cluster.name}"),
        )
        self.service = SchedulerService(
            settings, load(str(config)), ports_of(Database(url)), self._open, metrics=Metrics(), health=self.health
        )
        self.stop = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def _open(self) -> Port:
        config = parse_kubeconfig(yaml.safe_dump(self.cluster.server.kubeconfig()).encode())
        return Transport(MANAGEMENT, config)

    def start(self) -> None:
        self.view.start()
        self.tasks = [asyncio.create_task(self.kubelet.run()), asyncio.create_task(self.service.run(self.stop))]

    async def end(self) -> None:
        self.stop.set()
        await asyncio.wait(self.tasks[1:], timeout=PATIENCE)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.view.stop()


class Scheduled(Stage):
    """See the module."""

    def __init__(self, url: str, folder: Path, *targets: str, **candidates: Any) -> None:
        super().__init__(url, folder, *targets, **candidates)
        spec = ClusterSpec(kinds=KINDS)
        self.world = World(spec, dict.fromkeys(targets, spec), folder=folder)
        self.beside: dict[str, Beside] = {}
        self.config = folder / "scheduler.yaml"
        self.config.write_text(yaml.safe_dump(PROFILE))

    async def start(self) -> None:
        keep_tasks_apart()
        await self.world.start()
        for name, cluster in self.world.workers.items():
            self.beside[name] = Beside(cluster, self.url, self.config)
            self.invite(name)
            self.beside[name].start()
        await self.until(lambda: all(one.health.ready for one in self.beside.values()), "the schedulers are ready")
        await self.up()

    async def stop(self) -> None:
        for one in self.beside.values():
            await one.end()
        await super().stop()

    # --- clusters ----------------------------------------------------------------------------------------------------

    def node(self, target: str, name: str, cpu: str) -> None:
        store, room = self.world.clusters[target].store, {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        store.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {}})
        store.patch(NODES, "", name, {"status": {"allocatable": room, "capacity": room}}, subresource="status")

    def group(self, name: str, least: int, *, everywhere: bool = False) -> None:
        """Create a PodGroup here, or also in every target."""
        body = {"metadata": {"name": name, "namespace": NS}, "spec": {"minMember": least}}
        for cluster in self.world.clusters.values() if everywhere else [self.world.management]:
            cluster.store.create(POD_GROUPS, msgspec.json.decode(msgspec.json.encode(body)))

    def important(self, target: str) -> None:
        """Have a target resolve priorities, and know an important one."""
        store = self.world.clusters[target].store
        store.admission.append(priority(store))
        store.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})

    def fill(self, target: str, name: str) -> None:
        """Run a pod of the target's own, of low priority."""
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
        head = {"name": name, "namespace": NS, "labels": {"app": "low"}}
        spec = {"schedulerName": "controlplane", "containers": [container]}
        self.world.clusters[target].store.create(PODS, {"metadata": head, "spec": spec})

    def low(self, target: str) -> int:
        """How many of those are on nodes."""
        records = self.world.clusters[target].store.records(PODS)
        low = [record.obj for record in records if meta(record.obj)["labels"].get("app") == "low"]
        return sum(bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in meta(pod) for pod in low)

    def on(self, app: str) -> list[str]:
        """The targets in which a source pod is on a node."""
        return [
            name
            for name, cluster in self.world.workers.items()
            for record in cluster.store.records(PODS)
            if record.obj["spec"].get("nodeName") and meta(record.obj)["labels"].get("app") == app
        ]
