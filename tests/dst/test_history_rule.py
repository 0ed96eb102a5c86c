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
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import NewEvent

EAST, ONE = "east", "11111111-1111"


class Told:
    """The rule, and what it hears."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.trace = Trace(loop)
        self.history = HistoryRules(self.trace)

    def committed(self, *versions: int) -> None:
        for version in versions:
            self.history.committed(EAST, WORKLOADS, ONE, version)

    def listed(self, version: int) -> None:
        event = KindSynced(kind=WORKLOADS.name, resource_version=str(version), count=1, gap=False)
        self.history.appended(NewEvent(stream="cluster/east", event=event, cluster=EAST))

    def told(self, life: str, version: int) -> str:
        event = CloneObserved(namespace="ns", name="p", uid=ONE, resource_version=str(version), spec_key="k")
        source = f"{EAST}/{life}/{WORKLOADS.name}/{ONE}"
        self.history.appended(NewEvent(stream="s", event=event, cluster=EAST, source=source, mark=version))
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
