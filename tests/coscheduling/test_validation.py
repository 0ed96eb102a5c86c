"""What is refused before anything is created: each error names the object, the field, what is wrong and
what to do.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.coscheduling.samples import NS, Json, claim, empty, planned, run, task, template
from tests.support.rows import each


def refused(obj: Json, mode: str = "workspaces", **more: Any) -> str:
    found = planned(obj, mode, **more)
    assert found.error
    assert [*found.stateful_sets, *found.claims, *found.tasks, *found.deletions, *found.cleanup] == []
    return found.error


LONG = "x" * 64


@each(
    ("workspaces", "field", "what"),
    [
        ([{"name": "a"}], "spec.workspaces[0]", "exactly one source, found none"),
        ([{"name": "a", "emptyDir": None}], "spec.workspaces[0]", "found none"),
        (
            [{**claim("a", "c"), "emptyDir": {}}],
            "spec.workspaces[0]",
            "exactly one source, found persistentVolumeClaim, emptyDir",
        ),
        (
            [empty("ok"), {"name": "a", "persistentVolumeClaim": {}}],
            "spec.workspaces[1].persistentVolumeClaim.claimName",
            "missing field",
        ),
        ([{"name": "a", "configMap": {}}], "spec.workspaces[0].configMap.name", "missing field"),
        ([{"name": "a", "secret": {}}], "spec.workspaces[0].secret.secretName", "missing field"),
        ([{"name": "a", "projected": {"sources": []}}], "spec.workspaces[0].projected.sources", "missing field"),
        ([{"name": "a", "csi": {}}], "spec.workspaces[0].csi.driver", "missing field"),
        ([{"emptyDir": {}}], "spec.workspaces[0].name", "it is not set"),
        ([template("a"), claim("a", "c")], "spec.workspaces[1].name", "more than once, at index 0 and 1"),
        ([claim("a", "Not A Name")], "spec.workspaces[0].persistentVolumeClaim.claimName", "no name of a claim"),
        ([claim("a", "$(params.unknown)")], "spec.workspaces[0].persistentVolumeClaim.claimName", "no name of a claim"),
        ([template("a", "Up")], "spec.workspaces[0].volumeClaimTemplate.metadata.name", "no valid name"),
        ([{"name": "a", "emptyDir": "x"}], "spec.workspaces[0].emptyDir", "expected an object, found a text"),
        (["text"], "spec.workspaces[0]", "expected an object, found a text"),
    ],
)
@each("mode", ["workspaces", "pipelineruns", "disabled"])
def test_bindings(workspaces: list[Any], field: str, what: str, mode: str) -> None:
    error = refused(run(*workspaces), mode)
    assert error.startswith(f"PipelineRun {NS}/my-pipelinerun: {field}: ")
    assert what in error
    assert "; " in error


def test_a_dot_in_a_templates_name_is_refused_only_where_it_names_a_volume() -> None:
    assert planned(run(template("a", "v1.data")), "workspaces").error == ""
    assert "volumeClaimTemplate.metadata.name" in refused(run(template("a", "v1.data")), "pipelineruns")


def test_all_problems_are_told() -> None:
    assert len(refused(run({"name": "a"}, {"name": "b"})).splitlines()) == 2


@each(
    ("name", "ok"),
    [("a", True), (LONG[1:], True), (LONG, False), ("a.b", True), ("a..b", False), ("A", False), ("a-", False)],
)
def test_the_runs_name_can_be_a_label(name: str, ok: bool) -> None:
    error = planned(run(name=name)).error
    assert (error == "") is ok
    assert ok or "metadata.name" in error


def test_a_run_without_a_name_has_no_names_to_plan() -> None:
    obj = run()
    del obj["metadata"]["name"]
    obj["metadata"]["generateName"] = "build-"
    assert 'PipelineRun ci/build-: metadata.name: only generateName "build-" is set' in refused(obj)


@pytest.mark.parametrize("mode", ["workspaces", "pipelineruns", "isolate-pipelinerun", "disabled"])
def test_a_workspace_that_a_task_needs_and_the_run_lacks(mode: str) -> None:
    error = refused(run(empty("x"), tasks=[task("t", {"name": "in", "workspace": "missing"})]), mode)
    assert 'expected workspace "missing" to be provided by pipelinerun for pipeline task "t"' in error


def test_a_workspace_that_the_pipeline_requires() -> None:
    obj = run()
    obj["spec"]["pipelineSpec"]["workspaces"] = [{"name": "need"}, {"name": "may", "optional": True}]
    error = refused(obj)
    assert 'pipeline requires workspace with name "need"' in error
    assert "may" not in error.replace("make", "")


@pytest.mark.parametrize(("optional", "ok"), [(True, True), (False, False)])
def test_optional_workspaces_by_the_inline_task(optional: bool, ok: bool) -> None:
    spec = {"steps": [{"script": "true"}], "workspaces": [{"name": "w", "optional": optional}]}
    obj = run(tasks=[{"name": "t", "taskSpec": spec, "workspaces": [{"name": "w"}]}])
    assert (planned(obj).error == "") is ok


@pytest.mark.parametrize(("optional", "ok"), [(True, True), (False, False)])
def test_optional_workspaces_by_a_task_among_the_files(optional: bool, ok: bool) -> None:
    known = {"kind": "Task", "metadata": {"name": "t", "namespace": NS}}
    known["spec"] = {"workspaces": [{"name": "w", "optional": optional}]}
    assert (planned(run(tasks=[task("t", "w")]), "workspaces", known).error == "") is ok


def test_optional_workspaces_by_the_pipeline_where_the_task_is_not_known() -> None:
    obj = run(tasks=[task("t", "w")])
    obj["spec"]["pipelineSpec"]["workspaces"] = [{"name": "w", "optional": True}]
    assert planned(obj).error == ""


def test_several_claims_in_a_task_are_refused_before_anything_is_created() -> None:
    obj = run(template("a"), claim("b", "data"), tasks=[task("fine", "a"), task("both", "a", "b")])
    error = refused(obj)
    assert 'task "both": more than one PersistentVolumeClaim is bound' in error
    assert 'or the mode "pipelineruns"' in error
    for mode in ("pipelineruns", "isolate-pipelinerun", "disabled"):
        assert planned(obj, mode).error == ""


def test_several_claims_are_a_task_runs_trouble_not_a_custom_runs() -> None:
    custom = {"name": "c", "taskRef": {"apiVersion": "x/v1", "kind": "Y"}, "workspaces": [{"name": "a"}, {"name": "b"}]}
    found = planned(run(claim("a", "one"), claim("b", "two"), tasks=[custom]))
    assert found.error == ""
    assert found.tasks[0].placeholder == found.stateful_sets[1]["metadata"]["name"]


def test_a_template_for_a_task_that_is_not_there() -> None:
    assert 'the pipeline has no task "gone"' in refused(run(taskRunSpecs=[{"pipelineTaskName": "gone"}]))


@pytest.mark.parametrize("given", [{}, {"pipelineRef": {"name": "x"}, "pipelineSpec": {"tasks": [task("t")]}}])
def test_exactly_one_pipeline(given: Json) -> None:
    obj = run()
    del obj["spec"]["pipelineSpec"]
    obj["spec"] |= given
    assert "expected exactly one of pipelineRef and pipelineSpec" in refused(obj)


@each("key", ["default-pod-template", "default-affinity-assistant-pod-template"])
@each("text", ["[", "- list", "nodeSelector: text", "tolerations: {}"])
def test_default_templates_that_are_none(key: str, text: str) -> None:
    error = refused(run(), defaults={key: text})
    assert error.startswith(f"ConfigMap tekton-pipelines/config-defaults: data.{key}")


def test_a_bad_pod_template_of_the_run() -> None:
    obj = run(taskRunTemplate={"podTemplate": {"affinity": []}})
    assert "spec.taskRunTemplate.podTemplate.affinity: expected an object" in refused(obj)


def test_a_mode_that_is_none() -> None:
    found = planned(run(), "isolate-pipelineruns")
    assert found.mode is None
    assert 'data.coschedule: "isolate-pipelineruns" is not a mode' in found.error


def test_a_workspace_that_is_bound_three_times_is_told_of_each_time_with_the_one_before() -> None:
    error = refused(run(empty("a"), empty("a"), empty("b"), empty("a")))
    assert 'workspace "a" provided by pipelinerun more than once, at index 0 and 1' in error
    assert 'workspace "a" provided by pipelinerun more than once, at index 1 and 3' in error


@pytest.mark.parametrize("mode", ["workspaces", "pipelineruns", "isolate-pipelinerun"])
def test_a_claim_that_a_task_will_name_cannot_have_a_placeholder_before(mode: str) -> None:
    obj = run(claim("a", "$(tasks.make.results.claim)"), tasks=[task("make"), task("use", "a")])
    assert "is known only when a task has run" in refused(obj, mode)


def test_a_claim_that_a_task_will_name_is_left_to_tekton_where_nothing_is_placed() -> None:
    obj = run(claim("a", "$(tasks.make.results.claim)"), tasks=[task("make"), task("use", "a")])
    (_, use) = planned(obj, "disabled").tasks
    assert use.workspaces == [
        {"name": "a", "persistentVolumeClaim": {"claimName": "$(tasks.make.results.claim)"}},
    ]


def test_a_pipelines_default_does_not_name_a_claim() -> None:
    obj = run(claim("a", "$(params.c)"), tasks=[task("t", "a")])
    obj["spec"]["pipelineSpec"]["params"] = [{"name": "c", "default": "data"}]
    assert "give the parameter in the run" in refused(obj)


@pytest.mark.parametrize("is_bound", [True, False])
def test_what_a_task_needs_may_not_be_optional_in_the_pipeline(is_bound: bool) -> None:
    inline: Json = {"steps": [{"name": "s", "image": "i"}], "workspaces": [{"name": "in"}]}
    entry = {"name": "t", "taskSpec": inline, "workspaces": [{"name": "in", "workspace": "a"}]}
    obj = run(*([claim("a", "data")] if is_bound else []), tasks=[entry])
    obj["spec"]["pipelineSpec"]["workspaces"] = [{"name": "a", "optional": True}]
    what = 'pipeline workspace "a" is marked optional but pipeline task "t" requires it be provided'
    assert what in refused(obj)
    inline["workspaces"][0]["optional"] = True
    assert planned(obj).error == ""
    del inline["workspaces"][0]["optional"]
    del entry["workspaces"][0]["workspace"]  # Tekton looks only at those that are named
    entry["workspaces"][0]["name"] = inline["workspaces"][0]["name"] = "a"
    assert bool(planned(obj).error) is not is_bound


def test_two_tasks_of_one_name_are_refused() -> None:
    assert 'task "t": the pipeline has more than one task of this name' in refused(run(tasks=[task("t"), task("t")]))
    assert "more than one task of this name" in refused(run(tasks=[task("t")], final=[task("t")]))


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ({"name": "t"}, "TaskRun"),
        ({"name": "t", "kind": "Task"}, "TaskRun"),
        ({"name": "t", "apiVersion": "example.dev/v1", "kind": "Wait"}, "CustomRun"),
        ({"name": "t", "apiVersion": "tekton.dev/v1"}, "CustomRun"),
        ({"apiVersion": "tekton.dev/v1", "resolver": "git"}, "TaskRun"),
    ],
)
def test_which_references_are_custom(reference: Json, kind: str) -> None:
    assert planned(run(tasks=[{"name": "t", "taskRef": reference}])).tasks[0].kind == kind


@pytest.mark.parametrize("spec", [{"status": "PipelineRunPending"}, {"managedBy": "kueue.x-k8s.io/multikueue"}])
def test_what_admission_refuses_is_refused_also_of_a_run_that_waits(spec: Json) -> None:
    obj = run(empty("a"), empty("a"))
    obj["spec"] |= spec
    assert "more than once, at index 0 and 1" in refused(obj)
    obj["spec"]["workspaces"].pop()
    assert planned(obj).error == ""


def test_a_custom_task_needs_every_workspace_that_it_names() -> None:
    custom = {"name": "c", "taskRef": {"apiVersion": "example.dev/v1", "kind": "Wait"}, "workspaces": [{"name": "a"}]}
    obj = run(tasks=[custom])
    obj["spec"]["pipelineSpec"]["workspaces"] = [{"name": "a", "optional": True}]
    assert 'expected workspace "a" to be provided by pipelinerun for pipeline task "c"' in refused(obj)


def test_a_pipeline_that_a_resolver_fetches_leaves_the_tasks_unknown() -> None:
    obj = run(claim("a", "data"))
    del obj["spec"]["pipelineSpec"]
    obj["spec"]["pipelineRef"] = {"resolver": "git", "params": [{"name": "url", "value": "u"}]}
    found = planned(obj)
    assert (found.error, found.tasks) == ("", [])
    assert len(found.stateful_sets) == 1
    assert 'the resolver "git" fetches the pipeline' in found.warnings[0]
    obj["status"] = {"pipelineSpec": {"tasks": [task("t", "a")]}}
    found = planned(obj)
    assert [one.task for one in found.tasks] == ["t"]
    assert found.warnings == []
