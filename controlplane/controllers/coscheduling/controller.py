"""Keeps all runs of one cluster in memory, as the log says it: the controller of coscheduling.

In: events in the log's order. Out: which runs to decide about, what was decided, what an open write looks like. It runs
next to the cluster whose pods it places: when the management cluster is away, nodes are still cordoned. What follows is
decided in `decide`, how it looks in `render`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT, ServiceStarted, cluster_stream
from controlplane.controllers.connectivity.facets import ConnectionFacets
from controlplane.controllers.connectivity.objects import Deduplicator, ObjectPlaces
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.coscheduling import observations, render
from controlplane.controllers.coscheduling.causes import cause
from controlplane.controllers.coscheduling.claim_volumes import ClaimVolumes
from controlplane.controllers.coscheduling.decide import decide, outline
from controlplane.controllers.coscheduling.events import (
    EVENTS,
    CoschedulingDecision,
    CoschedulingFailed,
    CoschedulingUnneeded,
    CoschedulingWrite,
    PlaceholderEvicted,
)
from controlplane.controllers.coscheduling.facets import RunFacets
from controlplane.controllers.coscheduling.families import Families, parent_in
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.objects import (
    CLAIMS,
    CONFIG_MAPS,
    NODES,
    PODS,
    STATEFUL_SETS,
    TASK_RUNS,
    PipelineRun,
)
from controlplane.controllers.coscheduling.observe import DEFAULTS_STREAM, FLAGS_STREAM, observe, run_stream
from controlplane.controllers.coscheduling.ownership import Whose, left
from controlplane.controllers.coscheduling.placement.eviction import NodeView
from controlplane.controllers.coscheduling.placement.placeholders import NOP_IMAGE, Style
from controlplane.controllers.coscheduling.run_pass import START, NodeFitness, RunContext, capacity_of
from controlplane.controllers.coscheduling.state import RunAttempt, RunState, fold
from controlplane.controllers.coscheduling.tekton_config import TektonConfig
from controlplane.kube.kinds import PERSISTENT_VOLUMES, PIPELINE_RUNS, Request
from controlplane.kube.requests import Obsolete
from controlplane.kube.tolerations import Taint
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.facets import FacetPositions
from controlplane.runtime.writes import WritingController
from controlplane.values import Value

_SEEN: dict[type[Event], str] = {
    observations.WorkerRunObserved: PIPELINE_RUNS.name,
    observations.TaskBound: TASK_RUNS.name,
    observations.PlaceholderCreated: STATEFUL_SETS.name,
    observations.PlaceholderReady: PODS.name,
    observations.PlaceholderUnready: PODS.name,
    observations.TaskPodObserved: PODS.name,
    observations.ClaimObserved: CLAIMS.name,
    observations.NodeObserved: NODES.name,
    observations.VolumeObserved: PERSISTENT_VOLUMES.name,
    observations.FlagsObserved: CONFIG_MAPS.name,
    observations.DefaultsObserved: CONFIG_MAPS.name,
}
_GONE: dict[type[Event], str] = {
    observations.WorkerRunGone: PIPELINE_RUNS.name,
    observations.TaskGone: TASK_RUNS.name,
    observations.PlaceholderDeleted: STATEFUL_SETS.name,
    observations.PlaceholderPodGone: PODS.name,
    observations.TaskPodGone: PODS.name,
    observations.ClaimDeleted: CLAIMS.name,
    observations.NodeGone: NODES.name,
    observations.VolumeGone: PERSISTENT_VOLUMES.name,
    observations.FlagsGone: CONFIG_MAPS.name,
    observations.DefaultsGone: CONFIG_MAPS.name,
}
# A node says how it is every few seconds; a task, with each step. Nothing is written to them, so only what decides is
# news.
_NO_NEWS = (
    observations.NodeObserved,
    observations.TaskBound,
    observations.TaskPodObserved,
    observations.VolumeObserved,
)
#: The kinds (`Kind.name`) that decisions rest on.
NEEDED = tuple(kind.name for kind in (PIPELINE_RUNS, STATEFUL_SETS, CLAIMS, PODS, NODES, TASK_RUNS))


class CoschedulingPolicy(Value):
    """The settings. `mode`: what holds instead of Tekton's flag, where Tekton itself is told to place
    nothing.

    `config_namespace` is where Tekton's ConfigMaps are; `old_worker`, `image` and `everywhere` as in the dry run.
    `patience`: how long a task that can never run waits before it ends; None: for ever.
    """

    config_namespace: str = "tekton-pipelines"
    mode: Mode | None = None
    old_worker: bool = False
    image: str = NOP_IMAGE
    everywhere: bool = False
    patience: timedelta | None = timedelta(minutes=10)


class CoschedulingController(WritingController[CoschedulingWrite]):
    """The states of all runs and the answers that the loop asks of them. `identity` names this process in Kubernetes
    Events.
    """

    types: Sequence[type[Event]] = (*connectivity.EVENTS, *EVENTS)
    FAILED, UNNEEDED = CoschedulingFailed, CoschedulingUnneeded

    GIVEN = ("policy", "identity")

    def __init__(self, policy: CoschedulingPolicy, identity: str) -> None:
        self.policy, self.identity = policy, identity
        self.runs: dict[str, RunState] = {}
        self.nodes: dict[str, NodeFitness] = {}
        self.connection = Connection(name=MANAGEMENT)
        self.config = TektonConfig(old_worker=policy.old_worker)
        self.places = ObjectPlaces(_SEEN, _GONE)
        self._positions, self._connections = RunFacets(), ConnectionFacets()
        self._repeats, self._whose = Deduplicator(), Whose()
        self._on_node: dict[str, set[str]] = {}
        self._nodes_at, self._nodes_since = 0, START
        self._families, self._volumes = Families(), ClaimVolumes()
        self._dirty: dict[str, None] = {}

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on the cluster; None if it concerns no run."""
        if change.cluster != MANAGEMENT:
            return None
        event = observe(change, now, self.policy.config_namespace)
        if event is not None:
            self._whose.note(event.stream, event.event)
        elif (end := self._whose.end_of(change.uid)) is not None:
            event = left(change, now, end, live=end.stream in self.runs)
        if event is not None and isinstance(event.event, observations.CoschedulingObjectGone):
            self._repeats.forget(event.source)
        elif event is not None and isinstance(event.event, _NO_NEWS) and event.source:
            return None if self._repeats.says_nothing_new(event.source, event.event, listed=change.listed) else event
        return event

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.places.fold(recorded)
        self._whose.note(recorded.stream, recorded.event)
        self._whose.forget(recorded.event)
        first, _, name = recorded.stream.partition("/")
        match first:
            case "pipelinerun":
                self._fold_run(recorded)
            case "node":
                self._fold_node(recorded, name)
            case "volume":
                self._enqueue(*self._volumes.fold(recorded, name))
            case "coscheduling":
                self.config.fold(recorded)
                self._enqueue(recorded.stream)
            case "cluster" if recorded.stream == cluster_stream(MANAGEMENT):
                self._connected(fold_connection(self.connection, recorded), recorded.position)
            case "service" if isinstance(recorded.event, ServiceStarted):
                self._connected(restarted(self.connection, recorded), recorded.position)

    # --- what the admission webhook asks -----------------------------------------------------------------------------

    def _attempt(self, namespace: str, name: str, uid: str) -> RunAttempt | None:
        state = self.runs.get(run_stream(namespace, name))
        if state is None:
            return None
        return state.attempts.get(uid) if uid else state.current

    def find(self, namespace: str, name: str, uid: str) -> PipelineRun | None:
        """Return as much of a run as placeholders follow from; None if it was not seen."""
        attempt = self._attempt(namespace, name, uid)
        if attempt is None or attempt.run is None:
            return None
        return outline(attempt.run, attempt.pinned.follows if attempt.pinned is not None else "")

    def is_pinned(self, namespace: str, name: str, uid: str) -> bool:
        """Whether a run's mode is decided, or is nothing to wait for: it is refused, over, or another controller's."""
        attempt = self._attempt(namespace, name, uid)
        if attempt is None or attempt.run is None:
            return False
        return attempt.pinned is not None or bool(attempt.refused) or attempt.over or bool(attempt.run.managed_by)

    def mode_of(self, namespace: str, name: str, uid: str) -> Mode:
        """Return the mode of a run: what it is pinned to, else what holds now. `uid` may be "" for the run that is
        there.
        """
        attempt = self._attempt(namespace, name, uid)
        if attempt is not None and attempt.pinned is not None:
            return Mode(attempt.pinned.mode)
        return self._surroundings().flags.mode

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    @property
    def ready(self) -> bool:
        """Whether all that decisions rest on is in view."""
        return all(self.connection.in_view(kind) for kind in NEEDED)

    @property
    def _sees_flags(self) -> bool:
        """Whether it is known which mode holds: flags that were seen last may have changed since."""
        return self.policy.mode is not None or self.connection.in_view(CONFIG_MAPS.name)

    @property
    def _sees_volumes(self) -> bool:
        """Whether all volumes are in view that can be seen: without the right to, or the kind, nothing is known."""
        return self.connection.settled((PERSISTENT_VOLUMES.name,))

    @property
    def _views(self) -> tuple[bool, bool, bool]:
        return self.ready, self._sees_flags, self._sees_volumes

    def _enqueue(self, *streams: str) -> None:
        self._dirty.update(dict.fromkeys(streams))

    def _connected(self, connection: Connection, position: int) -> None:
        before, self.connection = self._views, connection
        self._connections.fold({connection.name: connection}, [connection.name], position)
        if self.ready and before != self._views:
            self._enqueue(FLAGS_STREAM, DEFAULTS_STREAM, *self.runs)

    def _fold_run(self, recorded: Recorded) -> None:
        stream = recorded.stream
        before = self.runs.get(stream) or RunState.initial(stream)
        state = fold(before, recorded)
        self._positions.note(stream, before, state, recorded.position)
        for node in {pod.node for pod in before.pods.values()} - {pod.node for pod in state.pods.values()}:
            self._on_node.get(node, set()).discard(stream)
        for pod in state.pods.values():
            if pod.node:
                self._on_node.setdefault(pod.node, set()).add(stream)
        if state.settled:
            self.runs.pop(stream, None)
            self._positions.forget(stream)
            self._families.forget(stream)
            self._volumes.forget(stream)
        else:
            self.runs[stream] = state
            self._families.note(stream, state)
            self._volumes.note(stream, state)
        self._enqueue(stream, *self._families.concerned(stream, recorded.event))

    def _fold_node(self, recorded: Recorded, name: str) -> None:
        event, before = recorded.event, self.nodes.get(name)
        if isinstance(event, observations.NodeObserved):
            found = tuple(Taint(one.key, one.value, one.effect) for one in event.taints)
            view = NodeView(name=name, cordoned=event.cordoned, taints=found)
            capacity = capacity_of(event, found)
            since = before.since if before is not None and before.view == view else recorded.position
            self.nodes[name] = NodeFitness(view, since, capacity, event.uid)
            if before is not None and (before.view, before.capacity) == (view, capacity):
                return
        elif isinstance(event, observations.NodeGone):
            if before is None or before.uid != event.uid:
                return
            del self.nodes[name]
        self._nodes_at, self._nodes_since = recorded.position, recorded.recorded_at
        self._enqueue(*sorted(self._on_node.get(name, ())))

    # --- what follows ------------------------------------------------------------------------------------------------

    def is_over(self, stream: str) -> bool:
        """Whether nothing is left of a stream, so that nothing can follow for it."""
        return stream.startswith("pipelinerun/") and stream not in self.runs

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream."""
        state = self.runs.get(stream)
        if state is None:
            return self.config.decide(stream, MANAGEMENT)
        plan = decide(state, self._surroundings(stream, state), now)
        events = [
            self._event(stream, decision, cause(decision, state, self._marks_for(stream, decision)) or state.position)
            for decision in plan.decisions
        ]
        return Decided(events, state.version, plan.wake)

    def _marks_for(self, stream: str, decision: CoschedulingDecision) -> FacetPositions:
        found = {**self._positions.of(stream), "view": self._seen_since(*NEEDED)}
        if isinstance(decision, PlaceholderEvicted) and decision.node in self.nodes:
            found[f"node/{decision.node}.fit"] = self.nodes[decision.node].since
        volumes = self._seen_since(PERSISTENT_VOLUMES.name)
        found["nodes"], found["flags"] = self._nodes_at, self._seen_since(CONFIG_MAPS.name)
        found["volumes"] = max(self._volumes.since(stream), volumes)
        return found | self._families.positions(stream, self._positions)

    def _seen_since(self, *kinds: str) -> int:
        return self._connections.of(MANAGEMENT, kinds)[f"{MANAGEMENT}.view"]

    def _surroundings(self, stream: str = "", state: RunState | None = None) -> RunContext:
        """Return what decisions look at beside a run; without one, what is the same for all."""
        flags = self.config.flags
        if self.policy.mode is not None:
            flags = msgspec.structs.replace(flags, mode=self.policy.mode)
        return RunContext(
            cluster=MANAGEMENT,
            ready=self.ready,
            sees_flags=self._sees_flags,
            flags=flags,
            defaults=self.config.defaults,
            nodes=self.nodes,
            parent=parent_in(self.runs, state) if state is not None else None,
            beside=self._families.beside(stream, self.runs),
            followed=self._families.followed(stream, self.runs),
            volumes=self._volumes.of(stream) if self._sees_volumes else None,
            patience=self.policy.patience,
            nodes_since=self._nodes_since,
        )

    def _event(self, stream: str, event: Event, caused_by: int) -> NewEvent:
        cluster = getattr(event, "cluster", "") or MANAGEMENT
        return NewEvent(stream=stream, event=event, cluster=cluster, caused_by=caused_by)

    # --- what is open ------------------------------------------------------------------------------------------------

    def _writes(self, stream: str) -> RunState | None:
        return self.runs.get(stream)

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the refs of the bodies that `request` needs."""
        decision = self._decision(write)
        attempt = self.runs[write.stream].attempts.get(decision.attempt_uid) if decision is not None else None
        return render.bodies_needed(decision, attempt) if decision is not None and attempt is not None else []

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if what it was decided on is gone."""
        decision = self._decision(write)
        if decision is None:
            return None
        state = self.runs[write.stream]
        attempt = state.attempts.get(decision.attempt_uid)
        if attempt is None:
            return None
        style = Style(image=self.policy.image, everywhere=self.policy.everywhere)
        try:
            return render.render(decision, attempt, state.namespace, bodies, style, now)
        except Obsolete:
            return None

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return the Kubernetes Event that tells of a write."""
        decision = self._decision(write)
        if decision is None:
            return None
        state = self.runs[write.stream]
        return render.announcement(decision, state.namespace, state.name, write.position, self.identity, now)
