"""Keeps all runs that wait for a cluster, and all workers, in memory, as the log says it: the controller that judges
where runs fit.

In: events in the log's order. Out: which runs to judge anew, what has to be read for it, and `ClustersJudged` where the
judgement changes. Nothing is written to any cluster. Whoever dispatches runs hears the judgement in the log
(docs/decisions/0021-where-a-run-fits-is-an-event-between-two-rooms.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.eligibility import FIT, ClustersJudged, Fit
from controlplane.controllers.connectivity.events import MANAGEMENT, ServiceStarted
from controlplane.controllers.connectivity.objects import Deduplicator, ObjectPlaces
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.connectivity.state import restarted
from controlplane.controllers.coscheduling.feasibility import events
from controlplane.controllers.coscheduling.feasibility.causes import CAUSES, words_of
from controlplane.controllers.coscheduling.feasibility.decide import Judged, RunToJudge, judge_run
from controlplane.controllers.coscheduling.feasibility.observe import WORKER, answered, seen
from controlplane.controllers.coscheduling.feasibility.workers import Key, WorkerCapacity
from controlplane.controllers.coscheduling.objects import CONFIG_MAPS, NODES, PODS, read_run
from controlplane.controllers.coscheduling.observations import CoschedulingObjectGone, SightingRefused
from controlplane.controllers.coscheduling.problems import InputRefused
from controlplane.kube.kinds import PIPELINE_RUNS, STORAGE_CLASSES, WORKLOADS
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenRead, ReadAnswer
from controlplane.runtime.facets import FacetPositions, Facets, cause_of, changes
from controlplane.runtime.writes import WritesNothing
from controlplane.values import Value

OWNS = frozenset({FIT, WORKER})
HEARS = frozenset({"cluster", "service"})
_SEEN: dict[type[Event], str] = {
    events.DispatchedRunObserved: PIPELINE_RUNS.name,
    events.RunChargeObserved: WORKLOADS.name,
    events.WorkerNodeObserved: NODES.name,
    events.WorkerClassObserved: STORAGE_CLASSES.name,
    events.WorkerFlagsObserved: CONFIG_MAPS.name,
    events.WorkerPlaceholderObserved: PODS.name,
}
_GONE: dict[type[Event], str] = {
    events.DispatchedRunGone: PIPELINE_RUNS.name,
    events.RunChargeGone: WORKLOADS.name,
    events.WorkerNodeGone: NODES.name,
    events.WorkerClassGone: STORAGE_CLASSES.name,
    events.WorkerFlagsGone: CONFIG_MAPS.name,
    events.WorkerPlaceholderGone: PODS.name,
}


class FeasibilityPolicy(Value):
    """The settings. `controller_name`: the `managedBy` that makes a run ours; `config_namespace`: where
    workers' Tekton has its ConfigMaps; `grows`: clusters whose nodes come and go; `patience`: how long a judgement
    waits for what is on its way."""

    controller_name: str = "kueue.x-k8s.io/multikueue"
    config_namespace: str = "tekton-pipelines"
    grows: frozenset[str] = frozenset()
    patience: timedelta = timedelta(seconds=10)


class JudgedRun(msgspec.Struct):
    """A run and what was said of it. `judged` holds, by cluster, the last judgement and what it was made of."""

    version: int = 0
    observed: events.DispatchedRunObserved | None = None
    charge: events.RunChargeObserved | None = None
    to_judge: RunToJudge | None = None
    said: ClustersJudged | None = None
    judged: dict[str, tuple[tuple[int, ...], Judged]] = {}
    positions: dict[str, int] = {}


RUN: Facets[JudgedRun] = {
    "asked": lambda state: (
        (state.observed.uid, state.observed.waits, state.observed.asked, state.observed.run, state.observed.problem)
        if state.observed
        else None
    ),
    "charge": lambda state: state.to_judge.charged if state.to_judge else None,
}


class FeasibilityController(WritesNothing):
    """The states of all runs and workers, and the answers that the loop asks of them."""

    types: Sequence[type[Event]] = (*connectivity.EVENTS, *events.JUDGING_EVENTS, SightingRefused)

    GIVEN = ("policy", "_shown")

    def __init__(self, policy: FeasibilityPolicy) -> None:
        self.policy = policy
        self.runs: dict[str, JudgedRun] = {}
        self.workers: dict[str, WorkerCapacity] = {}
        self.places = ObjectPlaces(_SEEN, _GONE)
        self._repeats = Deduplicator()
        self._shown: set[str] = set()
        self._needed: dict[str, dict[str, OpenRead]] = {}
        self._needers: dict[str, set[str]] = {}
        self._dirty: dict[str, None] = {}

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen; None if nobody is judged by it, or if it says nothing new."""
        found = seen(change, self.policy.controller_name, self.policy.config_namespace)
        if found is None:
            return None
        stream, event, bodies = found
        source = change.source
        if isinstance(event, CoschedulingObjectGone):
            self._repeats.forget(source)
            if isinstance(event, events.DispatchedRunGone) and not self._forget(stream):
                return None
        elif isinstance(event, SightingRefused):
            pass
        elif source and self._repeats.says_nothing_new(source, event, listed=change.listed):
            return None
        elif isinstance(event, events.DispatchedRunObserved):
            self._shown.add(stream)
        return change.observed(stream, event, now, bodies)

    def _forget(self, stream: str) -> bool:
        """Whether a run that is gone was recorded: others than ours come by too."""
        known = stream in self.runs or stream in self._shown
        self._shown.discard(stream)
        return known

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.places.fold(recorded)
        first, _, rest = recorded.stream.partition("/")
        if first == FIT:
            self._fold_run(recorded)
        elif first == WORKER:
            self._fold_worker(recorded, rest.partition("/")[0])
        elif first == "cluster" and rest != MANAGEMENT:
            worker = self._worker(rest)
            worker.connected(fold_connection(worker.connection, recorded), recorded.position)
            self._enqueue_waiting()
        elif isinstance(recorded.event, ServiceStarted):
            for worker in self.workers.values():
                worker.connected(restarted(worker.connection, recorded), recorded.position)

    def _fold_run(self, recorded: Recorded) -> None:
        stream, event = recorded.stream, recorded.event
        state = self.runs.setdefault(stream, JudgedRun())
        state.version = recorded.version
        if isinstance(event, ClustersJudged):
            state.said = event
            return
        before = msgspec.structs.replace(state)
        if isinstance(event, events.DispatchedRunGone):
            if state.observed is None or state.observed.uid == event.uid:
                self._need(stream, [])
                self.runs.pop(stream, None)
            return
        match event:
            case events.DispatchedRunObserved():
                self._observed(state, event, recorded)
            case events.RunChargeObserved():
                state.charge = event
            case events.RunChargeGone() if state.charge is not None and state.charge.uid == event.uid:
                state.charge = None
        if state.observed is None and state.charge is None:
            self.runs.pop(stream, None)
            return
        _charge(state)
        state.positions |= changes("run", RUN, before, state, recorded.position)
        self._dirty[stream] = None

    def _observed(self, state: JudgedRun, event: events.DispatchedRunObserved, recorded: Recorded) -> None:
        before = state.observed
        if before is not None and before.uid != event.uid:
            state.said = None  # another run of the same name
        waited = state.to_judge is not None and before is not None and before.uid == event.uid
        since = state.to_judge.since if waited and state.to_judge is not None else recorded.recorded_at
        state.observed, state.judged, state.to_judge = event, {}, None
        if event.waits:
            run, problem = None, event.problem
            if not problem:
                try:
                    run = read_run(event.run)
                except InputRefused as refused:  # recorded by a version that took it
                    problem = str(refused)
            state.to_judge = RunToJudge(
                run=run,
                asked=event.asked,
                problem=problem,
                reference=(event.run.get("spec") or {}).get("pipelineRef") or {},
                since=since,
            )

    def _fold_worker(self, recorded: Recorded, cluster: str) -> None:
        key = self._worker(cluster).fold(recorded)
        if key is None:
            self._enqueue_waiting()
        else:
            self._dirty.update(dict.fromkeys(sorted(self._needers.get(recorded.stream, ()))))

    def _worker(self, name: str) -> WorkerCapacity:
        return self.workers.setdefault(name, WorkerCapacity(name))

    def _enqueue_waiting(self) -> None:
        self._dirty.update({stream: None for stream, state in self.runs.items() if state.to_judge is not None})

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    # --- what follows ------------------------------------------------------------------------------------------------

    def is_over(self, stream: str) -> bool:
        """Whether nothing is left of a stream, so that nothing can follow for it."""
        return stream not in self.runs

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return the judgement on a run, if it is another one than was said."""
        state = self.runs.get(stream)
        if state is None:
            return Decided()
        if state.to_judge is None or state.observed is None:
            self._need(stream, [])
            return Decided()
        said = state.said.clusters if state.said is not None else {}
        found = self._judge_all(state, state.to_judge, now)
        clusters = self._clusters(said, found)
        self._need(stream, [_read(name, key) for name, judged in found.items() for key in judged.needs])
        wake = self._wake(found, now)
        if clusters == said:
            return Decided((), state.version, wake)
        seen_ = state.observed
        event = ClustersJudged(
            kind=PIPELINE_RUNS.name, namespace=seen_.namespace, name=seen_.name, uid=seen_.uid, clusters=clusters
        )
        words = words_of(said, clusters, {name: judged for name, (_, judged) in state.judged.items()})
        caused_by = cause_of(CAUSES, event, self._positions(state), words)
        new = NewEvent(stream=stream, event=event, cluster=MANAGEMENT, caused_by=caused_by)
        return Decided([new], state.version, wake)

    def _positions(self, state: JudgedRun) -> FacetPositions:
        """Return the positions of a run, of all workers, and of what the run names there."""
        found = dict(state.positions)
        for name, worker in self.workers.items():
            found |= {f"{name}.{facet}": at for facet, at in worker.positions.items()}
            _, judged = state.judged.get(name, ((), None))
            looks = [worker.looks[key].since for key in judged.needs if key in worker.looks] if judged else []
            found[f"{name}.looks"] = max(looks, default=0)
        return found

    def _judge_all(self, state: JudgedRun, run: RunToJudge, now: datetime) -> dict[str, Judged]:
        """Return the judgements on a run, by the workers that are connected."""
        connected = [worker for _, worker in sorted(self.workers.items()) if worker.connection.connected]
        return {worker.connection.name: self._judge(state, run, worker, now) for worker in connected}

    def _wake(self, found: Mapping[str, Judged], now: datetime) -> datetime | None:
        """Return when to judge again though nothing happens: what is waited for is late, or a look is old."""
        looks = [self.workers[name].looks.get(key) for name, judged in found.items() for key in judged.needs]
        wakes = [*(look.due for look in looks if look), *(judged.until for judged in found.values() if judged.until)]
        return min((at for at in wakes if at > now), default=None)

    def _clusters(self, said: Mapping[str, Fit], found: Mapping[str, Judged]) -> dict[str, Fit]:
        """Return what is to be said of each worker: of one that is not connected nothing new is known."""
        known = [name for name, worker in sorted(self.workers.items()) if worker.connection.phase != "Removed"]
        fits = {name: (found[name].fit if name in found else None) or said.get(name) for name in known}
        return {name: fit for name, fit in fits.items() if fit is not None}

    def _judge(self, state: JudgedRun, run: RunToJudge, worker: WorkerCapacity, now: datetime) -> Judged:
        """Judge a run for a worker, unless nothing that counts has changed since."""
        name = worker.connection.name
        known = state.judged.get(name)
        if known is not None and known[0] == _made_of(worker, known[1].needs) and known[1].fit is not None:
            return known[1]
        grows = name in self.policy.grows
        judged = judge_run(run, worker, now, grows=grows, patience=self.policy.patience)
        state.judged[name] = (_made_of(worker, judged.needs), judged)
        return judged

    # --- what has to be read -----------------------------------------------------------------------------------------

    def _need(self, stream: str, reads: Sequence[OpenRead]) -> None:
        for key in self._needed.pop(stream, {}):
            needers = self._needers.get(key, set())
            needers.discard(stream)
            if not needers:
                self._needers.pop(key, None)
        if reads:
            self._needed[stream] = {read.stream: read for read in reads}
            for read in reads:
                self._needers.setdefault(read.stream, set()).add(stream)

    def open_reads(self, stream: str, now: datetime) -> Sequence[OpenRead]:
        """Return the objects that a run names and that were not looked at on a worker, or not for a while."""
        return [read for read in self._needed.get(stream, {}).values() if self._is_due(read, now)]

    def _is_due(self, read: OpenRead, now: datetime) -> bool:
        key = Key(read.api_version, read.kind, read.namespace, read.name)
        look = self._worker(read.cluster).looks.get(key)
        return look is None or look.due <= now

    def is_wanted(self, read: OpenRead) -> bool:
        """Whether a run that waits still names the object."""
        return read.stream in self._needers

    def answered(self, read: OpenRead, answer: ReadAnswer, now: datetime) -> NewEvent:
        """Return the event of a read's end."""
        return NewEvent(stream=read.stream, event=answered(read, answer), cluster=read.cluster, observed_at=now)


def _charge(state: JudgedRun) -> None:
    """Let a run be judged by what its Workload asks for."""
    run, charge = state.to_judge, state.charge
    if run is not None and state.observed is not None:
        asked = charge.asked if charge is not None and charge.owner == state.observed.uid else None
        if asked != run.charged:
            state.to_judge, state.judged = msgspec.structs.replace(run, charged=asked), {}


def _read(cluster: str, key: Key) -> OpenRead:
    stream = f"{WORKER}/{cluster}/read/{key.api_version}/{key.kind}/{key.namespace}/{key.name}"
    return OpenRead(stream, cluster, key.api_version, key.kind, key.namespace, key.name)


def _made_of(worker: WorkerCapacity, needs: Sequence[Key]) -> tuple[int, ...]:
    """Return what a judgement rests on, as numbers that change with it."""
    looks = (worker.looks.get(key) for key in needs)
    return (worker.version, *(look.position if look is not None else 0 for look in looks))
