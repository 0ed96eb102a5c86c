"""Sums up what a cluster has and what is used, from its Nodes and Pods, as Volcano's plugin overcommit does
(volcano-sh/volcano pkg/scheduler/plugins/overcommit/overcommit.go, ed72c7c81).

In: changes of nodes and of all pods, kept in memory as sums and never logged one by one. Out: `RoomObserved`, when
the sums have moved noticeably: at once if nodes came or went or a hundredth of a resource is taken or free that was
not; smaller changes together, twice a minute. Before nodes and pods have been listed as a whole, nothing is said: half
a list would look like an empty cluster.

A node that is not ready or is cordoned takes no new pods, so neither what it has nor what its pods use counts. A pod
uses a node from its binding until it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT, ServiceStarted, cluster_stream
from controlplane.controllers.connectivity.facets import ConnectionFacets
from controlplane.controllers.connectivity.state import Connection, fold, restarted
from controlplane.controllers.podgroups.causes import CAUSES
from controlplane.controllers.podgroups.events import ROOM_STREAM, RoomObserved
from controlplane.controllers.podgroups.objects import PODS
from controlplane.controllers.podgroups.phases import Amounts, ClusterCapacity
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.pod_requests import ADMITTED, effective
from controlplane.kube.quantities import NANO, nanos
from controlplane.kube.well_known import PODS_RESOURCE
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange
from controlplane.runtime.facets import cause_of
from controlplane.runtime.writes import WritesNothing

NODES = Kind("", "v1", "Node", "nodes", namespaced=False)
_HUNDREDTH = 100
_AT_LEAST, _DRIFT = timedelta(seconds=1), timedelta(seconds=30)


class Sums:
    """What nodes have and what pods use, kept up to date one object at a time. Amounts are in billionths."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, int]] = {}
        self._open: set[str] = set()
        self._pods: dict[str, tuple[str, dict[str, int]]] = {}
        self._on_node: dict[str, dict[str, int]] = {}

    def node(self, obj: Json, *, gone: bool) -> None:
        """Take a node as it now is; one that cannot be read takes no pods."""
        name = str(meta(obj).get("name"))
        self._open.discard(name)
        if gone:
            self._nodes.pop(name, None)
            return
        allocatable = _object(obj, "status").get("allocatable")
        self._nodes[name] = _amounts(allocatable if isinstance(allocatable, dict) else {})
        if _takes_pods(obj):
            self._open.add(name)

    def pod(self, obj: Json, *, gone: bool) -> None:
        """Take a pod as it now is; one that asks for what is no quantity counts as one that asks for nothing."""
        uid = str(meta(obj).get("uid"))
        node, requests = ("", {}) if gone else _use(obj)
        before = self._pods.pop(uid, None)
        if before is not None:
            self._add(*before, sign=-1)
        if node:
            self._pods[uid] = node, requests
            self._add(node, requests, sign=1)

    def _add(self, node: str, requests: Amounts, *, sign: int) -> None:
        sums = self._on_node.setdefault(node, {})
        for name, amount in requests.items():
            left = sums.get(name, 0) + sign * amount
            if left:
                sums[name] = left
            else:
                sums.pop(name, None)
        if not sums:
            del self._on_node[node]

    def capacity(self) -> ClusterCapacity:
        """Return the sums over the nodes that take pods."""
        total: dict[str, int] = {}
        used: dict[str, int] = {}
        for name in sorted(self._open):
            for sums, more in ((total, self._nodes[name]), (used, self._on_node.get(name, {}))):
                for resource, amount in more.items():
                    sums[resource] = sums.get(resource, 0) + amount
        return ClusterCapacity(total=total, used=used)


def _takes_pods(node: Json) -> bool:
    if _object(node, "spec").get("unschedulable", False) is not False or "deletionTimestamp" in meta(node):
        return False
    conditions = _object(node, "status").get("conditions") or ()
    if not isinstance(conditions, list | tuple) or not all(isinstance(one, dict) for one in conditions):
        return False
    return all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")


def _use(pod: Json) -> tuple[str, dict[str, int]]:
    spec, status = _object(pod, "spec"), _object(pod, "status")
    if status.get("phase") in ("Succeeded", "Failed"):
        return "", {}
    try:
        requests = effective(spec, ADMITTED, status)
    except UNFIT:
        requests = {}
    node = spec.get("nodeName")
    return node if isinstance(node, str) else "", {**requests, PODS_RESOURCE: NANO}


def _object(obj: Json, field: str) -> Json:
    found = obj.get(field)
    return found if isinstance(found, dict) else {}


def _amounts(listed: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, quantity in listed.items():
        try:
            found[name] = nanos(quantity)
        except UNFIT:
            continue  # what cannot be read is not there to be given away
    return found


def noticeable(before: ClusterCapacity, now: ClusterCapacity) -> bool:
    """Whether two capacities differ so much that waiting groups should hear of it now."""
    if before.total != now.total:
        return True
    return any(
        abs(now.used.get(name, 0) - before.used.get(name, 0)) * _HUNDREDTH >= amount
        for name, amount in now.total.items()
        if now.used.get(name, 0) != before.used.get(name, 0)
    )


class Capacity(WritesNothing):
    """The controller around the sums. It decides nothing about any object and writes to none."""

    types: Sequence[type[Event]] = (*connectivity.EVENTS, RoomObserved)

    GIVEN = ("cluster", "sums", "_moved")

    def __init__(self, cluster: str = MANAGEMENT) -> None:
        self.cluster = cluster
        self.sums = Sums()
        self._connection = Connection(name=cluster)
        self._marks = ConnectionFacets()
        self._recorded: ClusterCapacity | None = None
        self._at: datetime | None = None
        self._version = 0
        self._moved = False

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Add something seen to the sums. Nothing of it is recorded by itself."""
        if change.unreadable and change.kind == PODS:
            return None  # it takes up what it took up before
        if change.cluster == self.cluster and change.kind in (NODES, PODS):
            take = self.sums.node if change.kind == NODES else self.sums.pod
            take(change.object, gone=change.gone)
            self._moved = True
        return None

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        event = recorded.event
        if recorded.stream == ROOM_STREAM:
            self._version = recorded.version
            if isinstance(event, RoomObserved):
                self._recorded, self._at = event.room, recorded.recorded_at
        elif isinstance(event, ServiceStarted):
            self._connection = restarted(self._connection, recorded)
        elif recorded.stream == cluster_stream(self.cluster):
            self._connection = fold(self._connection, recorded)
            self._moved = True
        self._marks.fold({self.cluster: self._connection}, [self.cluster], recorded.position)

    @property
    def ready(self) -> bool:
        """Whether nodes and pods are in view."""
        return self._connection.in_view(NODES.name) and self._connection.in_view(PODS.name)

    def take_dirty(self) -> list[str]:
        """Return the capacity's stream if the sums may have moved."""
        moved, self._moved = self._moved, False
        return [ROOM_STREAM] if moved and self.ready else []

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return the capacity if it moved noticeably, or a little and some time ago."""
        if not self.ready:
            return Decided()
        capacity = self.sums.capacity()
        if capacity == self._recorded:
            return Decided(version=self._version)
        if self._recorded is not None and self._at is not None:
            due = self._at + (_AT_LEAST if noticeable(self._recorded, capacity) else _DRIFT)
            if now < due:
                return Decided(version=self._version, wake=due)
        event = RoomObserved(room=capacity)
        view = self._marks.of(self.cluster, [NODES.name, PODS.name])[f"{self.cluster}.view"]
        cause = cause_of(CAUSES, event, {"view": view}, {})
        return Decided([NewEvent(stream=stream, event=event, cluster=self.cluster, caused_by=cause)], self._version)
