"""NodeAffinity: nodeSelector and node affinity, the pod's own and the profile's
(kubernetes/kubernetes pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go, v1.36).
"""

from __future__ import annotations

import numpy as np

from controlplane.controllers.scheduling.framework import plugin as framework
from controlplane.controllers.scheduling.framework import status
from controlplane.controllers.scheduling.framework.args import NodeAffinityArgs
from controlplane.controllers.scheduling.framework.status import Status
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Node, NodeRules, Pod, node_affinity
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot
from controlplane.kube.pod_fields import Obj
from controlplane.kube.selectors import NodeTerm
from controlplane.kube.well_known import REQUIRED_AFFINITY

POD = status.unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED = status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = status.unresolvable("pod affinity terms conflict")


class NodeAffinity(framework.PreFilterPlugin, framework.FilterPlugin, framework.PreScorePlugin, framework.ScorePlugin):
    """Admits the nodes that the pod selects, and prefers those that it prefers."""

    name = "NodeAffinity"
    args_type = NodeAffinityArgs

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        super().__init__(args or NodeAffinityArgs())
        added = self.args.added_affinity
        self.added = NodeRules() if added is None else node_affinity(added, "addedAffinity")
        found = [f"addedAffinity.{REQUIRED_AFFINITY}.{term.error}" for term in self.added.required or () if term.error]
        found += [term.error for _, term in self.added.preferred or () if term.error]
        if found:
            raise ValueError(found[0])

    def pre_filter(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot) -> framework.Prefiltered:
        """Skip a pod that asks for nothing; a pod that pins names in every term needs only those nodes."""
        rules = pod.nodes
        if rules.selector is None and rules.required is None and self.added.required is None:
            return framework.Prefiltered(status.SKIP)
        if not rules.raw_required:
            return framework.Prefiltered()
        names: set[str] = set()
        for term in rules.raw_required:
            pinned = _pinned(term)
            if pinned is None:
                return framework.Prefiltered()
            names |= pinned
        return framework.Prefiltered(status.SUCCESS, frozenset(names)) if names else framework.Prefiltered(CONFLICT)

    def filter(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        if not admits(self.added, info.node):
            return ENFORCED
        return status.SUCCESS if admits(pod.nodes, info.node) else POD

    def filter_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> status.NodeStatuses:
        """Return the statuses of all nodes."""
        enforced, own = snapshot.selected(self.added), snapshot.selected(pod.nodes)
        return status.node_statuses(len(snapshot), (~enforced, ENFORCED), (~own, POD))

    def pre_score(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Skip a pod that prefers nothing; a term that does not parse is an error."""
        if pod.nodes.preferred is None and self.added.preferred is None:
            return status.SKIP
        problems = [term.error for _, term in self._preferred(pod) if term.error]
        return status.failed(*problems) if problems else status.SUCCESS

    def score(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return the weights of the preferred terms that select the node."""
        node = info.node
        return sum(weight for weight, term in self._preferred(pod) if term.matches(node.labels, node.name))

    def score_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the raw scores of the nodes in `rows`."""
        scores = np.zeros(len(snapshot), dtype=np.int64)
        for weight, term in self._preferred(pod):
            scores[snapshot.of_term(term)] += weight
        return scores[rows]

    def normalize(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints, scores: Ints) -> Ints:
        """Return scores in proportion to the largest."""
        return framework.default_normalize(scores)

    def _preferred(self, pod: Pod) -> tuple[tuple[int, NodeTerm], ...]:
        return (*(self.added.preferred or ()), *(pod.nodes.preferred or ()))


def admits(rules: NodeRules, node: Node) -> bool:
    """Return whether a node has every label of the nodeSelector, and one required term selects it."""
    if any(node.labels.get(key) != value for key, value in rules.selector or ()):
        return False
    return rules.required is None or any(term.matches(node.labels, node.name) for term in rules.required)


def _pinned(term: Obj) -> set[str] | None:
    """Return the node names that a term can select, None if it does not pin any by name."""
    pinned: set[str] | None = None
    for field in term.get("matchFields") or ():
        if field.get("key") == "metadata.name" and field.get("operator") == "In":
            values = {str(value) for value in field.get("values") or ()}
            pinned = values if pinned is None else pinned & values
    return pinned
