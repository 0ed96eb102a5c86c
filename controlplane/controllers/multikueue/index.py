"""Folds the events of all streams, and finds the streams that a change concerns.

In: events in the log's order. Out: states by stream, a `WorkloadContext` for each Workload, the streams to decide
about. A replay builds the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.eligibility import FIT
from controlplane.controllers.connectivity.events import (
    FLEET_STREAM,
    MANAGEMENT,
    ClusterConnected,
    KindSynced,
    ServiceStarted,
    cluster_stream,
)
from controlplane.controllers.connectivity.outage import Outage, fold_outage, outage_resumed
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.connectivity.watched import Watched
from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.condition_writes import Slots
from controlplane.controllers.multikueue.context import MultiKueuePolicy, WorkloadContext
from controlplane.controllers.multikueue.context_facets import Around, ContextFacets
from controlplane.controllers.multikueue.core_writes import CoreWrites
from controlplane.controllers.multikueue.dispatch_history import DispatchHistory
from controlplane.controllers.multikueue.eligibility import Judgements
from controlplane.controllers.multikueue.facets import of_workload
from controlplane.controllers.multikueue.job_changes import fold_job, fold_left_behind, fold_listed, fold_member
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.shared_jobs import SharedJobs
from controlplane.controllers.multikueue.state import fold, fold_return, without_write
from controlplane.controllers.multikueue.taken_names import TakenNames
from controlplane.controllers.multikueue.unobserved_jobs import fold_evicted
from controlplane.controllers.multikueue.versions import WorkloadVersionTracker
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from controlplane.log.event import Recorded
from controlplane.runtime.observations import forget

_NEEDED = (WORKLOADS.name, ADMISSION_CHECKS.name, MULTIKUEUE_CONFIGS.name, MULTIKUEUE_CLUSTERS.name)
_CONNECTIVITY = connectivity.EVENTS
# Where nothing is dispatched, the clusters are all that counts.
_NEEDED_IDLE = (MULTIKUEUE_CLUSTERS.name,)
# No class of events has others below it: of each event its very class is asked, which is quicker (see `ByClass`).
_LOCAL = frozenset((observations.WorkloadObserved, observations.WorkloadGone, events.GroupPodChosen))


class WorkloadIndex(SharedJobs):
    """The states of all streams, and which of them a change concerns."""

    GIVEN = ("changed_clusters",)

    def __init__(self, policy: MultiKueuePolicy) -> None:
        super().__init__(policy)
        self.position = 0
        self.connections: dict[str, Connection] = {}
        self.outage = Outage()
        self.watched = Watched()
        self.requeues: deque[datetime] = deque()
        self.slots = Slots()
        self.newest = WorkloadVersionTracker()
        self.changed_clusters: set[str] = set()
        self._appeared: dict[str, int] = {}
        self.names = TakenNames()
        self._judgements = Judgements()
        self.history = DispatchHistory(policy)
        self.core = CoreWrites()
        self.around = ContextFacets()
        self._ready = False

    @property
    def ready(self) -> bool:
        """Whether the management cluster's own objects are in view."""
        return self._ready

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call, in order."""
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        self.position = recorded.position
        self.watched.fold(recorded)
        self.newest.fold(recorded)
        self.history.queues.fold(recorded)
        kind, _, name = recorded.stream.partition("/")
        match kind:
            case "workload":
                self._fold_workload(self._judged(recorded))
            case "job":
                self._fold_job(recorded)
            case "cluster":
                self._fold_cluster(recorded, name)
            case "admissioncheck":
                self._fold_check(recorded, name)
            case "multikueueconfig":
                self._fold_config(recorded, name)
            case "clusterqueue":
                self._fold_queue(recorded, name)
            case "localqueue":
                self._fold_local_queue(recorded)
            case _ if kind == FIT:
                self._dirty.update(dict.fromkeys(sorted(self._dependents.get(self._judgements.fold(recorded), ()))))
            case "refused":
                self._fold_unread(recorded)
            case "fleet":
                self.outage = fold_outage(self.outage, recorded)
                self._enqueue_workloads()
            case "service" if isinstance(recorded.event, ServiceStarted):
                self.outage = outage_resumed(self.outage, recorded)
                self.connections = {key: self._restarted(state, recorded) for key, state in self.connections.items()}
                self._connections_changed()
                self._enqueue(FLEET_STREAM)
                self._enqueue_workloads()
        self.around.fold(recorded, self.connections, self.jobs)

    def _restarted(self, state: Connection, recorded: Recorded) -> Connection:
        """Return a connection after a restart. Nobody tries again a cluster that does not exist any more, or is being
        deleted: the process that should have recorded that we let go of it ended before it could, and its loss clock
        starts now."""
        state, seen = restarted(state, recorded), self.clusters.get(state.name)
        if state.name == MANAGEMENT or (seen is not None and not seen.deleting):
            return state
        state = msgspec.structs.replace(state, untried_since=None)
        if state.phase != "Unknown":
            return state
        at = recorded.recorded_at
        return msgspec.structs.replace(
            state, phase="Removed", since=at, lost_since=state.lost_since or at, lost_clock=state.lost_clock or at
        )

    def context(self, state: WorkloadState, job: observations.JobObserved | None = None) -> WorkloadContext:
        """Return what a decision on a Workload may look at; with its job as it is about to be, if it is given."""
        local = state.local
        route = self.route(local) if local is not None else None
        adapter = self.policy.adapters.get(state.owner.gvk) if state.owner else None
        job = job or self.job_of(state)
        return WorkloadContext(
            policy=self.policy,
            ready=self._ready,
            route=route,
            adapter=adapter,
            job=job,
            queue_policy=self.queue_policy(local),
            mass_outage=self.outage.holds,
            outage_ended=self.outage.ended,
            watched_since=self.watched.since,
            connections=self.connections,
            judged=self._judgements.of(job, self.policy.judged),
            scoring=self.history.scoring(local, route, self.clusters, self.connections),
            core_writes_until=self.core.until(f"workload/{state.namespace}/{state.name}"),
            slices=self.slices_of(state, self._siblings(state)),
            strays=self.strays_of(state, self._strays.of(self.stream_of_job(state))),
            members=self.members_of(state),
            components=self.components_of(state),
            unread=self.unread_of(state),
            hidden=self.unread.hides(state.namespace, state.name),
        )

    def _existing(self, cluster: str, kind: str) -> Iterable[observations.Observation]:
        if cluster != MANAGEMENT and kind in (CLUSTER_QUEUES.name, LOCAL_QUEUES.name):
            return self.history.queues.seen(cluster, kind)
        return super()._existing(cluster, kind)

    def positions(self, state: WorkloadState) -> Around:
        """Return where in the log what is around a Workload came to be as it is."""
        local, route = state.local, self.route(state.local) if state.local is not None else None
        check = self.checks.get(route.check) if route is not None else None
        config = check.parameters.get("name", "") if check is not None else ""
        queue, job = local.cluster_queue if local is not None else "", self.stream_of_job(state)
        return self.around.of(job, queue, check.name if check else "", config, route.clusters if route else ())

    def away(self) -> tuple[list[str], int]:
        """Return the workers that are lost, and how many were ever connected: what a mass outage is judged by."""
        once = [name for name in sorted(self.clusters) if (c := self.connections.get(name)) and c.connected_once]
        return [name for name in once if self.connections[name].phase == "Lost"], len(once)

    def _enqueue_workloads(self, cluster: str = "") -> None:
        """Have a look taken at every Workload that is not over, or at those that a cluster can matter to.

        None while the management cluster is not in view: nothing is decided then, and all are looked at when it is.
        """
        if not self._ready:
            return
        for stream, state in self.workloads.items():
            if cluster and not state.concerns(cluster):
                continue
            if not self.is_over(state):
                self._dirty[stream] = None

    def _known_by(self) -> set[str]:
        return {*self.newest.shown_by(), self.core.said_by, *self.names.streams, *self.unread.ended_by}

    def _fold_workload(self, recorded: Recorded) -> None:
        stream, event = recorded.stream, recorded.event
        if seen := type(event) in _LOCAL:
            self.core.fold(recorded)
        before = self.workloads.get(stream)
        state = self.after(before or self.names.initial(recorded), recorded)
        if type(event) is events.CheckStateDecided and event.reason == WorkloadReason.REMOTE_LOST:
            self.requeues.append(recorded.recorded_at)
            while self.requeues[0] <= recorded.recorded_at - timedelta(minutes=1):
                self.requeues.popleft()
        if type(event) is observations.RemoteJobObserved:
            self._moved(recorded.cluster, event.uid, stream)
            self._remote_jobs[recorded.cluster, event.uid] = stream
        elif type(event) is observations.RemoteJobGone:
            self._remote_jobs.pop((recorded.cluster, event.uid), None)
        if seen:
            self._depend(stream, before, state)
            state = self._shown(stream, before, state)
        self._keep(stream, state)
        if stream not in self.workloads:
            self.names.gone(recorded, state)
        self._enqueue(stream)
        self._fold_unread(recorded)
        self._share(recorded)
        self._wake_components(before, state)
        for other in self.history.fold(recorded, before, state):
            self._enqueue(other)
        self._wake_slices(state)

    def after(self, before: WorkloadState, recorded: Recorded) -> WorkloadState:
        """Return the state of a Workload after one more event of its stream; nothing is kept."""
        state = fold(before, recorded)
        state = fold_evicted(before, state, recorded, self.policy.adapters, self.connections)
        if (positions := of_workload(before, state, recorded)) is not state.positions:
            state = msgspec.structs.replace(state, positions=positions)
        if type(recorded.event) is events.StatusRelayDecided and self._outdated(state, recorded.event):
            return without_write(state, recorded.event.target)
        if type(recorded.event) is observations.CloneGone:
            return self._left_behind(recorded.cluster, before, state)
        return state

    def _left_behind(self, cluster: str, before: WorkloadState, state: WorkloadState) -> WorkloadState:
        adapter = self.policy.adapters.get(state.owner.gvk) if state.owner is not None else None
        connection = self.connections.get(cluster)
        if adapter is None or connection is None or connection.in_view(adapter.kind.name):
            return state
        return fold_left_behind(before, state, cluster, adapter.kind.name)

    def _outdated(self, state: WorkloadState, relay: events.StatusRelayDecided) -> bool:
        """Whether the user's job, whose events are on another stream, has changed since a write to it was decided."""
        job = self.written(state, relay.member)
        return job is None or job.resource_version != relay.resource_version

    def _fold_job(self, recorded: Recorded) -> None:
        stream, event = recorded.stream, recorded.event
        before = self.jobs.get(stream)
        if isinstance(event, observations.JobObserved):
            self.jobs[stream] = event
        elif isinstance(event, observations.JobGone) and before is not None and before.uid == event.uid:
            del self.jobs[stream]
            self._judgements.forget(stream)
        after = self.jobs.get(stream)
        own = self._dependents.get(stream, set())
        for dependent in self._resting(own, stream):
            state = self.workloads[dependent]
            if (shown := fold_job(state, before, after)) is not state or state.left is not None:
                self._keep(dependent, shown)
            self._wake(dependent)
        self._fold_group(stream, before, after, own)

    def _fold_group(
        self,
        stream: str,
        before: observations.JobObserved | None,
        after: observations.JobObserved | None,
        own: set[str],
    ) -> None:
        """Keep the groups of pods, and show a change of one to the Workload of its group."""
        mates = self.group_of(before) | self.group_of(after)
        if before is not None and before.group:
            self._groups.get((before.namespace, before.group), set()).discard(stream)
        if after is not None and after.group:
            self._groups.setdefault((after.namespace, after.group), set()).add(stream)
        seen = after or before
        if seen is None or not seen.group:
            return
        if not self._groups.get((seen.namespace, seen.group)):
            self._groups.pop((seen.namespace, seen.group), None)
        concerned = {dependent for mate in mates for dependent in self._dependents.get(mate, ())} - own
        for dependent in self._resting(concerned, stream):
            self.workloads[dependent] = fold_member(self.workloads[dependent], seen.name, before, after)
            self._enqueue(dependent)

    def _fold_cluster(self, recorded: Recorded, name: str) -> None:
        event = recorded.event
        observed = isinstance(event, (observations.MultiKueueClusterObserved, observations.MultiKueueClusterGone))
        self.slots.seen(recorded, closes=observed or isinstance(event, events.EffectUnneeded))
        if isinstance(event, observations.MultiKueueClusterObserved):
            known = self.clusters.get(name)
            if self.policy.scoring is not None and known is not None and known.labels != event.labels:
                self._enqueue_workloads()
            if known is None or known.uid != event.uid:
                self._appeared[name] = recorded.version
            self.clusters[name] = event
        elif isinstance(event, observations.MultiKueueClusterGone):
            forget(self.clusters, name, event)
        elif isinstance(event, _CONNECTIVITY):
            self._fold_connection(recorded, name)
        if observed:
            self.changed_clusters.add(name)
            self._enqueue_checks()
        self._enqueue(recorded.stream)

    def _fold_connection(self, recorded: Recorded, name: str) -> None:
        before, event = self.connections.get(name, Connection(name=name)), recorded.event
        self.connections[name] = fold_connection(before, recorded)
        if name == MANAGEMENT and before.identities != self.connections[name].identities:
            self._known_as(self.connections[name].identities)
        if isinstance(event, ClusterConnected) and before.lost_since is not None:
            for stream, state in self.workloads.items():
                self.workloads[stream] = fold_return(state, name, recorded.recorded_at)
        if isinstance(event, (ClusterConnected, KindSynced)):
            listed = event.kinds if isinstance(event, ClusterConnected) else [event.kind]
            for stream in sorted(self._unsure):
                self._keep(stream, fold_listed(self.workloads[stream], name, listed))
        self._connections_changed()
        if before.facts != self.connections[name].facts:
            self._enqueue(FLEET_STREAM)
            self._enqueue_workloads(name)

    def connection_of(self, name: str) -> Connection | None:
        """Return the connection to the cluster that a MultiKueueCluster means; None as long as all that is known is of
        another object that had its name before.
        """
        connection = self.connections.get(name)
        return connection if connection is not None and connection.version > self._appeared.get(name, 0) else None

    def _connections_changed(self) -> None:
        management = self.connections.get(MANAGEMENT)
        needed = _NEEDED if self.policy.dispatches else _NEEDED_IDLE
        ready = (
            management is not None
            and all(management.in_view(kind) for kind in needed)
            and all(management.in_view(kind) or kind in management.off for kind in self.policy.awaited_kinds)
        )
        if ready and not self._ready:
            self._enqueue_checks()
            for name in self.clusters:
                self._enqueue(cluster_stream(name))
        if ready != self._ready:
            self._ready = ready
            self._enqueue(FLEET_STREAM)
            self._enqueue_workloads()

    def _enqueue_checks(self) -> None:
        for name in self.checks:
            self._enqueue(f"admissioncheck/{name}")

    def _fold_check(self, recorded: Recorded, name: str) -> None:
        event = recorded.event
        observed = isinstance(event, (observations.AdmissionCheckObserved, observations.AdmissionCheckGone))
        self.slots.seen(recorded, closes=observed or isinstance(event, events.EffectUnneeded))
        if isinstance(event, observations.AdmissionCheckObserved):
            before = self.checks.get(name)
            self.checks[name] = event
            if before is None or before.parameters != event.parameters:
                self._enqueue_workloads()
        elif isinstance(event, observations.AdmissionCheckGone):
            forget(self.checks, name, event)
        self._enqueue(recorded.stream)

    def _fold_queue(self, recorded: Recorded, name: str) -> None:
        event = recorded.event
        before = self.queues.get(name)
        if isinstance(event, observations.ClusterQueueObserved):
            self.queues[name] = event
        elif isinstance(event, observations.ClusterQueueGone):
            forget(self.queues, name, event)
        after = self.queues.get(name)
        if (before.execution_policy if before else "") != (after.execution_policy if after else ""):
            self._enqueue_workloads()

    def _fold_config(self, recorded: Recorded, name: str) -> None:
        event, before = recorded.event, self.configs.get(name)
        if isinstance(event, observations.MultiKueueConfigObserved):
            self.configs[name] = event
        elif isinstance(event, observations.MultiKueueConfigGone):
            forget(self.configs, name, event)
        self._enqueue_checks()
        if before is None or (after := self.configs.get(name)) is None or before.clusters != after.clusters:
            self._enqueue_workloads()
