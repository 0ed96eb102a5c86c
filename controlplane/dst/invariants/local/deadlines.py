"""What is done in time while nothing is wrong: placeholders leave cordoned nodes, gangs that cannot start give their
nodes back.

In: the cluster, the state that the scheduler's log gives, and since when nothing has been wrong. Out: a violation.
While something is wrong nobody can promise a time; what has to be so in the end is looked at in the end."""

from __future__ import annotations

from datetime import timedelta

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.scheduling.gangs.place import GANG
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.local.ending import ended
from controlplane.dst.scenes.local.environment import NAMESPACE, OwnClusterEnvironment
from controlplane.dst.scenes.local.hosted import group_of, is_placeholder, run_in
from controlplane.kube.kinds import NODES, PIPELINE_RUNS, PODS, meta
from controlplane.runtime.streams import object_of
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.controllers.workload_owners import ready

LEAVES = "a placeholder leaves a cordoned node"
GIVES = "a gang that cannot start gives its nodes back"
_LONG = 30.0  # seconds: many times what it takes
_SOON = 15.0  # seconds: less than a place waits for the others in the scene


class InTime:
    """Since when each node is cordoned."""

    def __init__(self, trace: Trace, environment: OwnClusterEnvironment, placed: SchedulerControllers) -> None:
        self._trace, self._environment, self._placed = trace, environment, placed
        self._cordoned: dict[str, float] = {}
        self._in_vain: dict[str, float] = {}

    def on_commit(self, commit: Commit) -> None:
        """Take note of a node."""
        record = commit.record
        if record.kind != NODES:
            return
        if commit.type != "DELETED" and record.obj["spec"].get("unschedulable"):
            self._cordoned.setdefault(record.name, self._environment.loop.time())
        else:
            self._cordoned.pop(record.name, None)

    def look(self, clear_for: float) -> None:
        """Look at what should have been done by now; `clear_for`: for how many seconds nothing has been wrong."""
        if clear_for >= _LONG:
            self._placeholders()
            self._waiting()
        else:
            self._in_vain.clear()

    def _placeholders(self) -> None:
        now = self._environment.loop.time()
        for record in self._environment.records(PODS) if self._cordoned else ():
            since = self._cordoned.get(record.obj["spec"].get("nodeName", ""), now)
            if not is_placeholder(record.labels) or now - since < _LONG:
                continue
            run = self._environment.find(PIPELINE_RUNS, run_in(record.labels), NAMESPACE)
            if run is not None and not ended(run) and ready(record.obj) and "deletionTimestamp" not in meta(record.obj):
                node = record.obj["spec"]["nodeName"]
                self._trace.violate(LEAVES, f"{record.name} is on {node}, cordoned for {now - since:.0f} s")

    def _waiting(self) -> None:
        """A place waits for others no longer than its time, and no longer than it takes to hear that one of them has
        found no node.
        """
        now, at = self._environment.clock.now(), self._environment.loop.time()
        waiting = {
            stream: state
            for stream, state in self._placed.placements.states.items()
            if state.held is not None and GANG in state.held.waits and GANG not in state.allowed
        }
        failed = self._without_node()
        groups = {stream: self._group(stream) for stream in waiting}
        self._in_vain = {stream: self._in_vain.get(stream, at) for stream in waiting if groups[stream] in failed}
        for stream, state in waiting.items():
            assert state.held is not None
            until = state.held.waits[GANG]
            if now > until + timedelta(seconds=_LONG):
                self._trace.violate(GIVES, f"{stream} keeps {state.held.node} and waits since {until:%H:%M:%S}")
            if at - self._in_vain.get(stream, at) > _SOON:
                self._trace.violate(
                    GIVES, f"{stream} keeps {state.held.node}, and another of {groups[stream]} has none"
                )

    def _without_node(self) -> set[str]:
        """Return the groups of which a member was tried and found no node."""
        states = self._placed.placements.states
        return {
            self._group(stream)
            for stream, state in states.items()
            if not state.node and state.told is not None and state.told.reason == SchedulingReason.UNSCHEDULABLE
        } - {""}

    def _group(self, stream: str) -> str:
        namespace, name = object_of(stream)
        pod = self._environment.find(PODS, name, namespace)
        return group_of(pod) if pod is not None else ""
