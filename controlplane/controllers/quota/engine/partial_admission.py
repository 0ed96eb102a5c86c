"""Partial admission: the largest numbers of pods, between what is asked for and the least that will do, that fit.

In: pod sets, and a question that says whether numbers fit. Out: the answer for the best ones. All pod sets shrink
together, each by its part, so numbers are on a line and are searched by halves (kubernetes-sigs/kueue
pkg/scheduler/flavorassigner/podset_reducer.go)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from controlplane.controllers.quota.engine.model import PodSet

Found = TypeVar("Found")


def can_shrink(pod_sets: Sequence[PodSet]) -> bool:
    """Return whether fewer pods than asked for would do."""
    return any(pod_set.count > pod_set.min_count for pod_set in pod_sets)


def most_pods(pod_sets: Sequence[PodSet], fits: Callable[[list[int]], Found | None]) -> Found | None:
    """Return what `fits` returns for the largest numbers of pods that it does not refuse; None if it refuses all."""
    deltas = [pod_set.count - pod_set.min_count for pod_set in pod_sets]
    total = sum(deltas)
    if total == 0:
        return None
    best: Found | None = None
    low, high = 0, total + 1
    while low < high:
        middle = (low + high) // 2
        fewer = (delta * middle // total for delta in deltas)
        found = fits([pod_set.count - less for pod_set, less in zip(pod_sets, fewer, strict=True)])
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best
