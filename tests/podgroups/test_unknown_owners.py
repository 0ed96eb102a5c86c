"""What cannot be read of an owner any more changes nothing of its group."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT, KindOff, KindSynced, cluster_stream
from controlplane.controllers.podgroups.events import GroupUpdateDecided, OwnerReadFailed
from controlplane.controllers.podgroups.explain import STORIES
from controlplane.controllers.podgroups.objects import MIN_MEMBER, POD_GROUPS, PODS
from controlplane.runtime.controller import WriteRefusal
from tests.podgroups.scenes import manifest, pod_manifest
from tests.podgroups.stage import Stage
from tests.podgroups.test_awaited import ReadLog
from tests.podgroups.test_fleet import DEPLOYMENT, WIDGET, stage, web

FAILURES = [
    WriteRefusal(403, "Forbidden", "no"),
    WriteRefusal(503, "ServiceUnavailable", "later"),
    WriteRefusal(500, "InternalError", "oops"),
    WriteRefusal(429, "TooManyRequests", "slow"),
    WriteRefusal(0, "", ""),
]


def members(scene: Stage) -> int:
    (group,) = scene.all(POD_GROUPS)
    number: int = group["spec"]["minMember"]
    return number


def widget(number: str, *pods: str) -> Stage:
    scene = stage()
    scene.put(manifest(WIDGET, notes={MIN_MEMBER: number}))
    for name in pods:
        scene.put(pod_manifest(WIDGET, name))
    return scene.settle()


def again(scene: Stage, name: str) -> None:
    """A pod comes for which the owner is read anew."""
    scene.later(minutes=11)
    scene.put(pod_manifest(WIDGET, name))
    scene.settle()
    scene.put(scene.get(PODS, "p1") | {"status": {"phase": "Running"}})
    scene.settle()


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: str(one.code))
def test_an_owner_that_cannot_be_read_any_more_leaves_its_gang_as_large(failure: WriteRefusal) -> None:
    scene = widget("4", "p1")
    scene.refused["Widget"] = failure
    again(scene, "p2")
    assert members(scene) == 4
    scene.refused.clear()
    scene.later(minutes=20)
    again(scene, "p3")
    assert members(scene) == 4
    assert scene.recorded(GroupUpdateDecided) == []


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: str(one.code))
def test_it_stays_as_large_as_it_was_read_last(failure: WriteRefusal) -> None:
    scene = widget("4", "p1")
    scene.put(manifest(WIDGET, notes={MIN_MEMBER: "8"}))
    again(scene, "p2")
    assert members(scene) == 8
    scene.refused["Widget"] = failure
    again(scene, "p3")
    assert members(scene) == 8
    scene.refused.clear()
    scene.put(manifest(WIDGET))
    scene.later(minutes=20)
    again(scene, "p4")
    assert members(scene) == 1, "the annotation is gone, and that is known"


def test_the_gang_of_an_owner_that_is_gone_is_left_to_the_garbage_collector() -> None:
    scene = web(stage(), "p1", "p2", members="2")
    scene.remove(scene.objects["apps/v1", "Deployment", "team-a", DEPLOYMENT.name])
    scene.settle()
    assert members(scene) == 2
    assert scene.recorded(GroupUpdateDecided) == []


def test_why_of_a_pod_says_that_the_kind_of_groups_is_not_there() -> None:
    scene = stage()
    message = "the server could not find the requested resource"
    off = KindOff(kind=POD_GROUPS.name, reason="NotServed", message=message)
    scene.append(cluster_stream(MANAGEMENT), off)
    scene.put(pod_manifest(name="p1"))
    scene.settle()
    told = STORIES.history(ReadLog(scene.log), "pod", "team-a", "p1")
    assert told is not None
    sentence = STORIES.explain["pod"](told).sentence
    assert sentence == f"It has no PodGroup yet: {POD_GROUPS.name} cannot be seen there ({message})."
    synced = KindSynced(kind=POD_GROUPS.name, count=0, resource_version="1")
    scene.append(cluster_stream(MANAGEMENT), synced)
    scene.settle()
    assert len(scene.all(POD_GROUPS)) == 1


def test_an_owner_that_could_not_be_read_is_read_again_by_a_process_that_was_slow() -> None:
    """The pause may be over before the pods that wait are decided about again: then they still wait for the same
    read."""
    scene = stage()
    scene.put(manifest(WIDGET))
    scene.put(pod_manifest(WIDGET, "p1"))
    scene.refused["Widget"] = WriteRefusal(503, "ServiceUnavailable", "later")
    for stream in scene.fleet.take_dirty():
        scene._turn(stream)
    assert scene.recorded(OwnerReadFailed)
    scene.refused.clear()
    scene.now += timedelta(seconds=5)
    scene.settle()
    assert len(scene.all(POD_GROUPS)) == 1
