"""Scores how full a node is, resource by resource, for NodeResourcesFit and NodeResourcesBalancedAllocation.

In: how much a node has and how much is taken once the pod is there, as arrays with one entry a node or as plain
integers. Out: scores in integers, with Go's truncating division and its order of floating-point operations
(kubernetes/kubernetes pkg/scheduler/framework/plugins/noderesources, v1.36)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from controlplane.controllers.scheduling.framework.args import ResourceSpec, UtilizationPoint
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import NATIVE, Pod, is_scalar
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Snapshot
from controlplane.kube.pod_requests import FALLBACK, RequestOptions, effective, whole

MAX = 100


class ResourceUse(NamedTuple):
    """One resource on all scored nodes: its weight, what there is, and what is taken with the pod."""

    weight: int
    capacity: Ints
    taken: Ints


def weight_of(resource: ResourceSpec) -> int:
    """Return a resource's weight; 0 stands for the default."""
    return resource.weight or 1


def requests_for_fit(pod: Pod) -> dict[str, int]:
    """Return what Fit's scorer takes a pod to ask for: with the fallback of 100m and 200 MiB a container, without
    pod-level requests.
    """
    reading = RequestOptions(pod_level=False, fallback=FALLBACK)
    return whole(effective(pod.spec, reading))


def counts(resource: str, request: int) -> bool:
    """Return whether a resource enters a score: others than cpu, memory and storage only if the pod asks for them."""
    return resource in NATIVE or (is_scalar(resource) and request != 0)


def uses(
    snapshot: Snapshot, rows: Ints, resources: Sequence[ResourceSpec], asked: dict[str, int], nonzero: bool
) -> list[ResourceUse]:
    """Return the use of each resource that counts, on the nodes in `rows`."""
    found = []
    for resource in resources:
        request = asked.get(resource.name, 0)
        if not counts(resource.name, request):
            continue
        if nonzero and resource.name in ("cpu", "memory"):
            taken = snapshot.nonzero[rows, 0 if resource.name == "cpu" else 1]
        else:
            taken = snapshot.requested(resource.name)[rows]
        found.append(ResourceUse(weight_of(resource), snapshot.allocatable(resource.name)[rows], taken + request))
    return found


def uses_of_one(
    info: NodeInfo, resources: Sequence[ResourceSpec], asked: dict[str, int], nonzero: bool
) -> list[tuple[int, int, int]]:
    """Return weight, capacity and use of each resource that counts and that the node has."""
    found = []
    for resource in resources:
        request = asked.get(resource.name, 0)
        capacity = info.node.allocatable.get(resource.name, 0)
        if not counts(resource.name, request) or not capacity:
            continue
        if nonzero and resource.name in ("cpu", "memory"):
            taken = info.nonzero[0 if resource.name == "cpu" else 1]
        else:
            taken = info.requested[resource.name]
        found.append((weight_of(resource), capacity, taken + request))
    return found


class LeastAllocated:
    """The emptier the better."""

    def of_one(self, found: Sequence[tuple[int, int, int]]) -> int:
        """Return one node's score."""
        total = sum(w for w, _, _ in found)
        scored = sum(
            w * (0 if taken > capacity else (capacity - taken) * MAX // capacity) for w, capacity, taken in found
        )
        return scored // total if total else 0

    def of_all(self, found: Sequence[ResourceUse], count: int) -> Ints:
        """Return the scores of all nodes."""
        return _average(found, count, _least)


class MostAllocated:
    """The fuller the better."""

    def of_one(self, found: Sequence[tuple[int, int, int]]) -> int:
        """Return one node's score."""
        total = sum(w for w, _, _ in found)
        scored = sum(w * (min(taken, capacity) * MAX // capacity) for w, capacity, taken in found)
        return scored // total if total else 0

    def of_all(self, found: Sequence[ResourceUse], count: int) -> Ints:
        """Return the scores of all nodes."""
        return _average(found, count, _most)


class RequestedToCapacityRatio:
    """As good as a curve over the utilisation says; resources that score nothing do not count."""

    def __init__(self, shape: Sequence[UtilizationPoint]) -> None:
        self.points = [(point.utilization, point.score * MAX // 10) for point in shape]
        self.table = np.array([self.at(percent) for percent in range(MAX + 1)], dtype=np.int64)

    def at(self, percent: int) -> int:
        """Return the curve's value: linear between points, with division that truncates towards zero."""
        for (x0, y0), (x1, y1) in zip([self.points[0], *self.points], self.points, strict=False):
            if percent <= x1:
                if x0 == x1:
                    return y1
                step = (y1 - y0) * (percent - x0)
                return y0 + (abs(step) // (x1 - x0)) * (1 if step >= 0 else -1)
        return self.points[-1][1]

    def of_one(self, found: Sequence[tuple[int, int, int]]) -> int:
        """Return one node's score."""
        scored = [(w, self.at(MAX if taken > capacity else taken * MAX // capacity)) for w, capacity, taken in found]
        total = sum(w for w, value in scored if value > 0)
        return int(sum(w * value for w, value in scored if value > 0) / total + 0.5) if total else 0

    def of_all(self, found: Sequence[ResourceUse], count: int) -> Ints:
        """Return the scores of all nodes."""
        total, scored = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for weight, capacity, taken in found:
            percent = np.where(taken > capacity, MAX, taken * MAX // np.maximum(capacity, 1))
            value = np.where(capacity != 0, self.table[np.clip(percent, 0, MAX)], 0)
            total += np.where(value > 0, weight, 0)
            scored += np.where(value > 0, weight * value, 0)
        return np.where(total > 0, np.floor(scored / np.maximum(total, 1) + 0.5), 0).astype(np.int64)


def balance(fractions: Sequence[float]) -> int:
    """Return how even one node's fractions are, 0…100."""
    count, spread = len(fractions), 0.0
    if count == 2:
        spread = abs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean, squares = total / count, 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        spread = float(np.sqrt(squares / count))
    return int((1 - spread) * MAX)


def balance_all(capacities: Sequence[Ints], takens: Sequence[Ints], count: int) -> Ints:
    """Return how even the fractions of all nodes are; a resource that a node does not have is left out there."""
    zeros = np.zeros(count)
    fractions = []
    present = []
    for capacity, taken in zip(capacities, takens, strict=True):
        has = capacity != 0
        fractions.append(np.where(has, np.minimum(taken / np.where(has, capacity, 1), 1.0), 0.0))
        present.append(has)
    many = sum((has.astype(np.int64) for has in present), np.zeros(count, dtype=np.int64))
    total = zeros.copy()
    first, second, seen = zeros.copy(), zeros.copy(), np.zeros(count, dtype=np.int64)
    for has, fraction in zip(present, fractions, strict=True):
        total += fraction  # adding 0.0 for an absent one changes nothing
        first = np.where(has & (seen == 0), fraction, first)
        second = np.where(has & (seen == 1), fraction, second)
        seen += has
    mean, squares = total / np.maximum(many, 1), zeros.copy()
    for has, fraction in zip(present, fractions, strict=True):
        squares += np.where(has, (fraction - mean) * (fraction - mean), 0.0)
    spread = np.where(many == 2, np.abs((first - second) / 2), 0.0)
    spread = np.where(many > 2, np.sqrt(squares / np.maximum(many, 1)), spread)
    return ((1 - spread) * MAX).astype(np.int64)


def _least(capacity: Ints, taken: Ints) -> Ints:
    scored = (capacity - taken) * MAX // np.maximum(capacity, 1)
    return np.where(taken > capacity, 0, scored)


def _most(capacity: Ints, taken: Ints) -> Ints:
    return np.minimum(taken, capacity) * MAX // np.maximum(capacity, 1)


def _average(found: Sequence[ResourceUse], count: int, score: Callable[[Ints, Ints], Ints]) -> Ints:
    total, scored = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for weight, capacity, taken in found:
        has = capacity != 0
        total += np.where(has, weight, 0)
        scored += np.where(has, weight * score(capacity, taken), 0)
    return scored // np.maximum(total, 1)
