"""What vanished while nobody watched: a list says of it no more than its place and its UID, and it counts as gone all
the same.

Found by the simulation: a placeholder that went while StatefulSets were forbidden was removed for ever, and found
missing each time."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.coscheduling import observations
from controlplane.kube.kinds import meta
from controlplane.runtime.controller import ObjectChange
from tests.coscheduling.samples import DONE, NS, run, task, task_pod, template
from tests.coscheduling.scene import BY_NAME, Scene
from tests.support.rows import each

RUN = "my-pipelinerun"


def vanish(scene: Scene, obj: dict[str, Any]) -> None:
    """Take an object away, and tell of it as a list does that it is not in."""
    kind, metadata = obj["kind"], meta(obj)
    scene.objects.pop((kind, metadata["namespace"], metadata["name"]))
    left = {"metadata": {field: metadata[field] for field in ("namespace", "name", "uid")}}
    found = ObjectChange(MANAGEMENT, "life", BY_NAME[kind], left, str(1000 + next(scene.ids)), True)
    new = scene.room.observe(found, scene.now)
    assert new is not None, f"{kind} {metadata['name']}: nothing is said of its end"
    scene.append(new)


def started() -> Scene:
    scene = Scene("pipelineruns")
    scene.put(run(template("a"), tasks=[task("t", "a")]))
    scene.settle()
    return scene


@each("anew", [False, True])
@each(
    ("kind", "event"),
    [
        ("StatefulSet", observations.PlaceholderDeleted),
        ("PersistentVolumeClaim", observations.ClaimDeleted),
        ("Pod", observations.PlaceholderPodGone),
    ],
)
def test_what_was_made_for_a_run_is_gone(
    kind: str, event: type[observations.CoschedulingObjectGone], anew: bool
) -> None:
    scene = started()
    if anew:
        scene.restart()
    (obj,) = scene.of(kind)
    vanish(scene, obj)
    (gone,) = scene.events(event)
    assert gone.uid == meta(obj)["uid"]


def test_pods_of_tasks_and_tasks_are_gone() -> None:
    scene = started()
    pod = scene.put(task_pod("t-pod", "affinity-assistant-x"))
    made = {"kind": "TaskRun", "metadata": {"name": "t", "namespace": NS}}
    made["metadata"]["ownerReferences"] = [{"kind": "PipelineRun", "name": RUN, "uid": "u", "controller": True}]
    for obj, event in ((pod, observations.TaskPodGone), (scene.put(made), observations.TaskGone)):
        vanish(scene, obj)
        assert [gone.uid for gone in scene.events(event)] == [meta(obj)["uid"]]


def test_a_run_whose_placeholder_vanished_is_cleaned_to_the_end() -> None:
    scene = started()
    (placeholder,) = scene.of("StatefulSet")
    vanish(scene, placeholder)
    scene.drop("Pod", NS, f"{meta(placeholder)['name']}-0")
    assert [type(one).__name__ for one in scene.decide()] == ["PlaceholderCreationDecided"]
    scene.change("PipelineRun", NS, RUN, status=DONE)
    scene.settle()
    assert scene.names("StatefulSet") == scene.names("PersistentVolumeClaim") == []
    assert not any(scene.room.open_writes(stream) for stream in scene.room.runs)


def test_what_nobody_knows_is_nobodys() -> None:
    scene = started()
    left = {"metadata": {"namespace": NS, "name": "theirs", "uid": "other"}}
    assert (
        scene.room.observe(ObjectChange(MANAGEMENT, "life", BY_NAME["StatefulSet"], left, "99", True), scene.now)
        is None
    )
