"""When a workload would get quota, if those that have some end at given moments: the engine itself, in virtual time.

In: a state, a workload that waits, when each holder ends, and for how long one lasts that is started meanwhile. Out: a
`Forecast`. The state that is asked is not changed: an `Excerpt` is made of it, with the workload's Cohort tree alone,
those that wait before it and some that wait behind, and each walk has a copy of that. What is preempted leaves at once,
and waits again; pods are ready at once; nobody new comes.

Each end of a holder wakes all that wait, so a walk lets few wait at once: of those before the workload in its
ClusterQueue the next `WINDOW`, another one for each that is started. Who waits further behind is not tried out of
order."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Decision, Evict, Preempt
from controlplane.controllers.quota.engine.explain import in_line
from controlplane.controllers.quota.engine.model import ClusterQueue, Workload
from controlplane.controllers.quota.engine.state import State

WINDOW = 50
BEHIND = 10
"""How many that wait behind a workload are followed: with BestEffortFIFO they may be started before it."""
MOST_STEPS = "too many decisions"
NOTHING_ENDS = "nothing ends"


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a workload gets quota, in seconds since 1970; None, and then `why`, if that was not found. `started`: who is
    started before it; `steps`: how many decisions were made."""

    at: float | None
    why: str
    started: tuple[str, ...]
    steps: int


@dataclass(frozen=True)
class Excerpt:
    """What a workload's quota depends on. `ahead`: who waits before it in its ClusterQueue, in order; `waiting`:
    itself, and others that wait in the tree; `left_out`: how many are in neither, since there are too many."""

    key: str
    source: State
    tree: tuple[ClusterQueue, ...]
    holders: tuple[Workload, ...]
    ahead: tuple[Workload, ...]
    waiting: tuple[Workload, ...]
    left_out: int

    @property
    def target(self) -> Workload:
        """The workload itself."""
        return self.waiting[0]

    def state(self, now: float) -> State:
        """Return a state of its own."""
        source, made = self.source, State(self.source.settings)
        made.snapshot.flavors.update(source.snapshot.flavors)
        made.snapshot.topology = source.snapshot.topology.copied()
        made.snapshot.checks.update(source.snapshot.checks)
        made.snapshot.namespaces.update(source.snapshot.namespaces)
        made.snapshot.put_all({name: spec for name, _, spec in source.snapshot.cohorts_with_specs()}, self.tree)
        names = {spec.name for spec in self.tree}
        for spec in self.tree:
            made.queues.put_cluster_queue(spec)
        for local in source.queues.local.values():
            if local.cluster_queue in names:
                made.queues.put_local_queue(local)
        if source.settings.admission_fair_sharing is not None:
            made.history.give(source.history.kept())
            made.measure_by(source.fleet_quota())
        for workload in self.holders:
            made.snapshot.put_workload(replace(workload, pods_ready=True))
        for workload in (*self.ahead[:WINDOW], *self.waiting):
            made.queues.put(workload, now)
        return made


def excerpt(state: State, key: str) -> Excerpt | None:
    """Return what a workload's quota depends on, by its namespace and name; None if it waits in no ClusterQueue. Of the
    other ClusterQueues of its tree the first that wait are in it, and a few of those behind it."""
    found = next((one for one in state.queues.pending.values() if one.find(key) is not None), None)
    if found is None:
        return None
    nodes = list(state.snapshot.queues[found.name].root().subtree_queues())
    own = in_line(state, found)
    place = next(at for at, one in enumerate(own) if one.key == key)
    others = [in_line(state, state.queues.pending[node.name]) for node in nodes if node.name != found.name]
    each = max(1, WINDOW // max(1, len(others)))
    near = [own[place], *own[place + 1 : place + 1 + BEHIND], *(one for line in others for one in line[:each])]
    return Excerpt(
        key=key,
        source=state,
        tree=tuple(node.spec for node in nodes),
        holders=tuple(info.workload for node in nodes for info in node.workloads.values()),
        ahead=tuple(one.workload for one in own[:place]),
        waiting=tuple(one.workload for one in near),
        left_out=sum(max(0, len(line) - each) for line in others),
    )


def forecast(
    of: Excerpt, now: float, ends: Mapping[str, float], lasts: Callable[[str], float], most_steps: int
) -> Forecast:
    """Return when the workload of an excerpt gets quota. `ends`: the moments at which holders end, none of one that
    does not; `lasts`: for how many seconds a workload has quota that is started, infinite if it does not end."""
    return _PlayedForward(of, now, ends, lasts, most_steps).run()


class _PlayedForward:
    """Virtual time over one state. `ends`: when those that have quota end; `moments`: the same in a heap; `later`: who
    waits before the workload and is not in the state yet, the next one last."""

    def __init__(
        self, of: Excerpt, now: float, ends: Mapping[str, float], lasts: Callable[[str], float], most_steps: int
    ) -> None:
        self.state, self.key, self.now, self.lasts, self.most_steps = of.state(now), of.key, now, lasts, most_steps
        self.later = list(reversed(of.ahead[WINDOW:]))
        self.ends: dict[str, float] = {}
        self.moments: list[tuple[float, str]] = []
        self.started: dict[str, None] = {}
        self.steps = 0
        for name, at in ends.items():
            self._ends(name, max(at, now))
        for one in (*of.ahead, *of.waiting):
            if now < one.requeue_at < math.inf:
                heapq.heappush(self.moments, (one.requeue_at, ""))

    def run(self) -> Forecast:
        """Return what comes of it."""
        moment = self.now
        for info in [one for one in self.state.snapshot.workloads.values() if one.workload.evicted]:
            self._evict(info.key, moment)
        while not self._settle(moment):
            if self.steps > self.most_steps:
                return Forecast(None, MOST_STEPS, tuple(self.started), self.steps)
            if (later := self._next()) is None:
                return Forecast(None, NOTHING_ENDS, tuple(self.started), self.steps)
            moment = later
        return Forecast(moment, "", tuple(self.started), self.steps)

    def _ends(self, name: str, at: float) -> None:
        if at < math.inf:
            self.ends[name] = at
            heapq.heappush(self.moments, (at, name))

    def _next(self) -> float | None:
        """Let end who ends next, and all that end at the same moment; return the moment, None if nobody does."""
        moment: float | None = None
        while self.moments and (moment is None or self.moments[0][0] == moment):
            at, name = heapq.heappop(self.moments)
            if name and self.ends.get(name) != at:
                continue  # it was preempted before
            moment = at
            if name:
                del self.ends[name]
                self.state.drop_workload(name, at)
        if moment is not None:
            self.state.due(moment)
        return moment

    def _settle(self, moment: float) -> bool:
        """Decide until nothing new follows; return whether the workload got quota."""
        said: set[object] = set()
        while self.steps <= self.most_steps:
            news = [one for one in decide(self.state, moment) if said_by(one) not in said]
            if not news:
                return False
            self.steps += len(news)
            self.state.apply(news, moment)
            said.update(map(said_by, news))
            for one in news:
                if isinstance(one, Admit):
                    if one.second_pass:
                        continue  # it was started before
                    if one.workload == self.key:
                        return True
                    self._start(one.workload, moment)
                elif isinstance(one, Evict):
                    self._evict(one.workload, moment)
                elif isinstance(one, Preempt):
                    for victim in one.victims:
                        self._evict(victim.workload, moment)
                    said.clear()
        return False

    def _start(self, name: str, moment: float) -> None:
        self.started[name] = None
        self._ends(name, moment + self.lasts(name))
        if self.later:
            self.state.queues.put(self.later.pop(), moment)
        info = self.state.snapshot.workloads.get(name)
        if info is not None and self.state.settings.block_admission:
            self.state.put_workload(replace(info.workload, pods_ready=True), moment)

    def _evict(self, name: str, moment: float) -> None:
        """Let a workload leave and wait again."""
        info = self.state.snapshot.workloads.get(name)
        if info is not None:
            self.ends.pop(name, None)
            waits = replace(info.workload, admission=None, reserved_at=None, evicted=False)
            self.state.put_workload(waits, moment)


def said_by(decision: Decision) -> object:
    """Return what a decision says, to know it again."""
    if isinstance(decision, Admit):
        return decision.workload
    if isinstance(decision, Evict):
        return decision.workload, decision.reason, decision.message
    tried: Iterable[Mapping[str, int]] = decision.progress.tried if decision.progress is not None else ()
    victims = [(one.workload, one.ongoing) for one in getattr(decision, "victims", ())]
    return (
        decision.workload,
        decision.reason,
        decision.message,
        repr([victims, *(sorted(one.items()) for one in tried)]),
    )
