"""Pods are spread evenly over fleets with thousands of nodes, and few of the sets of nodes that there are are looked
at."""

from __future__ import annotations

import random
from typing import Any

import pytest

from controlplane.controllers.quota.topology import balanced
from controlplane.kube.kinds import Json
from tests.quota.placement_questions import answer
from tests.quota.topology_fleets import HOST
from tests.support.rows import each


def fleet(nodes: int, rooms: list[int], pods: int) -> Json:
    """A topology of nodes alone, and pods that prefer one node."""
    chance = random.Random(1)
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "levels": [HOST],
        "balanced": True,
        "preferred": False,
        "nodes": [
            {
                "metadata": {"name": f"n{at:05}", "labels": {HOST: f"n{at:05}"}},
                "spec": {},
                "status": {"allocatable": {"cpu": str(chance.choice(rooms)), "pods": "1000"}, "conditions": ready},
            }
            for at in range(nodes)
        ],
        "podSets": [
            {
                "name": "workers",
                "count": pods,
                "topologyRequest": {"preferred": HOST},
                "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
            }
        ],
    }


class CountingSearch(balanced._BalancedSearch):
    """Counts what is looked at: each number of pods left, for each domain that is tried."""

    looked_at = 0

    def _reach(self, number: int, *rest: Any) -> int:
        CountingSearch.looked_at += sum(map(len, self._reached[number - 1].values()))
        return super()._reach(number, *rest)


@each("nodes, rooms, pods", [(1500, [4], 3001), (1000, list(range(1, 9)), 3001)])
def test_few_sets_are_looked_at(nodes: int, rooms: list[int], pods: int) -> None:
    asked = fleet(nodes, rooms, pods)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(balanced, "_BalancedSearch", CountingSearch)
        CountingSearch.looked_at = 0
        placed = answer(asked)["workers"]["domains"]
    assert sum(count for _, count in placed) == pods
    assert placed != answer({**asked, "balanced": False})["workers"]["domains"]
    assert 0 < CountingSearch.looked_at < 200 * nodes
