"""Quota that is given back lets those be tried again whom it may help: what does not concern a Workload is no event of
its own."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.quota.admission import events
from controlplane.kube import kinds
from tests.quota.admission.scene import Scene, pod_set, quota
from tests.support.rows import each


def scene_of() -> Scene:
    scene = Scene()
    scene.put(kinds.RESOURCE_FLAVORS, "gpus", spec={})
    both = [
        quota("10"),
        {
            "coveredResources": ["example.com/gpu"],
            "flavors": [{"name": "gpus", "resources": [{"name": "example.com/gpu", "nominalQuota": "4"}]}],
        },
    ]
    scene.queue("q", resourceGroups=both)
    return scene


def add(scene: Scene, name: str, **requests: str) -> None:
    scene.workload(name, "q", podSets=[pod_set("main", **requests)])
    scene.now += timedelta(seconds=1)


def tries(scene: Scene, name: str) -> int:
    return len(scene.said(events.WorkloadInadmissible, name))


@each(
    ("asked", "tried"),
    [({"cpu": "11"}, 1), ({"cpu": "1", "gpu": "1"}, 1), ({"cpu": "9"}, 6)],
    ids=["more than there is", "of what is not given back", "of what is given back"],
)
def test_who_waits_is_tried_again_for_what_it_lacks(asked: dict[str, str], tried: int) -> None:
    scene = scene_of()
    add(scene, "gpus", cpu="1", gpu="4")
    add(scene, "cpus", cpu="2")
    scene.settle()
    add(scene, "w", **asked)
    scene.settle()
    for number in range(5):
        add(scene, f"short-{number}", cpu="1")
        scene.settle()
        scene.finish(f"short-{number}")
        scene.settle()
    assert tries(scene, "w") == tried


def test_it_has_quota_once_what_it_lacks_is_given_back() -> None:
    scene = scene_of()
    add(scene, "gpus", cpu="1", gpu="4")
    scene.settle()
    add(scene, "w", cpu="1", gpu="1")
    scene.settle()
    scene.finish("gpus")
    scene.settle()
    assert scene.is_true("w", "Admitted")


def test_it_has_quota_once_there_is_more() -> None:
    scene = scene_of()
    add(scene, "w", cpu="11")
    scene.settle()
    scene.queue("q", "11")
    scene.settle()
    assert scene.is_true("w", "Admitted")


def test_one_that_comes_later_is_told_why_once_quota_is_given_back() -> None:
    """It is not tried when it comes, since another one like it did not fit; it is with Kueue when anything changes."""
    scene = scene_of()
    add(scene, "cpus", cpu="2")
    add(scene, "a", cpu="11")
    scene.settle()
    add(scene, "b", cpu="11")
    scene.settle()
    assert scene.condition("b", "QuotaReserved") == {}
    scene.delete(kinds.WORKLOADS, "a", "team")
    scene.finish("cpus")
    scene.settle()
    assert "maximum capacity" in scene.condition("b", "QuotaReserved")["message"]
