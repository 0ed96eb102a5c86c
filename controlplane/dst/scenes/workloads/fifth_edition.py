"""What the fifth edition of a plan has beside the fourth: pods, groups of pods, StatefulSets and LeaderWorkerSets, who
keeps them from running on the management cluster, and what happens to a part of a job.

In: a source of its own, so that nothing of the editions before is drawn differently; the number from which jobs are
counted. Out: traits, which hold for the whole run, and steps without numbers. What is drawn here counts as published
once a seed of it is pinned; add a sixth edition then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, Step
from controlplane.dst.scenes.workloads.processes import KIND, KUEUES, WEBHOOK

_Scene = Callable[[random.Random, Sequence[str]], list[Step]]
_POD: Final = "Pod"
NEW_KINDS: Final = (_POD, "StatefulSet", "LeaderWorkerSet")


def traits(source: random.Random) -> tuple[str, ...]:
    """Draw what holds for the whole run: the kinds, and whether our webhook gates pods and names controllers, Kueue's
    does, or users gate pods themselves.
    """
    kinds = source.sample(NEW_KINDS, source.randint(1, len(NEW_KINDS)))
    gate = source.choice(("", WEBHOOK, KUEUES))
    return (*([gate] if gate else []), *(KIND + name for name in sorted(kinds)))


def draw(source: random.Random, drawn: Sequence[str], first: int) -> list[Step]:
    """Draw the steps: a job or two of each kind, groups of pods among them, and one to three scenes about them."""
    kinds = [trait.removeprefix(KIND) for trait in drawn if trait.startswith(KIND)]
    steps: list[Step] = []
    for kind in kinds:
        for _ in range(source.choice((1, 1, 2))):
            steps.append(_submission(source, kind, first + len(steps)))
    more = scenes(source, SCENES, source.randint(1, 3), [step.where for step in steps])
    return [*steps, *more]


def _submission(source: random.Random, kind: str, number: int) -> Step:
    sort = NEVER_TWICE if source.random() < 0.3 else "job"
    seconds = float(source.choice((20, 60, 150, 400)))
    at = round(source.uniform(2.0, HORIZON * 0.5), 3)
    if kind == _POD and source.random() < 0.7:
        return Step(0, at, "submit-group", f"{sort}-group-{number}", seconds, source.randint(2, 3))
    return Step(0, at, "submit-kind", f"{sort}-{kind.lower()}-{number}", seconds, source.randint(1, 3))


def _at(source: random.Random) -> float:
    return round(source.uniform(10.0, HORIZON * 0.8), 3)


def _on_a_job(source: random.Random, jobs: Sequence[str]) -> list[Step]:
    """What people and Kueue do to jobs, done to one of these."""
    kind = source.choice(("preempt", "delete-job", "priority", "suspend"))
    seconds = round(source.uniform(5, 60), 1)
    return [Step(0, _at(source), kind, source.choice(jobs), seconds, source.randint(1, 60))]


def _on_a_part(source: random.Random, jobs: Sequence[str]) -> list[Step]:
    """A part of a job is preempted, perhaps again and again."""
    job = source.choice(jobs)
    times = source.choice((1, 1, 2, 3))
    return [Step(0, _at(source), "preempt-one", job, 0.0, source.randint(1, 60)) for _ in range(times)]


def _pods_go(source: random.Random, jobs: Sequence[str]) -> list[Step]:
    """Pods of a group are deleted, one or two of them."""
    job = source.choice(jobs)
    times = source.choice((1, 1, 2))
    return [Step(0, _at(source), "delete-pod", job, 0.0, source.randint(1, 60)) for _ in range(times)]


def _take_name(source: random.Random, jobs: Sequence[str]) -> list[Step]:
    """Somebody takes the names of their cluster from the Workloads of a job."""
    return [Step(0, _at(source), "take-name", source.choice(jobs))]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "on-a-job": (4, _on_a_job),
    "on-a-part": (4, _on_a_part),
    "pods-go": (3, _pods_go),
    "take-name": (2, _take_name),
}
