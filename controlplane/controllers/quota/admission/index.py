"""Keeps what the log says of everything that quota rests on, and the engine's state that follows from it.

In: events in the log's order. Out: the states of Workloads, queues, flavors and checks; the engine's; and which streams are
to be decided about. A reservation counts from its decision on, and is given back if the Workload is seen without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT, ServiceStarted
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.quota.admission import events, facts, topology_events
from controlplane.controllers.quota.admission.cluster_objects import fold_namespace, fold_priority_class, redefault
from controlplane.controllers.quota.admission.engine_objects import DROPS, put_object, record_sample
from controlplane.controllers.quota.admission.observe import KINDS, replaced_streams, stream_of
from controlplane.controllers.quota.admission.recorded_cycles import Cycles, decision_of
from controlplane.controllers.quota.admission.state import (
    ObjectState,
    WorkloadState,
    folded_write,
    placed,
    posted,
    says_why,
    seen_again,
    without_said,
)
from controlplane.controllers.quota.admission.topologies import NODE_WORDS, ROOM, NodeObjects, needed_kinds
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.state import State
from controlplane.kube import kinds
from controlplane.kube.kinds import Kind
from controlplane.kube.limit_ranges import PodDefaults
from controlplane.log.event import Recorded

_replace = msgspec.structs.replace
CYCLE = "admission/cycle"
_DEFAULTS = (events.AdmissionLimitRangeObserved, events.AdmissionRuntimeClassObserved)
_SECOND = (topology_events.TopologyAssignmentDecided, topology_events.TopologyAssignmentFailed)
_DEFAULTS_GONE = (events.AdmissionLimitRangeGone, events.AdmissionRuntimeClassGone)
_WORD_KINDS: dict[str, Kind] = {
    "clusterqueue": kinds.CLUSTER_QUEUES,
    "cohort": kinds.COHORTS,
    "localqueue": kinds.LOCAL_QUEUES,
    "flavor": kinds.RESOURCE_FLAVORS,
    "check": kinds.ADMISSION_CHECKS,
    "limitrange": kinds.LIMIT_RANGES,
    "runtimeclass": kinds.RUNTIME_CLASSES,
    "topology": kinds.TOPOLOGIES,
}


class AdmissionIndex:
    """See the module. `objects` are the states of what is no Workload, by stream; `needs` is what is followed beside `KINDS`, as
    flavors and ClusterQueues are; `touched` is the position of the last
    event about a Workload of a Cohort tree, by the name of its root, and `moved` that of the last change of anything."""

    def __init__(self, settings: EngineSettings) -> None:
        self.engine = State(settings)
        self.cycles = Cycles()
        self.home = Connection(name=MANAGEMENT)
        self.workloads: dict[str, WorkloadState] = {}
        self.objects: dict[str, ObjectState] = {}
        self.moved = 0
        self.touched: dict[str, int] = {}
        self.of_queue: dict[str, set[str]] = {}
        self._dirty: dict[str, None] = {}
        self._defaults: dict[str, PodDefaults] = {}
        self.nodes = NodeObjects()
        self.needs: tuple[Kind, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether all that quota rests on is in view."""
        return all(self.home.in_view(kind.name) for kind in (*KINDS, *self.needs))

    @property
    def unseen(self) -> str:
        """What of that is not in view, in words; "" if all is. While the cluster is out of reach no kind is named."""
        if self.ready:
            return ""
        names = (
            [kind.name for kind in (*KINDS, *self.needs) if not self.home.in_view(kind.name)]
            if self.home.connected
            else []
        )
        said = "admission does not see all that quota rests on"
        return f"{said}: {', '.join(names)}" if names else said

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call; the cycle is the last."""
        dirty, self._dirty = self._dirty, {}
        if dirty.pop(CYCLE, ...) is None:
            dirty[CYCLE] = None
        return list(dirty)

    def workload(self, key: str) -> WorkloadState:
        """Return the state of a Workload by its namespace and name."""
        return self.workloads.get(key, WorkloadState())

    def seen(self, kind: Kind, namespace: str, name: str) -> Any:
        """Return an object that is no Workload as it was seen last; None if it is not there."""
        state = self.objects.get(stream_of(kind, namespace, name))
        return state.observed if state is not None else None

    def tree(self, cluster_queue: str) -> str:
        """Return the name of the Cohort tree that a ClusterQueue is in."""
        node = self.engine.snapshot.queues.get(cluster_queue)
        return node.root().name if node is not None else cluster_queue

    # --- folding -----------------------------------------------------------------------------------------------------

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        first, _, rest = recorded.stream.partition("/")
        if first == "cluster" and rest == MANAGEMENT:
            before = self.home.facts
            self.home = fold_connection(self.home, recorded)
            if before != self.home.facts:
                self.all_dirty()
        elif isinstance(recorded.event, ServiceStarted):
            self.home = restarted(self.home, recorded)
        elif first == "admission":
            word, _, place = rest.partition("/")
            if word == "workload":
                self._fold_workload(recorded, place)
            elif word == "namespace":
                fold_namespace(self, recorded)
            elif word == "priorityclass":
                fold_priority_class(self, recorded.event)
            elif word in NODE_WORDS:
                self._fold_node(recorded)
            elif word in _WORD_KINDS:
                self._fold_object(recorded, word)

    def mark(self, streams: Iterable[str]) -> None:
        """Let streams be decided about."""
        self._dirty.update(dict.fromkeys(streams))

    def all_dirty(self) -> None:
        """Let everything be decided about."""
        self._dirty.update(dict.fromkeys(f"admission/workload/{key}" for key in self.workloads))
        self._dirty.update(dict.fromkeys(self.objects))
        self._dirty[ROOM] = self._dirty[CYCLE] = None

    def _fold_node(self, recorded: Recorded) -> None:
        """Take an event of a Node, or of a pod on one: they concern those who wait, and no object of ours."""
        if self.nodes.fold(self.engine, recorded):
            self.changed(recorded, lambda now: None)
        if self.nodes.freed:
            self._dirty[ROOM] = None

    def _fold_workload(self, recorded: Recorded, key: str) -> None:
        event: Any = recorded.event
        self._dirty[recorded.stream] = None
        before = self._queue_of(key)
        state = self.workload(key)
        match event:
            case events.AdmissionWorkloadObserved():
                self._fold_seen(recorded, key, state, event)
            case events.AdmissionWorkloadGone():
                self._fold_gone(recorded, key, state, event)
            case events.QuotaPosted():
                self.workloads[key] = _replace(posted(state, event), version=recorded.version)
                self._forget(key)
                self._dirty[CYCLE] = None
            case events.QuotaReservationDecided():
                state = posted(folded_write(state, recorded), event)
                self.workloads[key] = _replace(state, reservation=event, unsaid=None)
                self._cycled(recorded, event)
            case topology_events.TopologyAssignmentDecided() | topology_events.TopologyAssignmentFailed():
                self.workloads[key] = placed(state, recorded)
                self._cycled(recorded, event)
            case events.WorkloadInadmissible():
                waits = event if event.written or state.trouble or says_why(state) else None
                self.workloads[key] = _replace(folded_write(state, recorded), unsaid=waits)
                self._cycled(recorded, event)
            case events.WorkloadPreemptionDecided():
                self.workloads[key] = folded_write(state, recorded)
                self.engine.evicting(key)
                self._dirty[CYCLE] = None
            case events.ReservationRetried():
                self.workloads[key] = state = _replace(state, version=recorded.version, held=False)
                self.put(recorded, state)
            case events.AdmissionWriteFailed() | events.AdmissionWriteUnneeded():
                self._fold_failed(recorded, key, folded_write(state, recorded), event)
            case events.WorkloadStatusDecided() if any(one.type == "QuotaReserved" for one in event.conditions):
                self.workloads[key] = _replace(folded_write(state, recorded), unsaid=None)
            case _:
                self.workloads[key] = folded_write(state, recorded)
        self.mark(replaced_streams(state, self.workload(key)))
        for name in {before, self._queue_of(key)} - {""}:
            self._concerns(recorded, name, event)

    def _concerns(self, recorded: Recorded, cluster_queue: str, event: Any) -> None:
        """Note that a Workload of a ClusterQueue changed."""
        self.touched[self.tree(cluster_queue)] = recorded.position
        self._dirty[stream_of(kinds.CLUSTER_QUEUES, "", cluster_queue)] = None
        node = self.engine.snapshot.queues.get(cluster_queue)
        if (
            node is not None and self.engine.settings.fair_sharing
        ):  # what they use is in the shares of all Cohorts above
            self._dirty.update({stream_of(kinds.COHORTS, "", above.name): None for above in node.ancestors()})
        if isinstance(event, events.AdmissionWorkloadObserved):
            self._dirty[stream_of(kinds.LOCAL_QUEUES, event.namespace, event.queue)] = None

    def _fold_seen(
        self, recorded: Recorded, key: str, state: WorkloadState, event: events.AdmissionWorkloadObserved
    ) -> None:
        old, reserved = state.observed, state.reservation is not None
        if old is not None and old.uid != event.uid:
            self._drop(recorded, key)
            state = _replace(state, reservation=None, held=False, effects={}, trouble={})
        elif old is not None and old.queue != event.queue:
            self.of_queue.get(f"{event.namespace}/{old.queue}", set()).discard(key)
            self._dirty[stream_of(kinds.LOCAL_QUEUES, event.namespace, old.queue)] = None
        if old is None or old.resource_version != event.resource_version:
            state = _replace(state, reservation=None, placement=None)
        if state.new_priority == event.priority:
            state = _replace(state, new_priority=None)
        self.of_queue.setdefault(f"{event.namespace}/{event.queue}", set()).add(key)
        self.workloads[key] = state = without_said(seen_again(state, event, recorded))
        if state.reservation is None and state.placement is None:
            self.put(recorded, state)
            if reserved and key not in self.engine.snapshot.workloads:
                self.engine.history.leave(key)  # the reservation was overtaken: it never entered

    def _fold_gone(
        self, recorded: Recorded, key: str, state: WorkloadState, event: events.AdmissionWorkloadGone
    ) -> None:
        if state.observed is None or state.observed.uid != event.uid:
            self.workloads[key] = _replace(state, version=recorded.version)
            return
        self.of_queue.get(f"{event.namespace}/{state.observed.queue}", set()).discard(key)
        self._dirty[stream_of(kinds.LOCAL_QUEUES, event.namespace, state.observed.queue)] = None
        self._drop(recorded, key)
        self.workloads[key] = WorkloadState(version=recorded.version, position=recorded.position, posted=state.posted)
        self._forget(key)

    def _fold_failed(self, recorded: Recorded, key: str, state: WorkloadState, event: Any) -> None:
        if state.reservation is not None or event.action == events.WorkloadPreemptionDecided.__name__:
            state = _replace(state, reservation=None, held=True)
            self.workloads[key] = state
            if event.action == events.QuotaReservationDecided.__name__:
                self.engine.history.leave(key)
            self.put(recorded, state)
        elif state.placement is not None:
            state = _replace(state, placement=None)
            self.put(recorded, state)
        self.workloads[key] = state
        self._dirty[CYCLE] = None

    def put(self, recorded: Recorded, state: WorkloadState) -> None:
        """Tell the engine of a Workload as it was seen."""
        if state.observed is not None:
            self.changed(recorded, lambda now: self._put_workload(state, now))

    def _put_workload(self, state: WorkloadState, now: float) -> None:
        said = self.pod_defaults(state.observed.namespace)
        found = facts.workload(state.observed, said, waits=state.held, by=self.engine.settings)
        self.engine.put_workload(found, now)

    def forget_defaults(self, namespace: str) -> None:
        """Forget what pods of a namespace get, or those of all namespaces."""
        if namespace:
            self._defaults.pop(namespace, None)
        else:
            self._defaults.clear()

    def pod_defaults(self, namespace: str) -> PodDefaults:
        """Return what pods of a namespace get that they do not say."""
        ranges = self._defaults.get(namespace)
        if ranges is None:
            seen = {stream: one.observed for stream, one in self.objects.items() if one.observed is not None}
            place, classes = f"admission/limitrange/{namespace}/", "admission/runtimeclass/"
            ranges = self._defaults[namespace] = facts.pod_defaults(
                [one.spec for stream, one in sorted(seen.items()) if stream.startswith(place)],
                {one.name: one.spec for stream, one in seen.items() if stream.startswith(classes)},
            )
        return ranges

    def _drop(self, recorded: Recorded, key: str) -> None:
        self.changed(recorded, lambda now: self.engine.drop_workload(key, now))

    def _forget(self, key: str) -> None:
        """Forget a Workload of which nothing is left."""
        state = self.workloads.get(key)
        if state is not None and state.observed is None and not state.posted.amounts:
            del self.workloads[key]

    def changed(self, recorded: Recorded, change: Callable[[float], None]) -> None:
        """Change the engine by something that came from outside: whoever waits may be tried again."""
        change(recorded.recorded_at.timestamp())
        self.moved = recorded.position
        self.cycles.clear()
        self._dirty[CYCLE] = None

    def _cycled(self, recorded: Recorded, event: Any) -> None:
        """Take a cycle's decision into account."""
        key = recorded.stream.removeprefix("admission/workload/")
        if isinstance(event, events.WorkloadInadmissible):
            self.cycles.note(key, event)
        self.engine.cycle = max(self.engine.cycle, event.cycle)
        pending = self.engine.queues.pending.get(event.cluster_queue)
        info = pending.find(key) if pending is not None else None
        if isinstance(event, _SECOND):
            info = self.engine.snapshot.workloads.get(key)
        if info is not None:
            self.engine.take(decision_of(event, info), recorded.recorded_at.timestamp())
        if isinstance(event, events.QuotaReservationDecided | topology_events.TopologyAssignmentDecided):
            self.moved = recorded.position
        self._dirty[CYCLE] = None

    def _queue_of(self, key: str) -> str:
        """Return the ClusterQueue that a Workload waits in or has quota of."""
        info: Info | None = self.engine.snapshot.workloads.get(key)
        if info is not None:
            return info.cluster_queue
        state = self.workloads.get(key)
        if state is None or state.observed is None:
            return ""
        local = self.engine.queues.local.get(f"{state.observed.namespace}/{state.observed.queue}")
        return local.cluster_queue if local is not None else ""

    def _fold_object(self, recorded: Recorded, word: str) -> None:
        event: Any = recorded.event
        stream = recorded.stream
        self._dirty[stream] = None
        state = self.objects.get(stream, ObjectState())
        if isinstance(event, events.AdmissionObjectObserved):
            before = state.observed
            if before is not None and before.uid != event.uid and word == "localqueue":
                self.engine.history.forget(f"{event.namespace}/{event.name}")  # another one, which used nothing yet
            self.objects[stream] = seen_again(state, event, recorded)
            if before is None or (before.spec, before.deleting, _active(before)) != (
                event.spec,
                event.deleting,
                _active(event),
            ):
                if isinstance(event, _DEFAULTS):
                    redefault(self, recorded, event.namespace, event.name if word == "runtimeclass" else "")
                    return
                self.changed(recorded, lambda now: put_object(self.engine, event, now))
                self._others(word, event)
            elif isinstance(event, events.AdmissionClusterQueueObserved) and _said(before) != _said(event):
                self._leading_to(event.name)
        elif isinstance(event, _DEFAULTS_GONE):
            if state.observed is not None and state.observed.uid == event.uid:
                self.objects.pop(stream)
                redefault(self, recorded, event.namespace, event.name if word == "runtimeclass" else "")
        elif (drop := DROPS.get(type(event))) is not None:
            if state.observed is not None and state.observed.uid == event.uid:
                self.objects.pop(stream)
                self.changed(recorded, lambda now: drop(self.engine, event, now))
                self._others(word, event)
        else:
            self.objects[stream] = folded_write(state, recorded)
            if isinstance(event, events.LocalQueueUsageSampled):
                self._fold_sample(recorded, event)

    def _fold_sample(self, recorded: Recorded, event: events.LocalQueueUsageSampled) -> None:
        """Note what a LocalQueue used: it may have another place among those that wait for the same quota."""
        key = recorded.stream.removeprefix("admission/localqueue/")
        record_sample(self.engine, key, event)
        for one in self.engine.history.tenant(key):
            local = self.engine.queues.local.get(one)
            queue = self.engine.snapshot.queues.get(local.cluster_queue) if local is not None else None
            if queue is not None and self.engine.by_usage(queue.spec):
                self.touched[queue.root().name] = recorded.position
                self._dirty[CYCLE] = None

    def _leading_to(self, cluster_queue: str) -> None:
        """Let the LocalQueues be looked at that lead to a ClusterQueue: what they say is what it says."""
        for queue in self.engine.queues.local.values():
            if queue.cluster_queue == cluster_queue:
                self._dirty[stream_of(kinds.LOCAL_QUEUES, queue.namespace, queue.name)] = None

    def _others(self, word: str, event: Any) -> None:
        """Let everything be looked at that a change of a queue, flavor or check may concern. They are few, and change
        seldom."""
        self._dirty.update(dict.fromkeys(self.objects))
        self.needs = needed_kinds(self.engine.snapshot)
        if word == "localqueue":
            for key in self.of_queue.get(f"{event.namespace}/{event.name}", ()):
                self._dirty[f"admission/workload/{key}"] = None
            return
        self.all_dirty()


def _said(event: events.AdmissionClusterQueueObserved) -> object:
    return event.status.get("conditions")


def _active(event: Any) -> object:
    return getattr(event, "active", None)
