"""Reserves quota and admits: the controller that does on the management cluster what Kueue's scheduler and core do.

In: events in the log's order. Out: which streams to decide about, and what follows: a scheduling cycle for all
ClusterQueues together, and for each Workload, queue and flavor what its own state asks for. Nothing is decided while
something that quota rests on is not in view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.objects import Deduplicator, ObjectPlaces
from controlplane.controllers.quota.admission import (
    announce,
    cycles,
    device_events,
    events,
    ledger,
    local_queue_usage,
    placed_pods,
    queue_status,
    retention,
    second_pass,
    slices,
    topology_events,
)
from controlplane.controllers.quota.admission.device_objects import DEVICES
from controlplane.controllers.quota.admission.folded import CYCLE
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.metric_labels import MetricLabels
from controlplane.controllers.quota.admission.node_failures import REASONS as OF_NODES
from controlplane.controllers.quota.admission.node_failures import NodeFailures
from controlplane.controllers.quota.admission.observe import GONE, SEEN, refused, seen
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.reconcile import look
from controlplane.controllers.quota.admission.reconcile_step import ReconcileWrite
from controlplane.controllers.quota.admission.render import KIND_OF, request
from controlplane.controllers.quota.admission.repeated_preemption import end_of_pause
from controlplane.controllers.quota.admission.state import ObjectState, WorkloadState
from controlplane.controllers.quota.admission.topologies import ROOM
from controlplane.controllers.quota.admission.worker_usage import WorkerUsage
from controlplane.controllers.quota.admission.workload_queues import is_ours, queues_of
from controlplane.controllers.quota.admission.workload_writes import write_fields
from controlplane.controllers.quota.devices.model import DEVICE_KINDS
from controlplane.controllers.quota.engine.reasons import PREEMPTION_GATED
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import NODES, PODS_OF_TOPOLOGIES, Request
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.kube.requests import merge_diff
from controlplane.log.event import Body, Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.writes import OpenWrites, WritingController

# Counts change with each Workload: as Kueue, they are written once a second at most. What is said of a queue's state is
# not waited for.
_COUNTS = timedelta(seconds=1)
# What is never written.
_SELDOM = (
    events.AdmissionNamespaceObserved,
    events.AdmissionPriorityClassObserved,
    events.WorkerUsageObserved,
)
_TARGET = f"{MANAGEMENT}/Workload"


class AdmissionController(WritingController[events.AdmissionWrite]):
    """See the module. `identity` names this process in Kubernetes Events; `pods_ready` is None if nothing waits for
    pods, and `after_finished` if finished Workloads are kept for good. `labels` are for the metrics alone."""

    types: Sequence[type[Event]] = (
        *connectivity.EVENTS,
        *events.EVENTS,
        *topology_events.EVENTS,
        *device_events.EVENTS,
    )
    GIVEN = ("identity", "pods_ready", "after_finished", "labels", "_workers")
    FAILED, UNNEEDED = events.AdmissionWriteFailed, events.AdmissionWriteUnneeded

    def __init__(
        self,
        settings: EngineSettings,
        identity: str,
        pods_ready: WaitForPodsReady | None = None,
        after_finished: timedelta | None = None,
        labels: MetricLabels | None = None,
    ) -> None:
        self.identity, self.pods_ready, self.after_finished = identity, pods_ready, after_finished
        self.labels = labels or MetricLabels()
        self.index, self.elsewhere, self.failures = AdmissionIndex(settings), WorkerUsage(), NodeFailures()
        sharing = settings.admission_fair_sharing
        self._workers = sharing is not None and sharing.workers
        self.places = ObjectPlaces(
            {event: kind.name for event, kind in SEEN.items()}, {event: kind.name for event, kind in GONE.items()}
        )
        self._repeats = Deduplicator()

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen; None if nothing rests on it, or if it says nothing new.

        Of what may be written every version is recorded: a write holds for one version alone."""
        if change.cluster == MANAGEMENT:
            self.labels.note(change)
        followed = (NODES, PODS_OF_TOPOLOGIES, *DEVICE_KINDS)
        found = self._followed(change) if change.kind in followed else seen(change, workers=self._workers)
        if found is None:
            return None
        stream, event, bodies = found
        if change.gone:
            self._repeats.forget(change.source)
        elif isinstance(event, _SELDOM) and self._repeats.says_nothing_new(change.source, event, listed=change.listed):
            return None
        return change.observed(stream, event, now, bodies)

    def _followed(self, change: ObjectChange) -> tuple[str, Event, tuple[Body, ...]] | None:
        """Return stream, event and bodies of a Node, of a pod on one, or of what devices are counted by."""
        if change.cluster != MANAGEMENT:
            return None
        try:
            if change.kind in DEVICE_KINDS:
                told = self.index.devices.seen(change)
                return (*told, ()) if told is not None else None
            found = self.index.nodes.seen(change)
            if found is None and change.kind == PODS_OF_TOPOLOGIES:
                found = self.failures.pods.seen(change)
        except UNFIT as error:
            return refused(change, error)
        return (*found, ()) if found is not None else None

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.places.fold(recorded)
        self.labels.fold(recorded)
        self.index.fold(recorded)
        self.index.enqueue(f"admission/localqueue/{key}" for key in self.elsewhere.fold(recorded))
        self.index.enqueue(self.failures.fold(self.index, recorded))

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        return self.index.take_dirty()

    # --- what follows ------------------------------------------------------------------------------------------------

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream."""
        if not self.index.ready:
            return Decided()
        if stream == CYCLE:
            found, others = cycles.decide(self.index, now)
            return Decided(found, 0, second_pass.next_try(self.index, now), others)
        if stream == ROOM:
            return self._room(now)
        if stream == DEVICES:
            return self._devices(now)
        if stream.startswith("admission/workload/"):
            return self._workload(stream, now)
        if stream.startswith(placed_pods.PLACED):
            return self._pods(stream, now)
        state = self.index.objects.get(stream)
        if state is None or state.observed is None:
            return Decided()
        if isinstance(state.observed, events.AdmissionLocalQueueObserved):
            return self._local_queue(stream, state, state.observed, now)
        return self._object(stream, state, now)

    def _room(self, now: datetime) -> Decided:
        nodes = self.index.nodes
        freed, wake = nodes.room_freed(self.index.engine, now)
        found = [self._new(ROOM, freed, nodes.freed_at)] if freed is not None else []
        return Decided(found, nodes.version, wake)

    def _devices(self, now: datetime) -> Decided:
        devices, quota = self.index.devices, self.index.engine.snapshot.workloads
        recounted, wake = devices.recount(lambda key: key not in quota, now)
        found = [self._new(DEVICES, recounted, devices.position)] if recounted is not None else []
        return Decided(found, devices.version, wake)

    def _pods(self, stream: str, now: datetime) -> Decided:
        """Return which pods of a Workload are to fail where they are placed."""
        state = self.failures.pods.states.get(stream)
        if state is None:
            return Decided()
        plan = self.failures.failing_pods(self.index, stream, now)
        key = stream.removeprefix(placed_pods.PLACED)
        at = self.failures.moved(key, max(state.position, self.index.workload(key).position))
        return Decided([self._new(stream, one, at) for one in plan.decisions], state.version, plan.wake)

    # Workloads.

    def _workload(self, stream: str, now: datetime) -> Decided:
        key = stream.removeprefix("admission/workload/")
        state = self.index.workloads.get(key)
        if state is None:
            return Decided()
        found: list[events.AdmissionDecision] = []
        entry = ledger.entry(self.index.engine, key, state)
        if entry is not None:
            found.append(entry)
        trouble = state.trouble.get(_TARGET)
        wake, cause = None, state.position
        if trouble is not None and trouble.until > now:
            wake = trouble.until
        elif (told := second_pass.notice(state)) is not None and not state.effects:
            found.append(told)
        elif state.held:
            found.append(events.ReservationRetried(reason=R.WRITE_REFUSED))
        elif state.observed is not None and not state.effects:
            step, wake = self._next_write(state, state.observed, now)
            if step is None and state.paused:
                over, wake = end_of_pause(state.preempted, now, wake)
                found += over
            if step is not None:
                found.append(_write(state.observed, step))
                cause = self.failures.moved(key, cause) if step.reason in OF_NODES else cause
        return Decided([self._new(stream, one, cause) for one in found], state.version, wake)

    def _next_write(
        self, state: WorkloadState, seen: events.AdmissionWorkloadObserved, now: datetime
    ) -> tuple[ReconcileWrite | None, datetime | None]:
        """Return what is to be written, and when to look again."""
        if state.new_priority is not None:
            return ReconcileWrite(R.PRIORITY_CHANGED, spec={"priority": state.new_priority}), None
        replaced = slices.replaced(self.index, seen, now)
        if replaced is not None:
            return replaced, None
        queues = queues_of(self.index, seen)
        looked = look(seen, queues, now, self.pods_ready)
        if looked.step is None:
            of_nodes = self.failures.step(self.index, seen, now)
            if of_nodes is not None:
                return of_nodes, looked.wake
            over = retention.expired(seen, self.after_finished, now, ours=is_ours(self.index, seen))
            if over.step is not None or over.wake is not None:
                return over.step, over.wake
        unsaid = self._unsaid(state, now) if not queues.refusal else None
        return looked.step or unsaid, looked.wake

    def _unsaid(self, state: WorkloadState, now: datetime) -> ReconcileWrite | None:
        """Return the write of why a Workload waits, where a cycle could not write it, or its write was overtaken."""
        waits, seen = state.unsaid, state.observed
        if waits is None:
            return None
        pending = self.index.engine.queues.pending.get(waits.cluster_queue)
        info = pending.find(f"{seen.namespace}/{seen.name}") if pending is not None else None
        by, gated = self.index.engine.settings, waits.requeue == PREEMPTION_GATED
        status = cycles.waiting(seen, info, waits.why, waits.message, now, by.devices.in_bytes, gated=gated)
        return ReconcileWrite(R.CONDITIONS_SYNCED, status) if status != seen.status else None

    def _new(self, stream: str, event: Event, position: int) -> NewEvent:
        return NewEvent(stream=stream, event=event, cluster=MANAGEMENT, caused_by=position or self.index.moved)

    # Queues, flavors, checks.

    def _local_queue(
        self, stream: str, state: ObjectState, seen: events.AdmissionLocalQueueObserved, now: datetime
    ) -> Decided:
        """Sample what it used, whether or not its status can be written."""
        found = local_queue_usage.sample(self.index, self.elsewhere, seen, now)
        if found.event is not None:
            return Decided([self._new(stream, found.event, max(state.position, found.cause))], state.version)
        decided = self._object(stream, state, now)
        wakes = [one for one in (decided.wake, found.due) if one is not None]
        return msgspec.structs.replace(decided, wake=min(wakes, default=None))

    def _object(self, stream: str, state: ObjectState, now: datetime) -> Decided:
        seen = state.observed
        until = max((trouble.until for trouble in state.trouble.values()), default=now)
        if state.effects or until > now:
            return Decided((), state.version, until if until > now else None)
        wanted = queue_status.finalizers(self.index, seen)
        if wanted is not None:
            reason = R.IN_USE if RESOURCE_IN_USE in wanted else R.NOT_IN_USE
            event: events.AdmissionWrite = events.FinalizersDecided(
                uid=seen.uid, resource_version=seen.resource_version, finalizers=wanted, reason=reason
            )
            return Decided([self._new(stream, event, max(state.position, self.index.moved))], state.version)
        soon = state.decided_at + _COUNTS if state.decided_at is not None else now
        if soon > now and not queue_status.stands_otherwise(self.index, seen, now):
            return Decided((), state.version, soon)  # counting takes as long as there are Workloads
        changes = self._status_changes(seen, now)
        if not changes:
            return Decided((), state.version)
        rests = local_queue_usage.rests_until(self.index, seen, changes)
        if state.decided_at is not None and "conditions" not in changes:
            rests = max(state.decided_at + _COUNTS, rests or state.decided_at)
        if rests is not None and rests > now:
            return Decided((), state.version, rests)
        event = events.QueueStatusDecided(
            uid=seen.uid, resource_version=seen.resource_version, changes=changes, reason=R.STATUS_CHANGED
        )
        return Decided([self._new(stream, event, max(state.position, self.index.moved))], state.version)

    def _status_changes(self, seen: Any, now: datetime) -> dict[str, Any]:
        match seen:
            case events.AdmissionClusterQueueObserved():
                status = queue_status.cluster_queue(self.index, seen, now)
            case events.AdmissionLocalQueueObserved():
                status = queue_status.local_queue(self.index, seen, now)
                local_queue_usage.told(self.index, seen, status)
            case events.AdmissionCohortObserved():
                status = queue_status.cohort(self.index, seen)
            case _:
                return {}
        return merge_diff(seen.status, status)

    # --- what is open ------------------------------------------------------------------------------------------------

    def _state(self, stream: str) -> Any:
        if stream.startswith("admission/workload/"):
            return self.index.workloads.get(stream.removeprefix("admission/workload/"))
        if stream.startswith(placed_pods.PLACED):
            return self.failures.pods.states.get(stream)
        return self.index.objects.get(stream)

    def _writes(self, stream: str) -> OpenWrites[events.AdmissionWrite, Any] | None:
        state: OpenWrites[events.AdmissionWrite, Any] | None = self._state(stream)
        return state

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return nothing: what is written is in the decision, and in what was seen."""
        return ()

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if what it was decided on is gone."""
        decision, state = self._decision(write), self._state(write.stream)
        if isinstance(decision, topology_events.PodFailureDecided):
            if not self.failures.fails(self.index, write.stream, decision.uid):
                return None  # its node has recovered meanwhile, or its Workload is placed there again
            return placed_pods.failing(placed_pods.place_of(write.stream, decision), decision, now)
        if decision is None or state is None or state.observed is None:
            return None
        if isinstance(decision, topology_events.SecondPassNoticeDecided):
            return announce.notice(state.observed, decision, self.identity, now)
        return request(KIND_OF[write.stream.split("/")[1]], state.observed, decision)

    def announcement(self, write: OpenWrite, now: datetime) -> tuple[Request, ...]:
        """Return the Kubernetes Events to send after a write succeeded."""
        decision, state = self._decision(write), self._state(write.stream)
        if isinstance(decision, topology_events.PodFailureDecided):
            place = placed_pods.place_of(write.stream, decision)
            return (placed_pods.failed(place, decision, f"{write.position:x}", self.identity, now),)
        if decision is None or state is None or not isinstance(state.observed, events.AdmissionWorkloadObserved):
            return ()
        preemptor = None
        if isinstance(decision, events.WorkloadPreemptionDecided):
            preemptor = self.index.workload(decision.preemptor).observed
        by = self.index.engine.settings
        return announce.announcements(state.observed, decision, preemptor, write.position, self.identity, now, by)


def _write(seen: events.AdmissionWorkloadObserved, step: ReconcileWrite) -> events.AdmissionWrite:
    target: dict[str, Any] = {"uid": seen.uid, "resource_version": seen.resource_version, "reason": step.reason}
    if step.spec is not None:
        return events.WorkloadSpecDecided(**target, changes=step.spec)
    if step.deletes:
        return events.WorkloadDeletionDecided(**target)
    if step.finalizers is not None:
        return events.FinalizersDecided(**target, finalizers=step.finalizers)
    assert step.status is not None, "a step that writes nothing"
    fields = write_fields(seen.status, step.status)
    return events.WorkloadStatusDecided(**target, **fields, evicted=step.evicted, message=step.message)
