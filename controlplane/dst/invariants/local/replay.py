"""The log alone gives the state: a fold of it beside every process equals what the process holds, leading or following.

In: what a process holds after each batch that it has folded, and the states that a second fold of the same log has come
to. Out: the first difference in words. What a process remembers beside the log on purpose (who waits for which read,
what a watch said last) is not compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.replay import RULE, _unequal
from controlplane.dst.scenes.local.hosted import groups_in, runs_in
from controlplane.dst.scenes.local.processes import CONTROLLERS, SCHEDULER, hosted, scheduler_controllers
from controlplane.log.event import Recorded

_Pair = tuple[object, object]


def _of_controllers(controllers: HostedControllers) -> dict[str, Any]:
    groups, runs = groups_in(controllers), runs_in(controllers)
    index = groups.index
    return {
        "members": index.members,
        "groups": index.groups,
        "rules": index.rules,
        "room": index.capacity,
        "unresolved": index.unresolved,
        "members of groups": index._members_of,
        "connection of the groups": index.connection,
        "runs": runs.runs,
        "nodes": runs.nodes,
        "flags": (runs.config.flags, runs.config.defaults),
        "what is said of flags": runs.config._said,
        "on nodes": runs._on_node,
        "places": runs.places._places,
        "connection of the runs": runs.connection,
    }


def _of_scheduler(controllers: SchedulerControllers) -> dict[str, Any]:
    return {
        "placements": controllers.placements.states,
        "evictions": controllers.evictions.states,
        "pod_group_conditions": controllers.pod_group_conditions.states,
        "connection": controllers.here.connection,
    }


_PARTS: dict[str, Callable[[Any], dict[str, Any]]] = {CONTROLLERS: _of_controllers, SCHEDULER: _of_scheduler}


class LocalReplayRules:
    """Compares what processes hold with `shadow` and `placed`, the folds of the logs beside them."""

    def __init__(self, trace: Trace, shadow: HostedControllers, placed: SchedulerControllers) -> None:
        self._trace, self.shadow, self.placed = trace, shadow, placed
        self.positions = {CONTROLLERS: 0, SCHEDULER: 0}
        self._equal: dict[tuple[str, int, str], dict[object, _Pair]] = {}

    def folded(self, sort: str, process: str, controllers: Any, position: int) -> None:
        """Look at a process that has folded a batch. One that is behind is looked at when it has caught up."""
        if position != self.positions[sort]:
            return
        beside = self.shadow if sort == CONTROLLERS else self.placed
        mine, theirs = _PARTS[sort](controllers), _PARTS[sort](beside)
        for part, left in mine.items():
            known = self._equal.setdefault((process, id(controllers), part), {})
            wrong = _difference(left, theirs[part], known)
            if wrong:
                self._trace.violate(RULE, f"{process}: {part}: {wrong}")
                return

    def finish(self, logs: Mapping[str, Sequence[Recorded]]) -> None:
        """Fold both logs anew, from the beginning."""
        fresh: dict[str, HostedControllers | SchedulerControllers] = {
            CONTROLLERS: hosted(),
            SCHEDULER: scheduler_controllers("replay"),
        }
        for sort, controllers in fresh.items():
            for recorded in logs[sort]:
                controllers.router.fold(recorded)
            self.folded(sort, "replay", controllers, self.positions[sort])


def _difference(left: Any, right: Any, known: dict[object, _Pair]) -> str:
    if not isinstance(left, dict):
        return "" if left == right else f"{left!r} and {right!r}"
    if left.keys() != right.keys():
        key = next(iter(left.keys() ^ right.keys()))
        return f"{key}: {left.get(key)!r} and {right.get(key)!r}"
    key = _unequal(left, right, known)
    return f"{key}: {left[key]!r} and {right[key]!r}" if key is not None else ""
