"""What the ninth edition of a plan of admission has beside the eighth: pods and groups of pods, of which some are
preempted by one pod alone, deleted and made again.

In: a source of its own, so that nothing of the editions before is drawn differently; the letters of the queues; the
steps so far. Out: traits, and steps without numbers. What is drawn here counts as published once a seed of it is
pinned; add a tenth edition then."""

from __future__ import annotations

import random
from collections.abc import Sequence

from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes.admission.eighth_edition import submission
from controlplane.dst.scenes.workloads.processes import KIND
from controlplane.kube.kinds import PODS

_PODS = KIND + PODS.kind


def traits(source: random.Random) -> tuple[str, ...]:
    """Draw what holds for the whole run: whether pods have queues."""
    return (_PODS,) if source.random() < 0.6 else ()


def draw(source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step]) -> list[Step]:
    """Draw the steps."""
    if _PODS not in drawn:
        return []
    steps: list[Step] = []
    for number in range(len(before) + 161, len(before) + 161 + source.choice((1, 2, 2, 3))):
        kind, word = ("submit-group", "group") if source.random() < 0.7 else ("submit-kind", "pod")
        steps.append(submission(source, kind, f"{source.choice(('job', 'once'))}-{word}-{number}", letters))
    for _ in range(source.choice((0, 1, 2, 3))):
        kind = source.choice(("delete-pod", "delete-pod", "suspend", "raise", "delete-workload"))
        at = round(source.uniform(10.0, HORIZON * 0.8), 3)
        lasting = round(source.uniform(5, 60), 1) if kind == "suspend" else 0.0
        steps.append(Step(0, at, kind, source.choice(steps).where, lasting, source.randint(1, 60)))
    return steps
