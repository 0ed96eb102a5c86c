"""Fixtures of simulated clusters."""

from __future__ import annotations

import pytest

from controlplane.simulation.kueue.common import Gates
from tests.simulation.kueue_cluster import Cluster


@pytest.fixture(params=[True, False], ids=["ssa", "merge-patch"])
def manager(request: pytest.FixtureRequest) -> Cluster:
    cluster = Cluster(manager=True, gates=Gates(multikueue=True, ssa=request.param))
    cluster.queues(checks=("multikueue",))
    return cluster
