"""Counts the pods of a kind on each node, kept up to date as pods come and go.

Pods that say the same (namespace, labels, whether they terminate) are one group, with a count for each node. A question
(`Query`: which namespaces, which selector) is put once to the groups, never to the pods, and its answer, one number a
node, is kept and moved along with each pod. Pods with the same inter-pod affinity terms are counted together in the
same way (`AffinityClass`).

Nodes are named by a number that stays theirs while rows move; `rows` maps it to the row, -1 while the node is not
there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.controllers.scheduling.snapshot.affinity import PodAffinity
from controlplane.controllers.scheduling.snapshot.columns import grown
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.selectors import LabelSelector

Where = dict[int, int]
GroupKey = tuple[str, tuple[tuple[str, str], ...], bool]
_KEPT = 512
K = TypeVar("K")


class QueryTerm(NamedTuple):
    """One condition of a query: namespaces (None: all of them) and a selector of labels."""

    namespaces: frozenset[str] | None
    selector: LabelSelector


class Query(NamedTuple):
    """Which pods are counted: those that meet all parts; without the terminating ones if `live`."""

    parts: tuple[QueryTerm, ...]
    live: bool = False


@dataclass(slots=True, eq=False)
class PodCount:
    """Pods that say the same, and how many of them each node has."""

    namespace: str
    labels: dict[str, str]
    terminating: bool
    where: Where = field(default_factory=dict)

    def meets(self, query: Query) -> bool:
        """Return whether its pods are counted."""
        if query.live and self.terminating:
            return False
        return all(
            (part.namespaces is None or self.namespace in part.namespaces) and part.selector.matches(self.labels)
            for part in query.parts
        )


@dataclass(slots=True, eq=False)
class AffinityClass:
    """Pods with the same inter-pod affinity, and how many of them each node has."""

    affinity: PodAffinity
    where: Where = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Answer:
    counts: NDArray[np.int64]
    met: dict[GroupKey, bool]


class PodCounts:
    """All groups of a snapshot, and the answers to what was asked about them."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, PodCount] = {}
        self.classes: dict[PodAffinity, AffinityClass] = {}
        self._in_namespace: dict[str, dict[GroupKey, PodCount]] = {}
        self._with_label: dict[tuple[str, str, str], dict[GroupKey, PodCount]] = {}
        self._answers: OrderedDict[Query, _Answer] = OrderedDict()

    def add(self, pod: Pod, node: int, row: int) -> None:
        """Count a pod on a node; row -1 while the node is not there."""
        key = _key(pod)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = PodCount(pod.namespace, pod.labels, pod.terminating)
            self._in_namespace.setdefault(pod.namespace, {})[key] = group
            for name, value in pod.labels.items():
                self._with_label.setdefault((pod.namespace, name, value), {})[key] = group
        group.where[node] = group.where.get(node, 0) + 1
        if pod.affinity.says_something:
            one = self.classes.setdefault(pod.affinity, AffinityClass(pod.affinity))
            one.where[node] = one.where.get(node, 0) + 1
        self._tell(key, group, row, 1)

    def remove(self, pod: Pod, node: int, row: int) -> None:
        """Count a pod no more."""
        key = _key(pod)
        group = self.groups[key]
        self._tell(key, group, row, -1)
        if _less(group.where, node):
            del self.groups[key]
            _drop(self._in_namespace, pod.namespace, key)
            for name, value in pod.labels.items():
                _drop(self._with_label, (pod.namespace, name, value), key)
            for answer in self._answers.values():
                answer.met.pop(key, None)
        if pod.affinity.says_something and _less(self.classes[pod.affinity].where, node):
            del self.classes[pod.affinity]

    def counts(self, query: Query, rows: NDArray[np.int32], size: int, capacity: int) -> NDArray[np.int64]:
        """Return how many pods each node has, by row. Kept, so it is not to be written to."""
        answer = self._answers.get(query)
        if answer is None:
            answer = self._answers[query] = self._ask(query, rows, capacity)
            if len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        else:
            self._answers.move_to_end(query)
            if len(answer.counts) < capacity:
                answer.counts = grown(answer.counts, capacity)
        return answer.counts[:size]

    def move(self, source: int, target: int) -> None:
        """Copy a node's row over another, in every answer."""
        for answer in self._answers.values():
            if source < len(answer.counts):
                answer.counts[target] = answer.counts[source]
                answer.counts[source] = 0

    def forget(self) -> None:
        """Drop the answers; they are asked again when needed."""
        self._answers.clear()

    def _ask(self, query: Query, rows: NDArray[np.int32], capacity: int) -> _Answer:
        counts = np.zeros(capacity, dtype=np.int64)
        met = {}
        for key, group in self._candidates(query):
            met[key] = group.meets(query)
            if met[key]:
                spread_over(group.where, rows, counts)
        return _Answer(counts, met)

    def _candidates(self, query: Query) -> Iterator[tuple[GroupKey, PodCount]]:
        """Yield groups, among them all that can meet the query: one label that must have one of few values narrows
        them.
        """
        part = query.parts[0]
        namespaces = self._in_namespace.keys() if part.namespaces is None else part.namespaces
        if part.selector.nothing:
            return
        needed = next((r for r in part.selector.requirements if r.operator == "In"), None)
        for namespace in namespaces:
            if needed is None:
                yield from self._in_namespace.get(namespace, {}).items()
                continue
            for value in set(needed.values):
                yield from self._with_label.get((namespace, needed.key, value), {}).items()

    def _tell(self, key: GroupKey, group: PodCount, row: int, step: int) -> None:
        if row < 0:
            return
        for query, answer in self._answers.items():
            met = answer.met.get(key)
            if met is None:
                met = answer.met[key] = group.meets(query)
            if met:
                if row >= len(answer.counts):
                    answer.counts = grown(answer.counts, 2 * row + 1)
                answer.counts[row] += step


def spread_over(where: Where, rows: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Add a group's counts to one number a node."""
    at, many = placed(where, rows)
    counts[at] += many


def placed(where: Where, rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the rows and the counts of the nodes that are there."""
    at = rows[np.fromiter(where.keys(), dtype=np.int64, count=len(where))]
    many = np.fromiter(where.values(), dtype=np.int64, count=len(where))
    there = at >= 0
    return (at, many) if there.all() else (at[there], many[there])


def _key(pod: Pod) -> GroupKey:
    return pod.namespace, tuple(sorted(pod.labels.items())), pod.terminating


def _less(where: Where, node: int) -> bool:
    """Take one away; returns whether none is left anywhere."""
    left = where[node] - 1
    if left:
        where[node] = left
    else:
        del where[node]
    return not where


def _drop(index: dict[K, dict[GroupKey, PodCount]], at: K, key: GroupKey) -> None:
    found = index[at]
    del found[key]
    if not found:
        del index[at]
