"""A management cluster and its workers, simulated: stores, servers, behaviours, and what an administrator would have
set up in them.

In: a description of each cluster, and a folder to remember them in, if they shall survive. Out: running API servers (on
127.0.0.1 unless another address is given), a kubeconfig file for each, and access to every cluster's store, faults and
behaviours. Without servers (`assemble`, `settle`) the same world runs synchronously, for simulations that own time.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import random
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
import structlog
import yaml

from controlplane.clock import Clock, SystemClock
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    NODES,
    PIPELINE_RUNS,
    PODS,
    RESOURCE_FLAVORS,
    SECRETS,
    Json,
)
from controlplane.kube.kueue_names import MULTIKUEUE
from controlplane.simulation.apiserver.faults import Faults
from controlplane.simulation.apiserver.openapi import GIT_VERSION
from controlplane.simulation.apiserver.persistence import StoreSnapshot, load, snapshot
from controlplane.simulation.apiserver.pods import stamp
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import Behaviour, View
from controlplane.simulation.controllers.jobs import JobController, JobPace
from controlplane.simulation.controllers.shown_pods import ShownPods, node_named
from controlplane.simulation.kinds.base import DEFAULT_KINDS, ServedKind
from controlplane.simulation.kueue.cluster import KUEUE_KINDS, Kueue
from controlplane.simulation.kueue.common import Gates
from controlplane.simulation.kueue.manager import KueueManager
from controlplane.simulation.kueue.pipelineruns import PipelineRunFramework
from controlplane.simulation.kueue.pods import PodFramework
from controlplane.simulation.kueue.sets import SETS, SetFramework
from controlplane.simulation.kueue.worker import KueueWorker
from controlplane.simulation.seeding import ensure
from controlplane.tasks import end, to_the_end

MANAGEMENT: Final = "management"
KUEUE_NAMESPACE: Final = "kueue-system"
CHECK: Final = "multikueue"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """One cluster: its quota by resource, the names of its queues, how its jobs run, and Kueue's gates.

    `namespaces` get the LocalQueue each. `port` 0 takes a free one, and the same again at the next start if the world
    is remembered; `address` is the IP address to listen on. `history` is the number of changes of a kind that watches
    can resume from. `preempts`: a Workload preempts those of lower priority. `pods`: Kueue's integration for plain pods
    is on, and pods run. `job_pods`: Jobs have pods to look at, on a Node. `sets`: those for StatefulSets and
    LeaderWorkerSets are; `kinds` has them then. `kueue`: Kueue's manager acts there; otherwise its objects are there
    and nobody is."""

    quota: Mapping[str, str] = field(default_factory=lambda: {"cpu": "64", "memory": "256Gi"})
    flavor: str = "default-flavor"
    namespaces: tuple[str, ...] = ("default",)
    cluster_queue: str = "cluster-queue"
    local_queue: str = "user-queue"
    strategy: str = "BestEffortFIFO"
    preempts: bool = False
    gates: Gates = field(default_factory=Gates)
    pace: JobPace = field(default_factory=JobPace)
    kinds: tuple[ServedKind, ...] = DEFAULT_KINDS
    pods: bool = False
    job_pods: bool = False
    sets: bool = False
    kueue: bool = True
    port: int = 0
    address: str = "127.0.0.1"
    history: int = 10_000


class SimulatedCluster:
    """One cluster of a world: what it holds, who acts in it, and the server in front of it."""

    def __init__(self, name: str, spec: ClusterSpec, clock: Clock, rng: random.Random, *, manages: bool) -> None:
        self.name, self.spec = name, spec
        self._uids = random.Random(rng.getrandbits(64))  # noqa: S311 - reproducible on purpose
        self.token = f"{rng.getrandbits(128):032x}"
        self.port = spec.port
        self.store = Store(name, kinds=spec.kinds, now=clock.now, new_uid=self._new_uid, history=spec.history)
        self.faults = Faults(rng.getrandbits(32))
        kinds = (
            *KUEUE_KINDS,
            PIPELINE_RUNS,
            *([PODS] if spec.pods or spec.job_pods else []),
            *(one.kind for one in SETS if spec.sets),
        )
        self.view = View(self.store, [kind for kind in kinds if kind in self.store.served])
        make: type[Kueue] = KueueManager if manages else KueueWorker
        self.kueue = make(f"kueue of {name}", self.view, clock, spec.gates)
        self.jobs = JobController(f"jobs of {name}", self.view, clock, spec.pace)
        served = PIPELINE_RUNS in self.store.served and CLUSTER_QUEUES in self.store.served
        self.runs = PipelineRunFramework(f"tekton-kueue of {name}", self.kueue) if served else None
        self.pods = PodFramework(f"pods of {name}", self.kueue, spec.pace, manages=spec.kueue) if spec.pods else None
        self.shown_pods: ShownPods | None = None
        if spec.job_pods:
            self.shown_pods = ShownPods(f"pods of jobs of {name}", self.view, clock, self.node)
        self.sets = SetFramework(f"sets of {name}", self.kueue, manages=spec.kueue) if spec.sets else None
        self.server = SimulatedApiServer(self.store, token=self.token, faults=self.faults)

    @property
    def node(self) -> str:
        """The name of the Node on which pods of Jobs are shown."""
        return f"{self.name}-node"

    @property
    def behaviours(self) -> tuple[Behaviour, ...]:
        """Everybody who acts in the cluster."""
        more = (self.runs, self.pods, self.sets, self.shown_pods)
        kueue = (self.kueue,) if self.spec.kueue else ()
        return (*kueue, self.jobs, *(one for one in more if one is not None))

    def remember(self, token: str, port: int) -> None:
        """Take over the token and the port of an earlier run."""
        self.token = self.server.token = token
        self.port = self.spec.port or port

    async def serve(self) -> None:
        """Start the server. OSError if the port that was asked for is taken; one that was only remembered is
        replaced.
        """
        try:
            await self.server.start(self.port, self.spec.address)
        except OSError:
            if self.spec.port or not self.port:
                raise
            await self.server.start(address=self.spec.address)
        self.port = int(self.server.url.rpartition(":")[2])

    def vary_uids(self) -> None:
        """Draw other uids than an earlier run with the same seed has drawn."""
        self._uids = random.Random(f"{self._uids.getrandbits(64)}-{self.store.version}")  # noqa: S311

    def seed(self) -> None:
        """Create namespaces, flavor and queues, as far as they are not there; no queues in a cluster without Kueue."""
        spec, store = self.spec, self.store
        for namespace in spec.namespaces:
            ensure(store, NAMESPACES, namespace)
        if self.shown_pods is not None:
            shown = node_named(self.node, spec.quota, GIT_VERSION, stamp(store.now()))
            ensure(store, NODES, self.node, metadata=shown["metadata"], spec=shown["spec"])
            store.patch(
                NODES, "", self.node, {"status": shown["status"]}, subresource="status", field_manager="kubelet"
            )
        if CLUSTER_QUEUES not in store.served:
            return
        ensure(store, RESOURCE_FLAVORS, spec.flavor, spec={})
        quota = [{"name": name, "nominalQuota": amount} for name, amount in spec.quota.items()]
        group = {"coveredResources": list(spec.quota), "flavors": [{"name": spec.flavor, "resources": quota}]}
        queue: Json = {"namespaceSelector": {}, "queueingStrategy": spec.strategy, "resourceGroups": [group]}
        if spec.preempts:
            queue["preemption"] = {"withinClusterQueue": "LowerPriority"}
        if isinstance(self.kueue, KueueManager):
            queue["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
        ensure(store, CLUSTER_QUEUES, spec.cluster_queue, spec=queue)
        for namespace in spec.namespaces:
            ensure(store, LOCAL_QUEUES, spec.local_queue, namespace, spec={"clusterQueue": spec.cluster_queue})

    def _new_uid(self) -> str:
        bits = f"{self._uids.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"


class World:
    """One management cluster and its workers.

    `folder` is where the kubeconfig files go (None: nowhere), `data` where the clusters are remembered (None: they are
    not); both are made if need be. `clock` and `rng` make a run repeatable. `clusters` holds every cluster by name, the
    management cluster as `management`.
    """

    def __init__(
        self,
        management: ClusterSpec,
        workers: Mapping[str, ClusterSpec],
        *,
        folder: Path | None = None,
        data: Path | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        save_period: float = 10.0,
    ) -> None:
        if MANAGEMENT in workers:
            raise ValueError(f"a worker cannot be called {MANAGEMENT}")
        self._folder, self._data, self._save_period = folder, data, save_period
        self.clock: Clock = clock or SystemClock()
        source = rng or random.SystemRandom()
        specs = {MANAGEMENT: management, **workers}
        self.clusters = {
            name: SimulatedCluster(name, spec, self.clock, source, manages=name == MANAGEMENT)
            for name, spec in specs.items()
        }
        self._saved: dict[str, int] = {}
        self._saving = asyncio.Lock()  # one file has one writer at a time
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def management(self) -> SimulatedCluster:
        """The management cluster."""
        return self.clusters[MANAGEMENT]

    @property
    def workers(self) -> dict[str, SimulatedCluster]:
        """The worker clusters by name."""
        return {name: cluster for name, cluster in self.clusters.items() if name != MANAGEMENT}

    def assemble(self) -> None:
        """Recall what is remembered and set up what is missing. ValueError for files that are no snapshots."""
        if self._data is not None:
            self._data.mkdir(parents=True, exist_ok=True)
            self._recall(self._data)
        for cluster in self.clusters.values():
            cluster.view.start()
            cluster.seed()
        store = self.management.store
        if CLUSTER_QUEUES not in store.served:
            return
        ensure(store, NAMESPACES, KUEUE_NAMESPACE)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CHECK}
        ensure(store, ADMISSION_CHECKS, CHECK, spec={"controllerName": MULTIKUEUE, "parameters": parameters})
        ensure(store, MULTIKUEUE_CONFIGS, CHECK, spec={"clusters": list(self.workers)})
        for name in self.workers:
            source = {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}
            ensure(store, MULTIKUEUE_CLUSTERS, name, spec={"clusterSource": source})

    def settle(self, rounds: int = 10_000) -> None:
        """Let every behaviour act until none has anything left to do now. RuntimeError if they do not come to rest."""
        behaviours = [behaviour for cluster in self.clusters.values() for behaviour in cluster.behaviours]
        for _ in range(rounds):
            if not sum(behaviour.drain() for behaviour in behaviours):
                return
        raise RuntimeError(f"the world did not settle within {rounds} rounds")

    async def start(self) -> None:
        """Assemble the world, serve it, and let everybody in it act. OSError if a port is taken or a file cannot be
        written.
        """
        self.assemble()
        try:
            for cluster in self.clusters.values():
                await cluster.serve()
            await to_the_end(self._write_access)
        except BaseException:
            await self._close()
            raise
        self._connect()
        for cluster in self.clusters.values():
            for behaviour in cluster.behaviours:
                self._spawn(behaviour.run(), behaviour.name)
        if self._data is not None:
            self._spawn(self._save_for_ever(), "saving")

    async def stop(self) -> None:
        """Stop everybody, close the servers, and remember the clusters. OSError if they cannot be written."""
        try:
            await self._close()
        finally:
            await self.save()

    async def save(self) -> None:
        """Write every cluster that has changed since it was last written; does nothing in a world that is not
        remembered.
        """
        if self._data is None:
            return
        async with self._saving:
            await self._save_into(self._data)

    async def _save_into(self, data: Path) -> None:
        for name, cluster in self.clusters.items():
            if self._saved.get(name) != cluster.store.version:
                taken = snapshot(cluster.store)
                await _written(taken, data / f"{name}.jsonl")
                self._saved[name] = taken.version

    def _recall(self, data: Path) -> None:
        known: Json = orjson.loads(path.read_bytes()) if (path := data / "world.json").exists() else {}
        for name, cluster in self.clusters.items():
            if load(cluster.store, data / f"{name}.jsonl"):
                cluster.vary_uids()
            if name in known:
                cluster.remember(known[name]["token"], known[name]["port"])

    def _write_access(self) -> None:
        """Write the kubeconfig files, and tokens and ports for the next start. They are for their owner's eyes."""
        if self._data is not None:
            access = {name: {"token": cluster.token, "port": cluster.port} for name, cluster in self.clusters.items()}
            _write_private(self._data / "world.json", orjson.dumps(access))
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, cluster in self.clusters.items():
                text = yaml.safe_dump(cluster.server.kubeconfig(for_kubectl=True), sort_keys=False)
                _write_private(self._folder / f"{name}.kubeconfig", text.encode())

    def _connect(self) -> None:
        """Put each worker's kubeconfig into its Secret on the management cluster."""
        for name, cluster in self.workers.items():
            text = yaml.safe_dump(cluster.server.kubeconfig(), sort_keys=False)
            data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
            ensure(
                self.management.store, SECRETS, secret_name(name), KUEUE_NAMESPACE, keep=False, type="Opaque", data=data
            )

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(_report)
        self._tasks.append(task)

    async def _save_for_ever(self) -> None:
        while True:
            await self.clock.sleep(self._save_period)
            await self.save()

    async def _close(self) -> None:
        async with contextlib.AsyncExitStack() as last_to_first:
            for cluster in self.clusters.values():
                last_to_first.callback(cluster.view.stop)
                last_to_first.push_async_callback(cluster.server.stop)
            tasks, self._tasks = self._tasks, []
            await end(*tasks)


async def _written(taken: StoreSnapshot, path: Path) -> None:
    """Write a snapshot; whoever is cancelled waits for its end, so that nobody else writes the file meanwhile."""
    await to_the_end(functools.partial(taken.write, path))


def secret_name(worker: str) -> str:
    """Return the name of the Secret in `kueue-system` that holds a worker's kubeconfig."""
    return f"{worker}-kubeconfig"


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(content)


def _report(task: asyncio.Task[None]) -> None:
    """Say so when a behaviour ends by an error, since nobody waits for it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a simulated controller has died", controller=task.get_name(), exc_info=error)
