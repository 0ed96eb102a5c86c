"""Pods are spread evenly over fleets with thousands of nodes in the time that a scheduling cycle has."""

from __future__ import annotations

import random
import time

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


@each("nodes, rooms, pods", [(1500, [4], 3001), (1000, list(range(1, 9)), 3001)])
def test_domains_are_chosen_quickly_out_of_many(nodes: int, rooms: list[int], pods: int) -> None:
    asked = fleet(nodes, rooms, pods)
    began = time.process_time()
    placed = answer(asked)["workers"]["domains"]
    assert time.process_time() - began < 4
    assert sum(count for _, count in placed) == pods
    assert placed != answer({**asked, "balanced": False})["workers"]["domains"]
