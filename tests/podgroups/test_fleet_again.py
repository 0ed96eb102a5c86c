"""A group that comes back under its old name: its stream goes on where it was, whatever was forgotten of it meanwhile.

Found by the simulation: the version of a stream went with the last state of its group, so what was decided on it later was refused by the
log for ever, and its pods waited for ever.
"""

from __future__ import annotations

import pytest

from controlplane.podgroups import index as rooms
from controlplane.podgroups.objects import POD_GROUPS, PODS
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.podgroups.test_fleet import DEPLOYMENT, GROUP, RS, group_of, stage, web


def test_pods_that_come_after_the_group_went_get_it_anew() -> None:
    scene = web(stage(), "p1")
    scene.remove(scene.get(PODS, "p1"))
    scene.settle()
    scene.remove(scene.get(POD_GROUPS, GROUP))
    scene.settle().later(minutes=1)
    scene.put(pod_manifest(RS, "p2"))
    scene.settle().later(minutes=1)  # the stage asserts that each decision is on the version that its stream has
    assert group_of(scene, "p2") == GROUP


def test_somebody_elses_group_of_the_name_came_and_went_before_the_first_pod() -> None:
    scene = stage()
    scene.put(manifest(DEPLOYMENT))
    scene.put(manifest(RS, DEPLOYMENT))
    squat = {**manifest(ref("Widget", GROUP, "g")), "apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
    scene.remove(scene.put(squat | {"spec": {"minMember": 1}}))
    scene.put(pod_manifest(RS, "p1"))
    scene.settle().later(minutes=1)
    assert group_of(scene, "p1") == GROUP


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_REMEMBERED", 2)
    scene = stage()
    for number in range(5):
        squat = {**manifest(ref("Widget", f"g-{number}", "g")), "apiVersion": POD_GROUPS.api_version}
        scene.remove(scene.put({**squat, "kind": "PodGroup", "spec": {"minMember": 1}}))
    scene.settle()
    assert [name.rpartition("/")[2] for name in scene.fleet.index.left] == ["g-3", "g-4"]
