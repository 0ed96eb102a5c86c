"""Pods that are being deleted want nothing any more."""

from __future__ import annotations

import pytest

from controlplane.controllers.podgroups.events import GroupWrite, member_stream
from controlplane.controllers.podgroups.explain import explain_member
from controlplane.controllers.podgroups.objects import POD_GROUPS, PODS
from controlplane.kube.kinds import Json, meta
from tests.podgroups.scenes import pod_manifest
from tests.podgroups.stage import Stage
from tests.podgroups.test_fleet import RS, group_of, stage, web

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def leave(scene: Stage, name: str) -> Json:
    pod = scene.get(PODS, name)
    return scene.put(pod | {"metadata": meta(pod) | LEAVING})


def test_no_group_is_made_again_for_pods_that_are_going() -> None:
    """A Deployment that is deleted in the foreground is kept by its group: made again and again, it would keep it for
    long."""
    scene = web(stage(), "p1", "p2")
    (group,) = scene.all(POD_GROUPS)
    leave(scene, "p1")
    leave(scene, "p2")
    scene.remove(group)
    writes = len(scene.recorded(GroupWrite))
    for _ in range(5):
        scene.later(minutes=1)
    assert scene.all(POD_GROUPS) == []
    assert len(scene.recorded(GroupWrite)) == writes
    scene.put(pod_manifest(RS, "p3"))
    scene.later(minutes=5)
    assert len(scene.all(POD_GROUPS)) == 1
    assert group_of(scene, "p3") is not None


@pytest.mark.parametrize("owner", [RS, None])
def test_a_pod_that_is_going_when_it_is_first_seen_is_left_alone(owner: object) -> None:
    scene = stage()
    scene.put(pod_manifest(owner, "p1", metadata=LEAVING))  # type: ignore[arg-type]
    scene.settle()
    assert scene.recorded(GroupWrite) == scene.all(POD_GROUPS) == []
    told = explain_member([one for one in scene.log if one.stream == member_stream("team-a", "p1")], [])
    assert "It is being deleted" in told.sentence
