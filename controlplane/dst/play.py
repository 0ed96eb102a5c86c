"""The scenes by name: how the plans of each are drawn, and who plays them.

In: the name of a scene, a seed, or a plan. Out: a plan; an outcome. A scene is imported when it is asked for.
"""

from __future__ import annotations

from typing import Final

from controlplane.dst.engine.plan import EDITION, Plan
from controlplane.dst.engine.run import Outcome, simulate
from controlplane.dst.scenes.workloads import plan as plans

WORKLOADS: Final = "workloads"
SCENES: Final = (WORKLOADS, "admission", "candidates", "local")
"""Workloads over many clusters; the same where this service decides on quota; candidate pods, with a scheduler beside
each target; the pods of one's own cluster."""


def plan_of(seed: int, *, scene: str = WORKLOADS, edition: int = EDITION) -> Plan:
    """Draw the plan of a seed."""
    if scene == WORKLOADS:
        return plans.plan_of(seed, edition=edition)
    if scene == "admission":
        from controlplane.dst.scenes.admission.plan import plan_of as admission

        return admission(seed, edition=edition)
    if scene == "candidates":
        from controlplane.dst.scenes.candidates.plan import plan_of as candidates

        return candidates(seed, edition=edition)
    from controlplane.dst.scenes.local.plan import plan_of as local

    return local(seed, edition=edition)


def play(plan: Plan) -> Outcome:
    """Play a plan of any scene."""
    if not plan.scene:
        from controlplane.dst.scenes.workloads.run import WorkloadRun

        return simulate(plan, WorkloadRun)
    if plan.scene == "admission":
        from controlplane.dst.scenes.admission.run import AdmissionRun

        return simulate(plan, AdmissionRun)
    if plan.scene == "candidates":
        from controlplane.dst.scenes.candidates.run import CandidateRun

        return simulate(plan, CandidateRun)
    from controlplane.dst.scenes.local.run import LocalRun

    return simulate(plan, LocalRun)
