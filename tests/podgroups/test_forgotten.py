"""Nothing is kept of what is gone, in whatever order it went."""

from __future__ import annotations

from itertools import permutations

import pytest

from controlplane.controllers.podgroups.objects import POD_GROUPS
from controlplane.kube.kinds import Json
from controlplane.runtime.controller import WriteRefusal
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.podgroups.stage import Stage
from tests.podgroups.test_fleet import RS, TOP, WIDGET, stage, web


def nothing_left(scene: Stage) -> None:
    index = scene.fleet.index
    assert not index.members
    assert not index.groups
    assert not index.owners
    assert not index.waiters
    assert not index._below
    assert not index.unresolved
    assert all(scene.fleet.is_over(one.stream) for one in scene.log if one.stream.startswith(("member/", "podgroup/")))


@pytest.mark.parametrize("order", list(permutations(["Pod", "PodGroup", "ReplicaSet", "Deployment"])))
def test_of_a_deployment_that_is_collected(order: tuple[str, ...]) -> None:
    """The garbage collector takes what an owner had in any order; a group is often gone before its pods are."""
    scene = web(stage(), "p1", "p2")
    assert len(scene.all(POD_GROUPS)) == 1
    for kind in order:
        for obj in [one for one in scene.objects.values() if one["kind"] == kind]:
            scene.remove(obj)
            scene.settle()
    scene.later(minutes=20)
    assert scene.all(POD_GROUPS) == []
    nothing_left(scene)


@pytest.mark.parametrize(
    "failure", [None, WriteRefusal(503, "Unavailable", "later"), WriteRefusal(403, "Forbidden", "no")]
)
@pytest.mark.parametrize("settled", [True, False])
def test_of_owners_that_were_read_for_a_pod(failure: WriteRefusal | None, settled: bool) -> None:
    scene = stage()
    below = ref("Widget", "below")
    above: list[Json] = [manifest(TOP), manifest(WIDGET, TOP), manifest(below, WIDGET)]
    for obj in above:
        scene.put(obj)
    if failure is not None:
        scene.refused["Widget"] = failure
    pod = scene.put(pod_manifest(below, "p1"))
    if settled:
        scene.settle()
    scene.remove(pod)
    scene.settle()
    for obj in scene.all(POD_GROUPS):
        scene.remove(obj)
    scene.later(minutes=20)
    nothing_left(scene)


def test_of_owners_that_were_read_through_one_that_went_first() -> None:
    scene = stage()
    between = scene.put(manifest(RS, WIDGET))
    scene.refused["Widget"] = WriteRefusal(503, "Unavailable", "later")
    pod = scene.put(pod_manifest(RS, "p1"))
    scene.settle()
    scene.remove(between)
    scene.remove(pod)
    scene.later(minutes=20)
    nothing_left(scene)


def test_a_pod_that_shares_its_owners_keeps_what_is_known_of_them() -> None:
    scene = stage()
    for obj in (manifest(TOP), manifest(WIDGET, TOP)):
        scene.put(obj)
    first, _ = scene.put(pod_manifest(WIDGET, "p1")), scene.put(pod_manifest(WIDGET, "p2"))
    scene.settle()
    reads = sum(scene.reads.values())
    scene.remove(first)
    scene.settle()
    scene.put(pod_manifest(WIDGET, "p3"))
    scene.settle()
    assert sum(scene.reads.values()) == reads == 2
    assert RS.uid not in scene.fleet.index.owners
