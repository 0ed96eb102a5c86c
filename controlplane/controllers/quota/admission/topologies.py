"""Follows Nodes, and the pods on them that no topology has placed, where quota is given by topology.

In: Nodes and pods as they are shown; their events in the log's order. Out: an event where something changes on which
placement rests, and no other; the engine told of it. What ended is noted at once, and who waits is tried again ten
seconds later, for all that ended meanwhile. Pure. Sources: kubernetes-sigs/kueue
pkg/controller/tas/pod_usage_controller.go, node_controller.go, pkg/cache/scheduler/tas_nodes_cache.go, ff69552e."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.quota.admission import topology_events as events
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.engine.amounts import in_order, requested
from controlplane.controllers.quota.engine.snapshot import QuotaSnapshot
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.topology.model import Node
from controlplane.controllers.quota.topology.parse import parse_node
from controlplane.kube import fields
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.fields import UNFIT, BadValue, flag, items, section, text
from controlplane.kube.kinds import NODES, PODS_OF_TOPOLOGIES, TOPOLOGIES, Json, Kind, meta
from controlplane.kube.pod_requests import effective
from controlplane.kube.topologies import WORKLOAD, is_placed_by_topology
from controlplane.kube.watches import UNENDED_PODS, WatchSpec
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import ObjectObserved, ObservationsAhead

NODE_WORDS = ("node", "room")
ROOM = "admission/room"
"""The stream of what ended on nodes."""
_BATCH = timedelta(seconds=10)
_replace = msgspec.structs.replace


def needed_kinds(snapshot: QuotaSnapshot) -> tuple[Kind, ...]:
    """Return what is to be followed beside all else: Topologies where a flavor names one; Nodes and pods where a
    ClusterQueue has such a flavor and places its pods here, and does not leave that to the workers of MultiKueue."""
    names = {flavor.name for flavor in snapshot.flavors.values() if flavor.topology}
    if not names:
        return ()
    for queue in snapshot.queues.values():
        spec = queue.spec
        known = all(name in snapshot.checks for name, _ in spec.admission_checks)
        placed = any(names.intersection(group.flavors) for group in spec.groups)
        if known and placed and not snapshot.has_multikueue(spec):
            return TOPOLOGIES, NODES, PODS_OF_TOPOLOGIES
    return (TOPOLOGIES,)


def watch_of(kind: Kind) -> WatchSpec:
    """Return the watch of a kind that is needed."""
    return UNENDED_PODS if kind == PODS_OF_TOPOLOGIES else WatchSpec(kind)


def observed_node(obj: Json) -> events.AdmissionNodeObserved:
    """Return the observation of a Node; `Misfit` names the field that does not fit."""
    parse_node(obj)
    spec, labels = section(obj, "spec"), section(meta(obj), "labels", "metadata")
    taints = items(spec, "taints", "spec")
    return events.AdmissionNodeObserved(
        **fields.identity(obj),
        labels={str(key): str(value) for key, value in labels.items()},
        taints=[{name: one[name] for name in ("key", "value", "effect") if one.get(name)} for one in taints],
        unschedulable=flag(spec, "unschedulable", "spec"),
        ready=is_true(obj, "Ready"),
        reports=condition(obj, "Ready") is not None,
        allocatable=section(section(obj, "status"), "allocatable", "status"),
    )


def node(seen: events.AdmissionNodeObserved) -> Node:
    """Return a Node as the engine has it."""
    return parse_node(
        {
            "metadata": {"name": seen.name, "labels": seen.labels},
            "spec": {"taints": seen.taints, "unschedulable": seen.unschedulable},
            "status": {
                "allocatable": seen.allocatable,
                "conditions": [{"type": "Ready", "status": "True" if seen.ready else "False"}],
            },
        }
    )


def observed_pod(obj: Json) -> events.AdmissionPodObserved | None:
    """Return the observation of a pod; None if it takes nothing of a node, or what it takes is counted with its
    Workload."""
    spec, notes = section(obj, "spec"), section(meta(obj), "annotations", "metadata")
    on = text(spec, "nodeName", "spec")
    ended = section(obj, "status").get("phase") in ("Succeeded", "Failed")
    if not on or ended or is_placed_by_topology(notes):
        return None
    try:
        asked = effective(spec)
    except ValueError as problem:
        raise BadValue("spec", str(problem)) from problem
    requests = in_order({name: requested(name, amount) for name, amount in asked.items()})
    workload = text(notes, WORKLOAD, "metadata.annotations")
    return events.AdmissionPodObserved(**fields.identity(obj), node=on, workload=workload, requests=dict(requests))


class NodeObjects:
    """Nodes by name, and pods by UID, as they were seen last. `freed`: flavors on whose nodes pods have ended since
    `freed_since`, for which nobody was tried again; `freed_at`: where in the log the last of these is. `unfit`: the
    names of Nodes that could not be read when they were shown last."""

    def __init__(self) -> None:
        self.nodes: dict[str, events.AdmissionNodeObserved] = {}
        self.pods: dict[str, events.AdmissionPodObserved] = {}
        self.freed: dict[str, None] = {}
        self.freed_since: datetime | None = None
        self.freed_at = 0
        self.version = 0
        self.unfit: set[str] = set()
        self._ahead: ObservationsAhead[ObjectObserved] = ObservationsAhead()

    # What was seen.

    def seen(self, change: ObjectChange) -> tuple[str, Event] | None:
        """Return stream and event of a Node or a pod; None if it says nothing new. `Misfit` if it does not fit its
        API."""
        return self._node(change) if change.kind == NODES else self._pod(change)

    def _node(self, change: ObjectChange) -> tuple[str, Event] | None:
        name = str(meta(change.object)["name"])
        known = self._ahead.newest(name, self.nodes.get(name))
        if change.gone:
            if known is not None and known.uid == change.uid:
                self._ahead.note(name, None)
            return _stream(name), events.AdmissionNodeGone(name=name, uid=change.uid)
        try:
            event = observed_node(change.whole())
        except UNFIT:
            self._ahead.note(name, None)  # the next version that can be read is news, whatever it says
            raise
        if _same(known, event) and name not in self.unfit:
            return None
        self._ahead.note(name, event)
        return _stream(name), event

    def _pod(self, change: ObjectChange) -> tuple[str, Event] | None:
        known: Any = self._ahead.newest(change.uid, self.pods.get(change.uid))
        event = None if change.gone else observed_pod(change.whole())
        if _same(known, event) if event is not None else known is None:
            return None
        self._ahead.note(change.uid, event)
        if event is not None:
            return _stream(event.node), event
        gone = events.AdmissionPodGone(namespace=known.namespace, name=known.name, uid=known.uid)
        return _stream(known.node), gone

    # What is in the log.

    def fold(self, engine: State, recorded: Recorded) -> bool:
        """Take one more event, and tell the engine; return whether who waits may be tried again."""
        event, now = recorded.event, recorded.recorded_at.timestamp()
        engine.wake_released()
        match event:
            case events.AdmissionNodeObserved():
                self._ahead.folded(event.name, event)
                self.unfit.discard(event.name)
                before, self.nodes[event.name] = self.nodes.get(event.name), event
                if _same(before, event):
                    return False
                engine.put_node(node(event), now)
                return True
            case events.AdmissionNodeGone():
                known = self.nodes.get(event.name)
                if known is None or known.uid == event.uid:
                    self.unfit.discard(event.name)
                if known is None or known.uid != event.uid:
                    return False
                self._ahead.folded(event.name, None)
                del self.nodes[event.name]
                engine.drop_node(event.name, now)
                return True
            case events.AdmissionPodObserved():
                self._ahead.folded(event.uid, event)
                self.pods[event.uid] = event
                self._free(engine, engine.snapshot.topology.put_pod(event.uid, event.node, event.requests), recorded)
            case events.AdmissionPodGone():
                self._ahead.folded(event.uid, None)
                self.pods.pop(event.uid, None)
                self._free(engine, engine.snapshot.topology.drop_pod(event.uid), recorded)
            case events.NodeRoomFreed():
                self.version, self.freed, self.freed_since = recorded.version, {}, None
                engine.wake(engine.snapshot.with_flavors(event.flavors), now)
                return True
        return False

    def _free(self, engine: State, flavors: list[str], recorded: Recorded) -> None:
        """Note that there is more room for flavors. The engine counts it from now on, and wakes nobody for it yet."""
        if flavors:
            self.freed |= dict.fromkeys(flavors)
            self.freed_since = self.freed_since or recorded.recorded_at
            self.freed_at = recorded.position

    # What follows.

    def room_freed(self, engine: State, now: datetime) -> tuple[events.NodeRoomFreed | None, datetime | None]:
        """Return that those who wait may be tried again, or when to look again; neither if nobody waits for what is
        free."""
        if self.freed_since is None or not _awaited(engine, list(self.freed)):
            return None, None
        due = self.freed_since + _BATCH
        if due > now:
            return None, due
        return events.NodeRoomFreed(flavors=sorted(self.freed), reason=AdmissionReason.PODS_ENDED), None


def _stream(node_name: str) -> str:
    return f"admission/node/{node_name}"


def _same(known: Any, event: Any) -> bool:
    """Whether an object is as it was seen before, its version aside."""
    return known is not None and _replace(event, resource_version=known.resource_version) == known


def _awaited(engine: State, flavors: list[str]) -> bool:
    roots = {engine.snapshot.queues[name].root() for name in engine.snapshot.with_flavors(flavors)}
    below = (queue.name for root in roots for queue in root.subtree_queues())
    return any(engine.queues.pending[name].inadmissible for name in below if name in engine.queues.pending)
