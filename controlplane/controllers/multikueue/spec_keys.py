"""Tells whether a copy's spec is that of its Workload.

In: specs of Workloads. Out: keys to record, and whether two of them are of the same spec. Kueue compares the fields
that its own version knows (`isRemoteSpecOutOfSync` in kubernetes-sigs/kueue
pkg/controller/admissionchecks/multikueue/workload.go, ff69552e): a worker whose Kueue is newer may add others. One that
drops what it was sent does not have the same spec. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from controlplane.kube.kinds import Json
from controlplane.log.event import canonical

# The fields of a v1beta2 Workload's spec (kubernetes-sigs/kueue apis/kueue/v1beta2/workload_types.go, ff69552e). In
# these a copy may differ: the worker manages them itself, or they are updated in place.
_NOT_COMPARED = frozenset({"preemptionGates", "priority", "priorityClassRef", "active"})
_SPEC = frozenset({"podSets", "queueName", "maximumExecutionTimeSeconds"})
_POD_SET = frozenset({"name", "template", "count", "minCount", "topologyRequest"})
_TOPOLOGY = frozenset(
    {
        "required",
        "preferred",
        "unconstrained",
        "podIndexLabel",
        "subGroupIndexLabel",
        "subGroupCount",
        "podSetGroupName",
        "podSetSliceRequiredTopology",
        "podSetSliceSize",
        "podsetSliceRequiredTopologyConstraints",
    }
)
_UNKNOWN = "+"


def spec_key(spec: Json) -> str:
    """Return the hash of what a copy's spec must share with its Workload's, followed by the paths of the fields that
    this version does not know, each behind a `+`.
    """
    unknown: set[str] = set()
    shared = {
        field: [_pod_set(one, unknown) for one in value] if field == "podSets" else value
        for field, value in _known(spec, _SPEC | _NOT_COMPARED, "", unknown).items()
        if field not in _NOT_COMPARED and value not in (None, [], {})
    }
    return _UNKNOWN.join([hashlib.sha256(canonical(shared)).hexdigest()[:32], *sorted(unknown)])


def is_same(copy: str, workload: str) -> bool:
    """Whether a copy's key is of the spec that its Workload's is of. It may have fields more that nobody here knows,
    but none less: what they say was asked for.
    """
    (have, *more), (want, *asked) = copy.split(_UNKNOWN), workload.split(_UNKNOWN)
    return have == want and set(asked) <= set(more)


def _pod_set(pod_set: Any, unknown: set[str]) -> Any:
    if not isinstance(pod_set, Mapping):
        return pod_set
    found = _known(pod_set, _POD_SET, "podSets.", unknown)
    if isinstance(request := found.get("topologyRequest"), Mapping):
        found["topologyRequest"] = _known(request, _TOPOLOGY, "podSets.topologyRequest.", unknown)
    return found


def _known(value: Mapping[str, Any], fields: Collection[str], path: str, unknown: set[str]) -> Json:
    """Return the fields that are known, and note the others."""
    unknown.update(f"{path}{name}" for name in value if name not in fields)
    return {name: inner for name, inner in value.items() if name in fields}
