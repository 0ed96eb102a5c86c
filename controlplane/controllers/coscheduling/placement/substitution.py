"""Fills in the variables of workspace bindings: `$(params.x)` and `$(context.pipelineRun.name)`.

In: texts and the values that a run gives. Out: texts; a variable that nothing is known of stays as it is (a task's
result, say, is filled in when the task has run). The order is Tekton's: parameters first, then where a task's path is
joined to the run's, then the run's context. Each is one pass over the text: what a value brings in is not looked at
again before the next one."""

from __future__ import annotations

import copy
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.kube.kinds import Json

Values = Mapping[str, str]
_VARIABLE = re.compile(r"\$\(((?:(?!\$\()[^)])*)\)")
_DEEPEST = 10


def fill(text: str, *passes: Values) -> str:
    """Return a text with its known variables filled in, one pass after the other."""
    for values in passes:
        if "$(" not in text:
            break
        text = _VARIABLE.sub(lambda found, values=values: values.get(found[1], found[0]), text)  # type: ignore[misc]
    return text


def param_values(params: list[Json], defaults: list[Json] | None = None) -> dict[str, str]:
    """Return what `params` variables stand for: the run's values as they are, and where it gives none the pipeline's
    defaults.

    A default may refer to parameters, by way of other defaults too; a value that the run gives is final.
    """
    values: dict[str, str] = {}
    for param in params:
        _note(values, str(param.get("name")), param.get("value"))
    given = {str(param.get("name")) for param in params}
    all_defaults = {str(one.get("name")): one["default"] for one in defaults or () if one.get("default") is not None}
    left = {name: value for name, value in all_defaults.items() if name not in given}
    texts: dict[str, str] = {}
    for name, value in left.items():
        if not isinstance(value, list | dict):
            _note(texts, name, value)
    known = dict(values)
    for key in texts:
        values[key] = _resolved(key, texts, known, _DEEPEST)
    resolved = dict(values)
    for name, value in left.items():
        if isinstance(value, list | dict):
            _note(values, name, _filled(value, resolved))
    return values


def _filled(value: list[Any] | Json, known: Values) -> list[str] | dict[str, str]:
    """Return a default that is a list or an object, with the parameters that its texts refer to filled in."""
    if isinstance(value, list):
        return [fill(_spelled(item), known) for item in value]
    return {key: fill(_spelled(item), known) for key, item in value.items()}


def _resolved(key: str, texts: Values, known: Values, depth: int) -> str:
    """Return a default with the parameters that it refers to filled in; one that leads back to itself stays as it
    is.
    """
    text = texts[key]
    if depth == 0:
        return text
    wanted = {name for name in _VARIABLE.findall(text) if name in texts}
    return fill(text, {**known, **{name: _resolved(name, texts, known, depth - 1) for name in wanted}})


def _note(values: dict[str, str], name: str, value: Any) -> None:
    spellings = (f"params.{name}", f'params["{name}"]', f"params['{name}']")
    if isinstance(value, list):
        values.update(
            (f"{spelling}[{number}]", _spelled(item)) for spelling in spellings for number, item in enumerate(value)
        )
    elif isinstance(value, dict):
        values.update((f"params.{name}.{key}", _spelled(item)) for key, item in value.items())
    elif value is not None:
        values.update((spelling, _spelled(value)) for spelling in spellings)


def _spelled(value: Any) -> str:
    """Return a value as the text that the API makes of it: numbers and truth values as JSON has them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def context_values(pipeline: str, name: str, namespace: str, uid: str) -> dict[str, str]:
    """Return what the run's `context` variables stand for; `pipeline` is "" where the pipeline has no name of its
    own.
    """
    return {
        "context.pipelineRun.name": name,
        "context.pipeline.name": pipeline,
        "context.pipelineRun.namespace": namespace,
        "context.pipelineRun.uid": uid,
    }


def bound_values(declared: Iterable[str], bound: Iterable[str]) -> dict[str, str]:
    """Return what `workspaces.NAME.bound` stands for in a pipeline."""
    return {f"workspaces.{name}.bound": "false" for name in declared} | {
        f"workspaces.{name}.bound": "true" for name in bound
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
