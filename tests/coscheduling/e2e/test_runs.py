"""PipelineRuns over HTTP: a process, a simulated cluster with a toy Tekton and protected claims, and what is left at
the end.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controlplane.kube.kinds import EVENTS, NODES, PIPELINE_RUNS, PODS, Json, meta
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.kinds.own_cluster import CLAIMS, STATEFUL_SETS, TASK_RUNS
from tests.support.deep import deep_after
from tests.support.local import NS, Make, Stage

COMPONENT = {"app.kubernetes.io/component": "affinity-assistant"}
TEMPLATE = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}


def run(it: Stage, name: str = "build", duration: str = "100ms", tasks: int = 3, **spec: Any) -> Json:
    """A run of some tasks, one after the other, that share the claim of a template."""
    body = [
        {
            "name": f"t{number}",
            "taskSpec": {"workspaces": [{"name": "src"}], "steps": []},
            "workspaces": [{"name": "src", "workspace": "src"}],
            **({"runAfter": [f"t{number - 1}"]} if number else {}),
        }
        for number in range(tasks)
    ]
    whole = {
        "pipelineSpec": {"workspaces": [{"name": "src"}], "tasks": body},
        "workspaces": [{"name": "src", "volumeClaimTemplate": TEMPLATE}],
        **spec,
    }
    return it.make(PIPELINE_RUNS, name, metadata={"annotations": {DURATION: duration}}, spec=whole)


def succeeded(it: Stage, name: str = "build") -> bool:
    entries = ((it.get(PIPELINE_RUNS, name) or {}).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Succeeded" and one["status"] == "True" for one in entries)


def placeholder(it: Stage) -> Json | None:
    """The placeholder's pod, once it is on a node."""
    return next((pod for pod in it.pods(**COMPONENT) if pod["spec"].get("nodeName")), None)


def task_pods(it: Stage) -> list[Json]:
    return [pod for pod in it.pods() if "tekton.dev/taskRun" in (meta(pod).get("labels") or {})]


def left(it: Stage) -> list[str]:
    return [
        f"{one['kind']} {meta(one)['name']}" for one in [*it.all(STATEFUL_SETS), *it.all(CLAIMS), *it.pods(**COMPONENT)]
    ]


async def test_the_tasks_of_a_run_share_a_node_and_nothing_is_left_of_it(stage: Make) -> None:
    it = await stage()
    run(it)
    await it.until(lambda: len(task_pods(it)) == 3, "three tasks")
    await it.until(lambda: succeeded(it), "the run's end")
    assert len({pod["spec"]["nodeName"] for pod in task_pods(it)}) == 1
    await it.until(lambda: left(it) == [], "nothing left")
    removed = it.said("ClaimRemovalDecided") + it.said("PlaceholderRemovalDecided")
    assert len(removed) == 2
    assert all(one["uid"] for one in removed)
    await it.quiet()


async def test_two_runs_in_isolation_are_on_different_nodes(stage: Make) -> None:
    it = await stage(flag="isolate-pipelinerun")
    run(it, "one", "500ms")
    run(it, "two", "500ms")
    await it.until(
        lambda: len(it.pods(**COMPONENT)) == 2 and all("nodeName" in p["spec"] for p in it.pods(**COMPONENT)), "two"
    )
    assert len({pod["spec"]["nodeName"] for pod in it.pods(**COMPONENT)}) == 2
    await it.until(lambda: succeeded(it, "one") and succeeded(it, "two"), "both ends")
    await it.until(lambda: left(it) == [], "nothing left")


async def test_a_node_that_is_cordoned_in_the_middle_of_a_run_moves_its_placeholder_once(stage: Make) -> None:
    it = await stage()
    run(it, duration="400ms", tasks=4)
    await it.until(lambda: len(task_pods(it)) == 2, "the second task")
    before = placeholder(it)
    assert before is not None
    node = before["spec"]["nodeName"]
    it.cordon(node)

    def moved() -> Json | None:
        now = placeholder(it)
        return now if now is not None and meta(now)["uid"] != meta(before)["uid"] else None

    now = await it.until(moved, "another placeholder")
    assert now["spec"]["nodeName"] != node
    await it.until(lambda: succeeded(it), "the run's end")
    await it.until(lambda: left(it) == [], "nothing left")
    [evicted] = it.said("PlaceholderEvicted")
    assert (evicted["node"], evicted["uid"], evicted["reason"]) == (node, meta(before)["uid"], "NodeCordoned")
    nodes = [pod["spec"]["nodeName"] for pod in sorted(task_pods(it), key=lambda pod: meta(pod)["name"])]
    assert nodes[-1] != node


@pytest.mark.parametrize("when", deep_after(1, ["before", "during"]))
async def test_a_run_that_is_deleted_leaves_nothing(stage: Make, when: str) -> None:
    it = await stage()
    run(it, duration="30s")
    if when == "during":
        await it.until(lambda: [pod for pod in task_pods(it) if pod["spec"].get("nodeName")], "a task on a node")
    it.store.delete(PIPELINE_RUNS, NS, "build", propagation="Background")
    await it.until(lambda: left(it) == [] and not it.all(TASK_RUNS) and not task_pods(it), "nothing left")
    await it.quiet()


async def test_a_leader_that_is_killed_in_between_leaves_the_same_result(stage: Make) -> None:
    it = await stage()
    run(it, duration="2s", tasks=3)
    before = await it.until(lambda: placeholder(it), "its placeholder")
    await it.kill()
    it.cordon(before["spec"]["nodeName"])
    await it.up()
    await it.until(lambda: succeeded(it), "the run's end")
    await it.until(lambda: left(it) == [], "nothing left")
    assert len(it.said("PlaceholderCreationDecided")) == 1
    assert len(it.said("PlaceholderEvicted")) == 1
    assert len(it.said("ModePinned")) == 1


async def test_a_flag_that_is_changed_during_a_run_changes_nothing_for_it(stage: Make) -> None:
    it = await stage()
    run(it, duration="30s")
    await it.until(lambda: placeholder(it), "its placeholder")
    it.patch(CONFIG_MAPS, "feature-flags", {"data": {"coschedule": "disabled"}}, "tekton-pipelines")
    await it.until(lambda: it.said("FlagsObserved")[1:], "the other flag")
    await it.quiet()
    assert len(left(it)) == 3
    it.store.delete(PIPELINE_RUNS, NS, "build", propagation="Background")
    await it.until(lambda: left(it) == [], "nothing left")
    assert [one["mode"] for one in it.said("ModePinned")] == ["pipelineruns"]


async def test_a_flag_that_is_none_leaves_the_last_good_one(stage: Make) -> None:
    it = await stage()
    it.patch(CONFIG_MAPS, "feature-flags", {"data": {"coschedule": "isolate-pipelineruns"}}, "tekton-pipelines")
    await it.until(lambda: it.said("FlagsRefused"), "the refusal")
    assert "isolate-pipelineruns" in it.said("FlagsRefused")[0]["message"]
    it.patch(CONFIG_MAPS, "feature-flags", {"metadata": {"annotations": {"touched": "1"}}}, "tekton-pipelines")
    run(it)
    await it.until(lambda: it.said("ModePinned", mode="pipelineruns"), "the last good mode")


async def test_claims_in_the_mode_of_workspaces_stay_unless_the_run_asks_for_it(stage: Make) -> None:
    it = await stage(flag="workspaces")
    run(it, "keeps")
    made = run(it, "asks", "100ms")
    it.patch(PIPELINE_RUNS, "asks", {"metadata": {"annotations": {"tekton.dev/auto-cleanup-pvc": "true"}}})
    await it.until(lambda: succeeded(it, "keeps") and succeeded(it, "asks"), "both ends")
    for name in ("keeps", "asks"):
        for pod in task_pods(it):
            if meta(pod)["labels"]["tekton.dev/pipelineRun"] == name:
                assert pod["spec"]["volumes"]
    await it.until(lambda: len(it.all(CLAIMS)) == 1 and not it.all(STATEFUL_SETS), "one claim")
    [kept] = it.all(CLAIMS)
    assert meta(kept)["ownerReferences"][0]["name"] == "keeps"
    assert meta(made)["uid"] not in {one["uid"] for one in meta(kept)["ownerReferences"]}


async def test_two_claims_in_one_task_are_refused_before_anything_is_made(stage: Make) -> None:
    it = await stage(flag="workspaces")
    task = {
        "name": "both",
        "taskSpec": {"workspaces": [{"name": "a"}, {"name": "b"}], "steps": []},
        "workspaces": [{"name": "a", "workspace": "a"}, {"name": "b", "workspace": "b"}],
    }
    spaces = [{"name": name, "volumeClaimTemplate": TEMPLATE} for name in ("a", "b")]
    run(it, pipelineSpec={"workspaces": [{"name": "a"}, {"name": "b"}], "tasks": [task]}, workspaces=spaces)

    def refused() -> Json:
        entries = ((it.get(PIPELINE_RUNS, "build") or {}).get("status") or {}).get("conditions") or []
        return next((one for one in entries if one["type"] == "Coscheduled"), {})

    await it.until(lambda: refused().get("status") == "False", "the condition")
    assert "PersistentVolumeClaim" in refused()["message"]
    assert left(it) == []
    await it.until(lambda: [e for e in it.all(EVENTS) if e["regarding"]["name"] == "build"], "an Event")


async def test_a_full_placeholder_request_waits_for_rights_and_then_goes_on(stage: Make) -> None:
    it = await stage()
    fault = it.cluster.faults.storm(403, verbs=["create"], resources=["statefulsets.apps"])
    run(it)
    await it.until(lambda: it.said("CoschedulingFailed", code=403), "the refusal")
    assert left(it) == []
    it.cluster.faults.remove(fault)
    await it.until(lambda: succeeded(it), "the run's end")
    await it.until(lambda: left(it) == [], "nothing left")


async def test_nodes_that_only_say_how_they_are_write_nothing(stage: Make) -> None:
    it = await stage()
    before = len(it.said("NodeObserved"))
    for beat in range(5):
        it.patch(
            NODES,
            "n1",
            {"metadata": {"annotations": {"beat": str(beat)}}},
            "",
        )
    await asyncio.sleep(0.5)
    assert len(it.said("NodeObserved")) == before == 3


async def test_both_controllers_share_one_log_and_one_cluster(stage: Make) -> None:
    it = await stage("podgroups", "coscheduling")
    run(it)
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}
    it.make(PODS, "alone", metadata={"labels": {"app": "alone"}}, spec=spec)
    await it.until(lambda: succeeded(it), "the run's end")
    await it.until(lambda: left(it) == [], "nothing left")
    await it.until(lambda: [p for p in it.pods(app="alone") if p["status"].get("phase") == "Running"], "the pod")
    await it.quiet()
