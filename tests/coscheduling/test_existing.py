"""What is there already: adopted, in the way, moved, and taken away."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.coscheduling.names import claim_name, made_claim_name, placeholder_name
from controlplane.controllers.coscheduling.placement.plan import PlacementPlan, plan_json
from tests.coscheduling.samples import (
    DONE,
    UID,
    Json,
    claim,
    empty,
    names,
    node,
    planned,
    pod,
    run,
    stateful_set,
    task,
    task_pod,
    template,
    volume_claim,
)
from tests.support.rows import each

SINGLE = placeholder_name("", "my-pipelinerun")
OF_A = placeholder_name("a", "my-pipelinerun")
MADE = made_claim_name("", "a", UID, SINGLE)


# --- adopted, or in the way ---


def test_what_is_there_and_the_runs_is_kept() -> None:
    around = [stateful_set(OF_A), volume_claim(claim_name("", "a", UID))]
    found = planned(run(template("a"), tasks=[task("t", "a")]), "workspaces", *around)
    assert (found.error, found.stateful_sets, found.claims) == ("", [], [])
    assert sorted(names(found.adopted)) == sorted([OF_A, claim_name("", "a", UID)])
    assert found.tasks[0].placeholder == OF_A


def test_planning_again_with_what_was_planned_finds_nothing_to_do() -> None:
    obj = run(template("a"), claim("b", "data"))
    first = planned(obj, "workspaces")
    again = planned(obj, "workspaces", *first.stateful_sets, *first.claims)
    assert (again.error, again.stateful_sets, again.claims) == ("", [], [])


@pytest.mark.parametrize("mode", ["workspaces", "pipelineruns", "isolate-pipelinerun"])
def test_a_placeholder_of_another_run_is_neither_used_nor_deleted(mode: str) -> None:
    """Names repeat: a run that was deleted and made again, or `a`+`bc` and `ab`+`c`. Tekton shares it silently."""
    name = OF_A if mode == "workspaces" else SINGLE
    other = stateful_set(name, owner_uid="another-uid")
    found = planned(run(template("a")), mode, other)
    assert f"StatefulSet ci/{name}: metadata.ownerReferences: its owner is PipelineRun" in found.error
    assert "another-uid" in found.error
    assert found.stateful_sets == []
    assert planned(run(template("a"), status=DONE), mode, other).cleanup == []


def test_a_claim_of_another_owner_is_in_the_way() -> None:
    name = claim_name("", "a", UID)
    found = planned(run(template("a")), "workspaces", volume_claim(name, owner_uid="another-uid"))
    assert f"PersistentVolumeClaim ci/{name}: metadata.ownerReferences" in found.error


def test_the_mode_is_the_one_that_the_run_began_with() -> None:
    """A flag that is changed during a run strands objects."""
    obj = run(template("a"), tasks=[task("t", "a")])
    for first, later in (
        ("pipelineruns", "workspaces"),
        ("workspaces", "isolate-pipelinerun"),
        ("isolate-pipelinerun", "disabled"),
    ):
        made = planned(obj, first).stateful_sets
        found = planned(obj, later, *made)
        assert found.mode == first
        assert found.stateful_sets == []
        assert any(f'began in mode "{first}"' in warning for warning in found.warnings)


def test_claims_that_do_not_exist_are_told_and_the_rest_goes_on() -> None:
    found = planned(run(claim("a", "nowhere")), "workspaces", volume_claim("other", owner_uid=None))
    assert found.error == ""
    assert names(found.stateful_sets) == [OF_A]
    (warning,) = found.warnings
    assert warning.startswith("PipelineRun ci/my-pipelinerun: spec.workspaces[0]: ")
    assert 'there is no PersistentVolumeClaim "nowhere" in namespace ci' in warning


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, "nothing is made here"),
        ({"status": "PipelineRunPending"}, "nothing is created"),
        ({"status": "Cancelled"}, "nothing is created"),
    ],
)
def test_runs_that_make_nothing(spec: Json, says: str) -> None:
    obj = run(template("a"))
    obj["spec"] |= spec
    found = planned(obj, "pipelineruns")
    assert (found.error, found.stateful_sets, found.claims, found.tasks) == ("", [], [], [])
    assert says in found.warnings[0]
    assert planned(run(managedBy="tekton.dev/pipeline"), "pipelineruns").stateful_sets


# --- moved ---

MODES = [("workspaces", OF_A), ("pipelineruns", SINGLE), ("isolate-pipelinerun", SINGLE)]


def moved(*around: Json, mode: str = "pipelineruns") -> list[Json]:
    found = planned(run(template("a"), tasks=[task("t", "a")]), mode, *around)
    assert found.error == ""
    return plan_json(found)["deletions"]


@each(("mode", "name"), MODES)
@each("started", [False, True])
def test_a_cordoned_node_is_left_before_and_after_the_first_task(mode: str, name: str, started: bool) -> None:
    """Tekton looks only until the first TaskRun exists, so the deadlock of issue 6586 is back."""
    task_run = {
        "kind": "TaskRun",
        "metadata": {
            "name": "my-pipelinerun-t",
            "namespace": "ci",
            "uid": "tr",
            "ownerReferences": [{"kind": "PipelineRun", "uid": UID, "controller": True}],
            "annotations": {"pipeline.tekton.dev/affinity-assistant": name},
        },
    }
    around = [stateful_set(name), pod(f"{name}-0", "n1"), node("n1", cordoned=True), node("n2")]
    (gone,) = moved(*around, *([task_run] if started else []), mode=mode)
    assert gone == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"uid": "pod-1", "name": f"{name}-0", "namespace": "ci"},
        "action": "delete",
        "preconditions": {"uid": "pod-1"},
        "reason": "NodeCordoned",
        "detail": "node n1 is cordoned",
    }


@pytest.mark.parametrize(
    "around",
    [
        [stateful_set(SINGLE), pod(f"{SINGLE}-0", "n2"), node("n1", cordoned=True), node("n2")],
        [stateful_set(SINGLE, ready=False), pod(f"{SINGLE}-0", "n1"), node("n1", cordoned=True)],
        [stateful_set(SINGLE), node("n1", cordoned=True)],
        [stateful_set(SINGLE), pod(f"{SINGLE}-0", "n1", owner_uid="another"), node("n1", cordoned=True)],
        [stateful_set(SINGLE), pod(f"{SINGLE}-0", "n1")],
    ],
    ids=["elsewhere", "not ready", "no pod", "another's pod", "unknown node"],
)
def test_a_placeholder_that_stays(around: list[Json]) -> None:
    assert moved(*around) == []


def test_a_pod_that_already_goes_is_left_alone() -> None:
    leaving = pod(f"{SINGLE}-0", "n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert moved(stateful_set(SINGLE), leaving, node("n1", cordoned=True)) == []


@pytest.mark.parametrize(
    ("taint", "tolerated", "reason"),
    [
        ({"key": "gpu", "effect": "NoSchedule"}, [], "TaintNotTolerated"),
        ({"key": "gpu", "value": "x", "effect": "NoExecute"}, [], "TaintNotTolerated"),
        ({"key": "gpu", "effect": "PreferNoSchedule"}, [], None),
        ({"key": "gpu", "effect": "NoSchedule"}, [{"key": "gpu", "operator": "Exists"}], None),
        ({"key": "gpu", "value": "x", "effect": "NoSchedule"}, [{"key": "gpu", "value": "y"}], "TaintNotTolerated"),
    ],
)
def test_taints(taint: Json, tolerated: list[Json], reason: str | None) -> None:
    around = [stateful_set(SINGLE), pod(f"{SINGLE}-0", "n1", tolerations=tolerated), node("n1", taints=[taint])]
    assert [one["reason"] for one in moved(*around)] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([task_pod("t", SINGLE, complaint="0/2 nodes are available: 1 Too many pods.")], "PodLimit"),
        ([task_pod("t", SINGLE, complaint="0/2 nodes are available: 2 Insufficient cpu.")], None),
        (
            [
                task_pod("t", SINGLE, complaint="1 Too many pods"),
                task_pod("u", SINGLE, node="n1", phase="Running"),
            ],
            None,
        ),
        (
            [
                task_pod("t", SINGLE, complaint="1 Too many pods"),
                task_pod("u", SINGLE, node="n1", phase="Succeeded"),
            ],
            "PodLimit",
        ),
        ([task_pod("t", "affinity-assistant-other", complaint="1 Too many pods")], None),
    ],
    ids=["full", "no cpu", "one runs", "one has run", "another's"],
)
def test_the_placeholder_that_takes_the_last_pod_slot(pods: list[Json], reason: str | None) -> None:
    """Broken only while no pod of the group runs on the node."""
    found = moved(stateful_set(SINGLE), pod(f"{SINGLE}-0", "n1"), node("n1"), *pods)
    assert [one["reason"] for one in found] == ([reason] if reason else [])


# --- taken away ---


def cleaned(found: PlacementPlan) -> list[tuple[str, str, str]]:
    assert (found.stateful_sets, found.claims, found.tasks, found.deletions) == ([], [], [], [])
    entries = plan_json(found)["cleanup"]
    assert all(one["preconditions"] == {"uid": one["metadata"]["uid"]} for one in entries if "uid" in one["metadata"])
    return [(one["kind"], one["metadata"]["name"], one["metadata"].get("uid", "")) for one in entries]


def over(mode: str, *around: Json, annotations: Any = None, **more: Any) -> PlacementPlan:
    obj = run(template("a"), claim("b", "data"), status=DONE, annotations=annotations, **more)
    return planned(obj, mode, *around)


@pytest.mark.parametrize(
    ("annotations", "claims_too"),
    [
        (None, False),
        ({"tekton.dev/auto-cleanup-pvc": "true"}, True),
        ({"tekton.dev/auto-cleanup-pvc": "True"}, False),
        ({"tekton.dev/auto-cleanup-pvc": ""}, False),
    ],
)
def test_per_workspace_claims_go_only_when_asked_for(annotations: Json | None, claims_too: bool) -> None:
    of_b, made = placeholder_name("b", "my-pipelinerun"), claim_name("", "a", UID)
    around = [stateful_set(OF_A), stateful_set(of_b, uid="sts-2"), volume_claim(made), volume_claim("data", "u", None)]
    found = cleaned(over("workspaces", *around, annotations=annotations))
    wanted = [("StatefulSet", OF_A, "sts-1"), ("StatefulSet", of_b, "sts-2")]
    assert found == wanted + ([("PersistentVolumeClaim", made, "pvc-1")] if claims_too else [])


@pytest.mark.parametrize("mode", ["pipelineruns", "isolate-pipelinerun"])
@pytest.mark.parametrize("owner_uid", [None, UID], ids=["as Tekton made it", "as we make it"])
def test_per_run_claims_of_templates_always_go(mode: str, owner_uid: str | None) -> None:
    found = over(mode, stateful_set(SINGLE), volume_claim(MADE, owner_uid=owner_uid), volume_claim("data", "u", None))
    assert cleaned(found) == [("StatefulSet", SINGLE, "sts-1"), ("PersistentVolumeClaim", MADE, "pvc-1")]
    assert plan_json(found)["cleanup"][1]["removeFinalizers"] == ["kubernetes.io/pvc-protection"]


def test_disabled_cleans_nothing() -> None:
    assert cleaned(over("disabled", volume_claim(claim_name("", "a", UID)))) == []


def test_a_claim_of_another_owner_stays() -> None:
    assert cleaned(over("pipelineruns", volume_claim(MADE, owner_uid="another"))) == []


def test_what_is_missing_is_no_trouble() -> None:
    assert cleaned(over("pipelineruns", volume_claim("data", "u", None))) == []


def test_placeholders_of_another_mode_go_as_well() -> None:
    """Created minus deleted: a mode that was changed leaves nothing behind."""
    assert cleaned(over("workspaces", stateful_set(SINGLE))) == [("StatefulSet", SINGLE, "sts-1")]


def test_a_run_that_is_deleted_before_its_end_leaves_no_claim() -> None:
    """Tekton leaves it: it has no owner, and the StatefulSet no retention policy."""
    obj = run(template("a"))
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = planned(obj, "pipelineruns", stateful_set(SINGLE), volume_claim(MADE, owner_uid=None))
    assert cleaned(found) == [("StatefulSet", SINGLE, "sts-1"), ("PersistentVolumeClaim", MADE, "pvc-1")]
    assert {one.reason for one in found.cleanup} == {"RunDeleted", "TemplateClaim"}


def test_without_any_object_it_says_what_would_be_looked_for() -> None:
    found = over("pipelineruns")
    assert cleaned(found) == [("StatefulSet", SINGLE, ""), ("PersistentVolumeClaim", MADE, "")]
    assert "what would be looked for" in found.warnings[0]
    of_b = placeholder_name("b", "my-pipelinerun")
    assert cleaned(over("workspaces")) == [("StatefulSet", OF_A, ""), ("StatefulSet", of_b, "")]


def test_by_name_every_workspace_with_a_claim_is_looked_for_also_where_two_share_one() -> None:
    obj = run(claim("a", "data"), claim("b", "data"), empty("c"), template("d"), status=DONE)
    names_ = [one["metadata"]["name"] for one in plan_json(planned(obj))["cleanup"]]
    assert names_ == [placeholder_name(workspace, "my-pipelinerun") for workspace in ("a", "b", "d")]
