"""How one pod template is filled in from another, as Tekton does it: the task's from the run's, the run's from the cluster's.

In: two pod templates. Out: a new one; neither is changed, for whoever edits a user's own template changes every pod that is made of
it later (specs/coscheduling section 7, number 1).
"""

from __future__ import annotations

import copy
from typing import Any

from controlplane.kube import Json

_NAMED_LISTS = ("env", "volumes")


def merged(template: Json | None, default: Json | None) -> Json | None:
    """Return a pod template with what it leaves open filled in from a default; lists of names are joined, its own first."""
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
