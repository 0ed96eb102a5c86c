"""The scenes by name: how the plans of each are drawn, and who plays them.

In: the name of a scene ("": Workloads over clusters), a seed, or a plan. Out: a plan; an outcome. The rooms that a scene plays are imported
when it is asked for.
"""

from __future__ import annotations

from controlplane.simulation.deterministic.plan import EDITION, Plan
from controlplane.simulation.deterministic.plan import plan_of as drawn
from controlplane.simulation.deterministic.simulation import Outcome, simulate

SCENES = ("local",)


def plan_of(seed: int, *, scene: str = "", edition: int = EDITION) -> Plan:
    """Draw the plan of a seed."""
    if not scene:
        return drawn(seed, edition=edition)
    from controlplane.simulation.deterministic.local_rooms.plan import plan_of as local

    return local(seed)


def play(plan: Plan) -> Outcome:
    """Play a plan of any scene."""
    if not plan.scene:
        return simulate(plan)
    from controlplane.simulation.deterministic.local_rooms.simulation import LocalSimulation

    return simulate(plan, LocalSimulation)
