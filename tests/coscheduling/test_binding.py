"""What tasks are bound to: workspaces, annotation, affinity."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.coscheduling.names import claim_name, made_claim_name, placeholder_name
from controlplane.controllers.coscheduling.placement.plan import task_json
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from tests.coscheduling.samples import NS, UID, Json, claim, empty, planned, run, task, template
from tests.support.rows import each

RUN = "my-pipelinerun"
SINGLE = placeholder_name("", RUN)


def bound(obj: Json, mode: str = "workspaces", *around: Json, **more: Any) -> dict[str, Json]:
    found = planned(obj, mode, *around, **more)
    assert found.error == ""
    return {one.task: task_json(one) for one in found.tasks}


def use(name: str, workspace: str = "", path: str = "") -> Json:
    return {"name": name} | ({"workspace": workspace} if workspace else {}) | ({"subPath": path} if path else {})


@pytest.mark.parametrize("mode", ["pipelineruns", "isolate-pipelinerun"])
def test_all_tasks_follow_the_one_placeholder_final_and_custom_ones_too(mode: str) -> None:
    custom = {"name": "custom", "taskRef": {"apiVersion": "example.dev/v1", "kind": "Wait"}}
    found = bound(run(template("a"), tasks=[task("one", "a"), task("two"), custom], final=[task("last")]), mode)
    assert list(found) == ["one", "two", "custom", "last"]
    assert {one["annotations"][AFFINITY_ASSISTANT] for one in found.values()} == {SINGLE}
    assert [one["kind"] for one in found.values()] == ["TaskRun", "TaskRun", "CustomRun", "TaskRun"]
    term = found["two"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == [
        {
            "labelSelector": {
                "matchLabels": {
                    "app.kubernetes.io/instance": SINGLE,
                    "app.kubernetes.io/component": "affinity-assistant",
                }
            },
            "topologyKey": "kubernetes.io/hostname",
        }
    ]


def test_per_workspace_the_last_claim_counts_and_other_kinds_do_not_disturb_it() -> None:
    tasks = [task("one", "a", "scratch"), task("none", "scratch"), task("bare"), task("other", "b")]
    found = bound(run(template("a"), claim("b", "data"), empty("scratch"), tasks=tasks))
    assert found["one"]["annotations"] == {AFFINITY_ASSISTANT: placeholder_name("a", RUN)}
    assert found["other"]["annotations"] == {AFFINITY_ASSISTANT: placeholder_name("b", RUN)}
    assert found["none"]["annotations"] == found["bare"]["annotations"] == {}
    assert found["none"]["affinity"] == {}


def test_disabled_ties_nobody_and_allows_several_claims() -> None:
    found = bound(run(template("a"), claim("b", "data"), tasks=[task("both", "a", "b")]), "disabled")
    assert found["both"]["annotations"] == {}
    claims = [one["persistentVolumeClaim"]["claimName"] for one in found["both"]["workspaces"]]
    assert claims == [claim_name("", "a", UID), "data"]


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("workspaces", claim_name("base", "a", UID)),
        ("disabled", claim_name("base", "a", UID)),
        ("pipelineruns", made_claim_name("base", "a", UID, SINGLE)),
        ("isolate-pipelinerun", made_claim_name("base", "a", UID, SINGLE)),
    ],
)
def test_a_template_becomes_a_reference_to_its_claim(mode: str, name: str) -> None:
    found = bound(run(template("a", "base"), tasks=[task("t", use("source", "a"))]), mode)
    assert found["t"]["workspaces"] == [{"name": "source", "persistentVolumeClaim": {"claimName": name}}]


def test_everything_else_is_copied_under_the_tasks_name() -> None:
    secret = {"name": "keys", "secret": {"secretName": "ssh", "items": [{"key": "k", "path": "p"}]}}
    readonly = {"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}, "subPath": "x"}
    tasks = [task("t", use("k", "keys"), use("d", "data"))]
    assert bound(run(secret, readonly, tasks=tasks))["t"]["workspaces"] == [
        {"name": "k", "secret": secret["secret"]},
        {"name": "d", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}, "subPath": "x"},
    ]


@each(
    ("of_run", "of_task", "joined"),
    [
        ("", "", None),
        ("a", "", "a"),
        ("", "b/", "b/"),
        ("a", "b", "a/b"),
        ("a/", "/b", "a/b"),
        ("a", "../c//d", "c/d"),
        ("/a", "b", "/a/b"),
        ("$(context.pipelineRun.name)", "src", f"{RUN}/src"),
        ("$(context.pipelineRun.uid)", "$(context.pipelineRun.namespace)", f"{UID}/{NS}"),
        ("$(params.dir)", "$(params['dir'])/$(params.list[1])", "here/here/two"),
        ("x", "$(tasks.t.results.path)", "x/$(tasks.t.results.path)"),
        ("x", "$(params.fallback)", "x/deep/here"),
    ],
)
def test_sub_paths(of_run: str, of_task: str, joined: str | None) -> None:
    obj = run(
        template("a", **({"subPath": of_run} if of_run else {})),
        tasks=[task("t", use("a", path=of_task))],
        params=[{"name": "dir", "value": "here"}, {"name": "list", "value": ["one", "two"]}],
    )
    obj["spec"]["pipelineSpec"]["params"] = [{"name": "fallback", "default": "deep/$(params.dir)"}]
    (workspace,) = bound(obj)["t"]["workspaces"]
    assert workspace.get("subPath") == joined


def test_parameters_name_claims_too() -> None:
    params = [{"name": "c", "value": "data"}]
    found = planned(run(claim("a", "$(params.c)"), tasks=[task("t", "a")], params=params), "workspaces")
    (volume,) = found.stateful_sets[0]["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "data"


def test_the_pipelines_name_is_filled_in_where_there_is_one() -> None:
    obj = run(template("a", subPath="$(context.pipeline.name)"))
    del obj["spec"]["pipelineSpec"]
    obj["spec"]["pipelineRef"] = {"name": "build"}
    pipeline = {
        "apiVersion": "tekton.dev/v1",
        "kind": "Pipeline",
        "metadata": {"name": "build", "namespace": NS},
        "spec": {"workspaces": [{"name": "a"}], "tasks": [task("t", "a")]},
    }
    assert bound(obj, "workspaces", pipeline)["t"]["workspaces"][0]["subPath"] == "build"
    missing = planned(obj, "workspaces")
    assert 'there is no Pipeline "build" in namespace ci' in missing.error
    obj["status"] = {"pipelineSpec": pipeline["spec"]}
    assert list(bound(obj)) == ["t"]


def test_workspaces_that_an_inline_task_only_mentions_are_bound_as_well() -> None:
    inline = {"name": "t", "taskSpec": {"steps": [{"script": "ls $(workspaces.a.path) $(workspaces.a.bound)"}]}}
    found = bound(run(template("a"), tasks=[inline]))
    assert [one["name"] for one in found["t"]["workspaces"]] == ["a"]
    assert found["t"]["annotations"] == {AFFINITY_ASSISTANT: placeholder_name("a", RUN)}


def test_a_childs_run_gets_claims_and_no_placeholder() -> None:
    child = {"name": "child", "pipelineRef": {"name": "x"}, "workspaces": [use("a"), use("unbound")]}
    found = bound(run(template("a"), tasks=[child]), "pipelineruns")["child"]
    assert (found["kind"], found["annotations"]) == ("PipelineRun", {})
    assert [one["name"] for one in found["workspaces"]] == ["a"]


def test_pod_templates_of_tasks_are_filled_in_from_the_runs_and_its_defaults() -> None:
    obj = run(
        tasks=[task("t"), task("u")],
        taskRunTemplate={"podTemplate": {"nodeSelector": {"a": "run"}, "env": [{"name": "A"}, {"name": "B"}]}},
        taskRunSpecs=[
            {
                "pipelineTaskName": "t",
                "podTemplate": {"nodeSelector": {"a": "task"}, "env": [{"name": "B", "value": "1"}]},
            }
        ],
    )
    found = bound(obj, defaults={"default-pod-template": "schedulerName: other\nhostNetwork: true"})
    assert found["t"]["podTemplate"] == {
        "nodeSelector": {"a": "task"},
        "env": [{"name": "B", "value": "1"}, {"name": "A"}],
        "schedulerName": "other",
        "hostNetwork": True,
    }
    assert found["u"]["podTemplate"]["nodeSelector"] == {"a": "run"}


def test_users_terms_stay_and_ours_comes_after_them() -> None:
    own = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    found = bound(run(taskRunTemplate={"podTemplate": {"affinity": own}}), "pipelineruns")["only"]
    terms = found["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [one["topologyKey"] for one in terms] == ["zone", "kubernetes.io/hostname"]
    assert found["podTemplate"]["affinity"] == found["affinity"]


def test_several_entries_for_one_task_are_filled_in_from_the_earlier_ones_and_these_from_the_run() -> None:
    entries = [
        {
            "pipelineTaskName": "t",
            "podTemplate": {"nodeSelector": {"a": "1"}, "dnsPolicy": "None", "env": [{"name": "A"}]},
        },
        {"pipelineTaskName": "t", "podTemplate": {"nodeSelector": {"a": "2"}, "env": [{"name": "B"}, {"value": "x"}]}},
        {"pipelineTaskName": "t"},
    ]
    obj = run(tasks=[task("t")], taskRunSpecs=entries, taskRunTemplate={"podTemplate": {"schedulerName": "s"}})
    assert bound(obj, "disabled")["t"]["podTemplate"] == {
        "nodeSelector": {"a": "2"},
        "dnsPolicy": "None",
        "env": [{"name": "B"}, {"name": "A"}],
        "schedulerName": "s",
    }
