"""Plans of the local scene written by hand, and how they are played."""

from __future__ import annotations

from dataclasses import replace

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.local.plan import NODES, SCENE


def plan(*steps: Step, seed: int = 1, replicas: int = 1, cpus: int = 4) -> Plan:
    """Return a plan of these steps, numbered in their order."""
    numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, start=1))
    return Plan(seed, dict.fromkeys(NODES, cpus), replicas, numbered, len(numbered), scene=SCENE)
