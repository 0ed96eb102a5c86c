"""What is done in time while nothing is wrong: placeholders leave cordoned nodes, gangs that cannot start give their nodes back.

In: the cluster, the state that the scheduler's log gives, and since when nothing has been wrong. Out: a violation. While something is wrong
nobody can promise a time; what has to be so in the end is looked at in the end.
"""

from __future__ import annotations

from datetime import timedelta

from controlplane.app.scheduling.rooms import SchedulerRooms
from controlplane.coscheduling.names import COMPONENT
from controlplane.coscheduling.objects import COMPONENT_LABEL, RUN_LABEL
from controlplane.kube import NODES, PIPELINE_RUNS, PODS, meta
from controlplane.scheduler.gangs import GANG
from controlplane.simulation.deterministic.local_rooms.ending import ended
from controlplane.simulation.deterministic.local_rooms.stage import NAMESPACE, Stage
from controlplane.simulation.deterministic.trace import Trace
from controlplane.simulation.history import Commit
from controlplane.simulation.owners import ready

LEAVES = "a placeholder leaves a cordoned node"
GIVES = "a gang that cannot start gives its nodes back"
_LONG = 60.0  # seconds: several times what it takes


class InTime:
    """Since when each node is cordoned."""

    def __init__(self, trace: Trace, stage: Stage, placed: SchedulerRooms) -> None:
        self._trace, self._stage, self._placed = trace, stage, placed
        self._cordoned: dict[str, float] = {}

    def on_commit(self, commit: Commit) -> None:
        """Take note of a node."""
        record = commit.record
        if record.kind != NODES:
            return
        if commit.type != "DELETED" and record.obj["spec"].get("unschedulable"):
            self._cordoned.setdefault(record.name, self._stage.loop.time())
        else:
            self._cordoned.pop(record.name, None)

    def look(self, clear_for: float) -> None:
        """Look at what should have been done by now; `clear_for`: for how many seconds nothing has been wrong."""
        if clear_for >= _LONG:
            self._placeholders()
            self._waiting()

    def _placeholders(self) -> None:
        now = self._stage.loop.time()
        for record in self._stage.records(PODS) if self._cordoned else ():
            since = self._cordoned.get(record.obj["spec"].get("nodeName", ""), now)
            if record.labels.get(COMPONENT_LABEL) != COMPONENT or now - since < _LONG:
                continue
            run = self._stage.find(PIPELINE_RUNS, str(record.labels.get(RUN_LABEL)), NAMESPACE)
            if run is not None and not ended(run) and ready(record.obj) and "deletionTimestamp" not in meta(record.obj):
                node = record.obj["spec"]["nodeName"]
                self._trace.violate(LEAVES, f"{record.name} is on {node}, cordoned for {now - since:.0f} s")

    def _waiting(self) -> None:
        now = self._stage.clock.now()
        for stream, state in self._placed.placements.states.items():
            until = state.held.waits.get(GANG) if state.held is not None and GANG not in state.allowed else None
            if until is not None and now > until + timedelta(seconds=_LONG) and state.held is not None:
                self._trace.violate(GIVES, f"{stream} keeps {state.held.node} and waits since {until:%H:%M:%S}")
