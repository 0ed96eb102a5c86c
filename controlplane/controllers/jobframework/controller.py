"""Answers what the loop asks of a controller: jobs and their Workloads, as the log has them.

In: events in the log's order. Out: which jobs to decide about, what was decided, what an open write looks like. It only
keeps folds; what to do is decided in `decide`, how it looks in `render`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.objects import Deduplicator
from controlplane.controllers.jobframework import (
    events,
    namespace_events,
    pod_events,
    pods,
    runtime_events,
    set_events,
    sets,
    topology_events,
    ungating,
)
from controlplane.controllers.jobframework.announce import Reporter, announcement
from controlplane.controllers.jobframework.causes import cause
from controlplane.controllers.jobframework.context import JobFrameworkPolicy
from controlplane.controllers.jobframework.decide import decide
from controlplane.controllers.jobframework.index import JobIndex
from controlplane.controllers.jobframework.names import WORD
from controlplane.controllers.jobframework.observe_pods import POD_GROUPS
from controlplane.controllers.jobframework.render import bodies_needed, render
from controlplane.controllers.jobframework.render_pods import render_pod
from controlplane.controllers.jobframework.state import QueuedJobState
from controlplane.controllers.jobframework.writes import JobPass
from controlplane.job_kinds.base import JobKind
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import PODS, PODS_OF_SLICES, PODS_OF_TOPOLOGIES, WORKLOADS, ObjectRef, Request
from controlplane.kube.requests import Obsolete
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.decision_pass import PassResult
from controlplane.runtime.writes import OpenWrites, WritingController

_JOBS, _PODS = f"{WORD}/job/", f"{WORD}/topology/"
_ENDED_IF_KNOWN = (events.QueuedJobObserved, pod_events.QueuedPodObserved, set_events.QueuedSetObserved)
"""What is seen of objects whose end is recorded only if they were."""


class JobFrameworkController(WritingController[events.JobWrite]):
    """See the module. `identity` names this process in Kubernetes Events."""

    types: Sequence[type[Event]] = (
        *connectivity.EVENTS,
        *events.EVENTS,
        *pod_events.EVENTS,
        *topology_events.EVENTS,
        *runtime_events.EVENTS,
        *set_events.EVENTS,
        *namespace_events.EVENTS,
    )
    FAILED, UNNEEDED = events.JobWriteFailed, events.JobWriteUnneeded

    GIVEN = ("policy", "identity", "_adapters", "_coming")
    ENDING = frozenset({WORD})
    """The first word of the streams of which no fold needs an event any more at some time: see `leaves_nothing`."""

    def __init__(self, policy: JobFrameworkPolicy, identity: str) -> None:
        self.policy, self.identity = policy, identity
        self.index = JobIndex(policy)
        self._adapters = {kind.name: one for kind, one in (*policy.adapters.items(), *policy.parents.items())}
        self._repeats = Deduplicator()
        self._coming: set[str] = set()

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen; None if it concerns no job, or says nothing new.

        Of a job that may be written every version is recorded: most writes hold for one version alone."""
        if change.kind in (PODS_OF_TOPOLOGIES, PODS_OF_SLICES):
            return self._placed_pod(change, now)
        found = self.index.observer.seen(change, self.index.stream_of)
        if found is None:
            return None
        stream, event, bodies = found
        if change.gone:
            if not self._is_known(stream, event):
                return None
            self._repeats.forget(change.source)
        elif _is_quiet(event):
            if change.source and self._repeats.says_nothing_new(change.source, event, listed=change.listed):
                return None
        else:
            self._repeats.forget(change.source)
        if isinstance(event, _ENDED_IF_KNOWN):
            self._coming.add(event.uid)
        return change.observed(stream, event, now, bodies)

    def _placed_pod(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of a pod that a topology places. What cannot be read of one is no pod of a job: it stays
        gated."""
        try:
            found = self.index.topologies.seen(change) if change.cluster == MANAGEMENT else None
        except UNFIT:
            return None
        return change.observed(*found, now) if found is not None else None

    def _is_known(self, stream: str, event: Any) -> bool:
        """Whether anything was recorded of an object that is gone, or is on its way to the log: of most jobs without a
        queue nothing is.
        """
        if not isinstance(event, (events.QueuedJobGone, pod_events.QueuedPodGone, set_events.QueuedSetGone)):
            return True
        if event.uid in self._coming:
            self._coming.discard(event.uid)
            return True
        return stream in self.index.states or event.uid in self.index.places.known(MANAGEMENT, event.kind)

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        if isinstance(recorded.event, _ENDED_IF_KNOWN):
            self._coming.discard(recorded.event.uid)
        self.index.fold(recorded)

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        return self.index.take_dirty()

    # --- what follows ------------------------------------------------------------------------------------------------

    def is_over(self, stream: str) -> bool:
        """Whether nothing is left of a stream, so that nothing can follow for it."""
        return stream.startswith((_JOBS, _PODS)) and not self.index.holds(stream)

    def leaves_nothing(self, stream: str) -> bool:
        """Whether no state is left of a stream. A fold of the log without its events gives what it gives with them if
        it is not one of `needed_streams` either; but for the UIDs of what went last, which are hints.
        """
        return not self.index.holds(stream)

    def needed_streams(self) -> set[str]:
        """Return the streams on whose events what is known of others rests, also if they are over."""
        return self.index.places.newest.shown_by()

    @property
    def forgets_after(self) -> timedelta:
        """No time: what happened to a job counts for no other."""
        return timedelta(0)

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a job, or for the pods of a Workload that a topology places."""
        if stream.startswith(_PODS):
            return self._ungated(stream, now)
        state = self.index.states.get(stream)
        kind = self._adapter(stream).kind.name if state is not None else ""
        if state is None or not self.index.ready or not self.index.connection.in_view(kind):
            return Decided()  # a job whose kind may not be seen is not gone
        if self.index.unseen_owner(state):
            return Decided()  # nor is a set
        if self.index.sets.is_set(stream):
            plan = self._joined(stream, state, now)
        else:
            plan = decide(self.index, state, now, self.index.sets.place(stream))
        found = [
            NewEvent(
                stream=stream,
                event=one,
                cluster=MANAGEMENT,
                caused_by=cause(self.index, state, one, stream) or state.position,
            )
            for one in plan.decisions
        ]
        return Decided(found, state.version, plan.wake)

    def _joined(self, stream: str, state: QueuedJobState, now: datetime) -> PassResult[Event]:
        step, owner = JobPass(self.index, state, now), self.index.sets.seen.get(stream)
        if owner is not None and not state.effects:
            sets.joined(step, owner, self.index.sets.kinds[owner.kind])
        return step.plan

    def _ungated(self, stream: str, now: datetime) -> Decided:
        state, sees = self.index.topologies.states.get(stream), self.index.connection.in_view
        if state is None or not all(map(sees, {WORKLOADS.name, *(one.kind for one in state.pods.values())})):
            return Decided()  # where pods run that are not seen is not known
        namespace, name = stream.removeprefix(_PODS).split("/")
        workload = self.index.workload_of_pods(namespace, name)
        plan = ungating.decide(state, workload, now)
        at = max(state.position, self.index.workload_at(namespace, workload.name) if workload is not None else 0)
        found = [NewEvent(stream=stream, event=one, cluster=MANAGEMENT, caused_by=at) for one in plan.decisions]
        return Decided(found, state.version, plan.wake)

    # --- what is open ------------------------------------------------------------------------------------------------

    def _writes(self, stream: str) -> OpenWrites[events.JobWrite, Any] | None:
        if stream.startswith(_PODS):
            placed: OpenWrites[Any, Any] | None = self.index.topologies.states.get(stream)
            return placed
        return self.index.states.get(stream)

    def _adapter(self, stream: str) -> JobKind:
        word = stream.removeprefix(_JOBS).partition("/")[0]
        return self._adapters[PODS.name if word == POD_GROUPS else word]

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the refs of the bodies that `request` needs."""
        decision = self._decision(write)
        return bodies_needed(self.index.state(write.stream), decision) if decision is not None else ()

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if what it was decided on is gone."""
        decision = self._decision(write)
        if decision is None:
            return None
        if isinstance(decision, topology_events.PodUngateDecided):
            namespace = write.stream.removeprefix(_PODS).partition("/")[0]
            return render_pod(ObjectRef(PODS, namespace, decision.name), decision, bodies, now)
        state, adapter = self.index.state(write.stream), self._adapter(write.stream)
        try:
            if isinstance(decision, (set_events.SetWorkloadCreationDecided, events.JobNoticeDecided)):
                adapter = self._adapters[decision.kind]
            return render(state, self._place(write, decision), decision, bodies, adapter, now, self.identity)
        except Obsolete:
            return None

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return the Kubernetes Event that tells of a write, with Kueue's reason and words."""
        if write.stream.startswith(_PODS):
            return None
        decision, job = self._decision(write), self.index.state(write.stream).job
        uid = decision.uid if isinstance(decision, pod_events.PodWrite) else job.uid if job is not None else ""
        adapter = self._adapter(write.stream)
        if isinstance(decision, set_events.SetWorkloadCreationDecided):
            uid, adapter = decision.set_uid, self._adapters[decision.kind]
        if decision is None or not uid:
            return None
        by = Reporter(identity=self.identity, integration=adapter.integration)
        return announcement(self._place(write, decision), uid, decision, f"{write.position:x}", by, now)

    def _place(self, write: OpenWrite, decision: events.JobWrite) -> ObjectRef:
        """Return where the job of a write is, or the pod that the write is to. What is told of a group is told of its
        first."""
        word, namespace, name = write.stream.removeprefix(_JOBS).split("/", 2)
        if isinstance(decision, pod_events.PodWrite):
            return ObjectRef(PODS, namespace, decision.name)
        if isinstance(decision, set_events.SetWorkloadCreationDecided):
            return ObjectRef(self._adapters[decision.kind].kind, namespace, decision.set_name)
        if isinstance(decision, events.JobNoticeDecided) and decision.object:
            return ObjectRef(self._adapters[decision.kind].kind, namespace, decision.object)
        if word == POD_GROUPS and (job := self.index.state(write.stream).job) is not None:
            name = job.name
        return ObjectRef(self._adapter(write.stream).kind, namespace, name)


def _is_quiet(event: Event) -> bool:
    """Whether what was seen need not be recorded if it says what was said before: no write holds for one version of
    it."""
    if isinstance(event, pod_events.QueuedPodObserved):
        return not event.gated and pods.FINALIZER not in event.finalizers
    if isinstance(event, set_events.QueuedSetObserved):
        return True
    return isinstance(event, events.QueuedJobObserved) and not event.suspended
