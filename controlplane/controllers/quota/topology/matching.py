"""Which leaves of a topology a pod set's pods may be on, and why not the others.

In: the leaves, and a pod set's constraints. Out: those that match, and how many nodes were left out for which reason.
Only where leaves are nodes are they asked: taints that no toleration covers, labels, required node affinity
(kubernetes-sigs/kueue pkg/cache/scheduler/scheduling_simulator_default.go). The newest answers are kept for as long as
the nodes stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.controllers.quota.engine.flavor_match import tolerated_by_number
from controlplane.controllers.quota.engine.model import NodeConstraints
from controlplane.controllers.quota.topology.model import PodSetUpdate
from controlplane.controllers.quota.topology.tree import Domain, TopologyTree
from controlplane.kube.selectors import of_set
from controlplane.kube.tolerations import Taint, Toleration, untolerated


@dataclass(slots=True)
class Exclusions:
    """How many nodes there are, and how many of them are left out for which reason, in Kueue's words."""

    nodes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def told(self) -> str:
        """Return them as they end a message, "" if none is left out."""
        if not self.reasons:
            return ""
        listed = ", ".join(sorted(f"{reason}: {count}" for reason, count in self.reasons.items()))
        return f". Total nodes: {self.nodes}; excluded: {listed}"


Matched = tuple[Sequence[Domain], Exclusions, Mapping[int, int]]
"""The leaves that match, what was left out, and the weights that nodes have by preferred affinity, by the leaves'
`index`."""


_MOST = 128  # constraints whose answers are kept: where each pod set has a selector of its own, they come without end


class Conflict(ValueError):  # noqa: N818 - it says what is wrong with the user's objects
    """An admission check asks of a pod set what contradicts it."""


class Matching:
    """The answers for one tree. `tolerations`: those of the flavor, which its pods get; `weighs`: preferred affinity
    counts."""

    def __init__(self, tolerations: tuple[Toleration, ...], *, weighs: bool = False) -> None:
        self.tolerations, self.weighs = tolerations, weighs
        self._known: dict[tuple[NodeConstraints, tuple[PodSetUpdate, ...]], Matched] = {}

    def of(self, tree: TopologyTree, wanted: NodeConstraints, updates: tuple[PodSetUpdate, ...]) -> Matched:
        """Return the leaves that match, what was left out, and preferences; `Conflict` if an update contradicts the pod
        set."""
        selector, tolerated = merged(wanted, updates)
        if not tree.of_nodes:
            return tree.leaves, Exclusions(len(tree.leaves)), {}
        key = (wanted, updates)
        found = self._known.get(key)
        if found is None:
            tolerated = (*tolerated, *self.tolerations)
            leaves, left_out = _matched(tree.leaves, selector, tolerated, wanted)
            weights = _weights(leaves, wanted) if self.weighs and wanted.preferred else {}
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            found = self._known[key] = leaves, left_out, weights
        return found


def merged(wanted: NodeConstraints, updates: Iterable[PodSetUpdate]) -> tuple[dict[str, str], tuple[Toleration, ...]]:
    """Return the node selector and tolerations of pods with what admission checks add (`Merge` in kubernetes-sigs/kueue
    pkg/podset/podset.go)."""
    selector, tolerated = dict(wanted.selector), list(wanted.tolerations)
    for update in updates:
        for key, value in update.selector:
            if selector.get(key, value) != value:
                told = f"conflict for key={key}, value1={selector[key]}, value2={value}"
                raise Conflict(f"invalid admission check PodSetUpdate: conflict for nodeSelector: {told}")
        selector.update(update.selector)
        tolerated += [one for one in update.tolerations if one not in tolerated]
    return selector, tuple(tolerated)


def _matched(
    leaves: Sequence[Domain], selector: dict[str, str], tolerated: tuple[Toleration, ...], wanted: NodeConstraints
) -> tuple[list[Domain], Exclusions]:
    asked, found, left_out = of_set(selector), [], Exclusions(len(leaves))
    for leaf in leaves:
        node = leaf.nodes[0]
        taint = untolerated((one for one in node.taints if not tolerated_by_number(one, tolerated)), tolerated)
        if taint is not None:
            left_out.reasons[f'taint "{_spelled(taint)}"'] += 1
        elif not asked.matches(node.labels):
            left_out.reasons["nodeSelector"] += 1
        elif wanted.node_terms is not None and not any(
            term.matches(node.labels, node.name) for term in wanted.node_terms
        ):
            left_out.reasons["affinity"] += 1
        else:
            found.append(leaf)
    return found, left_out


def _weights(leaves: Iterable[Domain], wanted: NodeConstraints) -> dict[int, int]:
    """Return the sum of the weights of the preferred terms that each node matches."""
    found = {}
    for leaf in leaves:
        node = leaf.nodes[0]
        found[leaf.index] = sum(weight for weight, term in wanted.preferred if term.matches(node.labels, node.name))
    return found


def _spelled(taint: Taint) -> str:
    """Return a taint as Kubernetes spells it (`ToString` in kubernetes/api core/v1/taint.go)."""
    if not taint.effect:
        return f"{taint.key}={taint.value}:" if taint.value else taint.key
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
