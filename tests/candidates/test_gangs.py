"""Gangs of candidates: what the source decides about a group as a whole, seen from outside: permits, places, words."""

from __future__ import annotations

from datetime import timedelta

from controlplane.candidates.events import ElectionRefused, PermitGranted
from controlplane.candidates.gang_events import (
    GangFormed,
    GangPermitted,
    GangReleased,
    GangWithdrawn,
)
from tests.candidates.gang_world import GangWorld


def test_a_gang_goes_whole_to_the_one_target_that_has_room_for_all() -> None:
    world = GangWorld(a=2, b=3)
    names = world.gang("g", 3)
    world.run()
    assert world.places(names) == {("b",)}
    assert {cluster for _, cluster, _ in world.granted()} == {"b"}
    (permitted,) = world.said(GangPermitted)
    assert (permitted.cluster, permitted.members, permitted.least) == ("b", names, 3)
    assert len(world.said(GangFormed)) == 1
    rows = len(world.source.rows)
    world.run(3)
    assert rows == len(world.source.rows)


def test_without_the_plugin_in_the_targets_it_is_the_source_that_waits_for_all() -> None:
    world = GangWorld(a=2, b=3)
    world.together.clear()
    names = world.gang("g", 3)
    world.run()
    assert world.places(names) == {("b",)}
    assert {cluster for _, cluster, _ in world.granted()} == {"b"}
