"""A run that is a task of an isolated one: it shares that one's placeholder, in the loop, in a plan and in the hook."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.admission import answer
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import claim_name, placeholder_name
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from tests.coscheduling.samples import DONE, NS, UID, Json, claim, names, owner, planned, run, task, task_pod, template
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import RUN, SINGLE
from tests.coscheduling.test_admission import apply

ISOLATE = "isolate-pipelinerun"
CHILD, GRANDCHILD = "child", "grandchild"
OWN = placeholder_name("", CHILD)


def child(*workspaces: Any, name: str = CHILD, of: str = RUN, of_uid: str = UID, **more: Any) -> Json:
    """Return a run that is a task of another one, as Tekton makes it."""
    found = run(*workspaces, name=name, uid=f"uid-{name}", **more)
    found["metadata"]["ownerReferences"] = [owner(of_uid, of)]
    return found


def family(mode: str = ISOLATE, *workspaces: Any, **policy: Any) -> Scene:
    scene = Scene(mode, **policy)
    scene.put(run(claim("a", "data"), tasks=[task("t", "a")]))
    scene.settle()
    scene.put(child(*(workspaces or (claim("a", "data"),))))
    scene.settle()
    return scene


def pinned(scene: Scene, uid: str) -> events.ModePinned:
    (found,) = [one for one in scene.events(events.ModePinned) if one.uid == uid]
    return found


def test_it_shares_the_placeholder_of_its_parent() -> None:
    scene = family()
    assert scene.names("StatefulSet") == [SINGLE]
    assert (pinned(scene, f"uid-{CHILD}").follows, pinned(scene, f"uid-{CHILD}").reason) == (SINGLE, "ParentIsIsolated")
    scene.change("PipelineRun", NS, CHILD, status=DONE)
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE], "the parent goes on"
    scene.change("PipelineRun", NS, RUN, status=DONE)
    scene.settle()
    assert scene.names("StatefulSet") == []


def test_a_child_of_a_child_shares_the_same_one() -> None:
    scene = family()
    scene.put(child(name=GRANDCHILD, of=CHILD, of_uid=f"uid-{CHILD}"))
    scene.settle()
    assert pinned(scene, f"uid-{GRANDCHILD}").follows == SINGLE
    assert scene.names("StatefulSet") == [SINGLE]


@pytest.mark.parametrize("mode", ["pipelineruns", "workspaces", "disabled"])
def test_in_another_mode_it_has_its_own(mode: str) -> None:
    scene = family(mode)
    assert pinned(scene, f"uid-{CHILD}").follows == ""
    expected = {"pipelineruns": 2, "workspaces": 2, "disabled": 0}
    assert len(scene.of("StatefulSet")) == expected[mode]


def test_a_flag_that_changed_meanwhile_does_not_part_them() -> None:
    """The parent's placeholder keeps every other one off its node, whatever mode that is of."""
    scene = Scene(ISOLATE)
    scene.put(run(claim("a", "data")))
    scene.settle()
    scene.change("ConfigMap", "tekton-pipelines", "feature-flags", data={"coschedule": "pipelineruns"})
    scene.put(child(claim("a", "data")))
    scene.settle()
    assert (pinned(scene, f"uid-{CHILD}").mode, pinned(scene, f"uid-{CHILD}").follows) == (ISOLATE, SINGLE)


def test_it_waits_for_its_parents_mode() -> None:
    scene = Scene(ISOLATE)
    scene.put(run())
    scene.put(child())
    scene.room.take_dirty()
    stream = f"pipelinerun/{NS}/{CHILD}"
    assert list(scene.room.decide(stream, scene.now).events) == []
    scene.settle()
    assert pinned(scene, f"uid-{CHILD}").follows == SINGLE


@pytest.mark.parametrize("gone", ["unknown", "another"])
def test_an_orphan_has_its_own(gone: str) -> None:
    """A run of the parent's name that came later is another one."""
    scene = Scene(ISOLATE)
    if gone == "another":
        scene.put(run(uid="later"))
    scene.settle()
    scene.put(child())
    scene.settle()
    assert pinned(scene, f"uid-{CHILD}").follows == ""
    assert OWN in scene.names("StatefulSet")


def test_claims_of_its_templates_are_made_and_go_with_it() -> None:
    scene = family(ISOLATE, template("b", "base"))
    made = claim_name("base", "b", f"uid-{CHILD}")
    assert made in scene.names("PersistentVolumeClaim")
    scene.change("PipelineRun", NS, CHILD, status=DONE)
    scene.settle()
    assert made not in scene.names("PersistentVolumeClaim")


def test_another_process_knows_it_too() -> None:
    scene = family()
    before = scene.room.runs
    scene.restart()
    assert scene.room.runs == before
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]


def test_a_full_node_is_not_left_while_a_pod_of_the_child_is_on_it() -> None:
    scene = family()
    running = task_pod("c", SINGLE, node="n1", phase="Running")
    running["metadata"]["labels"]["tekton.dev/pipelineRun"] = CHILD
    scene.put(running)
    scene.put(task_pod("t", SINGLE, complaint="0/2 nodes are available: 1 Too many pods."))
    scene.settle()
    assert scene.events(events.PlaceholderEvicted) == []
    running["status"]["phase"] = "Succeeded"
    scene.put(running)
    (position,) = [one.position for one in scene.log[-1:]]
    scene.settle()
    (moved,) = [one for one in scene.log if isinstance(one.event, events.PlaceholderEvicted)]
    assert moved.caused_by == position


def test_the_placeholder_stays_until_the_child_is_over_too() -> None:
    scene = family()
    scene.change("PipelineRun", NS, RUN, status=DONE)
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]
    scene.change("PipelineRun", NS, CHILD, status=DONE)
    scene.settle()
    (over,) = [one for one in scene.log if isinstance(one.event, events.RunCompleted) and one.event.uid != UID]
    (removed,) = [one for one in scene.log if isinstance(one.event, events.PlaceholderRemovalDecided)]
    assert removed.caused_by == over.position
    assert scene.names("StatefulSet") == []


# --- a plan ---


def test_a_plan_of_a_child() -> None:
    parent = run(claim("a", "data"))
    found = planned(child(claim("a", "data"), template("b"), tasks=[task("t", "a")]), ISOLATE, parent)
    assert (found.error, found.warnings) == ("", [])
    assert found.stateful_sets == []
    assert names(found.claims) == [claim_name("", "b", f"uid-{CHILD}")]
    assert [one.annotations for one in found.tasks] == [{AFFINITY_ASSISTANT: SINGLE}]


def test_a_plan_of_a_child_whose_parent_is_not_among_the_files() -> None:
    found = planned(child(), ISOLATE)
    assert found.stateful_sets == []
    assert [one.annotations for one in found.tasks] == [{AFFINITY_ASSISTANT: SINGLE}]
    assert (
        f'metadata.ownerReferences: PipelineRun "{RUN}", whose task it is, is not among the files' in found.warnings[0]
    )


# --- the hook ---


@pytest.mark.parametrize("named", [None, {AFFINITY_ASSISTANT: OWN}])
def test_its_tasks_follow_the_parents_placeholder(named: Json | None) -> None:
    scene = family(ISOLATE, template("b"))
    bound = claim_name("", "b", f"uid-{CHILD}")
    metadata: Json = {"name": "t", "ownerReferences": [owner(f"uid-{CHILD}", CHILD)]}
    metadata |= {"annotations": dict(named)} if named else {}
    workspaces = [{"name": "b", "persistentVolumeClaim": {"claimName": bound}}]
    obj = {"metadata": metadata, "spec": {"workspaces": workspaces}}
    request = {"uid": "r", "kind": {"kind": "TaskRun"}, "operation": "CREATE", "namespace": NS, "object": obj}
    answered = apply(obj, answer({"request": request}, Mode.ISOLATE, scene.room.find)["response"])
    assert answered["metadata"]["annotations"] == {AFFINITY_ASSISTANT: SINGLE}
    assert answered["spec"]["workspaces"] == workspaces
