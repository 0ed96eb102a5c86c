"""Encodes a topology assignment in v1beta2's form: slices of domains that share prefixes, suffixes and counts.

In: an assignment. Out: its JSON as Kueue writes it. Domains of nodes whose names share a prefix up to a `-` make a
slice of their own where the whole becomes shorter so (kubernetes-sigs/kueue pkg/util/tas/tas_assignment.go, with the
gate TASAssignmentsEncodingByHostnamePrefix, which is on by default)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from controlplane.controllers.quota.topology.model import DomainPods, TopologyAssignment
from controlplane.kube.kinds import Json
from controlplane.kube.topologies import MOST_DOMAINS
from controlplane.kube.well_known import HOSTNAME

_MOST_SLICES = 1_000


def encoded(assignment: TopologyAssignment) -> Json:
    """Return the assignment's JSON: of the two encodings the shorter one, by prefixes if they are of a length."""
    runs = _by_prefix(assignment)
    by_prefix = _of_runs(assignment, runs)
    if len(by_prefix["slices"]) <= 1 or len(assignment.domains) > MOST_DOMAINS:
        return by_prefix
    at_once = _of_runs(assignment, [assignment.domains])
    return at_once if _length(at_once) < _length(by_prefix) else by_prefix


def _length(found: Json) -> int:
    return len(json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode())


def _of_runs(assignment: TopologyAssignment, runs: Sequence[Sequence[DomainPods]]) -> Json:
    slices = [
        _slice(assignment.levels, run[start : start + MOST_DOMAINS])
        for run in runs
        for start in range(0, len(run), MOST_DOMAINS)
    ]
    return {"levels": list(assignment.levels), "slices": slices}


def _slice(levels: Sequence[str], domains: Sequence[DomainPods]) -> Json:
    counts = [found.pods for found in domains]
    same = len(set(counts)) == 1
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_column([found.values[at] for found in domains]) for at in range(len(levels))],
        "podCounts": {"universal": counts[0]} if same else {"individual": counts},
    }


def _column(values: list[str]) -> Json:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _in_common(values)
    suffix = _in_common([value[::-1] for value in values])[::-1]
    shortest = min(map(len, values))
    prefix = prefix[: max(0, shortest - len(suffix))]  # they must not overlap in the shortest value
    individual: dict[str, Any] = {}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    individual["roots"] = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    return {"individual": individual}


def _in_common(values: list[str]) -> str:
    """Return what all begin with."""
    first, last = min(values), max(values)
    same = (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(same, min(len(first), len(last)))]


def _by_prefix(assignment: TopologyAssignment) -> list[Sequence[DomainPods]]:
    """Return the domains in runs of equal keys: prefixes of their nodes' names that occur more than once, the longest
    ones with which there are not too many runs."""
    domains = assignment.domains
    if len(domains) <= 1 or assignment.levels[-1:] != (HOSTNAME,):
        return [domains] if domains else []
    prefixes = [_prefixes(found.values[-1]) for found in domains]
    often = Counter(prefix for of_one in prefixes for prefix in of_one)
    for depth in range(max(map(len, prefixes)), 0, -1):
        keys = [next((p for p in reversed(of_one[:depth]) if often[p] > 1), "") for of_one in prefixes]
        numbers = groupby(range(len(domains)), key=keys.__getitem__)
        runs = [domains[found[0] : found[-1] + 1] for _, same in numbers if (found := list(same))]
        if sum(-(-len(run) // MOST_DOMAINS) for run in runs) <= _MOST_SLICES:
            return list(runs)
    return [domains]


def _prefixes(name: str) -> list[str]:
    """Return the prefixes of a name that end in a `-` which is not its last character, the shortest first."""
    return [name[: at + 1] for at in range(len(name) - 1) if name[at] == "-"]
