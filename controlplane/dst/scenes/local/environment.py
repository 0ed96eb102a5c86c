"""The one cluster of the scene, everybody who acts in it, and the two ways to its API server.

In: how many CPUs each node has. Out: a store that changes by itself, through owners' controllers, kubelets, a
provisioner and Tekton in an order drawn from the seed. The controllers and the scheduler reach it over networks of
their own, so that either may fail alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

from controlplane.dst.engine.loop import VirtualClock, VirtualLoop
from controlplane.dst.engine.network import Network
from controlplane.dst.scenes.local.hosted import FLAG, RULES, RULES_KEY
from controlplane.dst.scenes.local.processes import CONTROLLERS, SCHEDULER
from controlplane.dst.scenes.workloads.environment import Driver
from controlplane.kube.kinds import JOBS, NAMESPACES, NODES, PERSISTENT_VOLUMES, PIPELINE_RUNS, PODS, Json, Kind
from controlplane.kube.well_known import HOSTNAME
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.apiserver.pod_subresources import priority
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.claims import Claims
from controlplane.simulation.controllers.job_pods import JobPods
from controlplane.simulation.controllers.kubelet import Kubelet, PodTimes
from controlplane.simulation.controllers.tekton import Tekton
from controlplane.simulation.controllers.workload_owners import Owners
from controlplane.simulation.kinds import own_cluster as kinds
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.seeding import ensure

NAMESPACE = "default"
PLACE = "cluster"
MEMORY = "64Gi"
BIG = (
    "big-1",
    "big-2",
    "big-3",
    "big-4",
    "big-5",
    "big-6",
)  # the nodes that come when all trouble ends: whatever waits for room fits
_VIEWED = (
    PODS,
    NODES,
    JOBS,
    CONFIG_MAPS,
    kinds.CLAIMS,
    PERSISTENT_VOLUMES,
    kinds.POD_GROUPS,
    kinds.DEPLOYMENTS,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    PIPELINE_RUNS,
    kinds.TASK_RUNS,
)
_POD_TIMES = PodTimes(startup=timedelta(seconds=0.5), stopping=timedelta(seconds=1))
_BUSY = 8.0  # seconds for which a cluster that forgets its history takes no watch


class NetworkPath(NamedTuple):
    """How a sort of processes gets to the cluster: what the acts that break networks look for."""

    network: Network


class OwnClusterEnvironment:
    """The cluster; `on_commit` hears of every change, `ways` are the networks by sort of process. `off`: kinds that are
    not served.
    """

    def __init__(
        self, loop: VirtualLoop, seed: str, cpus: Mapping[str, int], on_commit: Callable[[Commit], None]
    ) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        uids = random.Random(f"uids {seed}")  # noqa: S311 - reproducible on purpose
        self.store = Store(PLACE, kinds=kinds.WHOLE_KINDS, now=self.clock.now, new_uid=lambda: _uid(uids))
        self.store.admission.append(priority(self.store))
        self.off: set[str] = set()
        self.ways = {sort: Network(sort, loop, seed) for sort in (CONTROLLERS, SCHEDULER)}
        self.places = {sort: NetworkPath(network) for sort, network in self.ways.items()}
        self._view = view = View(self.store, _VIEWED)
        behaviours = [
            Owners("owners", view, self.clock),
            JobPods("jobs", view, self.clock),
            Kubelet("kubelets", view, self.clock, _POD_TIMES),
            Claims("claims", view, self.clock, provisions=True),
            Tekton("tekton", view, self.clock),
        ]
        source = random.Random(f"driver {seed}")  # noqa: S311 - reproducible on purpose
        self._driver = Driver(loop, behaviours, source)
        view.start()
        self._stop = self.store.listen(lambda commit: self._changed(commit, on_commit))
        for _, namespace in (RULES, FLAG):
            ensure(self.store, NAMESPACES, namespace)
        for name, cpu in cpus.items():
            self.node(name, cpu)
        self._driver.kick()

    def _changed(self, commit: Commit, on_commit: Callable[[Commit], None]) -> None:
        on_commit(commit)
        self._driver.kick()

    def close(self) -> None:
        """Stop everybody."""
        self._stop()
        self._driver.stopped = True
        self._view.stop()
        for way in self.ways.values():
            way.refused = True

    # --- objects -----------------------------------------------------------------------------------------------------

    def node(self, name: str, cpu: int) -> None:
        """Add a node, ready for pods."""
        ready = [{"type": "Ready", "status": "True"}]
        room = {"cpu": str(cpu), "memory": MEMORY, "pods": "110"}
        self.store.create(NODES, {"metadata": {"name": name, "labels": {HOSTNAME: name}}, "spec": {}})
        status = {"conditions": ready, "allocatable": room, "capacity": room}
        self.store.patch(NODES, "", name, {"status": status}, subresource="status")

    def make(self, kind: Kind, name: str, namespace: str = NAMESPACE, **more: object) -> Json:
        """Create an object."""
        metadata = {"name": name, **({"namespace": namespace} if kind.namespaced else {})}
        extra = more.pop("metadata", None)
        metadata |= extra if isinstance(extra, dict) else {}
        made: Json = self.store.create(kind, {"metadata": metadata, **more})
        return made

    def find(self, kind: Kind, name: str, namespace: str = NAMESPACE) -> Json | None:
        """Return an object, None if it is not there."""
        return next(
            (one.obj for one in self.store.records(kind) if (one.namespace, one.name) == (namespace, name)), None
        )

    def records(self, kind: Kind) -> list[Record]:
        """Return all objects of a kind, by place."""
        return list(self.store.records(kind))

    def everything(self) -> list[Record]:
        """Return all objects of all kinds."""
        return [
            one for kind, served in self.store.served.items() if served.stored == kind for one in self.records(kind)
        ]

    def flag(self, mode: str) -> None:
        """Set Tekton's flag."""
        ensure(self.store, CONFIG_MAPS, *FLAG, keep=False, data={"coschedule": mode})

    def rules(self, document: str) -> None:
        """Write the rules of PodGroups."""
        data = {RULES_KEY: document}
        if self.find(CONFIG_MAPS, *RULES) is None:
            self.make(CONFIG_MAPS, *RULES, data=data)
        else:
            self.store.patch(CONFIG_MAPS, RULES[1], RULES[0], {"data": data})

    def compact(self) -> None:
        """Let the cluster end its watches, be too busy for new ones for a while, and then forget its history: who
        resumes is told 410.
        """
        for way in self.ways.values():
            way.end_watches()
        self.loop.world_later(_BUSY, self.store.compact)


def _uid(source: random.Random) -> str:
    bits = f"{source.getrandbits(128):032x}"
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"
