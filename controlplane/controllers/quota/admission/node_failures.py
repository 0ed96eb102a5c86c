"""Decides which nodes of a Workload have failed, what is written to its status for that, and which of its pods fail.

In: Workloads, Nodes and placed pods as the log has them. Out: a step for a Workload, decisions about its pods. A node
has failed that is gone, or that takes none of the Workload's pods any more while none of them runs there: it is not
ready, or has a taint that they do not tolerate for good. With a first one its name goes to `status.unhealthyNodes`, on
which the engine places its pods elsewhere; with a second one the Workload is evicted. A node that was never seen is
unknown, and has not failed. Pure. Source: kubernetes-sigs/kueue pkg/controller/tas/node_controller.go, ff69552e, with
the gates that are on there by default: no time counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

from controlplane.controllers.connectivity.events import KindSynced
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.controllers.quota.admission import workload_status as ws
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.observe import workload_stream
from controlplane.controllers.quota.admission.placed_pods import PLACED, PlacedPods, PlacedPodsState, pods_stream
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.reconcile_step import ReconcileWrite
from controlplane.controllers.quota.admission.workload_writes import status_of
from controlplane.controllers.quota.engine.reasons import NODE_FAILURES
from controlplane.controllers.quota.topology.parse import unhealthy_nodes
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, nested
from controlplane.kube.tolerations import taints, tolerations, untolerated
from controlplane.kube.topologies import nodes_of
from controlplane.log.event import Event, Recorded
from controlplane.runtime.decision_pass import DecisionPass, PassResult

REASONS = frozenset({R.NODE_FAILED, R.NODE_RECOVERED, R.MORE_NODES_FAILED})
"""Why a step of this module is taken."""
_FOLLOWED = (kinds.NODES, kinds.PODS_OF_TOPOLOGIES)
_MANY = 1024  # nodes that are gone, after which those are forgotten that nobody is placed on
_SEVERAL = "Workload eviction triggered due to multiple TAS assigned node failures, including: "


class NodeState(StrEnum):
    """How a node stands to the pods of a Workload."""

    UNKNOWN = "unknown"
    GONE = "gone"
    REPELS = "repels"
    TAKES = "takes"


class _Pass(DecisionPass[PlacedPodsState, Event, of_topology.PodFailureDecided]):
    """One pass about the pods of a Workload."""


class NodeFailures:
    """What is known of nodes that Workloads are placed on. `named`: where in the log a Workload was last seen to name
    one of them as unhealthy. Names that are cleared are named again only after something has happened to the node or to
    a pod since: a Workload whose pods stay where they are is not placed again and again."""

    def __init__(self) -> None:
        self.pods = PlacedPods()
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._workloads: dict[str, dict[str, None]] = {}
        self._named: dict[str, dict[str, int]] = {}
        self._gone: set[str] = set()
        self._node_at: dict[str, int] = {}
        self._pods_at: dict[str, int] = {}
        self._others: dict[str, dict[str, of_topology.AdmissionPodObserved]] = {}
        self._waiting: dict[str, dict[str, int]] = {}
        self._others_of: dict[str, str] = {}

    # --- what is in the log ------------------------------------------------------------------------------------------

    def fold(self, index: AdmissionIndex, recorded: Recorded) -> list[str]:
        """Take one more event, after the index has; return the streams to decide about."""
        event: Any = recorded.event
        if recorded.stream.startswith(PLACED):
            return self._fold_pod(index, recorded)
        match event:
            case events.AdmissionWorkloadObserved() | events.AdmissionWorkloadGone():
                return self._fold_workload(index, f"{event.namespace}/{event.name}", recorded.position)
            case of_topology.AdmissionNodeObserved():
                self._gone.discard(event.name)
                return self._touched(event.name, recorded.position)
            case of_topology.AdmissionNodeGone() if event.name not in index.nodes.nodes:
                self._gone.add(event.name)
                if len(self._gone) % _MANY == 0:
                    self._forget_gone(index)
                return self._touched(event.name, recorded.position)
            case events.AdmissionInputRefused(kind=kinds.NODES.name):
                index.nodes.unfit.add(event.name)
            case of_topology.AdmissionPodObserved() | of_topology.AdmissionPodGone():
                return self._fold_other(index, recorded)
            case events.AdmissionFlavorObserved() | KindSynced():
                return list(self.pods.states)
        return []

    def _forget_gone(self, index: AdmissionIndex) -> None:
        """Forget nodes that are gone and that no Workload is placed on, or is about to be: where nodes come and go,
        each has a name of its own. One that was forgotten is one that was never seen."""
        given = [
            given
            for one in index.workloads.values()
            for given in (
                one.observed.status.get("admission") if one.observed is not None else None,
                *(decided.admission for decided in (one.reservation, one.placement) if decided is not None),
            )
        ]
        named = {
            name for one in filter(None, given) for part in one.get("podSetAssignments") or () for name in _nodes(part)
        }
        self._gone &= named
        self._node_at = {
            name: at for name, at in self._node_at.items() if name in index.nodes.nodes or name in self._gone
        }

    def _fold_other(self, index: AdmissionIndex, recorded: Recorded) -> list[str]:
        """Take an event of a pod that no topology has placed: it may be one of a Workload all the same."""
        event: Any = recorded.event
        before = self._others_of.pop(event.uid, "")
        if before:
            del self._others[before][event.uid]
            if not self._others[before]:
                del self._others[before]
        key = f"{event.namespace}/{event.workload}" if getattr(event, "workload", "") else ""
        if key:
            self._others_of[event.uid] = key
            self._others.setdefault(key, {})[event.uid] = event
        found = [one for one in dict.fromkeys((before, key)) if one in self._nodes]
        self._pods_at.update(dict.fromkeys(found, recorded.position))
        return [one for of in found if self._ails(index, of) for one in (workload_stream(of), pods_stream(of))]

    def _touched(self, node: str, position: int) -> list[str]:
        self._node_at[node] = position
        on = [one for key in self._workloads.get(node, ()) for one in (workload_stream(key), pods_stream(key))]
        return [*on, *self._waiting.get(node, ())]

    def _fold_workload(self, index: AdmissionIndex, key: str, position: int) -> list[str]:
        seen = index.workload(key).observed
        self._place(key, _nodes_of(seen) if seen is not None else ())
        if seen is None:
            self._pods_at.pop(key, None)
        on = self._nodes.get(key, ())
        named = {name: position for name in unhealthy_nodes(seen.status) if name in on} if on else {}
        before = {name: at for name, at in self._named.get(key, {}).items() if name in on}
        if named or before:
            self._named[key] = before | named
        else:
            self._named.pop(key, None)
        stream = pods_stream(key)
        return [stream] if stream in self.pods.states else []

    def _place(self, key: str, nodes: tuple[str, ...]) -> None:
        """Note on which nodes the pods of a Workload are placed now."""
        _move(self._workloads, key, self._nodes.pop(key, ()), nodes)
        if nodes:
            self._nodes[key] = nodes

    def _fold_pod(self, index: AdmissionIndex, recorded: Recorded) -> list[str]:
        stream, key, event = recorded.stream, recorded.stream.removeprefix(PLACED), recorded.event
        if not isinstance(event, of_topology.AdmissionPlacedPodObserved | of_topology.AdmissionPlacedPodGone):
            self.pods.fold(recorded)
            return [stream]
        before = self._pod(stream, event.uid)
        self.pods.fold(recorded)
        if index.workload(key).observed is not None:
            self._pods_at[key] = recorded.position
        after = self._pod(stream, event.uid)
        seen = [(pod, more) for pod, more in ((before, -1), (after, 1)) if pod is not None]
        for pod, more in seen:
            if pod.is_unbound and pod.host:
                self._count(pod.host, stream, more)
        nodes = [one for pod, _ in seen for one in (pod.node, pod.host) if one]
        if any(not self._is_well(index, one) for one in nodes):
            return [stream, workload_stream(key)]
        # While all are well, there is something to do only where a pod waits for a node that its Workload is not placed
        # on.
        strays = after is not None and after.is_unbound and key not in self._workloads.get(after.host, ())
        return [stream] if strays else []

    def _pod(self, stream: str, uid: str) -> of_topology.AdmissionPlacedPodObserved | None:
        state = self.pods.states.get(stream)
        return state.pods.get(uid) if state is not None else None

    def _count(self, host: str, stream: str, more: int) -> None:
        """Note that more, or fewer, pods of a stream wait for a node."""
        streams = self._waiting.setdefault(host, {})
        streams[stream] = streams.get(stream, 0) + more
        if not streams[stream]:
            del streams[stream]
        if not streams:
            del self._waiting[host]

    def _is_well(self, index: AdmissionIndex, node: str) -> bool:
        """Whether a node takes any pod, whatever that tolerates."""
        found = index.nodes.nodes.get(node)
        return (
            found is not None and found.reports and found.ready and not found.taints and node not in index.nodes.unfit
        )

    def _ails(self, index: AdmissionIndex, key: str) -> bool:
        """Whether one of the nodes of a Workload does not take any pod."""
        return not all(self._is_well(index, one) for one in self._nodes.get(key, ()))

    # --- how nodes stand ---------------------------------------------------------------------------------------------

    def moved(self, key: str, state_position: int) -> int:
        """Return where in the log the last of that is on which the health of a Workload's nodes rests."""
        at = [self._node_at.get(name, 0) for name in self._nodes.get(key, ())]
        return max(state_position, self._pods_at.get(key, 0), *at)

    def state(self, index: AdmissionIndex, seen: events.AdmissionWorkloadObserved, node: str) -> NodeState:
        """Return how a node stands to a Workload's pods. What is not in view, or cannot be read, is unknown."""
        if node in index.nodes.unfit or not all(index.home.in_view(kind.name) for kind in _FOLLOWED):
            return NodeState.UNKNOWN
        found = index.nodes.nodes.get(node)
        if found is None:
            return NodeState.GONE if node in self._gone else NodeState.UNKNOWN
        if not (found.reports and found.ready):
            return NodeState.REPELS if found.reports else NodeState.GONE
        repelling = taints(found.taints)
        for tolerated in _tolerated(index, seen, node):
            if tolerated is None:
                return NodeState.UNKNOWN
            for_good = tolerations(one for one in tolerated if one.get("tolerationSeconds") is None)
            if untolerated(repelling, for_good) is not None:
                return NodeState.REPELS
        return NodeState.TAKES

    def _runs_on(self, key: str) -> set[str]:
        """Return the nodes on which pods of a Workload run, and are not about to go."""
        state = self.pods.states.get(pods_stream(key))
        placed = state.pods.values() if state is not None else ()
        found = {one.node for one in placed if one.node and not one.deleting}
        return found | {one.node for one in self._others.get(key, {}).values() if not one.deleting}

    # --- what follows ------------------------------------------------------------------------------------------------

    def step(
        self, index: AdmissionIndex, seen: events.AdmissionWorkloadObserved, now: datetime
    ) -> ReconcileWrite | None:
        """Return what is to be written to a Workload for the health of its nodes; None if it says how they stand."""
        key = f"{seen.namespace}/{seen.name}"
        nodes = self._nodes.get(key, ())
        if not nodes:
            return None
        named, runs_on = unhealthy_nodes(seen.status), self._runs_on(key)
        failed = {name: _has_failed(self.state(index, seen, name), runs=name in runs_on) for name in nodes}
        status = status_of(seen, now)
        recovered = next((name for name in nodes if name in named and failed[name] is False), None)
        if recovered is not None:
            kept = [one for one in seen.status["unhealthyNodes"] if one.get("name") != recovered]
            status.status["unhealthyNodes"] = kept
            return ReconcileWrite(R.NODE_RECOVERED, status.status)
        others = (name for name in nodes if name not in named and failed[name])
        news = next((name for name in others if self._is_news(key, name)), None)
        if news is None:
            return None
        if named:
            message = f"{_SEVERAL}{', '.join([*named, news])}"
            status.evict(NODE_FAILURES, message)
            return ReconcileWrite(R.MORE_NODES_FAILED, status.status, NODE_FAILURES, message)
        status.status["unhealthyNodes"] = [{"name": news}]
        return ReconcileWrite(R.NODE_FAILED, status.status)

    def _is_news(self, key: str, node: str) -> bool:
        """Whether something has happened to a node, or to a Workload's pods, since the Workload named it last."""
        at = self._named.get(key, {}).get(node)
        return at is None or max(self._node_at.get(node, 0), self._pods_at.get(key, 0)) > at

    def failing_pods(self, index: AdmissionIndex, stream: str, now: datetime) -> PassResult[Event]:
        """Return which pods of a Workload are to fail."""
        state = self.pods.states.get(stream) or PlacedPodsState()
        step = _Pass(state, now)
        fails = self._failing(index, stream.removeprefix(PLACED))
        for pod in sorted(filter(fails, state.pods.values()), key=lambda one: (one.name, one.uid)):
            _fail(step, state, pod)
        return step.plan

    def fails(self, index: AdmissionIndex, stream: str, uid: str) -> bool:
        """Whether a pod is to fail as things are."""
        pod = self._pod(stream, uid)
        return pod is not None and self._failing(index, stream.removeprefix(PLACED))(pod)

    def _failing(self, index: AdmissionIndex, key: str) -> Callable[[of_topology.AdmissionPlacedPodObserved], bool]:
        """Return whether a pod of a Workload is to fail: it waits for a node that takes none of them, or on which the
        Workload is placed no more. None while a write of the Workload is open: where it is placed is not known then."""
        workload = index.workload(key)
        seen = workload.observed
        if seen is None or workload.effects or _is_over(seen):
            return lambda pod: False
        on, states = frozenset(_assigned(seen)), dict[str, NodeState]()
        # A pod that is made in its place is to find the name there, and waits then.
        told = {*unhealthy_nodes(seen.status), *self._runs_on(key)} if key in self._nodes else on

        def fails(pod: of_topology.AdmissionPlacedPodObserved) -> bool:
            if not (pod.is_unbound and pod.host):
                return False
            if pod.host not in states:
                states[pod.host] = self.state(index, seen, pod.host)
            stands = states[pod.host]
            if pod.host not in on:
                return stands in (NodeState.TAKES, NodeState.REPELS)
            return stands is NodeState.REPELS and pod.host in told

        return fails


def _move(table: dict[str, dict[str, None]], one: str, before: Iterable[str], after: Iterable[str]) -> None:
    """Have one at some nodes of a table, and at others no more."""
    for node in before:
        table[node].pop(one, None)
        if not table[node]:
            del table[node]
    for node in after:
        table.setdefault(node, {})[one] = None


def _fail(step: _Pass, state: PlacedPodsState, pod: of_topology.AdmissionPlacedPodObserved) -> None:
    found = of_topology.PodFailureDecided(
        uid=pod.uid,
        resource_version=pod.resource_version,
        name=pod.name,
        node=pod.host,
        conditions=pod.conditions,
        reason=R.POD_UNSCHEDULABLE,
    )
    if state.vain.get(found.target) != pod.resource_version:
        step.write(found)


def _nodes_of(seen: events.AdmissionWorkloadObserved) -> tuple[str, ...]:
    """Return the nodes on which an admitted Workload has pods, in the order of its assignments."""
    status = ws.as_read(seen.status)
    if not status.is_true(ws.ADMITTED) or status.is_true(ws.FINISHED) or status.is_true(ws.EVICTED):
        return ()
    return tuple(_assigned(seen))


def _is_over(seen: events.AdmissionWorkloadObserved) -> bool:
    status = ws.as_read(seen.status)
    return status.is_true(ws.FINISHED) or status.is_true(ws.EVICTED)


def _has_failed(state: NodeState, *, runs: bool) -> bool | None:
    """Return whether a node has failed for a Workload, pods of which it `runs` or not; None if that is unknown."""
    if state is NodeState.UNKNOWN:
        return None
    return state is NodeState.GONE or (state is NodeState.REPELS and not runs)


def _assigned(seen: events.AdmissionWorkloadObserved) -> list[str]:
    return list(dict.fromkeys(name for one in _assignments(seen) for name in _nodes(one)))


def _assignments(seen: events.AdmissionWorkloadObserved) -> list[Json]:
    return (seen.status.get("admission") or {}).get("podSetAssignments") or []


def _nodes(assignment: Json) -> list[str]:
    found = assignment.get("topologyAssignment")
    return nodes_of(found) if found else []


def _tolerated(
    index: AdmissionIndex, seen: events.AdmissionWorkloadObserved, node: str
) -> Iterator[Iterable[Json] | None]:
    """Yield what each pod set on a node tolerates: by itself, by its flavors, by its admission checks; None if a flavor
    of it is not there."""
    pod_sets = {one.name: one for one in seen.pod_sets}
    for one in _assignments(seen):
        pod_set = pod_sets.get(one.get("name", ""))
        if pod_set is None or node not in _nodes(one):
            continue
        names = dict.fromkeys(nested(one, "flavors").values())
        flavors = [index.seen(kinds.RESOURCE_FLAVORS, "", name) for name in names]
        if any(flavor is None for flavor in flavors):
            yield None
            return
        found = list(pod_set.tolerations)
        for given in (*(flavor.spec for flavor in flavors), *_updates(seen, pod_set.name)):
            found += given.get("tolerations") or ()
        yield found


def _updates(seen: events.AdmissionWorkloadObserved, pod_set: str) -> Iterator[Json]:
    """Yield what each admission check gives a pod set."""
    for check in seen.status.get("admissionChecks") or ():
        updates = check.get("podSetUpdates") or ()
        yield next((one for one in updates if one.get("name") == pod_set), {})
