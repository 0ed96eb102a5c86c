"""What can be played, by name: which plans a scene has, and who plays them.

In: a scene and a seed, or a plan. Out: a plan, or an outcome. What a scene brings along is imported when it is asked for.
"""

from __future__ import annotations

from typing import Final

from controlplane.simulation.deterministic import plan as plans
from controlplane.simulation.deterministic.plan import EDITION, Plan
from controlplane.simulation.deterministic.simulation import Outcome, simulate

WORKLOADS: Final = "workloads"
SCENES: Final = (WORKLOADS, "local")
"""Workloads over many clusters; and the pods of one's own cluster: PodGroups, PipelineRuns, gangs."""


def plan_of(scene: str, seed: int, edition: int = EDITION) -> Plan:
    """Draw a plan of a scene; only Workloads have more than one edition."""
    if scene == WORKLOADS:
        return plans.plan_of(seed, edition=edition)
    from controlplane.simulation.deterministic.local_rooms.plan import plan_of as local

    return local(seed)


def play(plan: Plan) -> Outcome:
    """Play a plan of any scene."""
    if not plan.scene:
        return simulate(plan)
    from controlplane.simulation.deterministic.local_rooms.simulation import LocalSimulation

    return simulate(plan, LocalSimulation)
