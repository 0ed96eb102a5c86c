"""What is kept of a run for its judgement decides as the whole run does, and holds nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.coscheduling.feasibility.outline import pipeline_outline, run_outline, task_outline
from controlplane.controllers.coscheduling.feasibility.task_groups import largest_wave
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.placement.binding import bound_tasks
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import find_pipeline
from tests.coscheduling.samples import NS, Json, claim, read, run, template

SECRET = "do not keep this"


def step(**more: Any) -> Json:
    return {"name": "s", "image": SECRET, "script": SECRET, "env": [{"name": "X", "value": SECRET}], **more}


def asks(cpu: str) -> Json:
    return {"computeResources": {"requests": {"cpu": cpu}}}


def judged(obj: Json, *others: Json) -> dict[str, Any]:
    """All that a judgement is made of."""
    whole = read(obj)
    pipeline = find_pipeline(whole, ObjectsByKind(others))
    found: dict[str, Any] = {"wave": largest_wave(whole, pipeline)}
    for mode in Mode:
        bound, _ = bound_tasks(whole, pipeline, mode)
        found[mode] = [(one.task, one.kind, one.placeholder, one.claims, one.pod_template) for one in bound]
    return found


CASES: dict[str, Json] = {
    "mentioned": run(
        claim("src", "data"),
        template("out"),
        tasks=[
            {"name": "a", "taskSpec": {"steps": [step(script="cd $(workspaces.src.path)")]}},
            {"name": "b", "taskSpec": {"steps": [step(args=["$(workspaces['out'].path)"])], "sidecars": [step()]}},
        ],
    ),
    "asked for": run(
        tasks=[
            {
                "name": "a",
                "taskSpec": {"stepTemplate": asks("1"), "steps": [step(), step(**asks("2"))], "sidecars": [step(**asks("3"))]},
                "matrix": {"params": [{"name": "p", "value": ["x", "y"]}]},
            },
            {"name": "b", "params": [{"name": "p", "value": "$(tasks.a.results.out)"}], "taskSpec": {"steps": [step()]}},
        ],
        taskRunSpecs=[{"pipelineTaskName": "b", "computeResources": {"requests": {"cpu": "9"}}, "serviceAccountName": SECRET}],
        taskRunTemplate={"podTemplate": {"nodeSelector": {"disk": "ssd"}, "env": [{"name": SECRET}]}},
        final=[{"name": "z", "taskSpec": {"steps": [step(**asks("4"))]}}],
    ),
    "of other kinds": run(
        tasks=[
            {"name": "custom", "taskRef": {"apiVersion": "example.com/v1", "kind": "Wait"}},
            {"name": "child", "pipelineSpec": {"tasks": [{"name": SECRET, "taskSpec": {"steps": [step()]}}]}},
        ]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_outline_of_a_run_decides_as_the_run_does(name: str) -> None:
    obj = CASES[name]
    kept = run_outline(obj)
    pod_templates = [(obj["spec"].get("taskRunTemplate") or {}).get("podTemplate") or {}]
    whole = judged(obj)
    for template_ in pod_templates:
        template_.pop("env", None)
    assert judged(kept) == judged(obj)
    assert whole["wave"] == judged(kept)["wave"]
    assert SECRET not in json.dumps(kept)


def test_the_outline_of_an_old_run() -> None:
    obj = {
        "apiVersion": "tekton.dev/v1beta1",
        "kind": "PipelineRun",
        "metadata": {"namespace": NS, "name": "old", "labels": {"x": SECRET}},
        "spec": {
            "podTemplate": {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            "taskRunSpecs": [{"pipelineTaskName": "a", "taskPodTemplate": {"nodeSelector": {"gpu": "yes"}}}],
            "pipelineSpec": {"tasks": [{"name": "a", "taskSpec": {"steps": [{"name": "s", "resources": {"requests": {"cpu": "2"}}}]}}]},
        },
    }  # fmt: skip
    assert judged(run_outline(obj)) == judged(obj)
    assert SECRET not in json.dumps(run_outline(obj))


def test_the_outlines_of_what_a_run_names() -> None:
    obj = run(claim("src", "data"), pipelineRef={"name": "build"})
    del obj["spec"]["pipelineSpec"]
    tasks = [{"name": "one", "taskRef": {"name": "compile"}, "workspaces": [{"name": "w", "workspace": "src"}]}]
    params = [{"name": "where", "default": "sub", "description": SECRET}]
    spec = {"tasks": tasks, "params": params, "workspaces": [{"name": "src"}], "description": SECRET}
    pipeline = {
        "kind": "Pipeline",
        "metadata": {"namespace": NS, "name": "build", "annotations": {"x": SECRET}},
        "spec": spec,
    }
    body = {"steps": [step(**asks("3"))], "workspaces": [{"name": "w", "optional": True}], "params": [{"name": SECRET}]}
    task = {"kind": "Task", "metadata": {"namespace": NS, "name": "compile"}, "spec": body}
    kept = (pipeline_outline(pipeline), task_outline(task))
    assert judged(run_outline(obj), *kept) == judged(obj, pipeline, task)
    assert SECRET not in json.dumps(kept)


_ODD: list[Any] = [
    None,
    True,
    3,
    "x",
    [],
    ["x"],
    [None],
    {},
    {"x": 1},
    [{"taskSpec": 5}],
    [{"taskSpec": {"steps": "x"}}],
]
_FIELDS = [
    "workspaces",
    "params",
    "pipelineRef",
    "podTemplate",
    "taskRunTemplate",
    "taskRunSpecs",
    "pipelineSpec",
    "tasks",
]
_FIELDS += ["finally", "steps", "sidecars", "stepTemplate"]
_SPECS = st.dictionaries(st.sampled_from(_FIELDS), st.sampled_from(_ODD), max_size=6)


@given(_SPECS, _SPECS)
def test_whatever_a_run_holds_its_outline_can_be_made(spec: dict[str, Any], inner: dict[str, Any]) -> None:
    for whole in (spec, {**spec, "pipelineSpec": inner}, {**spec, "tasks": [{"taskSpec": inner}]}):
        for made in (run_outline, pipeline_outline, task_outline):
            made({"metadata": {"namespace": NS, "name": "x"}, "spec": whole})
