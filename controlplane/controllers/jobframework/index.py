"""Keeps all jobs with their Workloads, and what they rest on, in memory as the log says it.

In: events in the log's order. Out: states by stream, the jobs that a job belongs to, which streams have to be decided
about. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT, ServiceStarted, cluster_stream
from controlplane.controllers.connectivity.objects import ObjectPlaces
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.context import NESTED_AT_MOST, Ancestor, Catalog, JobFrameworkPolicy
from controlplane.controllers.jobframework.names import WORD, job_stream
from controlplane.controllers.jobframework.namespace_events import JobNamespaceGone, JobNamespaceObserved
from controlplane.controllers.jobframework.namespaces import STREAM as NAMESPACE_STREAM
from controlplane.controllers.jobframework.namespaces import ManagedNamespaces
from controlplane.controllers.jobframework.observe import CLASSES, JobObserver
from controlplane.controllers.jobframework.observe_pods import POD_GROUPS
from controlplane.controllers.jobframework.pod_events import QueuedPodGone, QueuedPodObserved
from controlplane.controllers.jobframework.runtime_events import JobRuntimeGone, JobRuntimeObserved
from controlplane.controllers.jobframework.runtimes import STREAM, Runtimes
from controlplane.controllers.jobframework.set_events import QueuedSetGone, QueuedSetObserved
from controlplane.controllers.jobframework.sets import SET_KINDS, Sets
from controlplane.controllers.jobframework.slices import newest_with_quota
from controlplane.controllers.jobframework.state import QueuedJobState, fold, without_pod, without_workload
from controlplane.controllers.jobframework.topology_events import TopologyPodGone, TopologyPodObserved
from controlplane.controllers.jobframework.ungating import TopologyUngating, has_gated_pods, is_placed, topology_stream
from controlplane.controllers.jobframework.unread import UnreadObjects
from controlplane.kube import kinds
from controlplane.kube.kueue_names import MULTIKUEUE
from controlplane.log.event import Event, Recorded

K = TypeVar("K")
_EMPTY = QueuedJobState()
_SEEN: dict[type[Event], str] = {
    events.QueuedJobObserved: "",
    QueuedPodObserved: "",
    events.JobWorkloadObserved: kinds.WORKLOADS.name,
    events.JobFlavorObserved: kinds.RESOURCE_FLAVORS.name,
    events.JobPriorityClassObserved: "",
    events.JobInputRefused: "",
    TopologyPodObserved: "",
    JobRuntimeObserved: "",
    QueuedSetObserved: "",
    JobNamespaceObserved: kinds.NAMESPACES.name,
}
_GONE: dict[type[Event], str] = {
    events.QueuedJobGone: "",
    QueuedPodGone: "",
    events.JobWorkloadGone: kinds.WORKLOADS.name,
    events.JobFlavorGone: kinds.RESOURCE_FLAVORS.name,
    events.JobPriorityClassGone: "",
    TopologyPodGone: "",
    JobRuntimeGone: "",
    QueuedSetGone: "",
    JobNamespaceGone: kinds.NAMESPACES.name,
}


class JobIndex:
    """See the module. `stream_of` has the stream of each Workload and of each pod, by UID; `placed`: the UIDs of
    Workloads that are admitted to domains of a topology, `sliced` of those that are admitted as slices of elastic jobs
    that run here; of the pods of both `topologies` knows."""

    GIVEN = ("policy", "observer", "_kinds")

    def __init__(self, policy: JobFrameworkPolicy) -> None:
        self.policy, self.observer = policy, JobObserver(policy)
        self.namespaces = ManagedNamespaces(policy)
        self.stream_of: dict[str, str] = {}
        self.states: dict[str, QueuedJobState] = {}
        self.catalog, self.runtimes, self.sets = Catalog(), Runtimes(), Sets(policy.parents)
        self.connection = Connection(name=MANAGEMENT)
        self.places = ObjectPlaces(_SEEN, _GONE)
        self.topologies, self.unread = TopologyUngating(), UnreadObjects()
        self.placed: set[str] = set()
        self.sliced: set[str] = set()
        self._chains: dict[tuple[str, str], str] = {}
        self._kinds = {kind.name: kind for kind in policy.adapters}
        self._named: dict[tuple[str, str], str] = {}
        self._free: dict[tuple[str, str], events.JobWorkloadObserved] = {}
        self._below: dict[str, dict[str, None]] = {}
        self._bound: dict[tuple[str, str], dict[str, None]] = {}
        self._sizes: dict[str, dict[str, None]] = {}
        self._dirty: dict[str, None] = {}

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether all is in view that decisions rest on; kinds that are not installed are not waited for."""
        others = [kinds.RESOURCE_FLAVORS, *CLASSES, *self.policy.adapters, *self.observer.runtimes]
        others += [kind for kind, one in self.policy.parents.items() if one.grouped]
        others += [kinds.NAMESPACES] if self.policy.asks_namespaces else []
        return self.connection.in_view(kinds.WORKLOADS.name) and self.connection.settled(one.name for one in others)

    def state(self, stream: str) -> QueuedJobState:
        """Return the state of a job's stream."""
        return self.states.get(stream, _EMPTY)

    def holds(self, stream: str) -> bool:
        """Whether anything is known by the events of a stream."""
        _, word, *rest = stream.split("/")
        match word:
            case "job":
                return stream in self.states or self.sets.holds(stream)
            case "workload":
                return tuple(rest) in self._free
            case "flavor":
                return rest[0] in self.catalog.flavors
            case "priorityclass":
                return tuple(rest) in self.catalog.classes
            case "topology":
                return stream in self.topologies.states
            case "namespace":
                return rest[0] in self.namespaces.seen
            case "runtime":
                return "/".join(rest) in self.runtimes.seen
            case "refused":
                return self.unread.holds(*rest)
        return False

    def free_workload(self, namespace: str, name: str) -> events.JobWorkloadObserved | None:
        """Return a Workload that no job owns, None if there is none of this name."""
        return self._free.get((namespace, name))

    def named_workload(self, namespace: str, name: str) -> str:
        """Return the stream of the Workload of a name, "" if none is known."""
        return self.stream_of.get(self._named.get((namespace, name), ""), "")

    def workload(self, namespace: str, name: str) -> events.JobWorkloadObserved | None:
        """Return the Workload of a name, None if none is known."""
        uid = self._named.get((namespace, name), "")
        found = self.state(self.stream_of.get(uid, "")).workloads.get(uid)
        return found or self.free_workload(namespace, name)

    def workload_of_pods(self, namespace: str, name: str) -> events.JobWorkloadObserved | None:
        """Return the Workload that pods run by which name one: of an elastic job its newest slice with quota, by the
        name of the first; None if none is known."""
        chain = self._chains.get((namespace, name))
        if chain is None:
            return self.workload(namespace, name)
        found = self.state(chain).workloads.values()
        return newest_with_quota(one for one in found if one.slice is not None and one.slice.name == name)

    def workload_at(self, namespace: str, name: str) -> int:
        """Return where in the log the Workload of a name was seen last; 0 if that is not known."""
        uid = self._named.get((namespace, name), "")
        return self.state(self.stream_of.get(uid, "")).workloads_at.get(uid, 0)

    def unseen_owner(self, state: QueuedJobState) -> bool:
        """Whether pods that are not there may be made yet, by a set that may not be seen and owns a Workload."""
        references = [one for workload in state.workloads.values() for one in workload.references]
        kinds_ = [kind for one in references for kind in SET_KINDS if (one.get("apiVersion"), one.get("kind")) == kind]
        return state.job is None and any(not self.connection.in_view(SET_KINDS[kind]) for kind in kinds_)

    def may_belong(self, namespace: str, owner: events.QueuedOwner) -> bool:
        """Whether what an owner controls belongs to a job with a queue, or may do so for all that is known."""
        kind = self.observer.kind_of(owner)
        if kind is None:
            return False
        parent = self.state(job_stream(kind.name, namespace, owner.name)).job
        managed = parent is None or parent.uid != owner.uid or bool(parent.queue) or self.manages(namespace)
        return managed or (parent is not None and self.ancestor(parent).found)

    def selected(self, namespace: str) -> bool:
        """Whether jobs of a namespace are looked after."""
        return self.namespaces.selected(namespace)

    def manages(self, namespace: str) -> bool:
        """Whether jobs of a namespace are looked after that name no queue."""
        return self.namespaces.all_of(namespace)

    def sized(self, job: events.QueuedJobObserved) -> events.QueuedJobObserved:
        """Return a running job with the sizes of the one that is made of it; as it is if none is there."""
        made = self.state(job.sized_by).job if job.sized_by and not job.suspended else None
        if made is None or made.owner is None or made.owner.uid != job.uid:
            return job
        sizes = {one.name: one.count for one in made.pod_sets}
        pod_sets = [msgspec.structs.replace(one, count=sizes.get(one.name, one.count)) for one in job.pod_sets]
        return msgspec.structs.replace(job, pod_sets=pod_sets, sized_at=made.generation)

    def ancestor(self, job: events.QueuedJobObserved) -> Ancestor:
        """Return the topmost job with a queue that a job belongs to (`FindAncestorJobManagedByKueue` in
        kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go).
        """
        top, current, known, seen = None, job, True, {job.uid}
        while current.owner is not None and (kind := self.observer.kind_of(current.owner)) is not None:
            stream = job_stream(kind.name, job.namespace, current.owner.name)
            parent = self.state(stream).job
            if parent is None:
                known = False
                break
            if parent.uid != current.owner.uid or parent.uid in seen:
                break
            seen.add(parent.uid)
            if parent.queue or self.manages(job.namespace):
                top = stream
            current = parent
            if len(seen) > NESTED_AT_MOST:
                return Ancestor(too_deep=True)
        return Ancestor(known=known) if top is None else self._found(top, known=known)

    def _found(self, top: str, *, known: bool) -> Ancestor:
        """Return the topmost job of a stream, and whether it, or a slice of it, is admitted."""
        state = self.state(top)
        unfinished = [uid for uid, one in state.workloads.items() if not one.is_true("Finished")]
        last = max(unfinished, key=lambda uid: state.workloads_at[uid], default="")
        admitted = bool(last) and state.workloads[last].is_true("Admitted")
        if state.job is not None and state.job.elastic:
            admitted = any(state.workloads[uid].is_true("Admitted") for uid in unfinished)
        at = max(state.job_at, state.workloads_at.get(last, 0))
        return Ancestor(known=known, found=True, admitted=admitted, position=at)

    # --- what happens ------------------------------------------------------------------------------------------------

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        self._enqueue(self.namespaces.concerned(self.states))
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.places.fold(recorded)
        self.unread.fold(recorded)
        event = recorded.event
        if recorded.stream == cluster_stream(MANAGEMENT):
            self._connected(fold_connection(self.connection, recorded))
        elif isinstance(event, ServiceStarted):
            self._connected(restarted(self.connection, recorded))
        elif recorded.stream.startswith(f"{WORD}/job/"):
            self._fold_job(recorded)
        elif recorded.stream.startswith(f"{WORD}/workload/"):
            self._fold_free(recorded)
        elif recorded.stream.startswith(f"{WORD}/topology/"):
            self.topologies.fold(recorded)
            self._enqueue([recorded.stream])
        elif recorded.stream.startswith(NAMESPACE_STREAM):
            self.namespaces.fold(recorded)
        elif recorded.stream.startswith(STREAM):
            for stream in self.runtimes.fold(recorded):
                self.states[stream] = self._completed(self.states[stream])
                self._enqueue([stream])
        elif recorded.stream.startswith((f"{WORD}/flavor/", f"{WORD}/priorityclass/")):
            self.catalog.fold(recorded)
            self._enqueue(self.states)

    def _enqueue(self, streams: Iterable[str]) -> None:
        self._dirty.update(dict.fromkeys(streams))

    def _connected(self, connection: Connection) -> None:
        was, before = self.ready, self.connection.synced
        self.connection = connection
        if self.ready and (not was or connection.synced - before):
            self._enqueue((*self.states, *self.topologies.states))

    def _fold_job(self, recorded: Recorded) -> None:
        stream, before = recorded.stream, self.state(recorded.stream)
        after = self._completed(fold(before, recorded))
        event = recorded.event
        match event:
            case events.JobWorkloadObserved():
                self._moved(event, stream, recorded.position)
            case QueuedPodObserved():
                self._pod_moved(event, recorded)
            case events.JobWorkloadGone():
                self._unnamed(event)
                self._unchained(before, after, event)
            case QueuedPodGone():
                self.stream_of.pop(event.uid, None)
        self._enqueue(groups := self.sets.fold(recorded))
        for group in groups if isinstance(event, (QueuedSetObserved, QueuedSetGone)) else ():
            self._keep(group, self.state(group))
        self._reindex(stream, before.job, after.job)
        self.runtimes.rests(stream, *(one.rests_on if one is not None else "" for one in (before.job, after.job)))
        self._keep(stream, after)
        uids = {one.uid for one in (before.job, after.job) if one is not None}
        self._enqueue((stream, *(below for uid in uids for below in self._below.get(uid, ()))))
        self._enqueue(self._sizes.get(stream, ()))

    def _keep(self, stream: str, state: QueuedJobState) -> None:
        """Keep the state of a stream, unless nothing is left of it. The versions of the streams of sets and of their
        groups are needed for as long as the set is there.
        """
        if state.is_empty and not state.effects and not self.sets.holds(stream):
            self.states.pop(stream, None)
        else:
            self.states[stream] = state

    def _completed(self, state: QueuedJobState) -> QueuedJobState:
        """Return the state of a job whose pods rest on a runtime, with the pod sets that follow from it."""
        job = state.job
        kind = self._kinds.get(job.kind) if job is not None and job.rests_on else None
        if job is None or kind is None:
            return state
        adapter = self.policy.adapters[kind]
        return msgspec.structs.replace(state, job=self.runtimes.complete(job, adapter))

    def _moved(self, event: events.JobWorkloadObserved, stream: str, position: int) -> None:
        """A Workload that has another owner than before is no more where it was."""
        before = self.stream_of.get(event.uid, "")
        self.stream_of[event.uid] = stream
        self._named[event.namespace, event.name] = event.uid
        (self.placed.add if is_placed(event) else self.placed.discard)(event.uid)
        if event.slice is not None:
            self._chains[event.namespace, event.slice.name] = stream
            job = self.state(stream).job
            here = job is None or job.managed_by != MULTIKUEUE
            (self.sliced.add if here and has_gated_pods(event) else self.sliced.discard)(event.uid)
        self._enqueue_pods(event)
        if before == stream:
            return
        self._mark_group(event.namespace, event.name)
        if before in self.states:
            self.states[before] = without_workload(self.states[before], event.uid, position)
            self._enqueue([before])
        free = self._free.get((event.namespace, event.name))
        if free is not None and free.uid == event.uid:
            del self._free[event.namespace, event.name]

    def _pod_moved(self, event: QueuedPodObserved, recorded: Recorded) -> None:
        """A pod that has another group than before is no more where it was."""
        before = self.stream_of.get(event.uid, "")
        self.stream_of[event.uid] = recorded.stream
        if before == recorded.stream or before not in self.states:
            return
        self._keep(before, without_pod(self.states[before], event.uid, recorded))
        self._enqueue([before])

    def _unnamed(self, event: events.JobWorkloadGone) -> None:
        self.stream_of.pop(event.uid, None)
        self.placed.discard(event.uid)
        self.sliced.discard(event.uid)
        self._enqueue_pods(event)
        if self._named.get((event.namespace, event.name)) == event.uid:
            del self._named[event.namespace, event.name]
            self._mark_group(event.namespace, event.name)

    def _unchained(self, before: QueuedJobState, after: QueuedJobState, event: events.JobWorkloadGone) -> None:
        """The last slice of a job is gone: no pods run by any of them."""
        gone = before.workloads.get(event.uid)
        named = gone.slice.name if gone is not None and gone.slice is not None else ""
        if named and not any(one.slice is not None and one.slice.name == named for one in after.workloads.values()):
            self._chains.pop((event.namespace, named), None)

    def _enqueue_pods(self, event: events.JobWorkloadObserved | events.JobWorkloadGone) -> None:
        """The pods of a Workload may run by what it says now."""
        first = event.slice if isinstance(event, events.JobWorkloadObserved) else None
        names = (event.name, *([first.name] if first is not None else []))
        streams = (topology_stream(event.namespace, name) for name in names)
        self._enqueue([stream for stream in streams if stream in self.topologies.states])

    def _mark_group(self, namespace: str, name: str) -> None:
        """The group of pods of a name cannot have its Workload while another has the name."""
        if (stream := job_stream(POD_GROUPS, namespace, name)) in self.states:
            self._enqueue([stream])

    def _fold_free(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, events.JobWorkloadObserved):
            self._moved(event, recorded.stream, recorded.position)
            self._free[event.namespace, event.name] = event
        elif isinstance(event, events.JobWorkloadGone):
            self._unnamed(event)
            found = self._free.get((event.namespace, event.name))
            if found is not None and found.uid == event.uid:
                del self._free[event.namespace, event.name]
        else:
            return
        self._enqueue(self._bound.get((event.namespace, event.name), ()))

    def _reindex(
        self, stream: str, before: events.QueuedJobObserved | None, after: events.QueuedJobObserved | None
    ) -> None:
        for one, there in ((before, False), (after, True)):
            if one is None:
                continue
            if one.owner is not None:
                _put(self._below, one.owner.uid, stream, there=there)
            if one.prebuilt:
                _put(self._bound, (one.namespace, one.prebuilt), stream, there=there)
            if one.sized_by:
                _put(self._sizes, one.sized_by, stream, there=there)


def _put(table: dict[K, dict[str, None]], key: K, stream: str, *, there: bool) -> None:
    if there:
        table.setdefault(key, {})[stream] = None
        return
    found = table.get(key, {})
    found.pop(stream, None)
    if not found:
        table.pop(key, None)
