"""A stage for the scheduler as a process: a simulated cluster with nodes over HTTP, a database, and replicas in this
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.scheduler import SCHEDULER_CHECKS, SchedulerService
from controlplane.app.scheduler_profiles import Setup, load
from controlplane.clock import SystemClock
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.streams import ApiServer as Port
from controlplane.clusters.transport import Transport
from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS, Json, meta
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.settings.scheduler import SchedulerSettings
from controlplane.simulation.apiserver.pod_subresources import priority
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.kubelet import Kubelet, PodTimes
from controlplane.simulation.kinds.base import ServedKind
from controlplane.simulation.kinds.nodes import NODE_KINDS
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.scheduling.volume_controller import VOLUME_KINDS, Volumes
from tests.support.waiting import PATIENCE

KINDS = (
    *NODE_KINDS,
    ServedKind(CANDIDATES, list_map_keys={"status.conditions": ("type",)}),
    ServedKind(CANDIDATE_SOURCES, status_subresource=False),
    ServedKind(POD_GROUPS, status_subresource=False),
)
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PROFILE = "controlplane"


class Cluster:
    """A simulated cluster with nodes and kubelets."""

    def __init__(self, times: PodTimes | None = None) -> None:
        clock, draw = SystemClock(), random.Random(7)
        self.store = Store(
            "target", kinds=KINDS, now=lambda: datetime.now(UTC), new_uid=lambda: f"{draw.getrandbits(96):024x}"
        )
        self.store.admission.append(priority(self.store))
        self.server = SimulatedApiServer(self.store, token="sesame")
        self.view = View(self.store, [PODS, *VOLUME_KINDS])
        self.kubelet = Kubelet("kubelet", self.view, clock, times)
        self.volumes = Volumes("volumes", self.view, clock)

    def namespace(self, name: str) -> None:
        self.store.create(NAMESPACES, {"metadata": {"name": name}})

    def node(self, name: str, *, cpu: str = "4", labels: dict[str, str] | None = None, **spec: Any) -> None:
        room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        self.store.create(NODES, {"metadata": {"name": name, "labels": {HOST: name} | (labels or {})}, "spec": spec})
        self.store.patch(NODES, "", name, {"status": {"allocatable": room, "capacity": room}}, subresource="status")

    def pod(self, name: str, *, cpu: str = "1", scheduler: str = PROFILE, **spec: Any) -> Json:
        metadata = {"name": name, "namespace": "default", "labels": spec.pop("labels", {"app": name})}
        metadata["annotations"] = spec.pop("annotations", {})
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": [container], **spec}}
        return self.store.create(PODS, body)

    def get(self, name: str, namespace: str = "default") -> Json:
        return self.store.get(PODS, namespace, name)

    def on(self, name: str) -> str:
        return str(self.get(name)["spec"].get("nodeName", ""))

    def condition(self, name: str, kind: str = "PodScheduled") -> Json:
        conditions = self.get(name)["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == kind), {})

    def pods(self) -> dict[str, Json]:
        return {obj["metadata"]["name"]: obj for obj in self.store.list(PODS)[0]}

    def told(self, name: str) -> list[tuple[str, str]]:
        """The Events about a pod: reason and note."""
        events = [obj for obj in self.store.list(EVENTS)[0] if obj["regarding"]["name"] == name]
        return [(event["reason"], event["note"]) for event in sorted(events, key=lambda event: event["eventTime"])]

    def overcommitted(self) -> list[str]:
        """Nodes on which the pods ask for more cpu than there is."""
        used: dict[str, float] = {}
        for obj in self.store.list(PODS)[0]:
            node, phase = obj["spec"].get("nodeName"), obj["status"].get("phase")
            if node and phase not in ("Succeeded", "Failed"):
                requests = obj["spec"]["containers"][0]["resources"]["requests"]
                used[node] = used.get(node, 0.0) + float(requests["cpu"])
        room = {meta(n)["name"]: float(n["status"]["allocatable"]["cpu"]) for n in self.store.list(NODES)[0]}
        return [node for node, cpu in used.items() if cpu > room.get(node, float("inf"))]


class Replica:
    """One scheduler process, in this one."""

    def __init__(
        self, cluster: Cluster, url: str, number: int, setup: Setup, settings: Settings, ports: dict[str, Any]
    ) -> None:
        self.metrics, self.health = Metrics(), Health(SCHEDULER_CHECKS)
        self.health.set("schema", True, "newest")
        self.cluster, self.stop = cluster, asyncio.Event()
        leader = msgspec.structs.replace(settings.leader, identity=f"replica-{number}")
        named = msgspec.structs.replace(settings, leader=leader)
        chosen = dataclasses.replace(ports_of(Database(url), linger=0.0), **ports)
        self.service = SchedulerService(named, setup, chosen, self._open, metrics=self.metrics, health=self.health)
        self.task: asyncio.Task[None] | None = None

    async def _open(self) -> Port:
        config = parse_kubeconfig(yaml.safe_dump(self.cluster.server.kubeconfig()).encode())
        return Transport(MANAGEMENT, config)

    def start(self) -> None:
        self.task = asyncio.create_task(self.service.run(self.stop))

    async def end(self) -> None:
        self.stop.set()
        if self.task is not None:
            await asyncio.wait_for(self.task, PATIENCE)

    async def kill(self) -> None:
        """End it as a SIGKILL does: nothing is drained, nothing is resigned."""
        term = self.service.term
        assert self.task is not None
        assert term is not None
        term.leader._holds = False  # a killed process does not resign
        term._effects._closing = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def leads(self) -> bool:
        return bool(self.metrics.registry.get_sample_value("controlplane_leader"))

    @property
    def ready(self) -> bool:
        return self.health.ready and self.leads


class Stage:
    def __init__(self, cluster: Cluster, url: str, config: str, settings: Settings) -> None:
        self.cluster, self.url, self.config, self.settings = cluster, url, config, settings
        self.replicas: list[Replica] = []
        self.ports: dict[str, Any] = {}

    async def replica(self, *, leads: bool = True, config: str | Path | None = None, **scheduler: Any) -> Replica:
        """Start one more; `scheduler`: in what its settings differ, such as `log`."""
        own = msgspec.structs.replace(self.settings.scheduler, **scheduler)
        settings = msgspec.structs.replace(self.settings, scheduler=own)
        setup = load(self.config if config is None else str(config))
        replica = Replica(self.cluster, self.url, len(self.replicas), setup, settings, self.ports)
        self.replicas.append(replica)
        replica.start()
        if leads:
            await until(lambda: replica.ready, f"replica leads: {replica.health.checks}")
        return replica

    def recorded(self, log: str, stream: str) -> int:
        """Return how many events a log has on the streams that are LIKE a pattern."""
        with psycopg.connect(self.url) as connection:
            asked = "SELECT count(*) FROM controlplane.events WHERE log = %s AND stream LIKE %s"
            row = connection.execute(asked, (log, stream)).fetchone()
        assert row is not None
        return int(row[0])

    def requests(self) -> dict[tuple[str, str, str], int]:
        """The requests that the cluster's server has had, by verb, resource and subresource."""
        return dict(self.cluster.server.counts)


async def until(holds: Callable[[], bool], what: object = "", within: float = PATIENCE) -> None:
    """Wait until something holds; AssertionError if it does not in time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        with contextlib.suppress(LookupError):
            if holds():
                return
        assert loop.time() < end, f"not within {within} s: {what or holds}"
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def staged(
    url: str, *, config: str | Path = "", times: PodTimes | None = None, scheduler: SchedulerSettings | None = None
) -> AsyncIterator[Stage]:
    """A cluster that is served, with kubelets; replicas are ended afterwards."""
    cluster = Cluster(times)
    await cluster.server.start()
    cluster.view.start()
    parts = [asyncio.create_task(part.run()) for part in (cluster.kubelet, cluster.volumes)]
    settings = Settings(scheduler=scheduler or SchedulerSettings())
    stage = Stage(cluster, url, str(config), settings)
    try:
        yield stage
    finally:
        for replica in stage.replicas:
            if replica.task is not None and not replica.task.done():
                await replica.end()
        for part in parts:
            part.cancel()
        await cluster.server.stop()
