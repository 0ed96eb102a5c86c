"""InterPodAffinity: pods that want to be near others, or away from them
(kubernetes/kubernetes pkg/scheduler/framework/plugins/interpodaffinity, v1.36).

Everything is a sum over pairs of topology key and value: `_Pairs` holds one array a key, with one number a value. Pods
that match the incoming pod's terms are counted by the snapshot; existing pods are asked class by class, since many pods
carry the same terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.controllers.scheduling.framework import plugin as framework
from controlplane.controllers.scheduling.framework import status
from controlplane.controllers.scheduling.framework.args import InterPodAffinityArgs
from controlplane.controllers.scheduling.framework.status import Status
from controlplane.controllers.scheduling.snapshot.affinity import AffinityTerm
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod
from controlplane.controllers.scheduling.snapshot.pod_counts import Query, QueryTerm, Where, placed
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot
from controlplane.kube.kinds import NAMESPACES
from controlplane.kube.selectors import Labels

AFFINITY = status.unresolvable("node(s) didn't match pod affinity rules")
ANTI = status.unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI = status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


class _Pairs:
    """A number for each topology key and value. `touched`: something was added, even if the sum is 0."""

    __slots__ = ("snapshot", "sums", "touched")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.sums: dict[str, Ints] = {}
        self.touched = False

    def clone(self) -> _Pairs:
        copy = _Pairs(self.snapshot)
        copy.sums = {key: sums.copy() for key, sums in self.sums.items()}
        copy.touched = self.touched
        return copy

    def add_counts(self, key: str, counts: Ints, factor: int = 1) -> None:
        """Add the pods of all nodes, `counts` by row."""
        rows = np.flatnonzero(counts)
        self._add(key, rows, counts[rows] * factor)

    def add_where(self, key: str, where: Where, factor: int = 1) -> None:
        """Add the pods of a class."""
        rows, many = placed(where, self.snapshot.rows_by_id)
        self._add(key, rows, many * factor)

    def add_one(self, key: str, node: Node, step: int) -> None:
        """Add one pod on one node."""
        value = node.labels.get(key)
        if value is not None and (number := self.snapshot.label(key).number(value)) >= 0:
            self._of(key)[number] += step
            self.touched = True

    def of(self, key: str, node: Node) -> int:
        """Return the number of a node's value, 0 where it lacks the key."""
        value = node.labels.get(key)
        number = -1 if value is None else self.snapshot.label(key).number(value)
        return int(self.sums[key][number]) if number >= 0 and key in self.sums else 0

    def of_all(self, key: str) -> Ints:
        """Return the number of each node's value, by row."""
        codes = self.snapshot.label(key).codes
        if key not in self.sums or not len(self.sums[key]):
            return np.zeros(len(codes), dtype=np.int64)
        return np.where(codes >= 0, self.sums[key][codes], 0)

    @property
    def empty(self) -> bool:
        """Whether no pair has a number."""
        return not any(sums.any() for sums in self.sums.values())

    def _of(self, key: str) -> Ints:
        sums = self.sums.get(key)
        if sums is None:
            sums = self.sums[key] = np.zeros(len(self.snapshot.label(key).values), dtype=np.int64)
        return sums

    def _add(self, key: str, rows: NDArray[np.int32] | Ints, amounts: Ints) -> None:
        codes = self.snapshot.label(key).codes[rows]
        present = codes >= 0
        if present.any():
            self.touched = True
            np.add.at(self._of(key), codes[present], amounts[present])


@dataclass(slots=True)
class _Counts:
    """PreFilter's state: pairs with existing pods that keep away, with pods that are sought, with pods that are
    shunned. `unclear` are pairs with existing pods that keep away whom is not known, since namespaces cannot be read;
    `hidden` says why, None if they can.
    """

    existing_anti: _Pairs
    unclear: _Pairs
    affinity: _Pairs
    anti: _Pairs
    required: tuple[AffinityTerm, ...]
    shunned: tuple[AffinityTerm, ...]
    own_labels: Labels
    hidden: Status | None = None

    def clone(self) -> _Counts:
        return _Counts(
            self.existing_anti.clone(),
            self.unclear.clone(),
            self.affinity.clone(),
            self.anti.clone(),
            self.required,
            self.shunned,
            self.own_labels,
            self.hidden,
        )

    def means(self, term: AffinityTerm, pod: Pod) -> _Pairs | None:
        """Return the pairs in which a term of a pod that is there counts against this one, None if it does not."""
        if self.hidden is not None and term.may_match(pod.namespace, pod.labels):
            return self.unclear
        return self.existing_anti if term.matches(pod.namespace, pod.labels, self.own_labels) else None


class InterPodAffinity(
    framework.PreFilterPlugin, framework.FilterPlugin, framework.PreScorePlugin, framework.ScorePlugin
):
    """Refuses and scores nodes by the pods that are in the same domain."""

    name = "InterPodAffinity"
    args_type = InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        super().__init__(args or InterPodAffinityArgs())

    # ---------------------------------------------------------------- filter

    def pre_filter(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot) -> framework.Prefiltered:
        """Count the pairs; skip if neither the pod nor an existing one demands anything."""
        if pod.affinity.error:
            return framework.Prefiltered(status.unresolvable(f"parsing pod: {pod.affinity.error}"))
        known = snapshot.cluster.namespaces
        required = tuple(term.narrowed(known) for term in pod.affinity.required)
        shunned = tuple(term.narrowed(known) for term in pod.affinity.anti)
        found = _Counts(
            _Pairs(snapshot),
            _Pairs(snapshot),
            _Pairs(snapshot),
            _Pairs(snapshot),
            required,
            shunned,
            known.get(pod.namespace, {}),
            _hidden(snapshot),
        )
        _count_existing_anti(found, pod, snapshot)
        if not required and not shunned and found.existing_anti.empty and found.unclear.empty:
            return framework.Prefiltered(status.SKIP)
        if required:
            counts = snapshot.matching(Query(tuple(_part(term) for term in required)))
            for term in required:
                found.affinity.add_counts(term.topology_key, counts)
        for term in shunned:
            found.anti.add_counts(term.topology_key, snapshot.matching(Query((_part(term),))))
        state.data[self.name] = found
        return framework.Prefiltered()

    def filter(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        found: _Counts = state.data[self.name]
        node = info.node
        if any(term.topology_key not in node.labels for term in found.required):
            return AFFINITY
        if any(found.affinity.of(term.topology_key, node) <= 0 for term in found.required) and not _first(found, pod):
            return AFFINITY
        if any(found.anti.of(term.topology_key, node) > 0 for term in found.shunned):
            return ANTI
        if _counts_there(found.existing_anti, node):
            return EXISTING_ANTI
        return found.hidden if found.hidden is not None and _counts_there(found.unclear, node) else status.SUCCESS

    def filter_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> status.NodeStatuses:
        """Return the statuses of all nodes."""
        found: _Counts = state.data[self.name]
        count = len(snapshot)
        lacking, alone = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
        for key in {term.topology_key for term in found.required}:
            lacking |= snapshot.label(key).codes < 0
            alone |= found.affinity.of_all(key) <= 0
        if alone.any() and not _first(found, pod):
            lacking |= alone
        refused = [(lacking, AFFINITY)]
        refused += [(found.anti.of_all(key) > 0, ANTI) for key in {term.topology_key for term in found.shunned}]
        refused += [(found.existing_anti.of_all(key) > 0, EXISTING_ANTI) for key in found.existing_anti.sums]
        if found.hidden is not None:
            refused += [(found.unclear.of_all(key) > 0, found.hidden) for key in found.unclear.sums]
        return status.node_statuses(count, *refused)

    def add_pod(self, state: framework.CycleState, pod: Pod, added: Pod, info: NodeInfo) -> Status:
        """Count a pod that came to a node."""
        return self._change(state, pod, added, info.node, 1)

    def remove_pod(self, state: framework.CycleState, pod: Pod, removed: Pod, info: NodeInfo) -> Status:
        """Count a pod that left a node."""
        return self._change(state, pod, removed, info.node, -1)

    def _change(self, state: framework.CycleState, pod: Pod, other: Pod, node: Node, step: int) -> Status:
        found: _Counts = state.data[self.name]
        for term in other.affinity.anti:
            if (pairs := found.means(term, pod)) is not None:
                pairs.add_one(term.topology_key, node, step)
        if found.required and all(term.matches(other.namespace, other.labels, {}) for term in found.required):
            for term in found.required:
                found.affinity.add_one(term.topology_key, node, step)
        for term in found.shunned:
            if term.matches(other.namespace, other.labels, {}):
                found.anti.add_one(term.topology_key, node, step)
        return status.SUCCESS

    # ---------------------------------------------------------------- score

    def pre_score(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Add up what the pod's preferences and those of existing pods say about each pair; skip if nothing does.

        A term of the pod that does not parse is an error.
        """
        own = pod.affinity
        prefers = bool(own.preferred or own.preferred_anti)
        if not len(rows) or (self.args.ignore_preferred_terms_of_existing_pods and not prefers):
            return status.SKIP
        if own.error:
            return status.failed(f"parsing pod: {own.error}")
        pairs, known = _Pairs(snapshot), snapshot.cluster.namespaces
        for sign, terms in ((1, own.preferred), (-1, own.preferred_anti)):
            for weight, term in terms:
                counts = snapshot.matching(Query((_part(term.narrowed(known)),)))
                pairs.add_counts(term.topology_key, counts, sign * weight)
        _add_existing(pairs, pod, snapshot, self.args.hard_pod_affinity_weight)
        if not pairs.touched:
            return status.SKIP
        state.data["PreScore" + self.name] = pairs
        return status.SUCCESS

    def score(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return the sum over the node's pairs; it may be negative."""
        pairs: _Pairs = state.data["PreScore" + self.name]
        return sum(pairs.of(key, info.node) for key in pairs.sums)

    def score_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the raw scores of the nodes in `rows`."""
        pairs: _Pairs = state.data["PreScore" + self.name]
        scores = np.zeros(len(rows), dtype=np.int64)
        for key in pairs.sums:
            scores += pairs.of_all(key)[rows]
        return scores

    def normalize(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints, scores: Ints) -> Ints:
        """Return 0 for the lowest and 100 for the highest, in floating point: divided first, then multiplied and cut
        off.
        """
        if not len(scores):
            return scores
        least, most = int(scores.min()), int(scores.max())
        if most == least:
            return np.zeros_like(scores)
        return (framework.MAX_SCORE * ((scores - least) / (most - least))).astype(np.int64)


def _count_existing_anti(found: _Counts, pod: Pod, snapshot: Snapshot) -> None:
    """Count the existing pods that do not want this one near them."""
    for one in snapshot.groups.classes.values():
        for term in one.affinity.anti:
            if (pairs := found.means(term, pod)) is not None:
                pairs.add_where(term.topology_key, one.where)


def _counts_there(pairs: _Pairs, node: Node) -> bool:
    """Whether a pair of a node has a number."""
    return any(pairs.of(key, node) > 0 for key in pairs.sums)


def _hidden(snapshot: Snapshot) -> Status | None:
    """Return the status of a node that is kept free for pods of which it is not known whom they keep away, None if
    namespaces can be read. kube-scheduler takes a namespace that it does not know for one without labels; it has to
    read them all to start. Nobody is evicted for what is not known."""
    why = snapshot.cluster.off.get(NAMESPACES.name)
    if why is None:
        return None
    said = f"node(s) may not satisfy existing pods anti-affinity rules for namespaces that cannot be read: {why}"
    return status.unresolvable(said)


def _add_existing(pairs: _Pairs, pod: Pod, snapshot: Snapshot, hard: int) -> None:
    """Add what existing pods prefer; what they require counts with the weight `hard`."""
    labels = snapshot.cluster.namespaces.get(pod.namespace, {})
    for one in snapshot.groups.classes.values():
        theirs = [(weight, term) for weight, term in one.affinity.preferred]
        theirs += [(-weight, term) for weight, term in one.affinity.preferred_anti]
        theirs += [(hard, term) for term in one.affinity.required if hard > 0]
        for weight, term in theirs:
            if term.matches(pod.namespace, pod.labels, labels):
                pairs.add_where(term.topology_key, one.where, weight)


def _first(found: _Counts, pod: Pod) -> bool:
    """Return whether the pod may be the first of a series that seeks its own kind."""
    return found.affinity.empty and _means_itself(found.required, pod)


def _means_itself(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    return all(term.matches(pod.namespace, pod.labels, {}) for term in terms)


def _part(term: AffinityTerm) -> QueryTerm:
    return QueryTerm(None if term.namespace_selector.everything else term.namespaces, term.selector)
