"""The clusters of a run: a source that sends pods, targets with nodes and kubelets, and two ways to each target.

In: how many nodes each target has. Out: stores that change by themselves. The source's process reaches a target over
one network, the scheduler beside it over another: `ways` has both, so that either may fail while the other carries."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import CANDIDATE_LABEL, CANDIDATE_SOURCES, CANDIDATE_TARGETS
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.network import Network, Storm
from controlplane.dst.scenes.workloads.environment import (
    BUSY,
    Backup,
    ClusterEnvironment,
    OnCommit,
    WorkloadEnvironment,
)
from controlplane.kube.kinds import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, SERVICES, Json, Kind, meta
from controlplane.simulation.apiserver import errors
from controlplane.simulation.apiserver.pod_subresources import priority
from controlplane.simulation.controllers.behaviour import Behaviour, View
from controlplane.simulation.controllers.kubelet import Kubelet, PodTimes
from controlplane.simulation.kinds.base import CONFIG_MAPS, DEFAULT_KINDS, ServedKind
from controlplane.simulation.kinds.candidates import CANDIDATE_KINDS
from controlplane.simulation.kinds.nodes import NODE_KINDS
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import MANAGEMENT, ClusterSpec

CAMPUS = "campus"  # the source's name, as its invitations spell it
NAMESPACE = "default"
NEAR = "near-"  # before a target's name: the way of the scheduler beside it
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
HIGH = "high"
CPUS = 4  # of a node


class CandidateEnvironment(WorkloadEnvironment):
    """All clusters; `nodes` is how many each target has, the source none. `follows`: targets let Services come with a
    pod.
    """

    def __init__(
        self, loop: VirtualLoop, seed: str, nodes: Mapping[str, int], on_commit: OnCommit, *, follows: bool = False
    ) -> None:
        self.nodes, self.follows = dict(nodes), follows
        self.virtual = False
        self._kubelets = random.Random(f"kubelets {seed}")  # noqa: S311 - reproducible on purpose
        self.ways: dict[str, Network] = {}
        self.idle: dict[str, str] = {}  # targets that do not do their part: "silent", or "forbidding"
        self._views: dict[str, View] = {}
        super().__init__(loop, seed, dict.fromkeys([MANAGEMENT, *nodes], 64), on_commit)
        for place in self.places.values():
            place.network = Network(place.name, loop, seed, hasty=True)
        self.ways = {name: place.network for name, place in self.places.items()}
        self.ways |= {f"{NEAR}{name}": Network(f"{NEAR}{name}", loop, seed, hasty=True) for name in nodes}
        for name in nodes:
            self.furnish(name)
            self.allow(name)
        ensure(self.management.store, CONFIG_MAPS, "settings", NAMESPACE, data={"mode": "fast"})
        if follows:
            ports = [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}]
            spec = {"type": "NodePort", "selector": {"app": "settings"}, "ports": ports}
            ensure(self.management.store, SERVICES, "settings", NAMESPACE, spec=spec)

    def _spec(self, name: str, cpu: int) -> ClusterSpec:
        home = (*DEFAULT_KINDS, ServedKind(POD_GROUPS, status_subresource=False), ServedKind(SERVICES))
        return ClusterSpec(kinds=(*(home if name == MANAGEMENT else NODE_KINDS), *CANDIDATE_KINDS))

    def _behaviours(self, place: ClusterEnvironment) -> Sequence[Behaviour]:
        if place.name == MANAGEMENT:
            return place.cluster.behaviours
        store, draw = place.store, self._kubelets
        store.admission.append(priority(store))
        store.admission.append(self._forbid(place.name))
        view = View(store, [PODS, NODES])
        times = PodTimes(
            startup=timedelta(seconds=round(draw.uniform(0.1, 3.0), 3)),
            stopping=timedelta(seconds=round(draw.uniform(0.1, 8.0), 3)),
        )
        kubelet = Kubelet(f"kubelets of {place.name}", view, self.clock, times)
        view.start()
        self._views[place.name] = view
        return (*place.cluster.behaviours, kubelet)

    def _forbid(self, name: str) -> Callable[..., None]:
        """Return the admission of a target's Pods: while it forbids, none is made for a candidate, as with a quota that
        is used up.
        """

        def admit(operation: str, kind: Kind, subresource: str, _: Json | None, new: Json | None) -> None:
            if operation == "create" and kind == PODS and not subresource and self.idle.get(name) == "forbidding":
                labels = meta(new or {}).get("labels") or {}
                if CANDIDATE_LABEL in labels:
                    raise errors.forbidden(PODS, str(meta(new or {}).get("name", "")), "exceeded quota: candidates")

        return admit

    def _end(self, place: ClusterEnvironment) -> None:
        view = self._views.pop(place.name, None)
        if view is not None:
            view.stop()
        near = self.ways.get(f"{NEAR}{place.name}")
        if near is not None:
            near.cut("the API server went away")
        super()._end(place)

    def bind_at_home(self, graceful: bool) -> None:
        """Say whether pods of the source are bound there: deleted, such a pod waits for its kubelet."""
        self.virtual = self.management.store.graceful = graceful

    def restore(self, name: str, backup: Backup) -> None:
        """Put a cluster back to an earlier state."""
        super().restore(name, backup)
        self.bind_at_home(self.virtual)

    # --- what an administrator sets up -------------------------------------------------------------------------------

    def furnish(self, name: str) -> None:
        """Give a target its nodes, its invitation and its PriorityClass, as far as they are not there, and uncordon
        what is.
        """
        store = self.places[name].store
        ensure(store, PRIORITY_CLASSES, HIGH, value=1000)
        for number in range(1, self.nodes[name] + 1):
            self.node(name, number)
        self.invite(name)

    def node(self, name: str, number: int) -> None:
        """Put a node there, or back, or in order."""
        store, node = self.places[name].store, f"{name}-{number}"
        room = {"cpu": str(CPUS), "memory": "64Gi", "pods": "110"}
        labels = {HOST: node, ZONE: f"{name}-zone-{1 + number % 2}"}
        try:
            found = store.get(NODES, "", node)
        except ApiError:
            head: Json = {"name": node, "labels": labels}
            store.create(NODES, {"metadata": head, "spec": {}}, field_manager="administrator")
            status = {"status": {"allocatable": room, "capacity": room}}
            store.patch(NODES, "", node, status, subresource="status", field_manager="administrator")
        else:
            if found["spec"].get("unschedulable"):
                store.patch(NODES, "", node, {"spec": {"unschedulable": None}}, field_manager="administrator")

    def invite(self, name: str) -> None:
        """Let the source's pods come into the namespace."""
        ensure(
            self.places[name].store,
            CANDIDATE_SOURCES,
            CAMPUS,
            NAMESPACE,
            spec={"cluster": CAMPUS, "podSecurity": "baseline", **({"follow": ["Service"]} if self.follows else {})},
        )

    def allow(self, name: str, tier: int = 0) -> None:
        """Let the namespace use a target."""
        spec = {"cluster": name, "tier": tier}
        ensure(self.management.store, CANDIDATE_TARGETS, name, NAMESPACE, keep=False, spec=spec)

    def free(self, name: str, node: str) -> float:
        """Return the CPUs of a node that no pod has; 0 if there is no such node."""
        store = self.places[name].store
        if not any(record.name == node for record in store.records(NODES)):
            return 0.0
        return CPUS - sum(cpus(record.obj) for record in store.records(PODS) if on_node(record.obj) == node)

    def compact(self, name: str) -> None:
        """As around, and the scheduler's watches end with the others."""
        super().compact(name)
        near, busy = self.ways.get(f"{NEAR}{name}"), Storm(429, 1.0)
        if near is not None:
            near.storms.append(busy)
            near.end_watches()
            self.loop.world_later(BUSY, lambda: near.storms.remove(busy) if busy in near.storms else None)

    def heal(self) -> None:
        """End every fault of every way."""
        for way in self.ways.values():
            way.heal()
        for place in self.places.values():
            place.off.clear()


def on_node(pod: Json) -> str:
    """Return the node on which a pod takes room: "" if it has none, or has ended."""
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return "" if over else str(pod["spec"].get("nodeName") or "")


def cpus(pod: Json) -> float:
    """Return the CPUs that a pod of a plan asks for."""
    containers = pod["spec"]["containers"]
    return sum(float(((c.get("resources") or {}).get("requests") or {}).get("cpu", 0)) for c in containers)
