"""Rules of the local scene that seldom have the last word: each is broken on purpose, in a scene of its own."""

from __future__ import annotations

import pytest

from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.dst.invariants.local.deadlines import GIVES, LEAVES
from controlplane.dst.play import play
from tests.dst.local.mutants.mutants import MUTANTS
from tests.dst.local.plans import plan
from tests.dst.plans import held, step

END = step(290, "cut", "rooms")


def test_a_gang_that_keeps_its_places_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes together have room for three, the one that is not cordoned for two."""
    cordoned = [step(2, "cordon", node, 250) for node in ("n1", "n2")]
    whole = plan(*cordoned, step(20, "deploy", "web-1", 0, 5), END, cpus=1)
    assert held(play(whole))
    monkeypatch.setattr(ClusterGangs, "failed", lambda self, identity: ())
    monkeypatch.setattr(ClusterGangs, "expired", lambda self, place: ())
    found = play(whole).violation
    assert found is not None
    assert found.rule == GIVES


@pytest.mark.deep  # six runs
def test_a_placeholder_that_stays_on_a_cordoned_node_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ("n1", "n2", "n3")
    scenes = [plan(step(10, "run", "run-1", 150, 1), step(60, "cordon", node, 200), END) for node in nodes]
    assert all(held(play(scene)) for scene in scenes)
    MUTANTS["cordon-before-tasks"].patch(monkeypatch)
    found = [violation.rule for scene in scenes if (violation := play(scene).violation) is not None]
    assert found == [LEAVES]
