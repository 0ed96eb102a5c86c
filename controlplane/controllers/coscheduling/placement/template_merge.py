"""Fills in one pod template from another, as Tekton does it: the task's from the run's, the run's from the
cluster's.

In: two pod templates. Out: a new one; neither is changed, for whoever edits a user's own template changes every pod
that is made of it later."""

from __future__ import annotations

import copy
from typing import Any

from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused
from controlplane.kube.kinds import Json

_NAMED_LISTS = ("env", "volumes")
_TERMS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
_KINDS: dict[str, type] = {
    "nodeSelector": dict,
    "tolerations": list,
    "imagePullSecrets": list,
    "securityContext": dict,
    "affinity": dict,
    "env": list,
    "volumes": list,
    "priorityClassName": str,
    "serviceAccountName": str,
    "schedulerName": str,
}
_WORDS: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}


def check_template(template: Json, where: str, path: str) -> None:
    """Refuse a pod template with a field that cannot be handed on, or joined with another template's."""
    for field, kind in _KINDS.items():
        _check(template, field, kind, where, path)
    for field in _NAMED_LISTS:
        for number, item in enumerate(template.get(field) or ()):
            _check({field: item}, field, dict, where, path, f"{field}[{number}]")
    affinity = template.get("affinity") or {}
    for field in ("podAffinity", "podAntiAffinity"):
        _check(affinity, field, dict, where, f"{path}.affinity")
        for terms in _TERMS:
            _check(affinity.get(field) or {}, terms, list, where, f"{path}.affinity.{field}")


def _check(obj: Json, field: str, kind: type, where: str, path: str, shown: str = "") -> None:
    found = obj.get(field)
    if (found is None and not shown) or isinstance(found, kind):
        return
    wanted = _WORDS[kind]
    what = f"expected {wanted}, found a {type(found).__name__}"
    raise InputRefused(InputProblem(where, f"{path}.{shown or field}", what, f"give {wanted}"))


def merged(template: Json | None, default: Json | None) -> Json | None:
    """Return a pod template with what it leaves open filled in from a default; lists of names are joined, its own
    first.
    """
    if template is None or default is None:
        found = template if template is not None else default
        return copy.deepcopy(found)
    result = copy.deepcopy(template)
    for field, value in default.items():
        if field in _NAMED_LISTS:
            result[field] = _joined(value or [], result.get(field) or [])
        elif _is_open(field, result.get(field)):
            result[field] = copy.deepcopy(value)
    return result


def _is_open(field: str, value: Any) -> bool:
    if field in ("schedulerName", "serviceAccountName"):
        return not value
    return value is None or (field == "hostNetwork" and value is False)


def _joined(base: list[Json], own: list[Json]) -> list[Json]:
    if not own:
        return copy.deepcopy(base)
    names = {one.get("name") for one in own}
    joined = [*own, *(one for one in base if one.get("name") not in names)]
    return copy.deepcopy([one for one in joined if one.get("name")])
