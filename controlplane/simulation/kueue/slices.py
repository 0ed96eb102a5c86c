"""Slices of elastic jobs: which of a job's Workloads counts, and which one another one is to replace.

In: Workloads as they are. Out: answers, by the rules of Kueue's `pkg/workloadslicing`. A job that was made larger while
it runs gets another Workload, which takes the place of the one before when it gets quota; a smaller one is changed in
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import Json, meta
from controlplane.kube.slices import ELASTIC_JOB, REPLACEMENT_FOR, is_elastic, replacement_for
from controlplane.simulation.controllers.behaviour import Place


def replaces(workload: Mapping[str, Any]) -> Place | None:
    """Return the key of the Workload whose place this one is to take."""
    namespace, found, name = replacement_for(workload).partition("/")
    return (namespace, name) if found else None


def marks_of(job: Json, before: Json | None) -> Json:
    """Return the annotations of a new slice of a job, which replaces the one before."""
    if not is_elastic(job):
        return {}
    made: Json = {ELASTIC_JOB: "true"}
    if before is not None:
        made[REPLACEMENT_FOR] = f"{meta(before)['namespace']}/{meta(before)['name']}"
    return made


def counts(pod_sets: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many pods each pod set has."""
    return {str(one["name"]): int(one["count"]) for one in pod_sets}


def fits_in_place(slice_: Json, wanted: Mapping[str, int]) -> bool:
    """Return whether a slice may be given other counts: it has no quota, or they are smaller."""
    now = counts(slice_["spec"]["podSets"])
    return not is_true(slice_, "QuotaReserved") or all(count <= now[name] for name, count in wanted.items())


def resized(slice_: Json, wanted: Mapping[str, int]) -> list[Json]:
    """Return a slice's pod sets with other counts."""
    return [{**one, "count": wanted[one["name"]]} for one in slice_["spec"]["podSets"]]


def settle(live: Sequence[Json]) -> tuple[Json | None, list[tuple[Json, bool]]]:
    """Return which of a job's unfinished slices, oldest first, counts; and those that are over, with whether another
    one has taken their place.
    """
    if len(live) < 2:
        return (live[0] if live else None), []
    fresh = [one for one in live if not is_true(one, "Evicted")]
    heirs = {key: one for one in fresh if (key := replaces(one)) is not None}
    reserved = [one for one in fresh if is_true(one, "QuotaReserved")]
    head = next((one for one in reversed(reserved) if _heir(one, heirs) not in reserved), None)
    chosen = fresh[-1] if fresh else None
    if head is not None:
        chosen = _heir(head, heirs) or head
    over = [(one, _heir(one, heirs) is not None) for one in live if one is not chosen and one is not head]
    return chosen, over


def _heir(slice_: Json, heirs: Mapping[Place, Json]) -> Json | None:
    return heirs.get((meta(slice_)["namespace"], meta(slice_)["name"]))
