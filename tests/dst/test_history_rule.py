"""The rule that the log holds what was committed, where a cluster's history begins anew while what it showed is on its
way.
"""

from __future__ import annotations

import pytest

from controlplane.controllers.connectivity.events import KindSynced
from controlplane.controllers.multikueue.observations import CloneObserved
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.history import HistoryRules
from controlplane.dst.scenes.workloads.environment import place_of
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import NewEvent

EAST, AGAIN, ONE = "east", "a-east", "11111111-1111"


class Told:
    """The rule, and what it hears."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.trace = Trace(loop)
        self.history = HistoryRules(self.trace, place=place_of)

    def committed(self, *versions: int) -> None:
        for version in versions:
            self.history.committed(EAST, WORKLOADS, ONE, version)

    def listed(self, version: int, name: str = EAST) -> None:
        event = KindSynced(kind=WORKLOADS.name, resource_version=str(version), count=1, gap=False)
        self.history.appended(NewEvent(stream=f"cluster/{name}", event=event, cluster=name))

    def told(self, life: str, version: int, name: str = EAST) -> str:
        event = CloneObserved(namespace="ns", name="p", uid=ONE, resource_version=str(version), spec_key="k")
        source = f"{name}/{life}/{WORKLOADS.name}/{ONE}"
        self.history.appended(NewEvent(stream="s", event=event, cluster=name, source=source, mark=version))
        return self.trace.violation.detail if self.trace.violation is not None else ""


@pytest.fixture
def scene() -> Told:
    """Up to 22 all is told; 25 is committed, and its etcd is put back to 22 before anybody has heard of it. Then 23 and
    25 come again.
    """
    loop = VirtualLoop("history")  # type: ignore[abstract]
    scene = Told(loop)
    scene.committed(22)
    scene.listed(22)
    assert not scene.told("id", 22)
    scene.committed(25)
    scene.history.new_era(EAST)
    scene.committed(22, 23, 25)
    return scene


def test_what_was_on_its_way_when_a_history_ended_may_be_told_of_it(scene: Told) -> None:
    assert not scene.told("id", 25)
    scene.listed(22)
    assert "23 of 11111111 was skipped" in scene.told("id+1", 25)


def test_what_is_told_of_the_new_history_skips_nothing(scene: Told) -> None:
    scene.listed(22)
    assert "23 of 11111111 was skipped" in scene.told("id+1", 25)


def test_what_only_the_new_history_has_is_of_no_other(scene: Told) -> None:
    scene.committed(26)
    assert "23 of 11111111 was skipped" in scene.told("id", 26)


def test_what_is_told_under_a_second_name_is_of_the_same_cluster(scene: Told) -> None:
    scene.listed(22, AGAIN)
    assert not scene.told("id+1", 23, AGAIN)
    assert not scene.told("id+1", 25, AGAIN)
    scene.committed(27)
    scene.history.finish()
    assert scene.trace.violation is not None
    assert "27 of 11111111" in scene.trace.violation.detail


def test_a_second_name_skips_nothing_either_and_tells_nothing_else(scene: Told) -> None:
    scene.listed(22, AGAIN)
    assert "23 of 11111111 was skipped" in scene.told("id+1", 25, AGAIN)


def test_what_was_on_its_way_under_a_second_name_may_be_told_of_the_history_before(scene: Told) -> None:
    """The name that was in use when the history ended tells what the old one had; the other one does not."""
    assert not scene.told("id", 22, AGAIN)
    scene.history.new_era(EAST)
    scene.committed(22, 26)
    assert not scene.told("id", 23, AGAIN)
    assert "29" in scene.told("id", 29, AGAIN)


def test_what_comes_under_the_second_name_after_the_first_is_told_once_more(scene: Told) -> None:
    scene.listed(22)
    assert not scene.told("id+1", 23)
    scene.listed(23, AGAIN)
    assert not scene.told("id", 23, AGAIN)
    assert not scene.told("id", 25, AGAIN)
    assert "after 25" in scene.told("id", 25, AGAIN)
