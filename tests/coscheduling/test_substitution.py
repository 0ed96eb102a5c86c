"""How variables are filled in: Tekton's passes, one after the other, and what an inline task's steps make it use."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.coscheduling.names import placeholder_name
from controlplane.controllers.coscheduling.placement.plan import task_json
from controlplane.controllers.coscheduling.placement.substitution import fill, param_values
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from tests.coscheduling.samples import Json, claim, planned, run, task, template
from tests.support.rows import each

RUN = "my-pipelinerun"


@each(
    ("text", "filled"),
    [
        ("$(a)", "$(b)"),
        ("$(a)$(b)", "$(b)x"),
        ("$(unknown)/$(b)", "$(unknown)/x"),
        ("$(unknown/$(b)", "$(unknown/x"),
        ("$(b", "$(b"),
        ("$$(b)", "$x"),
        ("b)$(", "b)$("),
    ],
)
def test_one_pass_does_not_look_at_what_it_filled_in(text: str, filled: str) -> None:
    values = {"a": "$(b)", "b": "x"}
    assert fill(text, values) == filled
    assert fill(text, dict(reversed(values.items()))) == filled


def test_each_pass_sees_what_the_one_before_it_filled_in() -> None:
    assert fill("$(a)", {"a": "$(b)", "b": "x"}, {"b": "y"}) == "y"


def test_a_value_that_the_run_gives_is_final_and_a_default_is_not() -> None:
    params = [{"name": "a", "value": "$(params.b)"}, {"name": "b", "value": "x"}]
    defaults = [
        {"name": "c", "default": "$(params.d)/$(params.a)"},
        {"name": "d", "default": '$(params["b"])!'},
        {"name": "list", "type": "array", "default": ["$(params.c)", "two"]},
        {"name": "o", "type": "object", "default": {"key": "$(params.d)"}},
        {"name": "turn", "default": "$(params.turn)"},
    ]
    values = param_values(params, defaults)
    assert values["params.a"] == "$(params.b)"
    assert values["params.c"] == "x!/$(params.b)"
    assert values["params['list'][0]"] == "x!/$(params.b)"
    assert values["params.o.key"] == "x!"
    assert values["params.turn"] == "$(params.turn)"


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (5, "5"), (1.0, "1"), (1.5, "1.5"), ("", "")])
def test_values_that_are_no_texts_become_what_json_says(value: Any, text: str) -> None:
    assert param_values([{"name": "a", "value": value}])["params.a"] == text


def test_a_parameter_may_bring_a_variable_of_the_context_into_a_tasks_path_but_no_other_parameter() -> None:
    params = [{"name": "a", "value": "$(context.pipelineRun.name)"}, {"name": "b", "value": "$(params.a)"}]
    uses: list[Json] = [
        {"name": "a", "subPath": "$(params.a)"},
        {"name": "b", "workspace": "a", "subPath": "$(params.b)"},
    ]
    found = planned(run(template("a"), tasks=[task("t", *uses)], params=params))
    assert [one["subPath"] for one in found.tasks[0].workspaces] == [RUN, "$(params.a)"]


def test_whether_a_workspace_is_bound_is_known_in_a_path() -> None:
    uses: list[Json] = [{"name": "a", "subPath": "$(workspaces.a.bound)/$(workspaces.b.bound)"}]
    obj = run(template("a"), tasks=[task("t", *uses)])
    obj["spec"]["pipelineSpec"]["workspaces"] = [{"name": "a"}, {"name": "b", "optional": True}]
    assert planned(obj).tasks[0].workspaces[0]["subPath"] == "true/false"


def test_a_tasks_name_may_be_a_parameter() -> None:
    entry = {"name": "t", "taskRef": {"name": "$(params.which)"}, "workspaces": [{"name": "a"}]}
    known = {
        "apiVersion": "tekton.dev/v1",
        "kind": "Task",
        "metadata": {"name": "build", "namespace": "ci"},
        "spec": {"workspaces": [{"name": "a", "optional": True}]},
    }
    obj = run(tasks=[entry], params=[{"name": "which", "value": "build"}])
    assert planned(obj, "workspaces", known).error == ""
    assert 'expected workspace "a" to be provided' in planned(obj).error


def _steps(**step: Any) -> Json:
    return {"name": "t", "taskSpec": {"steps": [{"name": "s", "image": "i", **step}]}}


@each(
    ("step", "uses"),
    [
        ({"script": "ls $(workspaces.a.path)"}, True),
        ({"script": "ls $(workspaces.a)"}, True),
        ({"args": ["$(workspaces['a'])"]}, True),
        ({"command": ['$(workspaces["a"])']}, True),
        ({"env": [{"name": "E", "value": "$(workspaces.a.claim)"}]}, True),
        ({"workingDir": "$(workspaces.$(params.which).path)"}, True),
        ({"params": [{"name": "p", "value": ["$(workspaces.a.path)"]}]}, True),
        ({"script": "$(workspaces.a.bound)"}, False),
        ({"script": "$(workspaces['a'].path)"}, False),
        ({"image": "$(workspaces.a.path)"}, False),
        ({"script": "$(params.workspaces.a.path)"}, False),
    ],
)
def test_what_the_steps_of_an_inline_task_speak_of(step: Json, uses: bool) -> None:
    obj = run(claim("a", "data"), tasks=[_steps(**step)], params=[{"name": "which", "value": "a"}])
    found = planned(obj)
    assert found.error == ""
    annotation = {AFFINITY_ASSISTANT: placeholder_name("a", RUN)} if uses else {}
    assert task_json(found.tasks[0])["annotations"] == annotation
    assert [one["name"] for one in found.tasks[0].workspaces] == (["a"] if uses else [])
