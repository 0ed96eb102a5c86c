"""TaintToleration: nodes repel pods that do not tolerate their taints
(kubernetes/kubernetes pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go, v1.36).
"""

from __future__ import annotations

from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    default_normalize,
)
from controlplane.controllers.scheduling.framework.status import (
    SUCCESS,
    NodeStatuses,
    Status,
    node_statuses,
    unresolvable,
)
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot
from controlplane.kube.tolerations import PREFER_NO_SCHEDULE, Taint, Toleration, untolerated

UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuses nodes with a NoSchedule or NoExecute taint; PreferNoSchedule taints make a node worse."""

    name = "TaintToleration"

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        return SUCCESS if untolerated(info.node.taints, pod.tolerations) is None else UNTOLERATED

    def filter_all(self, state: CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> NodeStatuses:
        """Return the statuses of all nodes."""
        return node_statuses(len(snapshot), (snapshot.repelled(pod.tolerations), UNTOLERATED))

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Keep the tolerations that count for PreferNoSchedule; never skips."""
        state.data[self.name] = _of_preference(pod)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return the number of PreferNoSchedule taints that the pod does not tolerate."""
        return _intolerable(info.node.taints, _of_preference(pod))

    def score_all(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the raw scores of the nodes in `rows`."""
        tolerated = state.data[self.name]
        return snapshot.per_taint_set(lambda found: _intolerable(found, tolerated))[rows]

    def normalize(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints, scores: Ints) -> Ints:
        """Return 100 for the fewest taints; with none anywhere, every node has 100."""
        return default_normalize(scores, reverse=True)


def _of_preference(pod: Pod) -> tuple[Toleration, ...]:
    return tuple(toleration for toleration in pod.tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE))


def _intolerable(found: tuple[Taint, ...], tolerated: tuple[Toleration, ...]) -> int:
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not any(toleration.tolerates(taint) for toleration in tolerated)
        for taint in found
    )
