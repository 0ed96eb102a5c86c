"""A gang of candidates costs its target's scheduler work in proportion to its members: whether a quorum is permitted is
asked of each of them a few times, not of all for each."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from controlplane.controllers.scheduling.binding.protocol import BindingProtocol
from controlplane.controllers.scheduling.gangs.coordinator import GangCoordinator
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.queue.queue import Queue
from controlplane.controllers.scheduling.snapshot.objects import Pod, read_pod
from tests.scheduling.test_lent_groups import pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Permits:
    """The candidates' side: who is permitted, and how often that was asked."""

    asks_others = True

    def __init__(self) -> None:
        self.given: set[str] = set()
        self.asked: Counter[str] = Counter()

    def may_bind(self, stream: str, now: datetime) -> bool:
        self.asked[stream] += 1
        return stream in self.given

    def firm(self, stream: str) -> bool:
        return False

    def protocol_of(self, identity: str) -> tuple[BindingProtocol, str]:
        return cast("BindingProtocol", self), identity


def gang(size: int) -> tuple[Permits, GangCoordinator, ClusterGangs]:
    permits, gangs = Permits(), ClusterGangs()
    gangs.enabled = True
    for number in range(size):
        gangs.see(read_pod(pod(number, str(size))))
    return permits, GangCoordinator(gangs, cast("Queue", None), cast("Any", permits)), gangs


def permit(permits: Permits, coordinator: GangCoordinator, *names: str) -> list[str]:
    """Members are permitted, one by one; return who may be bound by that, as the loop finds it out."""
    bound, protocol = [], cast("BindingProtocol", permits)
    for name in names:
        permits.given.add(name)
        if not coordinator.may_bind(name, protocol, name, NOW):
            continue
        bound += [name, *(one for one in coordinator.all_may() if coordinator.may_bind(one, protocol, one, NOW))]
        coordinator.all_may()
    return bound


@pytest.mark.parametrize("size", [20, 80])
def test_a_quorum_is_found_in_proportion_to_its_size(size: int) -> None:
    permits, coordinator, _ = gang(size)
    names = [f"p-{number}" for number in range(size)]
    assert sorted(permit(permits, coordinator, *names)) == sorted(names)
    assert permits.asked.total() <= 4 * size


def test_a_permit_that_is_taken_back_meanwhile_counts_no_more() -> None:
    permits, coordinator, gangs = gang(3)
    assert permit(permits, coordinator, "p-0", "p-1") == []
    permits.given.discard("p-0")
    assert permit(permits, coordinator, "p-2") == []
    assert sorted(permit(permits, coordinator, "p-0")) == ["p-0", "p-1", "p-2"]
    gangs.forget("p-1")
    coordinator.gone("p-1")
    assert not coordinator.may_bind("p-2", cast("BindingProtocol", permits), "p-2", NOW)


def test_one_that_is_on_its_node_lets_the_others_follow() -> None:
    permits, coordinator, gangs = gang(3)
    gangs.see(read_pod(pod(0, "3", node="n")))
    assert permit(permits, coordinator, "p-1") == ["p-1"]
    gangs.forget("p-0")
    assert permit(permits, coordinator, "p-2") == []


def test_seeing_a_member_costs_no_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Counter[str] = Counter()

    def least(self: Pod) -> int:
        looks["least"] += 1
        return 80

    pods = [read_pod(pod(number, "80")) for number in range(80)]
    monkeypatch.setattr(Pod, "least", property(least, lambda self, value: None), raising=False)
    gangs = ClusterGangs()
    for one in pods:
        gangs.see(one)
    assert looks["least"] <= 8 * 80


def test_a_new_leader_counts_those_whose_binding_may_be_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    permits, coordinator, _ = gang(3)
    monkeypatch.setattr(permits, "firm", lambda stream: stream == "p-0")
    assert permit(permits, coordinator, "p-1") == []
    assert sorted(permit(permits, coordinator, "p-2")) == ["p-1", "p-2"]


def test_one_of_a_quorum_that_was_found_before_is_asked_about_anew() -> None:
    permits, coordinator, _ = gang(2)
    protocol = cast("BindingProtocol", permits)
    permits.given |= {"p-0", "p-1"}
    assert coordinator.may_bind("p-0", protocol, "p-0", NOW)
    permits.given.discard("p-0")
    assert not coordinator.may_bind("p-1", protocol, "p-1", NOW + timedelta(seconds=1))
