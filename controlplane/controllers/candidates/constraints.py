"""What is wrong with the constraints of a pod template, by field: a Candidate's template is not checked by its CRD.

In: a PodSpec as JSON. Out: the first fault as `field: what, and what to do`, or "". The rules are those of the
Kubernetes API for what a scheduler reads (kubernetes/kubernetes pkg/apis/core/validation/validation.go, v1.36);
everything else is left to the target's API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.kube.kinds import Json

_SELECTOR = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
_NODE = {**_SELECTOR, "Gt": True, "Lt": True}
_POLICIES = (None, "Honor", "Ignore")


def problem(spec: Json) -> str:
    """Return the first thing that is wrong with a pod's constraints, "" if nothing is."""
    if not _list(spec.get("containers")):
        return "spec.containers: at least one container is needed"
    return next(_problems(spec), "")


def _list(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _problems(spec: Json) -> Iterator[str]:
    yield from _spread(_list(spec.get("topologySpreadConstraints")))
    affinity = _object(spec.get("affinity"))
    node = _object(affinity.get("nodeAffinity"))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    where = f"spec.affinity.nodeAffinity.{required}"
    terms = _object(node.get(required)).get("nodeSelectorTerms")
    if required in node and not _list(terms):
        yield f"{where}.nodeSelectorTerms: at least one term is needed"
    for index, term in enumerate(_list(terms)):
        yield from _expressions(
            _list(term.get("matchExpressions")), f"{where}.nodeSelectorTerms[{index}].matchExpressions", _NODE
        )
    for kind in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate(_list(_object(affinity.get(kind)).get(required))):
            place = f"spec.affinity.{kind}.{required}[{index}]"
            if not term.get("topologyKey"):
                yield f"{place}.topologyKey: it must not be empty"
            yield from _selector(term.get("labelSelector"), f"{place}.labelSelector")


def _spread(constraints: list[Json]) -> Iterator[str]:
    seen = set()
    for index, entry in enumerate(constraints):
        where = f"spec.topologySpreadConstraints[{index}]"
        yield from _spread_values(entry, where)
        key = (entry.get("topologyKey"), entry.get("whenUnsatisfiable"))
        if key in seen:
            yield f"{where}: topologyKey {key[0]!r} with {key[1]} is there twice"
        seen.add(key)
        yield from _selector(entry.get("labelSelector"), f"{where}.labelSelector")


def _spread_values(entry: Json, where: str) -> Iterator[str]:
    skew, domains, when = entry.get("maxSkew"), entry.get("minDomains"), entry.get("whenUnsatisfiable")
    if not _positive(skew):
        yield f"{where}.maxSkew: {skew!r} is not a whole number above 0"
    if not entry.get("topologyKey"):
        yield f"{where}.topologyKey: it must not be empty"
    if when not in ("DoNotSchedule", "ScheduleAnyway"):
        yield f"{where}.whenUnsatisfiable: {when!r}: use DoNotSchedule or ScheduleAnyway"
    if domains is not None and not _positive(domains):
        yield f"{where}.minDomains: {domains!r} is not a whole number above 0"
    if domains is not None and when != "DoNotSchedule":
        yield f"{where}.minDomains: allowed only with whenUnsatisfiable: DoNotSchedule"
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if entry.get(field) not in _POLICIES:
            yield f"{where}.{field}: {entry[field]!r}: use Honor or Ignore"
    if entry.get("matchLabelKeys") and entry.get("labelSelector") is None:
        yield f"{where}.matchLabelKeys: they need a labelSelector"


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _selector(selector: Any, where: str) -> Iterator[str]:
    yield from _expressions(_list(_object(selector).get("matchExpressions")), f"{where}.matchExpressions", _SELECTOR)


def _expressions(expressions: list[Json], where: str, operators: dict[str, bool]) -> Iterator[str]:
    for index, entry in enumerate(expressions):
        operator, values = entry.get("operator"), entry.get("values")
        if operator not in operators:
            yield f"{where}[{index}].operator: {operator!r}: use one of {', '.join(operators)}"
        elif operators[str(operator)] != bool(values):
            needed = "values are needed" if operators[str(operator)] else "there must be no values"
            yield f"{where}[{index}].values: with {operator} {needed}"
