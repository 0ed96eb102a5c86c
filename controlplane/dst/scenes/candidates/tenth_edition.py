"""What the tenth edition of a plan of this scene has beside those before: virtual nodes, snapshots, targets that are
full so that pods preempt, processes that are cut off alone, databases that err, rights that are taken away, kubelets
that reject, gated pods, and what administrators do to invitations, targets, kubeconfigs and namespaces, users to groups
and ConfigMaps.

In: a source of its own, so that nothing of an earlier edition is drawn differently; the targets, the steps so far. Out:
traits, and steps without numbers. What is drawn here counts as published once a seed of it is pinned."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes import faults
from controlplane.dst.scenes.candidates.environment import NEAR
from controlplane.dst.scenes.candidates.second_edition import PLACING
from controlplane.dst.scenes.faults import at, lasting, number
from controlplane.dst.scenes.workloads.processes import PIECES, SNAPSHOTS
from controlplane.simulation.world import MANAGEMENT

VIRTUAL_NODES: Final = "virtual-nodes"
FULL: Final = "full"
"""Targets are full for a while, and have a node more for what comes then."""
_Scene = Callable[[random.Random, Sequence[str], Sequence[Step]], list[Step]]


def traits(source: random.Random) -> tuple[str, ...]:
    """Draw what holds for the whole run."""
    drawn = ((VIRTUAL_NODES, 0.3), (SNAPSHOTS, 0.35), (PIECES, 0.5), (FULL, 0.4))
    return tuple(trait for trait, share in drawn if source.random() < share)


def draw(
    source: random.Random, drawn: Sequence[str], targets: Sequence[str], steps: Sequence[Step], processes: Sequence[str]
) -> list[Step]:
    """Draw the steps: one to three faults, one to three scenes, and what comes while targets are full."""
    logs = ("source", *targets)
    more = faults.draw(source, processes, logs, (MANAGEMENT, *targets, *(f"{NEAR}{name}" for name in targets)))
    more += scenes(source, SCENES, source.choice((1, 2, 3)), targets, steps)
    return [*more, *(_full(source) if FULL in drawn else ())]


def _full(source: random.Random) -> list[Step]:
    """All targets are full for a while, and one or two pods of high priority come then."""
    begins = at(source, 1.0, HORIZON * 0.5)
    steps = [Step(0, begins, "crowd", "", lasting(source, 60, 200))]
    for n in range(source.choice((1, 2))):
        when = round(begins + source.uniform(1.0, 40.0), 3)
        steps.append(Step(0, when, "submit-pod", f"high-{40 + n}", 0.0, 2))
    return steps


def _while_placed(source: random.Random, steps: Sequence[Step]) -> float:
    """Draw when something begins: mostly while a pod is placed."""
    pods = [step for step in steps if step.kind.startswith("submit")]
    if source.random() < 0.6:
        return round(source.choice(pods).at + source.uniform(0.0, PLACING), 3)
    return at(source)


def _there(kind: str, shortest: float, longest: float) -> _Scene:
    """Return a scene of one step in a target."""

    def draw_one(source: random.Random, targets: Sequence[str], steps: Sequence[Step]) -> list[Step]:
        when, seconds = _while_placed(source, steps), lasting(source, shortest, longest)
        return [Step(0, when, kind, source.choice(targets), seconds, number(source))]

    return draw_one


def _regroup(source: random.Random, _: Sequence[str], steps: Sequence[Step]) -> list[Step]:
    """What a gang asks for is changed while it is placed, or later."""
    gangs = [step for step in steps if step.kind == "submit-gang"]
    if not gangs:
        return []
    later = source.choice((source.uniform(0.0, 0.5), source.uniform(0.0, 100.0)))
    return [Step(0, round(gangs[0].at + later, 3), "regroup", gangs[0].where, lasting(source, 1, 60), number(source))]


def _gated(source: random.Random, _: Sequence[str], __: Sequence[Step]) -> list[Step]:
    """A pod comes gated, and small: it fits beside what may be spread."""
    return [Step(0, at(source), "submit-gated", "web-50", lasting(source, 1, 60), 1)]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "refuse-pods": (3, _there("refuse-pods", 2, 120)),
    "reinvite": (4, _there("reinvite", 5, 120)),
    "retier": (2, _there("retier", 5, 120)),
    "delete-namespace": (3, _there("delete-namespace", 0, 60)),
    "reject": (4, _there("reject", 2, 20)),
    "renew-cluster": (3, _there("renew-cluster", 5, 150)),
    "kubeconfig": (3, _there("kubeconfig", 5, 120)),
    "regroup": (3, _regroup),
    "gated": (3, _gated),
    "settings": (3, _there("settings", 2, 60)),
}
