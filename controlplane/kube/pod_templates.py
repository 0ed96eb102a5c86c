"""Reads and rewrites pod templates as Go's types do, and tells what of them Kueue compares and restores.

In: a pod template as JSON. Out: the template as Kueue stores it in a Workload's pod set (kubernetes-sigs/kueue
pkg/controller/jobframework/utils.go, `SanitizePodSets`, and k8s.io/api core/v1 types.go, whose JSON leaves out what is
empty), and digests of parts of it. Pure."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import msgspec

from controlplane.kube.kinds import Json, meta
from controlplane.kube.quantities import canonical_quantity

_MAPS = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests", "overhead"})
_QUANTITIES = frozenset({"limits", "requests", "overhead"})
_CONTAINERS = ("containers", "initContainers")


def stored_template(template: Json) -> Json:
    """Return a pod template as a Workload has it: amounts spelled canonically, of variables of one name the last one,
    nothing that is empty.
    """
    made: Json = _without_empty(copy.deepcopy(template))
    made["metadata"] = {name: value for name, value in meta(made).items() if name != "creationTimestamp"}
    spec: Json = made.setdefault("spec", {})
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            container.setdefault("resources", {})
            if env := container.get("env"):
                container["env"] = list({str(one.get("name")): one for one in env}.values())
    for volume in spec.get("volumes") or ():
        source = volume.get("emptyDir") or {}
        if "sizeLimit" in source:
            source["sizeLimit"] = canonical_quantity(source["sizeLimit"])
    return made


def digest(value: Any) -> str:
    """Return a short digest of a JSON value."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:32]


def containers_digest(template: Json) -> str:
    """Return the digest of a template's containers and init containers, as it is stored."""
    spec = stored_template(template)["spec"]
    return digest([spec.get(field) or [] for field in _CONTAINERS])


def _without_empty(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    if not isinstance(value, dict):
        return value
    found: Json = {}
    for name, inner in value.items():
        if inner is None or inner == [] or (inner == {} and name in _MAPS):
            continue
        kept = _without_empty(inner)
        found[name] = {key: canonical_quantity(one) for key, one in kept.items()} if name in _QUANTITIES else kept
    return found
