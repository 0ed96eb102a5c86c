"""The StatefulSets and claims of each mode, and the warts that are mended in building them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.controllers.coscheduling.names import claim_name, placeholder_name
from tests.coscheduling.samples import NS, STORAGE, UID, Json, claim, empty, names, planned, run, task, template

RUN = "my-pipelinerun"
OWNER = {
    "apiVersion": "tekton.dev/v1",
    "kind": "PipelineRun",
    "name": RUN,
    "uid": UID,
    "controller": True,
    "blockOwnerDeletion": True,
}
AFTER = "DuringSchedulingIgnoredDuringExecution"


def only(obj: Json, mode: str = "pipelineruns", **more: Any) -> Json:
    found = planned(obj, mode, **more)
    assert found.error == ""
    (stateful_set,) = found.stateful_sets
    return stateful_set


def pod_spec(obj: Json, mode: str = "pipelineruns", **more: Any) -> Json:
    return only(obj, mode, **more)["spec"]["template"]["spec"]


def test_one_per_workspace_with_a_claim() -> None:
    found = planned(run(template("a"), claim("b", "data"), empty("c")), "workspaces")
    assert names(found.stateful_sets) == [placeholder_name("a", RUN), placeholder_name("b", RUN)]
    assert names(found.claims) == [claim_name("", "a", UID)]
    volumes = [one["spec"]["template"]["spec"]["volumes"] for one in found.stateful_sets]
    assert volumes == [
        [{"name": "workspace-0", "persistentVolumeClaim": {"claimName": claim_name("", "a", UID)}}],
        [{"name": "workspace-0", "persistentVolumeClaim": {"claimName": "data"}}],
    ]
    assert all("volumeClaimTemplates" not in one["spec"] for one in found.stateful_sets)


@pytest.mark.parametrize("mode", ["pipelineruns", "isolate-pipelinerun"])
def test_exactly_one_per_run_even_without_workspaces(mode: str) -> None:
    for workspaces in ([], [empty("x")], [template("a"), claim("b", "data"), claim("c", "more")]):
        found = planned(run(*workspaces), mode)
        assert names(found.stateful_sets) == [placeholder_name("", RUN)]
        assert found.claims == []


def test_disabled_makes_claims_and_no_placeholder() -> None:
    found = planned(run(template("a"), claim("b", "data")), "disabled")
    assert found.stateful_sets == []
    assert names(found.claims) == [claim_name("", "a", UID)]
    assert [task.annotations for task in found.tasks] == [{}]


@pytest.mark.parametrize("mode", ["workspaces", "disabled"])
def test_claims_are_owned_by_the_run_and_keep_what_the_template_says(mode: str) -> None:
    binding = template("a", "base")
    binding["volumeClaimTemplate"]["metadata"] |= {"labels": {"x": "y"}, "annotations": {"z": "1"}}
    (found,) = planned(run(binding), mode).claims
    assert found == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name("base", "a", UID),
            "namespace": NS,
            "labels": {"x": "y"},
            "annotations": {"z": "1"},
            "ownerReferences": [OWNER],
        },
        "spec": STORAGE,
    }


def test_the_stateful_set() -> None:
    labels = {
        "team": "a",
        "tekton.dev/pipelineRun": "user's own",
        "app.kubernetes.io/instance": "user's own",
        "app.kubernetes.io/component": "user's own",
    }
    name = placeholder_name("", RUN)
    found = only(run(labels=labels))
    wanted = {
        "team": "a",
        "tekton.dev/pipelineRun": RUN,
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": "affinity-assistant",
    }
    assert (found["apiVersion"], found["kind"]) == ("apps/v1", "StatefulSet")
    assert found["metadata"] == {"name": name, "namespace": NS, "labels": wanted, "ownerReferences": [OWNER]}
    assert found["spec"]["replicas"] == 1
    assert found["spec"]["selector"] == {"matchLabels": wanted}
    assert found["spec"]["template"]["metadata"] == {"labels": wanted}
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "affinity-assistant",
        "image": "nop",
        "args": ["tekton_run_indefinitely"],
        "resources": {
            "requests": {"cpu": "50m", "memory": "100Mi"},
            "limits": {"cpu": "50m", "memory": "100Mi"},
        },
    }


def test_claim_templates_are_mounted_and_existing_claims_only_named() -> None:
    found = only(run(claim("b", "data"), template("a"), claim("c", "more")))
    spec, name = found["spec"], claim_name("", "a", UID)
    assert spec["template"]["spec"]["volumes"] == [
        {"name": "workspace-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "workspace-1", "persistentVolumeClaim": {"claimName": "more"}},
    ]
    assert spec["template"]["spec"]["containers"][0]["volumeMounts"] == [{"name": name, "mountPath": name}]
    (made,) = spec["volumeClaimTemplates"]
    assert made["metadata"]["name"] == name
    assert made["spec"] == STORAGE


def test_a_claim_template_is_owned_by_the_run_so_that_nothing_leaks() -> None:
    """Tekton sets no owner, and the claims of a run that is deleted early stay for ever."""
    (made,) = only(run(template("a")))["spec"]["volumeClaimTemplates"]
    (reference,) = made["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("PipelineRun", UID)
    assert made["metadata"]["labels"] == {"tekton.dev/pipelineRun": RUN, "tekton.dev/workspace": "a"}


def test_one_claim_bound_twice_gives_two_volumes_per_run() -> None:
    spec = pod_spec(run(claim("a", "data"), claim("b", "data")))
    assert [one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"]] == ["data", "data"]
    assert [one["name"] for one in spec["volumes"]] == ["workspace-0", "workspace-1"]


def test_one_claim_in_two_workspaces_has_one_placeholder_that_both_follow() -> None:
    """Tekton lets the tasks of the first wait for a placeholder that never exists."""
    tasks = [task("one", "a"), task("two", "b"), task("both", "a", "b"), task("turned", "b", "a")]
    found = planned(run(claim("a", "data"), claim("b", "data"), tasks=tasks), "workspaces")
    assert names(found.stateful_sets) == [placeholder_name("b", RUN)]
    assert {one.placeholder for one in found.tasks} == {placeholder_name("b", RUN)}


# --- affinity ---


def test_placeholders_repel_each_other_softly_or_hard() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "affinity-assistant"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    soft = {"podAntiAffinity": {f"preferred{AFTER}": [{"weight": 100, "podAffinityTerm": term}]}}
    assert pod_spec(run())["affinity"] == soft
    assert pod_spec(run(claim("a", "data")), "workspaces")["affinity"] == soft
    assert pod_spec(run(), "isolate-pipelinerun")["affinity"] == {"podAntiAffinity": {f"required{AFTER}": [term]}}
    wide = pod_spec(run(), "isolate-pipelinerun", everywhere=True)["affinity"]["podAntiAffinity"]
    assert wide == {f"required{AFTER}": [{**term, "namespaceSelector": {}}]}


@pytest.mark.parametrize("mode", ["workspaces", "pipelineruns", "isolate-pipelinerun"])
def test_the_users_affinity_is_copied_and_never_shared(mode: str) -> None:
    """Edited in place it would repel the run's own tasks from every placeholder."""
    own = {
        "nodeAffinity": {"x": 1},
        "podAntiAffinity": {f"preferred{AFTER}": [{"weight": 1}], f"required{AFTER}": [{"topologyKey": "zone"}]},
    }
    obj = run(claim("a", "data"), tasks=[task("t", "a")], taskRunTemplate={"podTemplate": {"affinity": own}})
    before = copy.deepcopy(obj)
    found = planned(obj, mode)
    assert obj == before
    anti = found.stateful_sets[0]["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    field = f"required{AFTER}" if mode == "isolate-pipelinerun" else f"preferred{AFTER}"
    assert anti[field][0] == own["podAntiAffinity"][field][0]
    assert len(anti[field]) == 2
    (bound,) = found.tasks
    assert bound.pod_template["affinity"]["podAntiAffinity"] == own["podAntiAffinity"]
    assert list(bound.pod_template["affinity"]["podAffinity"]) == [f"required{AFTER}"]


# --- the pod template ---


def test_what_a_placeholder_takes_from_the_runs_pod_template() -> None:
    own = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "ci", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "pull"}],
        "securityContext": {"runAsUser": 1},
        "priorityClassName": "high",
        "schedulerName": "other",
    }
    left = {"hostNetwork": True, "runtimeClassName": "gvisor", "volumes": [{"name": "v"}]}
    spec = pod_spec(run(taskRunTemplate={"podTemplate": {**own, **left}}))
    assert {field: spec[field] for field in own} == own
    assert set(spec) == {*own, "containers", "affinity"}


def test_an_empty_priority_class_keeps_the_default_out_and_is_not_written() -> None:
    defaults = {"default-affinity-assistant-pod-template": "priorityClassName: assistant"}
    own = {"podTemplate": {"priorityClassName": ""}}
    assert "priorityClassName" not in pod_spec(run(taskRunTemplate=own), defaults=defaults)
    assert pod_spec(run(), defaults=defaults)["priorityClassName"] == "assistant"


def test_templates_of_single_tasks_never_reach_it() -> None:
    specs = [{"pipelineTaskName": "only", "podTemplate": {"nodeSelector": {"a": "b"}}}]
    assert "nodeSelector" not in pod_spec(run(taskRunSpecs=specs))


def test_defaults_fill_only_what_is_open() -> None:
    defaults = {
        "default-pod-template": "nodeSelector: {from: pods}\npriorityClassName: pods\naffinity: {nodeAffinity: {x: 1}}",
        "default-affinity-assistant-pod-template": (
            "nodeSelector: {from: assistant}\npriorityClassName: assistant\nsecurityContext: {runAsUser: 7}\n"
            "tolerations: [{key: assistant}]\nschedulerName: never"
        ),
    }
    own = {"nodeSelector": {"from": "run"}, "tolerations": []}
    spec = pod_spec(run(taskRunTemplate={"podTemplate": own}), defaults=defaults)
    assert spec["nodeSelector"] == {"from": "run"}
    assert spec["tolerations"] == []
    assert spec["priorityClassName"] == "pods"
    assert spec["securityContext"] == {"runAsUser": 7}
    assert spec["affinity"]["nodeAffinity"] == {"x": 1}
    assert "schedulerName" not in spec


@pytest.mark.parametrize(
    ("assistant", "own", "default", "wanted"),
    [
        ("special", "mine", "all", "special"),
        ("", "mine", "all", "mine"),
        ("", "", "all", "all"),
        ("", "", "", None),
    ],
)
def test_the_service_account(assistant: str, own: str, default: str, wanted: str | None) -> None:
    defaults = {"default-affinity-assistant-pod-template": f"serviceAccountName: {assistant!r}"}
    if default:
        defaults["default-service-account"] = default
    spec = pod_spec(run(taskRunTemplate={"serviceAccountName": own}), defaults=defaults)
    assert spec.get("serviceAccountName") == wanted


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.parametrize(
    ("on", "read_only", "os", "wanted"),
    [
        ("false", "true", "linux", None),
        ("true", "false", "linux", RESTRICTED),
        ("true", "true", "", {**RESTRICTED, "readOnlyRootFilesystem": True}),
        ("true", "true", "windows", {"runAsNonRoot": True}),
    ],
)
def test_the_containers_security_context(on: str, read_only: str, os: str, wanted: Json | None) -> None:
    flags = {"set-security-context": on, "set-security-context-read-only-root-filesystem": read_only}
    selector = {"podTemplate": {"nodeSelector": {"kubernetes.io/os": os}}} if os else {}
    (container,) = pod_spec(run(taskRunTemplate=selector), flags=flags)["containers"]
    assert container.get("securityContext") == wanted


def test_v1beta1_has_its_templates_at_the_top() -> None:
    obj = run(podTemplate={"nodeSelector": {"a": "b"}}, serviceAccountName="old")
    obj["apiVersion"] = "tekton.dev/v1beta1"
    spec = pod_spec(obj)
    assert (spec["nodeSelector"], spec["serviceAccountName"]) == ({"a": "b"}, "old")
    assert only(obj)["metadata"]["ownerReferences"] == [OWNER]


def test_the_scheduler_of_the_run_is_that_of_its_placeholder_and_its_tasks() -> None:
    obj = run(template("a"), tasks=[task("t", "a")], taskRunTemplate={"podTemplate": {"schedulerName": "volcano"}})
    for mode in ("workspaces", "pipelineruns", "isolate-pipelinerun"):
        assert pod_spec(obj, mode)["schedulerName"] == "volcano"
        assert [one.pod_template["schedulerName"] for one in planned(obj, mode).tasks] == ["volcano"]


def test_the_scheduler_of_the_defaults_counts_and_that_of_placeholders_alone_does_not() -> None:
    """Tekton's template for placeholders has no such field: tasks would be with another scheduler."""
    ordinary = {"default-pod-template": "schedulerName: volcano"}
    assert pod_spec(run(), defaults=ordinary)["schedulerName"] == "volcano"
    alone = {"default-affinity-assistant-pod-template": "schedulerName: volcano"}
    assert "schedulerName" not in pod_spec(run(), defaults=alone)


def test_a_scheduler_that_is_no_text_is_refused() -> None:
    found = planned(run(taskRunTemplate={"podTemplate": {"schedulerName": 7}}), "pipelineruns")
    assert "spec.taskRunTemplate.podTemplate.schedulerName: expected a text, found a int" in found.error
