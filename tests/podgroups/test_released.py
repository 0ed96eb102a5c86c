"""Room that an admitted group gives back is offered to those that wait, at that moment."""

from __future__ import annotations

from controlplane.controllers.podgroups.events import RoomObserved
from controlplane.controllers.podgroups.objects import POD_GROUPS, PODS
from controlplane.kube.kinds import meta
from controlplane.kube.quantities import NANO
from tests.podgroups.scenes import pod_manifest
from tests.podgroups.stage import Stage
from tests.podgroups.test_fleet import stage


def two() -> Stage:
    """Two pods, each in a group of its own, and room for the first one's."""
    scene = stage(overcommit=1.0)
    for name in ("p1", "p2"):
        scene.put(pod_manifest(name=name, cpu="1"))
        scene.later(seconds=1)
    scene.room(cpu=NANO).settle()
    scene.later(seconds=2)
    assert phases(scene) == {"p1": "Inqueue", "p2": "Pending"}
    return scene


def phases(scene: Stage) -> dict[str, str]:
    return {meta(one)["ownerReferences"][0]["name"]: one["status"]["phase"] for one in scene.all(POD_GROUPS)}


def test_a_group_that_did_not_start_gives_its_room_to_one_that_waits() -> None:
    scene = two()
    scene.later(minutes=11)
    assert phases(scene) == {"p1": "Pending", "p2": "Inqueue"}
    scene.later(minutes=11)
    assert phases(scene) == {"p1": "Inqueue", "p2": "Pending"}
    assert len(scene.recorded(RoomObserved)) == 1


def test_so_does_one_that_is_deleted() -> None:
    scene = two()
    scene.remove(scene.get(PODS, "p1"))
    scene.remove(scene.get(POD_GROUPS, "podgroup-uid-p1"))
    scene.later(seconds=2)
    assert phases(scene) == {"p2": "Inqueue"}


def test_so_does_one_whose_pods_are_gone() -> None:
    scene = two()
    scene.remove(scene.get(PODS, "p1"))
    scene.later(seconds=2)
    scene.later(seconds=2)
    assert phases(scene) == {"p1": "Pending", "p2": "Inqueue"}


def test_so_does_one_that_asks_for_less() -> None:
    scene = two()
    group = scene.get(POD_GROUPS, "podgroup-uid-p1")
    scene.put(group | {"spec": {**group["spec"], "minResources": {"cpu": "0"}}})
    scene.later(seconds=2)
    assert phases(scene) == {"p1": "Inqueue", "p2": "Inqueue"}
