"""Fields of another type than their API promises, in what somebody wrote into a file: named, and never a crash."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.coscheduling.names import placeholder_name
from controlplane.controllers.coscheduling.placement.objects_by_kind import objects_of
from controlplane.controllers.coscheduling.problems import InputRefused
from tests.coscheduling.samples import NS, Json, node, planned, pod, run, stateful_set, task, volume_claim
from tests.support.rows import each

SINGLE = placeholder_name("", "my-pipelinerun")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def changed(obj: Json, path: str, value: Any) -> Json:
    *above, last = path.split(".")
    place = obj
    for field in above:
        place = place.setdefault(field, {})
    place[last] = value
    return obj


@each(
    ("obj", "path", "value", "told"),
    [
        (stateful_set(SINGLE), "status", 1, "status: expected `object | null`, got `int`"),
        (stateful_set(SINGLE), "status.readyReplicas", "1", "status.readyReplicas: expected `int | null`, got `str`"),
        (stateful_set(SINGLE), "spec.template.spec", [], "spec.template.spec: expected `object | null`, got `array`"),
        (stateful_set(SINGLE), "metadata.ownerReferences", [1], "metadata.ownerReferences[0]: expected `object`"),
        (pod(f"{SINGLE}-0", "n1"), "spec.tolerations", [None], "spec.tolerations[0]: expected `object`, got `null`"),
        (
            pod(f"{SINGLE}-0", "n1"),
            "spec.affinity",
            {"podAffinity": {REQUIRED: {}}},
            f"podAffinity.{REQUIRED}: expected",
        ),
        (pod(f"{SINGLE}-0", "n1"), "metadata.labels", {"a": 1}, "metadata.labels[...]: expected `str | null`"),
        (node("n1"), "spec.taints", "x", "spec.taints: expected `array | null`, got `str`"),
        (node("n1"), "spec.unschedulable", "true", "spec.unschedulable: expected `bool | null`, got `str`"),
        (volume_claim("c"), "metadata.finalizers", "x", "metadata.finalizers: expected"),
    ],
)
def test_an_object_that_is_there(obj: Json, path: str, value: Any, told: str) -> None:
    with pytest.raises(InputRefused) as refused:
        objects_of(changed(obj, path, value), "all.yaml, document 2")
    (problem,) = refused.value.problems
    assert problem.object.startswith(f"all.yaml, document 2 ({obj['kind']} ")
    assert told in str(problem)


@each(
    ("template", "told"),
    [
        ({"env": 1}, "env: expected a list, found a int"),
        ({"env": [None]}, "env[0]: expected an object, found a NoneType"),
        ({"volumes": ["v"]}, "volumes[0]: expected an object, found a str"),
        ({"affinity": {"podAffinity": []}}, "affinity.podAffinity: expected an object"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: {}}}}, f"affinity.podAntiAffinity.{REQUIRED}: expected a list"),
    ],
)
@each("mode", ["workspaces", "isolate-pipelinerun", "disabled"])
def test_a_pod_template(template: Json, told: str, mode: str) -> None:
    of_run = planned(run(taskRunTemplate={"podTemplate": template}), mode)
    assert f"PipelineRun {NS}/my-pipelinerun: spec.taskRunTemplate.podTemplate.{told}" in of_run.error
    specs = [{"pipelineTaskName": "only", "podTemplate": template}]
    assert f"spec.taskRunSpecs[only].podTemplate.{told}" in planned(run(taskRunSpecs=specs), mode).error


@pytest.mark.parametrize(
    ("inline", "told"),
    [
        ({"steps": 1.5}, "taskSpec.steps: expected a list"),
        ({"steps": [{"env": "x"}]}, "taskSpec.steps[0].env: expected a list"),
        ({"stepTemplate": []}, "taskSpec.stepTemplate: expected an object"),
    ],
)
def test_the_steps_of_an_inline_task(inline: Json, told: str) -> None:
    assert told in planned(run(tasks=[{"name": "t", "taskSpec": inline}])).error


def test_a_deletion_that_is_null_is_none() -> None:
    obj = changed(run(tasks=[task("t")]), "metadata.deletionTimestamp", None)
    moved = changed(pod(f"{SINGLE}-0", "n1"), "metadata.deletionTimestamp", None)
    found = planned(obj, "pipelineruns", stateful_set(SINGLE), moved, node("n1", cordoned=True))
    assert len(found.tasks) == len(found.deletions) == 1
    assert found.cleanup == []
