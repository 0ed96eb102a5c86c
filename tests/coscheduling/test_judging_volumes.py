"""Existing volumes of a run on a worker: those that no node reaches refuse it, those that a node has to reach choose
it."""

from __future__ import annotations

import pytest

from controlplane.controllers.coscheduling.placement.volumes import ZONE
from tests.coscheduling.judging_scene import Scene
from tests.coscheduling.samples import Json, claim
from tests.coscheduling.test_judging import flags
from tests.coscheduling.test_volumes import volume

DATA, CACHE = claim("a", "data"), claim("b", "cache")


def bound(to: str) -> Json:
    return {"kind": "PersistentVolumeClaim", "spec": {"volumeName": to}}


def asked() -> Scene:
    """A run on two claims, whose volumes are read when it is known which they are."""
    scene = Scene("a")
    flags(scene, "a", coschedule="pipelineruns")
    scene.node("a", labels={ZONE: "z3"})
    scene.submit(DATA, CACHE)
    scene.answer("PersistentVolumeClaim data", bound("p1"))
    scene.answer("PersistentVolumeClaim cache", bound("p2"))
    return scene


@pytest.mark.parametrize(("zone", "reason"), [("z2", "VolumesApart"), ("z1", "")])
def test_volumes_in_two_zones(zone: str, reason: str) -> None:
    scene = asked()
    scene.answer("PersistentVolume p1", volume("p1", "data", "z1"))
    scene.answer("PersistentVolume p2", volume("p2", "cache", zone))
    assert scene.judged["a"].reason == (reason or "NoNodeFits")
    if reason:
        assert 'claim "data" (PersistentVolume p1) is bound in' in scene.judged["a"].detail


def test_a_volume_that_may_not_be_read_refuses_nothing() -> None:
    scene = asked()
    scene.answer("PersistentVolume p1", volume("p1", "data", "z1"))
    scene.answer("PersistentVolume p2", 403)
    assert scene.judged["a"].reason == "NoNodeFits", "no node is in zone z1"
    assert scene.judged["a"].unknown == ["PersistentVolume p2 (403 said the server)"]


def test_a_node_that_reaches_them_does() -> None:
    scene = asked()
    scene.node("a", "n2", labels={ZONE: "z1"})
    scene.answer("PersistentVolume p1", volume("p1", "data", "z1"))
    scene.answer("PersistentVolume p2", volume("p2", "cache", "z1"))
    assert scene.judged["a"].fits
