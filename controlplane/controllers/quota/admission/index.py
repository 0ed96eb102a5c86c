"""Keeps what the log says of everything that quota rests on, and the engine's state that follows from it.

In: events in the log's order. Out: the states of Workloads, queues, flavors and checks; the engine's; and which streams
are to be decided about. A reservation counts from its decision on, and is given back if the Workload is seen without
it."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT, PolicyInForce, ServiceStarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.connectivity.state import restarted
from controlplane.controllers.quota.admission import events, topology_events
from controlplane.controllers.quota.admission.cluster_objects import fold_namespace, fold_object, fold_priority_class
from controlplane.controllers.quota.admission.device_objects import DEVICES
from controlplane.controllers.quota.admission.device_objects import WORDS as DEVICE_WORDS
from controlplane.controllers.quota.admission.folded import CYCLE, FoldedAdmission
from controlplane.controllers.quota.admission.observe import replaced_streams, stream_of
from controlplane.controllers.quota.admission.recorded_cycles import decision_of
from controlplane.controllers.quota.admission.repeated_preemption import preempted
from controlplane.controllers.quota.admission.state import (
    WorkloadState,
    folded_write,
    placed,
    posted,
    says_otherwise,
    says_why,
    seen_again,
    without_said,
)
from controlplane.controllers.quota.admission.topologies import NODE_WORDS, ROOM
from controlplane.kube import kinds
from controlplane.log.event import Recorded
from controlplane.runtime.writes import opened

_replace = msgspec.structs.replace
_SECOND = (topology_events.TopologyAssignmentDecided, topology_events.TopologyAssignmentFailed)
_GIVEN = (events.QuotaReservationDecided, topology_events.TopologyAssignmentDecided)
_RESERVATION = events.QuotaReservationDecided.__name__
_SERVERS_OWN = 500  # from this code on an API server says that something is wrong with itself
_PREEMPTION = events.WorkloadPreemptionDecided.__name__
_OBJECTS = frozenset(
    ("clusterqueue", "cohort", "localqueue", "flavor", "check", "limitrange", "runtimeclass", "topology")
)


class AdmissionIndex(FoldedAdmission):
    """What was folded, and the folding of Workloads and Nodes; that of other objects is in `cluster_objects`."""

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        first, _, rest = recorded.stream.partition("/")
        if first == "cluster" and rest == MANAGEMENT:
            before = self.home.facts
            self.home = fold_connection(self.home, recorded)
            if before != self.home.facts:
                self.all_dirty()
            self.recount(recorded, self.devices.look(self.home.synced, self.home.off))
        elif isinstance(recorded.event, ServiceStarted):
            self.home = restarted(self.home, recorded)
        elif isinstance(recorded.event, PolicyInForce):
            self.changed(recorded, self.engine.wake_all)
        elif first == "admission":
            self._fold_admission(recorded, *rest.partition("/")[::2])

    def _fold_admission(self, recorded: Recorded, word: str, place: str) -> None:
        """Take an event of what quota rests on, by the words of its stream."""
        if word == "workload":
            self._fold_workload(recorded, place)
        elif word == "namespace":
            fold_namespace(self, recorded)
        elif word == "priorityclass":
            fold_priority_class(self, recorded.event)
        elif word in NODE_WORDS:
            self._fold_node(recorded)
        elif word in DEVICE_WORDS or recorded.stream == DEVICES:
            self.recount(recorded, self.devices.fold(recorded))
            if self.devices.changed is not None:
                self._dirty[DEVICES] = None
        elif word in _OBJECTS:
            fold_object(self, recorded, word)

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
                self.workloads[key] = preempted(folded_write(state, recorded), recorded.recorded_at)
                self.engine.evicting(key)
                self._dirty[CYCLE] = None
            case events.ReservationRetried():
                self._fold_retried(recorded, key, _replace(state, version=recorded.version, held=False, paused=False))
            case events.AdmissionWriteFailed() | events.AdmissionWriteUnneeded():
                self._fold_failed(recorded, key, folded_write(state, recorded), event)
            case events.WorkloadStatusDecided() if says_otherwise(state, event):
                self.workloads[key] = _replace(folded_write(state, recorded), unsaid=None)
            case _:
                self.workloads[key] = folded_write(state, recorded)
        self._forget(key)
        self.enqueue(replaced_streams(state, self.workload(key)))
        for name in filter(
            None, dict.fromkeys((before, self._queue_of(key)))
        ):  # a set's order differs between processes
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
            self.leave(event.namespace, old.queue, key)
            state = WorkloadState(version=state.version, posted=state.posted)  # another one: nothing holds of it
        elif old is not None and old.queue != event.queue:
            self.leave(event.namespace, old.queue, key)
            self._dirty[stream_of(kinds.LOCAL_QUEUES, event.namespace, old.queue)] = None
        # Also of the same version: the cluster was put back, and what else has quota may not be what it was.
        effects = {key: one for key, one in state.effects.items() if not isinstance(one.decision, _GIVEN)}
        since = state.since or recorded.recorded_at
        state = _replace(state, reservation=None, placement=None, effects=effects, since=since)
        if state.new_priority == event.priority:
            state = _replace(state, new_priority=None)
        self.enter(event.namespace, event.queue, key)
        self.devices.ask(key, event)
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
        self.leave(event.namespace, state.observed.queue, key)
        self._dirty[stream_of(kinds.LOCAL_QUEUES, event.namespace, state.observed.queue)] = None
        self._drop(recorded, key)
        self.devices.ask(key, None)
        self.workloads[key] = WorkloadState(version=recorded.version, position=recorded.position, posted=state.posted)

    def _fold_retried(self, recorded: Recorded, key: str, state: WorkloadState) -> None:
        given = state.reservation
        if given is not None and not _has_places(given):
            self.workloads[key] = opened(state, given, recorded)
            return
        if given is not None:  # nodes may have changed since: it is placed anew
            self.engine.history.leave(key)
            state = _replace(state, reservation=None)
        self.workloads[key] = state
        self.put(recorded, state)

    def _fold_failed(self, recorded: Recorded, key: str, state: WorkloadState, event: Any) -> None:
        if _is_unclear(event) and state.reservation is not None:
            self.workloads[key] = _replace(state, held=True)  # until the same write has a clear answer, or is seen
            return
        if state.reservation is not None or event.action == _PREEMPTION or _is_refused(event):
            state = _replace(state, reservation=None, held=True)
            self.workloads[key] = state
            if event.action == _RESERVATION:
                self.engine.history.leave(key)
            self.put(recorded, state)
        elif state.placement is not None:
            state = _replace(state, placement=None)
            self.put(recorded, state)
        self.workloads[key] = state
        self._dirty[CYCLE] = None

    def _drop(self, recorded: Recorded, key: str) -> None:
        self.changed(recorded, lambda now: self.engine.drop_workload(key, now))

    def _forget(self, key: str) -> None:
        """Forget a Workload of which nothing is left."""
        state = self.workloads.get(key)
        if state is not None and state.observed is None and not state.posted.amounts:
            del self.workloads[key]

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
        if isinstance(event, _GIVEN):
            self.moved = recorded.position
        self._dirty[CYCLE] = None


def _has_places(given: events.QuotaReservationDecided) -> bool:
    return any("topologyAssignment" in one for one in given.admission.get("podSetAssignments") or ())


def _is_unclear(event: events.AdmissionWriteFailed | events.AdmissionWriteUnneeded) -> bool:
    """Whether the write of a reservation may have been carried out all the same: an error is not an answer."""
    failed = isinstance(event, events.AdmissionWriteFailed) and event.code >= _SERVERS_OWN
    return failed and event.action == _RESERVATION


def _is_refused(event: events.AdmissionWriteFailed | events.AdmissionWriteUnneeded) -> bool:
    """Whether a reservation was refused, which may have been overtaken meanwhile: it is not tried again at once. One
    that only met a newer version is, and keeps its place.
    """
    failed = isinstance(event, events.AdmissionWriteFailed) and event.error != "Conflict"
    return failed and event.action == _RESERVATION
