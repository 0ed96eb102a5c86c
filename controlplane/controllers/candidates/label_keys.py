"""Takes out of a pod's constraints what its API server has put into them for `matchLabelKeys` and `mismatchLabelKeys`.

In: a PodSpec as an API server shows it. Out: the same as its user wrote it. Such a key becomes a requirement of the
selector when a pod is created, and one that has both is refused (kubernetes 1.36, pkg/registry/core/pod/strategy.go and
pkg/apis/core/validation): the target's API server puts in its own."""

from __future__ import annotations

from typing import Any

from controlplane.kube.kinds import Json

_OPERATORS = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_SPREAD = "topologySpreadConstraints"
_REQUIRED, _PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


def as_written(spec: Json) -> Json:
    """Return a PodSpec without the requirements that stand for keys of labels; what has another shape stays."""
    found = dict(spec)
    if isinstance(spec.get(_SPREAD), list):
        found[_SPREAD] = [_term(one) for one in spec[_SPREAD]]
    affinity = spec.get("affinity")
    if isinstance(affinity, dict):
        found["affinity"] = affinity | {
            kind: _terms(affinity[kind])
            for kind in ("podAffinity", "podAntiAffinity")
            if isinstance(affinity.get(kind), dict)
        }
    return found


def _terms(affinity: Json) -> Json:
    found = dict(affinity)
    if isinstance(affinity.get(_REQUIRED), list):
        found[_REQUIRED] = [_term(one) for one in affinity[_REQUIRED]]
    if isinstance(affinity.get(_PREFERRED), list):
        found[_PREFERRED] = [
            one | {"podAffinityTerm": _term(one["podAffinityTerm"])}
            if isinstance(one, dict) and "podAffinityTerm" in one
            else one
            for one in affinity[_PREFERRED]
        ]
    return found


def _term(term: Any) -> Any:
    """Return a term whose selector has no requirement about the keys that it names beside it."""
    selector: Any = term.get("labelSelector") if isinstance(term, dict) else None
    listed = selector.get("matchExpressions") if isinstance(selector, dict) else None
    if not isinstance(listed, list):
        return term
    keys = [(key, operator) for field, operator in _OPERATORS.items() for key in term.get(field) or ()]
    kept = [one for one in listed if not isinstance(one, dict) or (one.get("key"), one.get("operator")) not in keys]
    if len(kept) == len(listed):
        return term
    others = {field: value for field, value in selector.items() if field != "matchExpressions"}
    return term | {"labelSelector": {**others, **({"matchExpressions": kept} if kept else {})}}
