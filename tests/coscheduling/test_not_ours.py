"""What belongs to a run and was not made for it stays, and what is nobody's any more stands in nobody's way."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.names import claim_name, made_claim_name
from tests.coscheduling.samples import NS, UID, claim, owner, run, task, template, volume_claim
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import MODES, RUN, SINGLE, finish, started

AUTO = {"tekton.dev/auto-cleanup-pvc": "true"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("controls", [True, False])
def test_a_claim_of_the_user_is_not_deleted_because_it_names_the_run_as_its_owner(mode: str, controls: bool) -> None:
    """It goes with the run, by garbage collection, and not at the end of it: somebody may still read what is on it."""
    scene = Scene(mode)
    for name in ("artifacts", "data"):
        mine = volume_claim(name, uid=f"uid-of-{name}")
        mine["metadata"]["ownerReferences"] = [owner() | {"controller": controls}]
        scene.put(mine)
    scene.put(run(template("a"), claim("b", "data"), tasks=[task("t", "a")], annotations=AUTO))
    scene.settle()
    made = {made_claim_name("", "a", UID, SINGLE), claim_name("", "a", UID)} & set(scene.names("PersistentVolumeClaim"))
    assert len(made) == 1
    finish(scene)
    kept = made if mode == "disabled" else set()
    assert scene.names("PersistentVolumeClaim") == sorted({"artifacts", "data", *kept})
    assert all(one.name in made for one in scene.events(events.ClaimRemovalDecided, events.ClaimReleaseDecided))


def orphaned(scene: Scene, kind: str, name: str) -> dict[str, Any]:
    """Take the owner off an object, as the garbage collector does for `kubectl delete --cascade=orphan`."""
    obj = scene.objects[kind, NS, name]
    return scene.put(obj | {"metadata": {key: one for key, one in obj["metadata"].items() if key != "ownerReferences"}})


@pytest.mark.parametrize("told", ["first", "after"])
def test_a_placeholder_that_was_orphaned_and_removed_is_in_nobodys_way(told: str) -> None:
    scene = started("pipelineruns")
    if told == "first":
        orphaned(scene, "StatefulSet", SINGLE)
        scene.settle()
    scene.drop("PipelineRun", NS, RUN)
    scene.settle()
    if scene.names("StatefulSet"):
        scene.drop("StatefulSet", NS, SINGLE)
    scene.settle()
    assert not scene.room.runs
    scene.put(run(template("a"), tasks=[task("t", "a")], uid="another"))
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]


def test_a_claim_that_the_user_has_taken_from_its_run_stays() -> None:
    """Tekton makes claims of templates with the run as their owner: one without is kept on purpose."""
    scene = Scene("workspaces")
    scene.put(run(template("a"), tasks=[task("t", "a")], annotations=AUTO))
    scene.settle()
    (name,), made = scene.names("PersistentVolumeClaim"), len(scene.requests)
    orphaned(scene, "PersistentVolumeClaim", name)
    scene.settle()
    finish(scene)
    (kept,) = scene.of("PersistentVolumeClaim")
    assert "deletionTimestamp" not in kept["metadata"]
    assert not [one for one in scene.requests[made:] if one.ref.kind.kind == "PersistentVolumeClaim"]
    scene.drop("PipelineRun", NS, RUN)
    scene.settle()
    assert not scene.room.runs
    events_before = len(scene.log)
    scene.change("PersistentVolumeClaim", NS, name, status={"phase": "Bound"})
    assert len(scene.log) == events_before, "it is nobody's here any more"
    scene.restart()
    assert scene.decide() == []


@pytest.mark.parametrize("mode", ["workspaces", "pipelineruns", "isolate-pipelinerun"])
def test_a_placeholder_that_is_nobodys_is_named_and_neither_used_nor_deleted(mode: str) -> None:
    """Who deleted a run without its dependents, while nobody watched, has left its placeholder to itself."""
    before = started(mode)
    (name,) = before.names("StatefulSet")
    left = before.objects["StatefulSet", NS, name]
    left["metadata"].pop("ownerReferences")
    scene = Scene(mode)
    scene.put(left)
    scene.put(run(template("a"), tasks=[task("t", "a")]))
    scene.settle()
    (said,) = scene.objects["PipelineRun", NS, RUN]["status"]["conditions"]
    assert said["reason"] == "CoschedulingRefused"
    assert said["message"] == (
        f"StatefulSet {NS}/{name}: metadata.ownerReferences: its owner is nobody, not PipelineRun {NS}/{RUN} (uid "
        f"{UID}); wait until it is gone, delete it, or give the run another name"
    )
    assert not [one for one in scene.requests if one.ref.kind.kind == "StatefulSet"]
    scene.drop("StatefulSet", NS, name)
    scene.settle()
    (made,) = scene.of("StatefulSet")
    assert made["metadata"]["ownerReferences"][0]["uid"] == UID
    assert scene.objects["PipelineRun", NS, RUN]["status"]["conditions"] == []
