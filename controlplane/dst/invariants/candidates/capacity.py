"""A node gives away no more than it has, and where a pod may not go it does not go (S7, and the constraints of the pod
itself).

In: Nodes and Pods as a target's API server commits them, and what its scheduler reserves and binds, by its log. Out: a
violation. It sees its cluster through watches, so what has changed less than `UNSEEN` seconds ago may be unknown to it:
another scheduler's pod, a node that was cordoned. What it gave away itself it knows at once, and with that it is
strict."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.candidates.target.events import Reserved
from controlplane.controllers.scheduling.events import NodeReserved
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.environment import CPUS, ZONE, cpus, on_node
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.kube.kinds import NODES, PODS, Json, meta
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit

ROOM = "no node is overbooked"
OPEN = "nothing goes to a node that is closed"
SPREAD = "pods are spread as they ask for"
UNSEEN = 60.0  # seconds
_ON_ITS_WAY = 0.5  # seconds


class NodeCapacityRules:
    """The nodes of one target. `rooms` is the fold of its scheduler's log."""

    def __init__(
        self, trace: Trace, loop: VirtualLoop, place: ClusterEnvironment, controllers: SchedulerControllers
    ) -> None:
        self._trace, self._loop, self._place, self._rooms = trace, loop, place, controllers
        self._closed: dict[str, float] = {}  # since when a node is cordoned or gone
        self._sudden: dict[
            str, float
        ] = {}  # since when a pod is on a node where this scheduler has not put it, by name
        self._nodes = {record.name for record in place.store.records(NODES)}  # all that there ever were
        self._left: dict[str, tuple[Json, float]] = {}  # pods that are off their nodes, and since when
        self._changed = 0.0  # when a node came, went or changed

    def follow(self, controllers: SchedulerControllers) -> None:
        """Look at another fold of the scheduler's log: that went back."""
        self._rooms = controllers

    def began_anew(self) -> None:
        """Look at the cluster as it is after a restore: who is on its nodes was put there by nobody that knows of the
        others.
        """
        now = self._loop.time()
        nodes = {record.name: record for record in self._place.store.records(NODES)}
        cordoned = {name for name, record in nodes.items() if record.obj["spec"].get("unschedulable")}
        self._closed = dict.fromkeys(sorted(cordoned | (self._nodes - nodes.keys())), now)
        self._sudden |= {meta(pod)["name"]: now for pod in self._pods() if on_node(pod)}
        self._left.clear()
        self._changed = now

    # --- what is committed -------------------------------------------------------------------------------------------

    def on_commit(self, commit: Commit) -> None:
        """Look at a Node or a Pod."""
        record, now = commit.record, self._loop.time()
        if record.kind == NODES:
            closed = commit.type == "DELETED" or bool(record.obj["spec"].get("unschedulable"))
            self._changed = now
            self._nodes.add(record.name)
            if closed:
                self._closed.setdefault(record.name, now)
            else:
                self._closed.pop(record.name, None)
        elif record.kind == PODS:
            self._pod(commit)

    def _pod(self, commit: Commit) -> None:
        record, before = commit.record, commit.previous
        was = on_node(before.obj) if before is not None else ""
        node = on_node(record.obj) if commit.type != "DELETED" else ""
        if was and (not node or "deletionTimestamp" in meta(record.obj)):
            self._left[record.name] = (before.obj if before is not None else record.obj, self._loop.time())
        if node and not was:
            if record.obj["spec"].get("schedulerName") == "another":
                self._sudden[record.name] = self._loop.time()
            else:
                self._fits(node, [pod for pod in self._pods() if on_node(pod) == node], f"{record.name} is bound")

    # --- what is given away ------------------------------------------------------------------------------------------

    def after_fold(self, recorded: Recorded) -> None:
        """Look at a reservation, once it is folded."""
        event = recorded.event
        if not isinstance(event, (Reserved, NodeReserved)):
            return
        name = recorded.stream.rpartition("/")[2]
        pods, places = self._places()
        here = [pods[other] for other, node in places.items() if node == event.node]
        self._fits(event.node, here, f"{name} is given it")
        since = self._closed.get(event.node)
        if since is not None and since < self._loop.time() - UNSEEN:
            self._trace.violate(OPEN, f"{name} is given {event.node}, closed for {self._loop.time() - since:.0f} s")
        for constraint in pods[name]["spec"].get("topologySpreadConstraints") or () if name in pods else ():
            if self._skewed(event.node, constraint, pods, places):
                # A place that was found before may be on its way to the log: the two are not written in their order.
                self._loop.world_later(_ON_ITS_WAY, self._spread, name, event.node, constraint)

    def _places(self) -> tuple[dict[str, Json], dict[str, str]]:
        """Return the pods by name, and where each is, or will be by what the log has given it."""
        pods = {meta(pod)["name"]: pod for pod in self._pods()}
        return pods, {name: on_node(pod) for name, pod in pods.items()} | dict(self._taken(pods))

    def _taken(self, pods: dict[str, Json]) -> Iterator[tuple[str, str]]:
        """Yield which node the log says is taken for a pod that is on none yet."""
        candidates = [(state.name, state.node) for state in self._rooms.targets.candidates.values()]
        others = [(state.name, state.node) for state in self._rooms.placements.states.values()]
        for name, node in [*candidates, *others]:
            pod = pods.get(name)
            if pod is not None and node and not pod["spec"].get("nodeName"):
                yield name, node

    def _fits(self, node: str, pods: list[Json], what: str) -> None:
        lately = self._loop.time() - UNSEEN
        seen = [pod for pod in pods if self._sudden.get(meta(pod)["name"], -inf) < lately]
        used = sum(cpus(pod) for pod in seen)
        if used > CPUS:
            names = sorted(meta(pod)["name"] for pod in seen)
            self._trace.violate(ROOM, f"{what}: {node} has {CPUS} CPUs, and {used:g} are given to {names}")

    def _spread(self, name: str, node: str, constraint: Json) -> None:
        pods, places = self._places()
        wrong = self._skewed(node, constraint, pods, places)
        if wrong and places.get(name) == node:
            self._trace.violate(SPREAD, f"{name} is given {node}: {wrong} by zone")

    def _skewed(self, node: str, constraint: Json, pods: dict[str, Json], places: dict[str, str]) -> dict[str, int]:
        """Return the counts by zone if a node's is more than `maxSkew` above the emptiest, however what changed lately
        is counted.
        """
        lately = self._loop.time() - UNSEEN
        if self._changed >= lately:
            return {}  # nodes come and go: the scheduler may have counted with others
        zones = {r.name: r.labels.get(ZONE, "") for r in self._place.store.records(NODES)}
        wanted = constraint["labelSelector"]["matchLabels"].items()
        counts = dict.fromkeys(zones.values(), 0)
        fewest = dict(counts)
        here = [(pods[other], where) for other, where in places.items()]
        left = [
            (pod, on_node(pod)) for other, (pod, when) in self._left.items() if when > lately and other not in places
        ]
        for number, (pod, where) in enumerate([*here, *left]):
            if where in zones and wanted <= (meta(pod).get("labels") or {}).items():
                counts[zones[where]] += number < len(here) and "deletionTimestamp" not in meta(pod)
                fewest[zones[where]] += 1
        return counts if counts[zones[node]] - min(fewest.values()) > int(constraint["maxSkew"]) else {}

    def _pods(self) -> list[Json]:
        return [record.obj for record in self._place.store.records(PODS)]
