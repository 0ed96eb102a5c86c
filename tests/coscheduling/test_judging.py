"""Which workers can take a run: what is looked at, what is not known, and when it is looked at again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.coscheduling.objects import CONFIG_MAPS, PODS
from controlplane.job_kinds.pipelinerun import ASKS_FOR_MODE
from controlplane.kube.kinds import NODES, PIPELINE_RUNS, STORAGE_CLASSES, WORKLOADS
from tests.coscheduling.judging_scene import EVERY, OURS, STREAM, Scene
from tests.coscheduling.samples import NS, Json, claim, run, template
from tests.coscheduling.test_fit import step, uses

TWO = [step("2", "a"), step("2", "b")]


def flags(scene: Scene, cluster: str, *, gone: bool = False, **data: str) -> None:
    metadata = {"namespace": "tekton-pipelines", "name": "feature-flags"}
    scene.show(cluster, CONFIG_MAPS, {"metadata": metadata, "data": data}, gone=gone)


def placeholder(
    scene: Scene,
    cluster: str,
    node: str,
    namespace: str = NS,
    *,
    of: str = "x",
    phase: str = "Running",
    gone: bool = False,
) -> None:
    labels = {"app.kubernetes.io/component": "affinity-assistant", "tekton.dev/pipelineRun": of}
    obj = {"metadata": {"namespace": namespace, "name": f"affinity-assistant-{namespace}-{of}-0", "labels": labels}}
    scene.show(cluster, PODS, {**obj, "spec": {"nodeName": node}, "status": {"phase": phase}}, gone=gone)


def test_a_run_is_judged_for_every_worker_once() -> None:
    scene = Scene("a", "b")
    scene.node("b", cpu="1")
    scene.submit(tasks=[step("2", "a")])
    (event,) = scene.decide()
    assert (event.kind, event.namespace, event.name) == (PIPELINE_RUNS.name, NS, "my-pipelinerun")
    assert event.clusters["a"].fits
    assert event.clusters["b"].reason == "NoNodeFits"
    assert event.clusters["b"].detail == ('no node has enough cpu: task "a" needs 2, and the most that a node has is 1')
    assert scene.decide() == []
    assert scene.wake is None


def test_the_mode_is_the_workers_own_unless_the_run_asks_for_one() -> None:
    scene = Scene("a", "b")
    flags(scene, "a", coschedule="pipelineruns")
    for name in ("a", "b"):
        scene.node(name, cpu="3")
    scene.submit(tasks=TWO)
    assert scene.reasons == {"a": "NoNodeFits", "b": ""}
    scene.node("a", cpu="8")
    assert scene.reasons == {"a": "", "b": ""}
    scene.submit(tasks=TWO, annotations={ASKS_FOR_MODE: "PipelineRuns"})
    assert scene.reasons == {"a": "", "b": "ModeDiffers"}
    assert scene.judged["b"].detail == 'its mode is "workspaces", not "pipelineruns"'
    flags(scene, "b", coschedule="pipelineruns")
    assert scene.reasons["b"] == "NoNodeFits"
    flags(scene, "b", gone=True)
    assert scene.reasons["b"] == "ModeDiffers"


def test_a_mode_that_is_none() -> None:
    scene = Scene("a")
    scene.submit(annotations={ASKS_FOR_MODE: "all"})
    assert scene.reasons == {"a": "BadInput"}
    assert (
        'annotation controlplane/coschedule: "all" is not a mode; set it to one of workspaces'
        in scene.judged["a"].detail
    )


def test_a_flag_that_is_none_leaves_the_last_good_one() -> None:
    scene = Scene("a")
    flags(scene, "a", coschedule="pipelineruns")
    flags(scene, "a", coschedule="everything")
    scene.submit(annotations={ASKS_FOR_MODE: "pipelineruns"})
    assert scene.reasons == {"a": ""}
    assert '"everything" is not a mode' in scene.judged["a"].unknown[0]


def test_isolated_runs_need_a_node_without_a_placeholder_of_their_namespace() -> None:
    scene = Scene("a")
    flags(scene, "a", coschedule="isolate-pipelinerun")
    placeholder(scene, "a", "n1", "other")
    placeholder(scene, "a", "n1", of="my-pipelinerun")  # its own, of an attempt before
    scene.submit()
    assert scene.reasons == {"a": ""}
    placeholder(scene, "a", "n1")
    assert scene.reasons == {"a": "EveryNodeHasARun"}
    placeholder(scene, "a", "n1", phase="Succeeded")
    assert scene.reasons == {"a": ""}
    placeholder(scene, "a", "n1")
    assert scene.reasons == {"a": "EveryNodeHasARun"}
    placeholder(scene, "a", "n1", gone=True)
    assert scene.reasons == {"a": ""}


def test_storage_classes() -> None:
    scene = Scene("a", "b")
    scene.storage_class("a", "disk", late=False, default=True)
    scene.submit(template("src"))
    assert scene.reasons == {"a": "", "b": "StorageClassMissing"}
    assert scene.judged["a"].early == 1
    scene.storage_class("b", "ssd", default=True)
    assert scene.reasons == {"a": "", "b": ""}
    scene.show("b", STORAGE_CLASSES, {"metadata": {"name": "ssd"}}, gone=True)
    assert scene.reasons["b"] == "StorageClassMissing"


# --- what a run names ---


def test_a_claim_is_looked_for_on_each_worker_and_again_while_it_is_missing() -> None:
    scene = Scene("a", "b")
    scene.submit(claim("src", "data"), tasks=[uses("src", "1", "t")])
    assert {(one.cluster, one.kind, one.namespace, one.name) for one in scene.reads()} == {
        (name, "PersistentVolumeClaim", NS, "data") for name in ("a", "b")
    }
    assert scene.judged == {}, "nobody is judged before it is known"
    scene.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}})
    assert scene.reasons == {"a": ""}
    scene.answer("PersistentVolumeClaim data", 404, "b")
    assert scene.reasons == {"a": "", "b": "ClaimMissing"}
    assert scene.judged["b"].detail == f"there is no claim {NS}/data"
    assert scene.reads() == []
    assert scene.wake == scene.now + timedelta(seconds=10)
    for pause in (10, 20, 40, 80, 160, 300, 300):
        scene.tick(pause - 1)
        assert [one for one in scene.reads() if one.cluster == "b"] == []
        scene.tick(1)
        scene.answer("PersistentVolumeClaim data", 404, "b")
        assert scene.decide() == [], "nothing new is said"
    scene.tick(300)
    scene.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}}, "b")
    assert scene.reasons == {"a": "", "b": ""}


def test_a_claim_that_was_there_is_believed_for_a_while() -> None:
    scene = Scene("a")
    scene.submit(claim("src", "data"))
    scene.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}})
    scene.tick(599)
    assert scene.reads() == []
    assert scene.wake == scene.now + timedelta(seconds=1)
    scene.tick(1)
    scene.answer("PersistentVolumeClaim data", 404)
    assert scene.reasons == {"a": "ClaimMissing"}


def test_a_claim_that_we_may_not_see_counts_as_there_and_is_said_once() -> None:
    scene = Scene("a")
    scene.submit(claim("src", "data"))
    scene.answer("PersistentVolumeClaim data", 403)
    (event,) = scene.decide() or [scene.room.runs[STREAM].said]
    assert event is not None
    assert event.clusters["a"].fits
    assert event.clusters["a"].unknown == [f"PersistentVolumeClaim {NS}/data (403 said the server)"]
    scene.tick(10)
    scene.answer("PersistentVolumeClaim data", 403)
    assert scene.decide() == []


def test_a_pipeline_that_the_run_names_has_to_be_on_the_worker_with_its_tasks() -> None:
    scene = Scene("a", "b")
    scene.submit(pipelineSpec=None, pipelineRef={"name": "build"})
    scene.answer("Pipeline build", 404, "b")
    assert scene.reasons == {"b": "PipelineMissing"}
    body = {"tasks": [{"name": "one", "taskRef": {"name": "compile"}}, {"name": "two", "taskRef": {"name": "test"}}]}
    scene.answer("Pipeline build", {"metadata": {"namespace": NS, "name": "build"}, "spec": body})
    assert [one.name for one in scene.reads() if one.cluster == "a" and one.kind == "Task"] == ["compile", "test"]
    task = {"steps": [{"name": "s", "image": "x", "script": "make", "computeResources": {"requests": {"cpu": "9"}}}]}
    scene.answer("Task compile", {"metadata": {"namespace": NS, "name": "compile"}, "spec": task})
    scene.answer("Task test", None)
    assert scene.reasons == {"a": "TaskMissing", "b": "PipelineMissing"}
    assert scene.judged["a"].detail == f"there is no Task {NS}/test: the cluster serves no Task"
    scene.tick(10)
    scene.answer("Task test", {"metadata": {"namespace": NS, "name": "test"}, "spec": {"steps": []}})
    assert scene.reasons["a"] == "NoNodeFits"
    assert 'task "one" needs 9' in scene.judged["a"].detail
    assert "image" not in str(scene.log), "what decides nothing is not kept"


@pytest.mark.parametrize(
    "reference", [{"resolver": "git", "params": []}, {"name": "build", "bundle": "example.com/b:1"}]
)
def test_what_a_resolver_fetches_refuses_nothing(reference: Json) -> None:
    scene = Scene("a")
    scene.submit(pipelineSpec=None, pipelineRef=reference)
    assert scene.reads() == []
    assert scene.judged["a"].fits
    assert scene.judged["a"].unknown == ["its pipeline, which a resolver fetches"]


def test_a_pipeline_that_makes_no_sense_is_the_workers_to_refuse() -> None:
    scene = Scene("a")
    scene.submit(tasks=[step("1", "a", "b"), step("1", "b", "a")])
    assert scene.judged["a"].fits
    assert "wait for each other in a circle" in scene.judged["a"].unknown[0]


# --- what quota is asked for ---


def test_a_workload_that_does_not_ask_for_the_placeholders_is_told_by_cluster() -> None:
    scene = Scene("a", "b")
    flags(scene, "a", coschedule="pipelineruns")
    scene.submit(tasks=TWO)
    assert [fit.short for fit in scene.judged.values()] == ["", ""], "no Workload, nothing to compare"
    scene.workload("4")
    assert {name: fit.short for name, fit in scene.judged.items()} == {"a": "cpu 4, and it needs 4050m", "b": ""}
    scene.workload("2025m", count=2)
    assert {name: fit.short for name, fit in scene.judged.items()} == {"a": "", "b": ""}
    scene.workload("4050m", memory="1Mi")
    assert scene.judged["a"].short == "memory 1Mi, and it needs 2148Mi"
    scene.workload("1", gone=True)
    assert scene.judged["a"].short == ""


def test_the_workload_of_another_run_of_that_name_counts_for_nothing() -> None:
    scene = Scene("a")
    scene.workload("1m", owner="another")
    scene.submit()
    assert scene.judged["a"].short == ""
    scene.workload("1m")
    assert scene.judged["a"].short == "cpu 1m, and it needs 1"


def test_workloads_of_other_kinds_and_odd_ones_are_not_recorded() -> None:
    scene = Scene("a")
    before = len(scene.log)
    assert not scene.show(MANAGEMENT, WORKLOADS, {"metadata": {"name": "job-x", "namespace": NS}, "spec": {}})
    assert not scene.workload("plenty")
    assert len(scene.log) == before
    assert scene.workload("1", gone=True)
    assert scene.room.runs == {}


# --- what is not known ---


@pytest.mark.parametrize("kind", [NODES, STORAGE_CLASSES, CONFIG_MAPS, PODS], ids=lambda kind: kind.kind)
def test_a_kind_that_we_may_not_see_refuses_nothing(kind: Any) -> None:
    scene = Scene()
    scene.connect("a", *(name for name in EVERY if name != kind.name))
    scene.off("a", kind)
    if kind is not NODES:
        scene.node("a")
    if kind is not STORAGE_CLASSES:
        scene.storage_class("a", "disk", default=True)
    scene.submit(template("src"), annotations={ASKS_FOR_MODE: "pipelineruns"} if kind is CONFIG_MAPS else None)
    assert scene.judged["a"].fits
    assert len(scene.judged["a"].unknown) == 1
    assert "forbidden" in scene.judged["a"].unknown[0]
    assert scene.decide() == []


def test_a_judgement_waits_for_what_is_on_its_way_and_not_for_ever() -> None:
    scene = Scene()
    scene.connect("a", *(name for name in EVERY if name != NODES.name))
    scene.submit(claim("src", "data"))
    assert scene.judged == {}
    assert scene.wake == scene.now + timedelta(seconds=10)
    scene.tick(10)
    assert scene.judged["a"].fits
    assert scene.judged["a"].unknown == [
        "its nodes (not listed yet)",
        f"PersistentVolumeClaim {NS}/data (not read yet)",
    ]
    scene.synced("a", NODES)
    scene.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}})
    assert scene.reasons == {"a": "NoNodeFits"}


def test_a_run_that_cannot_be_read_goes_where_its_user_sees_what_is_wrong() -> None:
    scene = Scene("a")
    scene.submit(workspaces="all of them")
    assert scene.judged["a"].fits
    assert "spec.workspaces" in scene.judged["a"].unknown[0]


def test_a_worker_that_grows_is_not_judged_by_its_nodes() -> None:
    scene = Scene("a", "b", grows=frozenset({"a"}))
    for name in ("a", "b"):
        scene.node(name, cpu="1")
    scene.submit(tasks=TWO)
    assert scene.reasons == {"a": "", "b": "NoNodeFits"}


# --- connections, other runs, and quiet ---


def test_what_was_said_of_a_worker_holds_while_it_is_away_and_goes_with_it() -> None:
    scene = Scene("a", "b")
    scene.submit()
    assert scene.reasons == {"a": "", "b": ""}
    scene.lose("b")
    scene.node("b", cpu="1m")
    assert scene.decide() == []
    scene.connect("b")
    assert scene.reasons == {"a": "", "b": "NoNodeFits"}
    scene.remove("b")
    assert scene.reasons == {"a": ""}


def test_what_was_read_in_another_life_of_a_worker_is_read_again() -> None:
    scene = Scene("a")
    scene.submit(claim("src", "data"))
    scene.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}})
    scene.lose("a")
    scene.connect("a")
    assert scene.reads() == []
    scene.lose("a")
    scene.connect("a", incarnation="built anew")
    scene.answer("PersistentVolumeClaim data", 404)
    assert scene.reasons == {"a": "ClaimMissing"}


def test_after_a_restart_a_worker_is_judged_once_it_is_back() -> None:
    scene = Scene("a")
    scene.submit()
    assert scene.reasons == {"a": ""}
    scene.restart()
    scene.node("a", cpu="1m")
    assert scene.decide() == []
    scene.connect("a")
    assert scene.reasons == {"a": "NoNodeFits"}


def test_only_runs_that_wait_and_are_ours_are_judged() -> None:
    scene = Scene("a")
    assert not scene.show(MANAGEMENT, PIPELINE_RUNS, run())
    assert not scene.show(MANAGEMENT, PIPELINE_RUNS, run(), gone=True)
    scene.submit(started=True)
    assert scene.decide() == []
    scene.submit()
    assert scene.reasons == {"a": ""}
    scene.submit(started=True)
    scene.node("a", cpu="1m")
    assert scene.decide() == []
    scene.submit()  # drained, after its worker was lost
    assert scene.reasons == {"a": "NoNodeFits"}
    scene.show(MANAGEMENT, PIPELINE_RUNS, run(managedBy=OURS), gone=True)
    assert scene.room.runs == {}


def test_another_run_of_the_same_name_is_judged_anew() -> None:
    scene = Scene("a")
    scene.submit()
    assert scene.reasons == {"a": ""}
    scene.submit(uid="another")
    (event,) = scene.decide()
    assert event.uid == "another"


def test_what_repeats_itself_is_not_recorded() -> None:
    scene = Scene("a")
    scene.submit()
    scene.decide()
    before = len(scene.log)
    scene.node("a")  # a heartbeat
    scene.submit()  # a status that moved
    assert len(scene.log) == before


def test_a_node_that_makes_no_sense_is_kept_aside() -> None:
    scene = Scene("a")
    scene.node("a", "n2", cpu="plenty")
    assert scene.log[-1].stream == "refused/a/nodes//n2"
    scene.submit()
    assert scene.reasons == {"a": ""}


def test_a_replay_judges_as_the_live_room_did() -> None:
    scene = Scene("a", "b")
    scene.node("b", cpu="1")
    scene.submit(claim("src", "data"), tasks=TWO)
    scene.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}})
    scene.answer("PersistentVolumeClaim data", 404, "b")
    assert scene.reasons == {"a": "", "b": "ClaimMissing"}
    again = Scene()
    for recorded in scene.log:
        again.room.fold(recorded)
    assert again.room.decide(STREAM, scene.now).events == ()
