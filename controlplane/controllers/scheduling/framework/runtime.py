"""Calls the plugins of one profile, extension point by extension point.

In: plugin instances in the profile's order, with weights. Out: statuses of nodes, and scores. It holds no state of its
own, so one `Framework` serves any number of cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from controlplane.controllers.scheduling.framework.plugin import (
    MAX_SCORE,
    BindPlugin,
    CycleState,
    FilterPlugin,
    Nominated,
    PermitPlugin,
    Plugin,
    PluginWrites,
    PostBindPlugin,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    Prefiltered,
    PreFilterPlugin,
    PreScorePlugin,
    QueuedPod,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from controlplane.controllers.scheduling.framework.status import (
    SUCCESS,
    Code,
    NodeStatuses,
    Status,
    failed,
    from_each,
    unresolvable,
)
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot
from controlplane.controllers.scheduling.unsupported import unsupported

P = TypeVar("P", bound=Plugin)
LONGEST_WAIT = 15 * 60.0
"""The longest time in seconds that a permit may wait."""


class Scores(NamedTuple):
    """The scores of the nodes in `rows`: raw, normalised and weighted by plugin, and their weighted sum."""

    rows: Ints
    raw: dict[str, Ints]
    normalised: dict[str, Ints]
    weighted: dict[str, Ints]
    total: Ints


@dataclass(slots=True)
class Framework:
    """One profile's plugins. `points` maps an extension point to its plugins in order, `weights` a scoring plugin to
    its weight.

    `percentage` is the profile's percentageOfNodesToScore (0: it adapts to the cluster's size); whoever runs cycles
    makes a `Sampling` of it. `vectorised=False` makes it ask node by node throughout, which is slower and says the
    same. `heard` is told of plugins that fail by an exception where nobody asks for a status."""

    scheduler_name: str
    points: dict[str, list[Plugin]]
    weights: dict[str, int] = field(default_factory=dict)
    percentage: int = 100
    vectorised: bool = True
    heard: Callable[[Exception], None] = lambda error: None

    def plugins(self, point: str, of: type[P]) -> list[P]:
        """Return the plugins of an extension point."""
        return [plugin for plugin in self.points.get(point, ()) if isinstance(plugin, of)]

    # ---------------------------------------------------------------- the queue

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return what the queue is sorted by."""
        return self.plugins("queueSort", QueueSortPlugin)[0].sort_key(queued)

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return Success, or the first reason why the pod has to stay outside the queue."""
        for plugin in self.plugins("preEnqueue", PreEnqueuePlugin):
            try:
                status = plugin.pre_enqueue(pod)
            except Exception as error:
                self.heard(error)
                status = failed(f"a plugin failed: {type(error).__name__}: {error}")
            if not status.ok:
                return status.by(plugin.name)
        return SUCCESS

    # ---------------------------------------------------------------- filtering

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Run PreFilter: the first refusal that cannot be resolved or error ends it; node sets are intersected."""
        refusal = unsupported(pod, {plugin.name for plugin in self.points.get("reserve", ())}, snapshot.cluster.off)
        if not refusal.ok:
            return Prefiltered(refusal)
        allowed: frozenset[str] | None = None
        narrowed: list[str] = []
        refused: Status | None = None
        for plugin in self.plugins("preFilter", PreFilterPlugin):
            status, nodes = plugin.pre_filter(state, pod, snapshot)
            if status.code is Code.SKIP:
                state.skip_filter.add(plugin.name)
                continue
            if status.code is Code.UNSCHEDULABLE:
                refused = status.by(plugin.name)  # the last one is told
                continue
            if not status.ok:
                return Prefiltered(status.by(plugin.name))
            if nodes is not None:
                narrowed.append(plugin.name)
                allowed = nodes if allowed is None else allowed & nodes
                if not allowed:
                    return Prefiltered(_unsatisfied(narrowed, len(narrowed) > 1))
        if refused is not None:
            return Prefiltered(refused)
        return Prefiltered(
            SUCCESS if allowed is None else _unsatisfied(narrowed, False)._replace(code=Code.SUCCESS), allowed
        )

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> NodeStatuses:
        """Run Filter over all nodes in `still`: the first refusal of a node is its status."""
        which = np.zeros(len(snapshot), dtype=np.int32)
        statuses: list[Status] = [SUCCESS]
        left = still.copy()
        for plugin in self.plugins("filter", FilterPlugin):
            if plugin.name in state.skip_filter:
                continue
            ask = plugin.filter_all if self.vectorised else _node_by_node(plugin)
            found = ask(state, pod, snapshot, left)
            hit = left & (found.which != 0)
            if hit.any():
                which[hit] = found.which[hit] + (len(statuses) - 1)
                statuses.extend(status.by(plugin.name) for status in found.statuses[1:])
                left &= ~hit
                if not left.any():
                    break
        return NodeStatuses(which, tuple(statuses))

    def filter_one(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Run Filter on one node, node by node."""
        for plugin in self.plugins("filter", FilterPlugin):
            if plugin.name not in state.skip_filter:
                status = plugin.filter(state, pod, info)
                if not status.ok:
                    return status.by(plugin.name)
        return SUCCESS

    def filter_with_nominated(self, state: CycleState, pod: Pod, info: NodeInfo, nominated: Nominated) -> Status:
        """Run Filter on one node with the pods nominated there added, then without them; both must pass."""
        added = rivals(pod, info.node.name, nominated)
        if added:
            trial, changed = state.clone(), info.clone()
            for other in added:
                changed.add(other)
                status = self.add_pod(trial, pod, other, changed)
                if not status.ok:
                    return status
            status = self.filter_one(trial, pod, changed)
            if not status.ok:
                return status
        return self.filter_one(state, pod, info)

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, info: NodeInfo) -> Status:
        """Tell the PreFilter plugins that a pod came to a node."""
        return self._tell(state, lambda plugin: plugin.add_pod(state, pod, added, info))

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, info: NodeInfo) -> Status:
        """Tell the PreFilter plugins that a pod left a node."""
        return self._tell(state, lambda plugin: plugin.remove_pod(state, pod, removed, info))

    def _tell(self, state: CycleState, tell: Callable[[PreFilterPlugin], Status]) -> Status:
        for plugin in self.plugins("preFilter", PreFilterPlugin):
            if plugin.name not in state.skip_filter:
                status = tell(plugin)
                if not status.ok:
                    return status.by(plugin.name)
        return SUCCESS

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, refused: NodeStatuses, nominated: Nominated
    ) -> PostFiltered | None:
        """Run PostFilter until one finds victims; None if the profile has none."""
        answer: PostFiltered | None = None
        for plugin in self.plugins("postFilter", PostFilterPlugin):
            found = plugin.post_filter(state, pod, snapshot, refused, Trial(self, nominated))
            found.status = found.status.by(plugin.name)
            if found.status.ok or found.status.code is Code.ERROR:
                return found
            answer = answer or found
        return answer

    # ---------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Run PreScore; the first error ends it."""
        for plugin in self.plugins("preScore", PreScorePlugin):
            status = plugin.pre_score(state, pod, snapshot, rows)
            if status.code is Code.SKIP:
                state.skip_score.add(plugin.name)
            elif not status.ok:
                return status.by(plugin.name)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Scores:
        """Run Score and NormalizeScore, and add up by weight. ValueError if a plugin leaves 0…100."""
        found = Scores(rows, {}, {}, {}, np.zeros(len(rows), dtype=np.int64))
        for plugin in self.plugins("score", ScorePlugin):
            if plugin.name in state.skip_score:
                continue
            ask = plugin.score_all if self.vectorised else ScorePlugin.score_all.__get__(plugin)
            raw = found.raw[plugin.name] = ask(state, pod, snapshot, rows)
            scores = found.normalised[plugin.name] = plugin.normalize(state, pod, snapshot, rows, raw)
            if len(scores) and (int(scores.min()) < 0 or int(scores.max()) > MAX_SCORE):
                raise ValueError(f"plugin {plugin.name} scored a node outside 0…{MAX_SCORE}")
            weighted = found.weighted[plugin.name] = scores * self.weights.get(plugin.name, 1)
            np.add(found.total, weighted, out=found.total)
        return found

    # ---------------------------------------------------------------- the chosen node

    def reserve(self, state: CycleState, pod: Pod, node: str) -> Status:
        """Run Reserve; after a failure everything is unreserved."""
        for plugin in self.plugins("reserve", ReservePlugin):
            status = plugin.reserve(state, pod, node)
            if not status.ok:
                self.unreserve(state, pod, node)
                return status.by(plugin.name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
        """Run Unreserve of all plugins, in reverse order; one that fails keeps none from being told."""
        for plugin in reversed(self.plugins("reserve", ReservePlugin)):
            try:
                plugin.unreserve(state, pod, node)
            except Exception as error:
                self.heard(error)

    def permit(self, state: CycleState, pod: Pod, node: str) -> tuple[Status, dict[str, float]]:
        """Run Permit: the first refusal, or Wait with the seconds that each waiting plugin grants."""
        waits: dict[str, float] = {}
        for plugin in self.plugins("permit", PermitPlugin):
            status, timeout = plugin.permit(state, pod, node)
            if status.code is Code.WAIT:
                waits[plugin.name] = min(timeout, LONGEST_WAIT)
            elif not status.ok:
                return status.by(plugin.name), {}
        return (Status(Code.WAIT) if waits else SUCCESS), waits

    def pre_bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        """Run PreBind; what is to be written, in order, and the longest time that a plugin grants for what has to come
        of it.
        """
        requests: list[Any] = []
        granted: list[float] = []
        for plugin in self.plugins("preBind", PreBindPlugin):
            status, more, timeout = plugin.pre_bind(state, pod, node)
            if not status.ok:
                return PluginWrites(status.by(plugin.name))
            requests.extend(more)
            if timeout is not None:
                granted.append(timeout)
        return PluginWrites(SUCCESS, tuple(requests), max(granted, default=None))

    def prepared(self, state: CycleState, pod: Pod, node: str) -> Status:
        """Return Success if nothing is missing for the binding; else the first plugin's Wait, or why it will not be."""
        missing = SUCCESS
        for plugin in self.plugins("preBind", PreBindPlugin):
            status = plugin.prepared(state, pod, node)
            if status.code is Code.WAIT:
                missing = missing if not missing.ok else status.by(plugin.name)
            elif not status.ok:
                return status.by(plugin.name)
        return missing

    def bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        """Run Bind until one does not skip."""
        for plugin in self.plugins("bind", BindPlugin):
            writes = plugin.bind(state, pod, node)
            if writes.status.code is not Code.SKIP:
                return writes._replace(status=writes.status.by(plugin.name))
        return PluginWrites(failed("no bind plugin takes this pod"))

    def post_bind(self, state: CycleState, pod: Pod, node: str) -> None:
        """Run PostBind; one that fails keeps none from being told."""
        for plugin in self.plugins("postBind", PostBindPlugin):
            try:
                plugin.post_bind(state, pod, node)
            except Exception as error:
                self.heard(error)


@dataclass(slots=True)
class Trial:
    """What PostFilter asks: the filters of the profile on a changed node."""

    framework: Framework
    nominated: Nominated

    def fits(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Run all filters on one node, with its nominated pods and without."""
        return self.framework.filter_with_nominated(state, pod, info, self.nominated)

    def add(self, state: CycleState, pod: Pod, added: Pod, info: NodeInfo) -> Status:
        """Tell all plugins that a pod came to a node."""
        return self.framework.add_pod(state, pod, added, info)

    def remove(self, state: CycleState, pod: Pod, removed: Pod, info: NodeInfo) -> Status:
        """Tell all plugins that a pod left a node."""
        return self.framework.remove_pod(state, pod, removed, info)


def rivals(pod: Pod, node: str, nominated: Nominated) -> Sequence[Pod]:
    """Return the pods nominated to a node that a pod may not displace: others, of the same priority or a higher one."""
    return [p for p in nominated.get(node, ()) if p.priority >= pod.priority and p.identity != pod.identity]


def _node_by_node(plugin: FilterPlugin) -> Any:
    def ask(state: CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> NodeStatuses:
        rows = range(len(snapshot))
        return from_each([plugin.filter(state, pod, snapshot.info(row)) if still[row] else SUCCESS for row in rows])

    return ask


def _unsatisfied(plugins: Sequence[str], simultaneously: bool) -> Status:
    named = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"
    return unresolvable(named + (" simultaneously" if simultaneously else "")).by(plugins[0])
