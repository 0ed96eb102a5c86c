"""Gangs of candidates: what the source decides about a group as a whole, seen from outside: permits, places, words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.candidates import objects
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import gang_events
from controlplane.controllers.candidates.source.events import ElectionRefused, PermitGranted
from controlplane.controllers.candidates.source.policy import NEVER_TWICE, PlacementPolicy
from controlplane.controllers.connectivity.events import MANAGEMENT, KindOff, KindSynced, cluster_stream
from controlplane.kube.kinds import POD_GROUPS
from controlplane.log.event import NewEvent
from tests.candidates.gang_world import GangWorld, restarted


def permitted(world: GangWorld, size: int = 2) -> list[str]:
    """A gang that is permitted in a and bound nowhere yet."""
    names = world.gang("g", size)
    for _ in range(3):
        world.step()
    world.schedule("a")
    for _ in range(2):
        world.step()
    assert world.permits() == dict.fromkeys(names, "a")
    return names


# --- one target ------------------------------------------------------------------------------------------------------


def one_place_given_up() -> tuple[GangWorld, list[str]]:
    """A gang is permitted in a, where one of its reservations is given up; b has room by now."""
    world = GangWorld(a=2, b=2)
    world.room["b"] = 0
    names = permitted(world)
    world.room["b"] = 2
    world.schedule("b")
    world.give_up("a", names[0])
    return world, names


@pytest.mark.parametrize("together", [True, False], ids=["with the plugin", "without"])
def test_a_gang_goes_whole_to_the_one_target_that_has_room_for_all(together: bool) -> None:
    world = GangWorld(a=2, b=3)
    if not together:
        world.together.clear()
    names = world.gang("g", 3)
    world.run()
    assert world.places(names) == {("b",)}
    assert {cluster for _, cluster, _ in world.granted()} == {"b"}
    (one,) = world.said(gang_events.GangPermitted)
    assert (one.cluster, one.members, one.least, one.reason) == ("b", names, 3, CandidateReason.ONLY_READY)
    assert len(world.said(gang_events.GangFormed)) == 1
    rows = len(world.source.rows)
    world.run(3)
    assert rows == len(world.source.rows)  # quiet
    assert all(not store["candidates"] or name == "b" for name, store in world.stores.items())


def test_the_permits_of_a_quorum_are_one_append() -> None:
    world = GangWorld(a=3)
    world.gang("g", 3)
    world.run()
    kinds = [type(row.event) for row in world.source.rows]
    first = kinds.index(gang_events.GangPermitted)
    assert kinds[first + 1 : first + 4] == [PermitGranted] * 3


def test_extras_follow_to_the_same_target_one_by_one() -> None:
    world = GangWorld(a=2, b=9)
    world.score["b"] = 100
    names = world.gang("g", 2)
    world.room["b"] = 0
    world.run()
    assert world.places(names) == {("a",)}
    world.room["b"] = 9
    extra = world.member("g", 2)
    world.run()
    assert world.where(extra) == []
    assert "the other pods of PodGroup g are in a" in world.condition(extra)["message"]
    assert "no room" in world.condition(extra)["message"]
    world.room["a"] = 3
    world.run()
    assert world.where(extra) == ["a"]
    last = world.said(PermitGranted)[-1]
    assert (last.cluster, last.reason) == ("a", CandidateReason.GANG_FOLLOWS)
    assert all(extra != name or cluster == "a" for name, cluster, _ in world.granted())


def test_more_than_the_quorum_are_permitted_together_if_they_are_ready() -> None:
    world = GangWorld(a=5)
    names = world.gang("g", 4, least=2)
    world.run()
    assert world.places(names) == {("a",)}
    assert world.said(gang_events.GangPermitted)[0].least == 2


# --- before it is offered --------------------------------------------------------------------------------------------


def test_members_wait_for_their_group_and_for_each_other() -> None:
    world = GangWorld(a=9)
    first, second = world.member("g", 0), world.member("g", 1)
    world.run(4)
    assert world.condition(first)["message"] == "PodGroup g is not there"
    assert world.condition(first)["reason"] == "SchedulingGated"
    assert world.said(ElectionRefused)[0].reason == CandidateReason.GROUP_MISSING
    world.group("g", 3)
    world.run(4)
    assert world.condition(second)["message"] == "fewer than 3 pods of PodGroup g are there"
    assert not world.stores["a"]["candidates"]
    third = world.member("g", 2)
    world.run()
    assert world.places([first, second, third]) == {("a",)}


@pytest.mark.parametrize("least", [0, -1, "two", True, None])
def test_a_group_that_cannot_be_read_is_as_if_it_were_not_there(least: Any) -> None:
    world = GangWorld(a=9)
    world.group("g", least)
    name = world.member("g", 0)
    world.run(4)
    assert world.condition(name)["message"].startswith("PodGroup g cannot be read: spec.minMember: ")
    world.group("g", 1)
    world.run()
    assert world.where(name) == ["a"]


def test_a_cluster_that_serves_no_pod_groups() -> None:
    world = GangWorld(a=9)
    name = world.member("g", 0)
    off = KindOff(kind=POD_GROUPS.name, reason="NotInstalled", message="the server does not know the kind")
    world.source.append(NewEvent(stream=cluster_stream(MANAGEMENT), event=off, cluster=MANAGEMENT))
    world.run(4)
    assert world.condition(name)["message"] == "PodGroup g cannot be seen: the server does not know the kind"
    world.group("g", 1)
    served = KindSynced(kind=POD_GROUPS.name, count=1, resource_version="2")
    world.source.append(NewEvent(stream=cluster_stream(MANAGEMENT), event=served, cluster=MANAGEMENT))
    world.run()
    assert world.where(name) == ["a"]


def test_a_pod_that_is_gated_or_wrong_is_not_there_yet() -> None:
    world = GangWorld(a=9)
    world.group("g", 2)
    names = [world.member("g", 0), world.member("g", 1, schedulingGates=[{"name": "wait"}])]
    world.run(4)
    assert world.condition(names[0])["message"] == "fewer than 2 pods of PodGroup g are there"
    gated = world.home["pods"][names[1]]
    spec = {key: value for key, value in gated["spec"].items() if key != "schedulingGates"}
    world.home = {**world.home, "pods": {**world.home["pods"], names[1]: {**gated, "spec": spec}}}
    world.run()
    assert world.places(names) == {("a",)}


def test_too_few_again_before_anybody_is_permitted() -> None:
    world = GangWorld(a=1)
    names = world.gang("g", 2)
    world.run(4)
    assert len(world.stores["a"]["candidates"]) == 2
    world.delete(names[0])
    world.run(4)
    assert not world.stores["a"]["candidates"]
    assert world.condition(names[1])["message"] == "fewer than 2 pods of PodGroup g are there"


def test_a_gang_is_never_spread() -> None:
    world = GangWorld(a=9)
    world.group("g", 1)
    name = world.member("g", 0, annotations={objects.OPT_MAX_SKEW: "1"})
    world.run(4)
    assert world.said(ElectionRefused)[0].reason == CandidateReason.GANG_NEVER_SPREADS
    assert "max-skew: a pod of PodGroup g cannot be spread over clusters" in world.condition(name)["message"]
    world = GangWorld(a=9, b=9).policy(placement=PlacementPolicy(max_skew=1))
    names = world.gang("g", 4)
    world.run()
    assert len(world.places(names)) == 1  # the policy's own spread is for other workloads


def test_members_that_ask_for_different_targets() -> None:
    world = GangWorld(a=9, b=9, c=9)
    world.group("g", 2)
    names = [
        world.member("g", 0, annotations={objects.OPT_TARGETS: "a,b"}),
        world.member("g", 1, annotations={objects.OPT_TARGETS: "b,c"}),
    ]
    world.run()
    assert world.places(names) == {("b",)}
    assert not [1 for name, store in world.stores.items() if name != "b" and store["lives"]]
    world.group("h", 2)
    names = [
        world.member("h", 0, annotations={objects.OPT_TARGETS: "a"}),
        world.member("h", 1, annotations={objects.OPT_TARGETS: "c"}),
    ]
    world.run()
    assert "none in common" in world.condition(names[0])["message"]


# --- one is lost before they bind ------------------------------------------------------------------------------------


def test_a_reservation_that_is_given_up_takes_the_permits_of_all_along() -> None:
    world, names = one_place_given_up()
    world.room["a"] = 1
    world.step()
    world.step()
    (withdrawn,) = world.said(gang_events.GangWithdrawn)
    assert (withdrawn.cluster, withdrawn.reason) == ("a", CandidateReason.GANG_INCOMPLETE)
    assert set(world.permits().values()) <= {"a"}
    world.run()
    assert [one.cluster for one in world.said(gang_events.GangReleased)] == ["a"]
    assert world.said(gang_events.GangReleased)[0].failed
    assert world.places(names) == {("b",)}
    assert [one.cluster for one in world.said(gang_events.GangPermitted)] == ["a", "b"]


def test_nobody_is_permitted_elsewhere_before_all_withdrawals_are_answered() -> None:
    world, names = one_place_given_up()
    world.target("a")
    world.look()
    world.away.add("a")  # what follows is not delivered
    for _ in range(6):
        world.step()
        world.schedule("b")
    assert world.permits() == {names[1]: "a"}
    world.away.clear()
    world.room["a"] = 0
    world.run()
    assert world.places(names) == {("b",)}


def test_a_member_that_was_bound_meanwhile_keeps_the_gang() -> None:
    world = GangWorld(a=2, b=2)
    world.together.clear()
    world.room["b"] = 0
    names = permitted(world)
    world.bind("a", only=names[:1])
    world.give_up("a", names[1])
    world.target("a")
    world.room["b"] = 9
    world.run()
    assert world.places(names) == {("a",)}
    assert not world.said(gang_events.GangReleased)


def test_a_withdrawal_that_comes_too_late() -> None:
    """The source sees that one lost its place before it sees that the other is bound."""
    world = GangWorld(a=2, b=2)
    world.together.clear()
    world.room["b"] = 0
    names = permitted(world)
    world.give_up("a", names[1])
    world.target("a")
    world.look()
    world.look()
    assert len(world.said(gang_events.GangWithdrawn)) == 1
    world.bind("a", only=names[:1])  # before the withdrawal is sent
    world.target("a")
    for _ in range(4):
        world.step()
    assert len(world.said(gang_events.GangKept)) == 1
    world.room["b"] = 9
    world.run()
    assert world.places(names) == {("a",)}


def test_a_gang_that_cannot_come_together_is_taken_back_whole() -> None:
    world = GangWorld(a=2, b=0).policy(gang_timeout=timedelta(seconds=60))
    world.together.clear()
    names = permitted(world)
    world.bind("a", only=names[:1])
    world.give_up("a", names[1])
    world.room["a"] = 1
    world.run()
    assert world.places(names) == {("a",), ()}
    world.room["b"] = 2
    world.tick(61)
    world.run(20)
    assert len(world.said(gang_events.GangDissolved)) == 1
    assert world.places(names) == {("b",)}


def test_a_leader_that_starts_anew_goes_on_with_what_was_permitted() -> None:
    world = GangWorld(a=2, b=2)
    world.room["b"] = 0
    names = permitted(world)
    world.room["b"] = 2
    world.schedule("b")
    restarted(world)
    for _ in range(3):
        world.step()
        world.schedule("b")
    assert world.permits() == dict.fromkeys(names, "a")
    world.run()
    assert world.places(names) == {("a",)}


def test_a_lease_that_ends_unanswered_is_the_end_of_all_of_them() -> None:
    world = GangWorld(a=2, b=2)
    world.room["b"] = 0
    names = permitted(world)
    world.lose("a")
    world.room["b"] = 2
    world.tick(31)
    world.run(3)
    assert world.places(names) == {()}
    world.tick(10)
    world.run(20)
    assert world.places(names) == {("b",)}


# --- after it runs ---------------------------------------------------------------------------------------------------


def running(**room: int) -> tuple[GangWorld, list[str]]:
    world = GangWorld(**room)
    names = world.gang("g", 3)
    world.run()
    assert world.places(names) == {("a",)}
    return world, names


def test_a_member_that_is_replaced_needs_no_new_quorum() -> None:
    world, names = running(a=3, b=0)
    world.room["b"] = 9
    world.evict("a", names[0])
    world.run(20)
    assert world.places(names) == {("a",)}
    world.delete(names[1])
    again = world.member("g", 7)
    world.run(20)
    assert world.places([names[0], names[2], again]) == {("a",)}
    assert len(world.said(gang_events.GangPermitted)) == 1


def test_a_target_that_is_lost_is_lost_for_the_whole_gang() -> None:
    world, names = running(a=3, b=0)
    world.room["b"] = 3
    world.lose("a")
    world.run(4)
    assert world.places(names) == {("a",)}
    world.tick(15 * 60 + 1)
    world.run(20)
    assert world.places(names) == {("a", "b")}  # at least once: a may still run them
    assert [one.cluster for one in world.said(gang_events.GangPermitted)] == ["a", "b"]
    world.back("a")
    world.run(20)
    assert world.places(names) == {("b",)}


def test_never_twice_waits_for_a_lost_target_with_the_whole_gang() -> None:
    world = GangWorld(a=3, b=0).policy(execution_policy=NEVER_TWICE)
    names = world.gang("g", 3)
    world.run()
    world.room["b"] = 3
    world.lose("a")
    world.tick(24 * 3600)
    world.run(20)
    assert world.places(names) == {("a",)}
    assert not world.said(gang_events.GangReleased)


def test_a_gang_that_has_ended_lets_its_target_go() -> None:
    world, names = running(a=3, b=0)
    for name in names:
        world.shows("a", name, "Succeeded")
    world.run()
    (released,) = world.said(gang_events.GangReleased)
    assert (released.failed, released.reason) == (False, CandidateReason.GANG_ENDED)
    assert world.of_group("g").placed is None
