"""Gangs of candidates: where there is no room for all of one, who gives way, who is chosen, and what an append rests
on.
"""

from __future__ import annotations

import pytest

from controlplane.controllers.candidates import objects
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.events import PermitGranted
from controlplane.controllers.candidates.source.gang_events import GangPermitted, GangRested, GangWaits
from controlplane.controllers.candidates.source.policy import PlacementPolicy, Target
from tests.candidates.gang_world import GangWorld
from tests.candidates.stage import NS

# --- room ------------------------------------------------------------------------------------------------------------


def two_that_need_room(*targets: str) -> tuple[GangWorld, list[str]]:
    """A gang of two, two targets with room for one, and those in which more can be made."""
    world = GangWorld(a=1, b=1)
    world.preemptable = set(targets)
    return world, world.gang("g", 2)


def test_why_nobody_has_it_is_on_each_of_its_pods() -> None:
    world = GangWorld(a=2, b=2)
    names = world.gang("g", 3)
    world.run()
    (waits,) = world.said(GangWaits)
    assert waits.message == "0/2 clusters have room for all of PodGroup g: a and b: no room"
    assert {world.condition(name)["message"] for name in names} == {waits.message}
    assert world.condition(names[0])["reason"] == "NotPlaced"
    world.room["b"] = 3
    world.run()
    assert world.places(names) == {("b",)}


def test_one_target_makes_room_and_for_all_of_them() -> None:
    world, names = two_that_need_room("a", "b")
    for _ in range(4):
        world.step()
        for name in world.targets:
            world.schedule(name)
    (asked,) = world.said(GangPermitted)
    assert (asked.kind, asked.cluster, asked.members) == ("Preempt", "a", names)
    assert {(cluster, kind) for _, cluster, kind in world.granted()} == {("a", "Preempt")}
    world.room["a"] = 2
    world.run()
    assert world.places(names) == {("a",)}


def test_making_room_ends_when_another_target_has_room_for_all() -> None:
    world, names = two_that_need_room("a")
    while not world.said(GangPermitted):
        world.run(1)
    assert [one.kind for one in world.said(GangPermitted)] == ["Preempt"]
    world.room["b"] = 2
    world.run()
    assert world.places(names) == {("b",)}


def test_who_was_asked_in_vain_is_asked_again_only_much_later() -> None:
    world, names = two_that_need_room("a", "b")

    def asked() -> list[str]:
        return [one.cluster for one in world.said(GangPermitted)]

    for _ in range(60):
        world.run(2)
        world.tick(5)
    assert asked() == ["a", "b"]  # five minutes: each once
    assert "0/2 clusters have room for all" in world.condition(names[0])["message"]
    for _ in range(70):
        world.run(2)
        world.tick(20)
    assert asked() == ["a", "b", "a", "b"]
    world.room["b"] = 2
    world.run()
    assert world.places(names) == {("b",)}


def test_a_target_that_is_asked_and_keeps_silent_holds_nobody_up() -> None:
    world, names = two_that_need_room("a")
    while True:
        world.step()
        if world.said(GangPermitted):
            break
        for name in world.targets:
            world.schedule(name)
    world.room["b"] = 2
    for _ in range(4):
        world.schedule("b")  # a has not looked at its permit yet
        world.step()
    assert world.permits() == dict.fromkeys(names, "b")


@pytest.mark.parametrize("first", ["g", "h"])
def test_two_gangs_that_hold_half_of_each_other_s_places(first: str) -> None:
    """Nobody orders pods by group here, so each gang gets two of four places in both targets, and neither has three."""
    world = GangWorld(a=4, b=4)
    world.together.clear()
    for group in ("g", "h"):
        world.group(group, 3, age=60 if group == first else 1)
    g, h = ([world.member(group, number) for number in range(3)] for group in ("g", "h"))
    for target in world.targets:
        world.room[target] = 0
    for _ in range(3):
        world.step()
    for target in world.targets:
        process = world.schedulers[target]
        for stream, state in sorted(world.states(target).items()):
            if state.seen is not None and not state.seen.origin.name.endswith("-2"):
                assert process.take(process.capability.reserved(stream, f"node-{target}", 1, process.now))
        world.room[target] = 4
    world.run(4)
    assert world.permits() == {}
    for _ in range(40):
        world.tick(1)
        world.run(2)
    assert len(world.places(g)) == len(world.places(h)) == 1
    assert world.places(g) | world.places(h) == {("a",), ("b",)}
    rested = world.said(GangRested)
    assert rested
    assert rested[0].reason == CandidateReason.GANG_YIELDS
    yields = [row.stream for row in world.source.rows if isinstance(row.event, GangRested)]
    assert yields[0].endswith("h" if first == "g" else "g")


def test_a_gang_alone_that_fits_nowhere_does_not_pin_places_for_ever() -> None:
    world = GangWorld(a=2, b=1)
    world.together.clear()
    names = world.gang("g", 3)
    world.run(4)
    assert sum(bool(state.node) for state in world.states("a").values()) == 2
    world.tick(16)
    world.step()
    world.step()
    (rested,) = world.said(GangRested)
    assert rested.reason == CandidateReason.GANG_FITS_NOWHERE
    for _ in range(4):
        world.step()
    assert not any(world.states(target) for target in world.targets)
    assert "rests" in world.condition(names[0])["message"]
    world.room["a"] = 3
    for _ in range(3):
        world.tick(1)
        world.run(6)
    assert world.places(names) == {("a",)}


# --- who is chosen ---------------------------------------------------------------------------------------------------


def test_best_of_compares_the_worst_places_that_the_quorums_need() -> None:
    world = GangWorld(a=2, b=2).policy(placement=PlacementPolicy(mode="BestOf", min_candidates=2))
    world.score = {"a": 3, "b": 7}
    names = world.gang("g", 2)
    world.run()
    assert world.places(names) == {("b",)}
    (one,) = world.said(GangPermitted)
    assert one.among == {"a": 3, "b": 7}
    assert one.reason == CandidateReason.BEST_SCORE
    assert world.said(PermitGranted)[0].among == {"a": 3, "b": 7}


def test_a_preferred_target_is_waited_for_and_the_pods_say_how_long() -> None:
    asked = {objects.OPT_PLACEMENT: "BestOf", objects.OPT_MIN_CANDIDATES: "2", objects.OPT_MAX_WAIT: "9"}
    world = GangWorld(a=2, b=2)
    world.group("g", 2)
    names = [world.member("g", 0), world.member("g", 1, annotations=asked)]
    for _ in range(3):
        world.step()
    world.schedule("a")
    for _ in range(3):
        world.step()
    assert world.permits() == {}  # one of them asks for patience
    world.tick(9)
    world.step()
    assert world.permits() == dict.fromkeys(names, "a")
    assert world.said(GangPermitted)[0].reason == CandidateReason.WINDOW_CLOSED


# --- what an append rests on -----------------------------------------------------------------------------------------


def test_a_permission_rests_on_the_versions_of_all_its_members() -> None:
    world = GangWorld(a=3)
    world.gang("g", 3)
    for _ in range(3):
        world.step()
    world.schedule("a")
    world.target("a")
    world.source.watch(world.api, "a", objects.CANDIDATES, world.stores["a"]["candidates"])
    capability = world.source.capability
    decided = capability.decide(f"sourcegroup/{NS}/g", world.source.now)
    assert [type(new.event) for new in decided.events] == [GangPermitted, *[PermitGranted] * 3]
    assert decided.version == capability.gangs.state(f"sourcegroup/{NS}/g").version
    assert dict(decided.others) == {
        f"sourcepod/{NS}/g-{number}": world.state(f"g-{number}").version for number in range(3)
    }


def test_who_follows_rests_on_where_the_gang_is() -> None:
    world = GangWorld(a=4, b=0)
    world.gang("g", 3)
    world.run()
    extra = world.member("g", 3)
    for _ in range(3):
        world.step()
    world.schedule("a")
    world.target("a")
    world.source.watch(world.api, "a", objects.CANDIDATES, world.stores["a"]["candidates"])
    capability = world.source.capability
    decided = capability.decide(f"sourcepod/{NS}/{extra}", world.source.now)
    assert [type(new.event) for new in decided.events] == [PermitGranted]
    assert dict(decided.others) == {f"sourcegroup/{NS}/g": world.of_group("g").version}


def test_a_preferred_tier_is_waited_for_with_the_whole_gang() -> None:
    world = GangWorld(a=2, b=2)
    world.source.capability._targets_of = lambda namespace: [Target(name="a", tier=1), Target(name="b", tier=0)]
    names = world.gang("g", 2)
    for _ in range(3):
        world.step()
    world.schedule("a")
    for _ in range(3):
        world.step()
    assert world.permits() == {}  # b may still answer
    world.schedule("b")
    for _ in range(2):
        world.step()
    assert world.permits() == dict.fromkeys(names, "b")
    assert world.said(GangPermitted)[0].reason == CandidateReason.PREFERRED_TIER
