"""Runs one leadership term of a scheduler process: a warm follower, then the leader's watches, cycles and effects;
thrown away when its lead ends.

In: what the service shares between terms. Out: pods on nodes. What the watches show goes two ways: into the snapshot at
once, and into the log if it is about a pod of ours. What the log says comes back through the fold, as everywhere, and
says to queue and snapshot what is held."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import structlog

from controlplane.app.candidates.binding import CandidateBinding
from controlplane.app.claims import scheduler_claims_of
from controlplane.app.scheduler_controllers import CANDIDATE_KINDS, SchedulerControllers
from controlplane.app.scheduler_measure import SchedulerMeasure
from controlplane.app.scheduler_profiles import Setup
from controlplane.app.scheduling_cycles import CycleDriver
from controlplane.clusters.connection_reports import Connected, Fact, Lost
from controlplane.clusters.management_connection import ManagementConnection
from controlplane.clusters.protocol import Change, Delta, Executes, Looks
from controlplane.clusters.sources import secret_not_found
from controlplane.controllers.connectivity.events import MANAGEMENT, TROUBLE, ClusterConnected
from controlplane.controllers.connectivity.local_connection import connectivity_event
from controlplane.controllers.scheduling.binding.protocol import BindingProtocol, Plain
from controlplane.controllers.scheduling.loop import Loop
from controlplane.controllers.scheduling.snapshot.view import KINDS, ClusterView
from controlplane.kube.kinds import NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, PRIORITY_CLASSES, meta
from controlplane.log.event import Recorded
from controlplane.log.port import Log
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.lifecycle import ProcessContext
from controlplane.runtime.runner import Runner
from controlplane.runtime.term import LeadershipTerm

_log = structlog.get_logger(__name__)

# Without these no cycle runs: pods would be bound over others, or evicted against a budget.
_NEEDED = (PODS, NODES, POD_DISRUPTION_BUDGETS)
_OF_CANDIDATES = (PODS, *CANDIDATE_KINDS)
_SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class SchedulerTerm(LeadershipTerm):
    """See the module. `context` is what outlives it, `setup` the profiles."""

    CHECKS = ("cluster",)

    def __init__(
        self,
        context: ProcessContext,
        setup: Setup,
        hosted: SchedulerControllers,
        gate: Gate,
        log: Log,
        leader: Leader,
    ) -> None:
        budget = context.settings.budgets.management
        super().__init__(context, hosted, Bodies(log), gate, log, leader, concurrency=budget.concurrency)
        self._hosted = hosted
        self._claims = scheduler_claims_of(context, setup.names, log, gate)
        self._begun = False
        self._handed: Sequence[Delta] = ()  # the pods that were handed over last
        self._classes: set[str] = set()
        surroundings = self._given(hosted.watches, self._sink, _no_secret, budget)
        self._home = ManagementConnection(MANAGEMENT, context.open_management, surroundings)
        view = ClusterView()
        protocols: dict[str, BindingProtocol] = {
            "pod": Plain(hosted.placements),
            "candidate": CandidateBinding(hosted.targets, hosted.placements),
        }
        self.loop = Loop(
            setup.frameworks,
            setup.queue(view.cluster),
            view,
            protocols,
            pick=lambda: context.random.getrandbits(31),
            leaving=hosted.evictions.leaving,
            lent={"candidate": setup.frameworks[hosted.targets.policy.scheduler_name]},
        )
        self.loop.gangs.recorded = hosted.pod_group_conditions
        self.loop.faults.heard = lambda error: _log.error("a plugin failed", exc_info=error)
        self.measure = SchedulerMeasure(context.metrics, self.loop, context.spans)
        self._cycles = CycleDriver(self.loop, log, self._time, gate, self._ready, self.measure.cycle)
        self._cycles.stopwatch = context.ports.stopwatch
        hosted.ahead.connect(self.loop, lambda: gate.is_open and self._ready(), self._cycles.one)
        self.runner = Runner(
            log,
            hosted.router,
            self._effects,
            gate,
            self._time,
            anticipating=hosted.router,
            on_folded=self._heard,
            on_failed=self.measure.failed,
            poll=context.ports.poll,
        )

    # --- following and leading -----------------------------------------------------------------------------------

    async def lead(self, stop: asyncio.Event) -> None:
        """Watch, schedule and bind until stopped; raises `Fenced`, or the fault of whatever part ended first."""
        failure = self._take_up()
        if self._claims is not None and self._claims.left:
            self._hosted.leave_candidates()
            self._health.set("leader", True, f"leads; {self._claims.left}")
            self._claims.returned = lambda: None if failure.done() else failure.set_result(None)
        self.measure.takes_candidates(takes=self._hosted.targets.takes)
        await self._together(self._home, [self._cycles.run()], failure, stop)

    async def close(self) -> None:
        """Let the bindings that are on their way end, and let go of the cluster."""
        try:
            await self._effects.close()
        finally:
            if self._claims is not None:
                await self._claims.close()

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _executor(self, cluster: str) -> Executes | None:
        return self._home.executor if cluster == MANAGEMENT else None

    def _look(self, cluster: str) -> Looks | None:
        return self._home.looks if cluster == MANAGEMENT else None

    def _all_listed(self) -> bool:
        return self._begun

    def _ready(self) -> bool:
        """Whether cycles may run: everything is listed, the API server answers, and what nobody can do without may be
        read.
        """
        connection = self._hosted.here.connection
        return self._begun and all(connection.in_view(kind.name) for kind in _NEEDED)

    def _unready(self) -> str:
        connection = self._hosted.here.connection
        for kind in _NEEDED:
            if kind.name in connection.off:
                return f"{kind.name} cannot be read: {connection.off[kind.name]}"
        unseen = [kind.name for kind in _NEEDED if not connection.in_view(kind.name)]
        if self._begun and connection.connected and unseen:
            return f"{unseen[0]} could not be listed yet"
        return connection.message or "the cluster is not in view yet"

    async def _sink(self, cluster: str, deltas: Sequence[Delta]) -> None:
        now = self._time.now()
        # What waits in the log for more is handed over again with it: the snapshot has it already.
        before = {id(delta) for delta in self._handed}
        for delta in deltas:
            if not isinstance(delta, Change) or id(delta) in before:
                continue
            if delta.kind in KINDS or delta.kind == POD_GROUPS:
                self.loop.changed(delta.kind, delta.object, now, gone=delta.op == "gone", unreadable=delta.unreadable)
            elif delta.kind == PRIORITY_CLASSES:
                self.loop.changed(delta.kind, delta.object, now, gone=delta.op == "gone", unreadable=delta.unreadable)
                self._class_changed(str(meta(delta.object)["name"]), delta.op == "gone")
        self._cycles.wake()
        if deltas and isinstance(deltas[0], Change) and deltas[0].kind == PODS:
            self._handed = deltas
            self._hosted.placements.readable = self._read(deltas)
        try:
            await self._recorder(cluster, deltas)
        finally:
            self._hosted.placements.readable = ()

    def _read(self, deltas: Sequence[Delta]) -> frozenset[int]:
        """Return which objects the snapshot could read, by their identity in this process: they need not be read
        again."""
        changes = () if self.loop.view.problems else (one for one in deltas if isinstance(one, Change))
        return frozenset(id(one.object) for one in changes)

    def _class_changed(self, name: str, gone: bool) -> None:
        if gone:
            self._classes.discard(name)
        else:
            self._classes.add(name)
        if self._begun:
            self._classes_known()

    def _classes_known(self) -> None:
        off = PRIORITY_CLASSES.name in self._hosted.here.connection.off
        self._hosted.targets.priority_classes = None if off else frozenset(self._classes) | _SYSTEM_CLASSES
        self._hosted.targets.touch_all()

    async def _facts(self, cluster: str, fact: Fact) -> None:
        event = self._noted(cluster, fact, [spec.kind for spec in self._hosted.watches])
        if isinstance(fact, Lost):
            self._begun = False
        if event is not None:
            log = _log.warning if isinstance(event, TROUBLE) else _log.info
            log("connection", fact=type(event).__name__, detail=getattr(event, "message", ""))
            await self._recorder.record([connectivity_event(cluster, event)])
        if isinstance(fact, Connected):
            self._begin(fact)

    def _begin(self, connected: Connected) -> None:
        """Everything is listed that can be: take up what the log says, and let cycles run."""
        targets = self._hosted.targets
        targets.ready = targets.takes and not any(kind.name in connected.kinds_off for kind in _OF_CANDIDATES)
        self._begun = True
        known = self._hosted.here.connection.off  # as far as it is folded
        self.loop.view.cluster.off = {kind: known.get(kind, "it was not listed") for kind in connected.kinds_off}
        self._classes_known()
        self.loop.begin(self._time.now())
        self._cycles.wake()

    def _folded(self, events: Sequence[Recorded]) -> None:
        self._took(events)
        self.loop.view.cluster.off = self._hosted.here.connection.off
        self.measure.folded(events, self._live)
        if not self._live:
            return
        if self._begun:
            self._late()
            now = self._time.now()
            for stream in dict.fromkeys(recorded.stream for recorded in events):
                self.loop.sync(stream, now)
            self._cycles.wake()
        if any(isinstance(recorded.event, ClusterConnected) for recorded in events):
            self._effects.cluster_back(MANAGEMENT)

    def _late(self) -> None:
        """Take Candidates up that could not be listed when we connected: their kind was not there, or its storage in
        trouble.
        """
        targets, connection = self._hosted.targets, self._hosted.here.connection
        if targets.takes and not targets.ready and all(connection.in_view(kind.name) for kind in _OF_CANDIDATES):
            targets.ready = True
            targets.touch_all()

    async def _report(self) -> None:
        """Keep gauges and readiness up to date."""
        for count in itertools.count():
            silent = self._silence()
            self._health.set("database", silent is None, silent or "")
            connection, ready = self._hosted.here.connection, self._ready()
            self._health.set("cluster", ready, "" if ready else self._unready())
            self.measure.gauges(sure=self.leader.sure, log_answers=silent is None)
            self.measure.connection(connection, self._effects.open_by_cluster().get(MANAGEMENT, 0))
            if count % 40 == 0 and self.loop.view.problems:
                (kind, namespace, name), problem = next(iter(self.loop.view.problems.items()))
                left_out = len(self.loop.view.problems)
                _log.warning("left out", objects=left_out, kind=kind, namespace=namespace, name=name, problem=problem)
            await self._clock.sleep(0.25)


async def _no_secret(name: str) -> bytes:
    raise secret_not_found(name)
