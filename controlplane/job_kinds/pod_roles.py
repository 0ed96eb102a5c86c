"""Tells which pods of a group ask for the same: the hash of a pod's role, spelled as Kueue spells it.

In: a pod's spec as JSON. Out: eight digits. Pure. Kueue hashes what Go's encoder makes of its types, so fields are
written here in the order of those types, and what is empty is left out where they leave it out. Sources:
`GenerateRoleHash` (kubernetes-sigs/kueue pkg/util/pod/pod.go, ff69552e), k8s.io/api core/v1 types.go."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from controlplane.kube.kinds import Json
from controlplane.kube.quantities import canonical_quantity

_DIGITS = 8
_MAPS = frozenset({"matchLabels", "nodeSelector"})
_ORDER = (
    *("nodeAffinity", "podAffinity", "podAntiAffinity"),
    *("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"),
    *("nodeSelectorTerms", "weight", "preference", "podAffinityTerm"),
    *("matchLabels", "matchExpressions", "matchFields", "key", "operator", "value", "values", "effect"),
    *("tolerationSeconds", "labelSelector", "namespaces", "topologyKey", "namespaceSelector"),
    *("matchLabelKeys", "mismatchLabelKeys"),
    *("name", "hostPort", "containerPort", "protocol", "hostIP", "resourceClaimName", "resourceClaimTemplateName"),
)
_SPREAD_ORDER = (
    *("maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", "minDomains", "nodeAffinityPolicy"),
    *("nodeTaintsPolicy", "matchLabelKeys"),
)
_ALWAYS = frozenset({"key", "topologyKey", "nodeSelectorTerms", "name", "weight", "containerPort", "tolerationSeconds"})
"""Fields that are written though they are empty."""


def role_hash(spec: Mapping[str, Any]) -> str:
    """Return the hash of what a pod asks for; `ValueError` for an amount that is none."""
    shape = {
        "initContainers": _containers(spec.get("initContainers")),
        "containers": _containers(spec.get("containers")),
        "nodeSelector": _map(spec.get("nodeSelector")),
        "affinity": _struct(spec.get("affinity")),
        "tolerations": _structs(spec.get("tolerations")),
        "runtimeClassName": spec.get("runtimeClassName"),
        "priority": spec.get("priority"),
        "topologySpreadConstraints": _structs(spec.get("topologySpreadConstraints")),
        "overhead": _amounts(spec.get("overhead")),
        "resourceClaims": _structs(spec.get("resourceClaims")),
    }
    if (resources := spec.get("resources")) is not None:
        shape["resources"] = _amounts(resources.get("requests"))
    written = json.dumps({"spec": dict(sorted(shape.items()))}, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        written = written.replace(char, f"\\u{ord(char):04x}")
    return hashlib.sha256(written.encode()).hexdigest()[:_DIGITS]


def _containers(found: Any) -> list[Json] | None:
    return [
        {
            "ports": _structs(one.get("ports")),
            "resources": {"requests": _amounts((one.get("resources") or {}).get("requests"))},
        }
        for one in found or ()
    ] or None


def _map(found: Any) -> Json | None:
    return None if found is None else dict(sorted(found.items()))


def _amounts(found: Any) -> Json | None:
    return None if found is None else {name: canonical_quantity(found[name]) for name in sorted(found)}


def _structs(found: Any) -> list[Any] | None:
    return None if found is None else [_struct(one) for one in found]


def _struct(found: Any) -> Any:
    """Return a value with its fields in Go's order, those that are empty left out."""
    if isinstance(found, list):
        return [_struct(one) for one in found]
    if not isinstance(found, dict):
        return found
    order = _SPREAD_ORDER if "maxSkew" in found else _ORDER
    rank = {name: at for at, name in enumerate(order)}
    kept = {name: value for name, value in found.items() if _is_written(name, value)}
    return {
        name: _map(kept[name]) if name in _MAPS else _struct(kept[name])
        for name in sorted(kept, key=lambda one: (rank.get(one, len(rank)), one))
    }


def _is_written(name: str, value: Any) -> bool:
    """Whether Go writes a field: of objects it leaves out those alone that are not there, and empty maps."""
    if value is None:
        return False
    return name in _ALWAYS or bool(value) or (isinstance(value, dict) and name not in _MAPS)
