"""What is to happen in a run, drawn from its seed: sizes, jobs, users, and trouble, as a numbered list of steps.

In: a seed and an edition. Out: a `Plan`, which says everything that is not left to the scheduler; the same seed and
edition give the same plan for ever (it is a file format in disguise: change the drawing and all pinned seeds change).
Hence the editions: the first is drawn here and is closed; the second is the first and, from a source of its own, the
scenes of `second_edition`; each later one is the one before and, again from its own source, the scenes of its module.
A plan with some steps
left out is again a plan, which is how a failure is made smaller; `spell` and `chosen` are the two directions of
`--steps`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from controlplane.dst.engine.drawing import ON_PROCESS, ON_THE_WAY, Trouble, kinds, numbered, span, with_later
from controlplane.dst.engine.plan import EDITION, Plan
from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, Step
from controlplane.dst.scenes.workloads import (
    fifth_edition,
    fourth_edition,
    second_edition,
    seventh_edition,
    sixth_edition,
    tenth_edition,
    third_edition,
)
from controlplane.simulation.world import MANAGEMENT

TROUBLE: Trouble = {
    "partition": (10, 5, 320),
    "refuse": (6, 2, 260),
    "mute": (5, 5, 120),
    "slow": (6, 20, 120),
    "lose-replies": (8, 10, 120),
    "throttle": (3, 10, 60),
    "errors": (5, 10, 90),
    "late-errors": (4, 10, 90),
    "conflicts": (4, 10, 60),
    "unauthorized": (2, 5, 60),
    "echo": (4, 30, 120),
    "compact": (6, 0, 0),
    "cut": (4, 0, 0),
    "restore": (5, 20, 120),
    "rebuild": (3, 0, 0),
    "kind-off": (3, 20, 120),
    "crash": (12, 0, 0),
    "stop": (3, 0, 0),
    "pause": (7, 5, 90),
    "clock": (4, 0, 0),
    "database-away": (6, 1, 40),
    "preempt-copy": (8, 0, 0),
    "deactivate-copy": (4, 0, 0),
    "preempt": (6, 0, 0),
    "drain-queue": (3, 10, 60),
    "delete-job": (6, 0, 0),
    "delete-clone": (5, 0, 0),
    "delete-copy": (5, 0, 0),
    "priority": (5, 0, 0),
    "unlist-cluster": (4, 10, 260),
    "delete-cluster": (3, 10, 260),
    "suspend": (4, 5, 60),
    "foreign-job": (4, 0, 0),
    "bad-kubeconfig": (2, 10, 90),
    "new-token": (3, 5, 60),
}
ON_MANAGEMENT_TOO = ON_THE_WAY | {"compact"}
ON_WORKER = ON_MANAGEMENT_TOO | {
    "unauthorized",
    "restore",
    "rebuild",
    "kind-off",
    "preempt-copy",
    "deactivate-copy",
    "delete-clone",
    "delete-copy",
    "unlist-cluster",
    "delete-cluster",
    "foreign-job",
    "bad-kubeconfig",
    "new-token",
}
ON_JOB = frozenset(["preempt", "delete-job", "priority", "suspend"])


def plan_of(seed: int, *, edition: int = EDITION, jobs: int = 0, trouble: int = -1) -> Plan:
    """Draw a plan; `jobs` and `trouble` fix the numbers of the first edition's, which are otherwise 4 to 6 and 6 to
    12.
    """
    names_of = ("plan", *(f"plan {number}" for number in range(2, 8)))
    source, second, third, fourth, fifth, sixth, seventh = (
        random.Random(f"{name} {seed}")  # noqa: S311 - reproducible on purpose
        for name in names_of
    )
    workers = [f"w{number}" for number in range(1, 4)]
    quotas = {MANAGEMENT: 12} | {name: source.choice((3, 4, 6)) for name in workers}
    replicas = 2 if source.random() < 0.4 else 1
    names = _names(source, jobs or source.randint(4, 6))
    steps = numbered(_first_edition(source, workers, names, replicas, trouble))
    if edition > 1:
        steps = with_later(steps, second_edition.draw(second, workers, len(names) + 1))
    if edition > 2:
        steps = with_later(steps, third_edition.draw(third, workers, len(steps) + 1))
    traits = fourth_edition.traits(fourth) if edition > 3 else ()
    if edition > 3:
        steps = with_later(steps, fourth_edition.draw(fourth, traits, workers, len(steps) + 1))
    if edition > 4:
        more = fifth_edition.traits(fifth)
        traits = (*traits, *more)
        steps = with_later(steps, fifth_edition.draw(fifth, more, len(steps) + 1))
    if edition > 5:
        traits = (*traits, *sixth_edition.traits(sixth))
        steps = with_later(steps, sixth_edition.draw(sixth, traits, steps, len(steps) + 41))
    if edition > 6:
        steps = with_later(steps, seventh_edition.draw(seventh, workers))
    plan = Plan(seed, quotas, replicas, tuple(steps), len(steps), edition, traits=traits)
    return _tenth(plan, workers) if edition > 9 else plan  # the eighth and the ninth are of another scene


def _tenth(plan: Plan, workers: Sequence[str]) -> Plan:
    """Return a plan with what the tenth edition has beside those before."""
    source = random.Random(f"plan 10 {plan.seed}")  # noqa: S311 - reproducible on purpose
    traits = (*plan.traits, *tenth_edition.traits(source, plan.traits))
    steps = with_later([*plan.steps], tenth_edition.draw(source, workers, plan.replicas, plan.steps))
    return replace(plan, steps=tuple(steps), size=len(steps), traits=traits)


def _first_edition(
    source: random.Random, workers: Sequence[str], names: Sequence[str], replicas: int, trouble: int
) -> list[Step]:
    steps = [_submission(source, name) for name in names]
    count = source.randint(6, 12) if trouble < 0 else trouble
    return steps + [_trouble(source, kind, workers, names, replicas) for kind in kinds(source, TROUBLE, count)]


def _names(source: random.Random, count: int) -> list[str]:
    sorts = [NEVER_TWICE if source.random() < 0.2 else "job" for _ in range(count)]
    return [f"{sort}-{number}" for number, sort in enumerate(sorts, start=1)]


def _submission(source: random.Random, name: str) -> Step:
    at = source.uniform(2.0, HORIZON * 0.5)
    return Step(0, round(at, 3), "submit", name, float(source.choice((5, 20, 60, 150, 400))), source.randint(1, 3))


def _trouble(source: random.Random, kind: str, workers: Sequence[str], jobs: Sequence[str], replicas: int) -> Step:
    at, seconds = span(source, TROUBLE, kind)
    value = source.randint(1, 60)
    if kind in ON_MANAGEMENT_TOO and source.random() < 0.25:
        return Step(0, at, kind, MANAGEMENT, min(seconds, 90.0), value)
    if kind in ON_WORKER:
        return Step(0, at, kind, source.choice(workers), seconds, value)
    if kind in ON_PROCESS:
        return Step(0, at, kind, f"replica-{source.randint(1, replicas)}", seconds, value)
    if kind in ON_JOB:
        return Step(0, at, kind, source.choice(jobs), seconds, value)
    return Step(0, at, kind, "", seconds, value)
