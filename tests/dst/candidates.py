"""Plans of the scene `candidates` written by hand, and what their runs have to say."""

from __future__ import annotations

from dataclasses import replace

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.dst.scenes.candidates.plan import SCENE
from tests.dst.plans import held

PODS_KIND, CANDIDATES_KIND, NODES_KIND, SOURCES_KIND, TARGETS_KIND = range(5)  # which kind `blind` hides


def written(*steps: Step, seed: int = 1, replicas: int = 1, traits: tuple[str, ...] = (), **nodes: int) -> Plan:
    """Return a plan of these steps, on targets with so many nodes."""
    numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, start=1))
    where = nodes or {"east": 2, "west": 2}
    return Plan(seed, where, replicas, numbered, len(numbered), scene=SCENE, traits=traits)


def step(at: float, kind: str, where: str = "", seconds: float = 0.0, value: int = 0) -> Step:
    """Return a step without a number."""
    return Step(0, at, kind, where, seconds, value)


def pod(at: float, name: str = "web-1", cpus: int = 1, seconds: float = 20.0) -> Step:
    """Return the submission of a pod."""
    return Step(0, at, "submit-pod", name, seconds, cpus)


def played(*steps: Step, **more: object) -> Outcome:
    """Play steps; every rule has to hold."""
    outcome = play(written(*steps, **more))  # type: ignore[arg-type]
    assert held(outcome)
    return outcome
