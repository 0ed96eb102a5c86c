"""What is kept of a PipelineRun, a Pipeline and a Task where only their fit is judged: scripts, images and texts are
left out.

In: objects as an API server shows them. Out: the same objects with the fields that decide: workspaces, what waits for
what, selectors, tolerations, and what steps ask for. Steps that speak of a workspace go on speaking of it, since a task
uses what its steps mention."""

from __future__ import annotations

import re
from typing import Any

from controlplane.kube.kinds import Json, meta

_TASK = ("name", "runAfter", "workspaces", "matrix", "params", "when", "taskRef", "pipelineRef")
_POD = ("nodeSelector", "tolerations", "affinity")
_RUN = ("workspaces", "params", "pipelineRef", "status", "managedBy")
_MENTION = re.compile(r"\$\(workspaces(?:\.[A-Za-z0-9_-]+|\[[\"'][^\"'\]]+[\"']\])\.")


def run_outline(run: Json) -> Json:
    """Return what decides of a PipelineRun (`tekton.dev/v1`, or v1beta1)."""
    spec = _mapping(run.get("spec"))
    kept = _only(spec, _RUN)
    if spec.get("podTemplate") is not None:  # v1beta1
        kept["podTemplate"] = _pod(spec["podTemplate"])
    if spec.get("taskRunTemplate") is not None:
        template = _mapping(spec["taskRunTemplate"])
        kept["taskRunTemplate"] = {key: _pod(value) for key, value in template.items() if key == "podTemplate"}
    if spec.get("taskRunSpecs") is not None:
        kept["taskRunSpecs"] = [_task_run_spec(one) for one in _listed(spec["taskRunSpecs"])]
    if spec.get("pipelineSpec") is not None:
        kept["pipelineSpec"] = _pipeline_spec(_mapping(spec["pipelineSpec"]))
    metadata = {key: meta(run)[key] for key in ("namespace", "name", "uid") if key in meta(run)}
    return {"apiVersion": run.get("apiVersion"), "kind": "PipelineRun", "metadata": metadata, "spec": kept}


def pipeline_outline(pipeline: Json) -> Json:
    """Return what decides of a Pipeline."""
    return {"kind": "Pipeline", "metadata": _name(pipeline), "spec": _pipeline_spec(_mapping(pipeline.get("spec")))}


def task_outline(task: Json) -> Json:
    """Return what decides of a Task."""
    return {"kind": "Task", "metadata": _name(task), "spec": _task_spec(_mapping(task.get("spec")))}


def _pipeline_spec(spec: Json) -> Json:
    kept = _only(spec, ("workspaces",))
    # Defaults stand for what a run does not say, in paths.
    kept["params"] = [_only(one, ("name", "default")) for one in _listed(spec.get("params"))]
    for field in ("tasks", "finally"):
        if spec.get(field) is not None:
            kept[field] = [_pipeline_task(one) for one in _listed(spec[field])]
    return kept


def _pipeline_task(task: Json) -> Json:
    kept = _only(task, _TASK)
    if task.get("taskSpec") is not None:
        kept["taskSpec"] = _task_spec(_mapping(task["taskSpec"]))
    if task.get("pipelineSpec") is not None:
        kept["pipelineSpec"] = {}
    return kept


def _task_spec(spec: Json) -> Json:
    kept = _only(spec, ("workspaces", "apiVersion", "kind"))
    for field in ("steps", "sidecars"):
        if spec.get(field) is not None:
            kept[field] = [_step(one) for one in _listed(spec[field])]
    if spec.get("stepTemplate") is not None:
        kept["stepTemplate"] = _step(_mapping(spec["stepTemplate"]))
    return kept


def _step(step: Json) -> Json:
    kept = _only(step, ("name", "computeResources", "resources"))
    mentioned = sorted({found for text in _texts(step) for found in _MENTION.findall(text)})
    return kept | ({"script": " ".join(f"{one}path)" for one in mentioned)} if mentioned else {})


def _task_run_spec(spec: Json) -> Json:
    kept = _only(spec, ("pipelineTaskName", "computeResources"))
    return kept | {key: _pod(spec[key]) for key in ("podTemplate", "taskPodTemplate") if key in spec}


def _pod(template: Any) -> Any:
    return _only(template, _POD) if isinstance(template, dict) else template


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for one in value for text in _texts(one)] if isinstance(value, list) else []


def _only(value: Json, fields: tuple[str, ...]) -> Json:
    return {field: value[field] for field in fields if field in value}


def _name(obj: Json) -> Json:
    return _only(meta(obj), ("namespace", "name"))


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
