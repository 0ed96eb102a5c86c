"""Fills in the variables of workspace bindings: `$(params.x)` and `$(context.pipelineRun.name)`.

In: texts and the values that a run gives. Out: texts; a variable that nothing is known of stays as it is (a task's result, say,
is filled in when the task has run). The order is Tekton's: parameters first, then where a task's path is joined to the run's,
then the run's context.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Mapping
from typing import Any

from controlplane.kube import Json

Values = Mapping[str, str]


def fill(text: str, values: Values) -> str:
    """Return a text with its known variables filled in."""
    if "$(" not in text:
        return text
    for key, value in values.items():
        text = text.replace(f"$({key})", value)
    return text


def param_values(params: list[Json], defaults: list[Json] | None = None) -> dict[str, str]:
    """Return what `params` variables stand for: the run's values, and where it gives none the pipeline's defaults."""
    values: dict[str, str] = {}
    given = {str(param.get("name")) for param in params}
    for spec in defaults or ():
        if str(spec.get("name")) not in given and spec.get("default") is not None:
            _note(values, str(spec.get("name")), spec["default"])
    for param in params:
        _note(values, str(param.get("name")), param.get("value"))
    for _ in range(len(values)):  # a default may refer to other parameters, and these to others
        filled = {key: fill(value, values) for key, value in values.items()}
        if filled == values:
            break
        values = filled
    return values


def _note(values: dict[str, str], name: str, value: Any) -> None:
    spellings = (f"params.{name}", f'params["{name}"]', f"params['{name}']")
    if isinstance(value, list):
        values.update(
            (f"{spelling}[{number}]", str(item)) for spelling in spellings for number, item in enumerate(value)
        )
    elif isinstance(value, dict):
        values.update((f"params.{name}.{key}", str(item)) for key, item in value.items())
    elif value is not None:
        values.update((spelling, str(value)) for spelling in spellings)


def context_values(pipeline: str, name: str, namespace: str, uid: str) -> dict[str, str]:
    """Return what the run's `context` variables stand for; `pipeline` is "" where the pipeline has no name of its own."""
    return {
        "context.pipelineRun.name": name,
        "context.pipeline.name": pipeline,
        "context.pipelineRun.namespace": namespace,
        "context.pipelineRun.uid": uid,
    }


def joined_path(of_run: str, of_task: str) -> str:
    """Return a binding's sub path: the run's, then the task's, made plain (`a//b/../c` is `a/c`)."""
    if not of_run or not of_task:
        return of_run or of_task
    plain = posixpath.normpath(f"{of_run}/{of_task}")
    return "/" + plain.lstrip("/") if plain.startswith("/") else plain


def filled_binding(binding: Json, values: Values) -> Json:
    """Return a run's binding with its parameters filled in, in the fields where Tekton fills them in."""
    found = copy.deepcopy(binding)
    _fill(found, "subPath", values)
    _fill(found.get("persistentVolumeClaim"), "claimName", values)
    _fill_items(found.get("configMap"), "name", values)
    _fill_items(found.get("secret"), "secretName", values)
    sources = (found.get("projected") or {}).get("sources") if isinstance(found.get("projected"), dict) else None
    for source in sources if isinstance(sources, list) else ():
        if isinstance(source, dict):
            _fill_items(source.get("configMap"), "name", values)
            _fill_items(source.get("secret"), "name", values)
    csi = found.get("csi")
    if isinstance(csi, dict):
        _fill(csi, "driver", values)
        _fill(csi.get("nodePublishSecretRef"), "name", values)
    return found


def _fill(obj: object, field: str, values: Values) -> None:
    if isinstance(obj, dict) and isinstance(obj.get(field), str):
        obj[field] = fill(obj[field], values)


def _fill_items(source: object, name: str, values: Values) -> None:
    _fill(source, name, values)
    if isinstance(source, dict) and isinstance(source.get("items"), list):
        for item in source["items"]:
            _fill(item, "key", values)
            _fill(item, "path", values)
