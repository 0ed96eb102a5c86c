"""What is to happen in a run of the scene `admission`, drawn from its seed, as a numbered list of steps.

In: a seed. Out: a `Plan`; the same seed gives the same plan for ever, and any part of its steps is a plan again. The
trouble is that of the scene `workloads`, of its first four editions, without what Kueue does on the management cluster;
and what people do to queues and Workloads. A job's name ends with the letter of its queue and its priority."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from controlplane.dst.engine.drawing import ON_PROCESS, Trouble, kinds, numbered, span, with_later
from controlplane.dst.engine.plan import EDITION, Plan
from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, Step
from controlplane.dst.scenes.admission import eighth_edition, ninth_edition, tenth_edition
from controlplane.dst.scenes.admission.queues import LETTERS, PRIORITIES, SHAPES
from controlplane.dst.scenes.workloads import fourth_edition, second_edition, third_edition
from controlplane.dst.scenes.workloads.plan import ON_JOB, ON_MANAGEMENT_TOO, ON_WORKER, TROUBLE
from controlplane.dst.scenes.workloads.processes import ALL_AT_ONCE, BUILTIN, INCREMENTAL
from controlplane.simulation.world import MANAGEMENT

SCENE: Final = "admission"
SHAPE: Final = "shape:"
_OURS: Trouble = {
    "stop-queue": (6, 10, 90),
    "delete-workload": (5, 0, 0),
    "start-job": (4, 0, 0),
    "raise": (5, 0, 0),
}
_KUEUES = frozenset({"preempt", "drain-queue"})
_TROUBLE: Trouble = {**{kind: row for kind, row in TROUBLE.items() if kind not in _KUEUES}, **_OURS}
_LATER: Trouble = {"second-name": (1, 0, 0), "renew-cluster": (1, 0, 0), "relabel": (1, 0, 0), "take-name": (1, 0, 0)}

_LATER_EDITIONS = {8: eighth_edition, 9: ninth_edition, 10: tenth_edition}


def plan_of(seed: int, *, edition: int = EDITION, jobs: int = 0, trouble: int = -1) -> Plan:
    """Draw a plan; editions before the eighth are alike. `jobs` and `trouble` fix how many jobs there are and how much
    goes wrong."""
    source = _source("plan", seed)
    workers = [f"w{number}" for number in range(1, 4)]
    quotas = {MANAGEMENT: 12} | {name: source.choice((3, 4, 6)) for name in workers}
    replicas = 2 if source.random() < 0.4 else 1
    shape = source.randrange(len(SHAPES))
    steps = [_submission(source, number) for number in range(1, (jobs or source.randint(6, 10)) + 1)]
    names = [step.where for step in steps]
    count = source.randint(5, 11) if trouble < 0 else trouble
    steps += [_trouble(source, kind, workers, names, replicas) for kind in kinds(source, _TROUBLE, count)]
    if trouble != 0:
        steps += second_edition.draw(_source("plan 2", seed), workers, len(names) + 1)
        steps += third_edition.draw(_source("plan 3", seed), workers, len(names) + 21)
        steps += _administrators(_source("plan 4", seed), workers, names)
    steps = [_adapted(step) for step in _ranked(source, steps, len(SHAPES[shape].queues))]
    traits: tuple[str, ...] = (BUILTIN, source.choice((ALL_AT_ONCE, INCREMENTAL)), f"{SHAPE}{shape}")
    drawn = numbered(steps)
    for number in range(min(_LATER_EDITIONS), min(edition, max(_LATER_EDITIONS)) + 1):
        more, later = _source(f"plan {number}", seed), _LATER_EDITIONS[number]
        traits = tuple(dict.fromkeys((*traits, *later.traits(more))))
        drawn = with_later(drawn, later.draw(more, traits, LETTERS[: len(SHAPES[shape].queues)], drawn))
    return Plan(seed, quotas, replicas, tuple(drawn), len(drawn), max(edition, 7), SCENE, traits)


def _source(name: str, seed: int) -> random.Random:
    return random.Random(f"{name} {SCENE} {seed}")  # noqa: S311 - reproducible on purpose


def _submission(source: random.Random, number: int) -> Step:
    """Many jobs come early, so that there is too little for all."""
    sort = NEVER_TWICE if source.random() < 0.15 else "job"
    at = round(source.uniform(2.0, HORIZON * 0.35), 3)
    return Step(0, at, "submit", f"{sort}-{number}", float(source.choice((20, 60, 150, 400))), source.randint(1, 3))


def _trouble(source: random.Random, kind: str, workers: Sequence[str], jobs: Sequence[str], replicas: int) -> Step:
    at, seconds = span(source, _TROUBLE, kind)
    value = source.randint(1, 60)
    if kind in ON_MANAGEMENT_TOO and source.random() < 0.35:
        return Step(0, at, kind, MANAGEMENT, min(seconds, 90.0), value)
    if kind in ON_WORKER:
        return Step(0, at, kind, source.choice(workers), seconds, value)
    if kind in ON_PROCESS:
        return Step(0, at, kind, f"replica-{source.randint(1, replicas)}", seconds, value)
    if kind in ON_JOB or kind in _OURS:
        return Step(0, at, kind, source.choice(jobs), seconds, value)
    return Step(0, at, kind, "", seconds, value)


def _administrators(source: random.Random, workers: Sequence[str], jobs: Sequence[str]) -> list[Step]:
    """What administrators do to clusters, once or not at all."""
    if source.random() < 0.5:
        return []
    kind = kinds(source, _LATER, 1)[0]
    return fourth_edition.SCENES[{"renew-cluster": "renew"}.get(kind, kind)][1](source, workers, jobs)


def _ranked(source: random.Random, steps: Sequence[Step], queues: int) -> list[Step]:
    """Give each job a queue and a priority, in its name, wherever it is named."""
    submitted = sorted({step.where for step in steps if step.kind in eighth_edition.SUBMISSIONS})
    names = {name: f"{name}-{source.choice(LETTERS[:queues])}-{source.choice(tuple(PRIORITIES))}" for name in submitted}
    return [replace(step, where=names.get(step.where, step.where)) for step in steps]


def _adapted(step: Step) -> Step:
    """Nobody preempts by hand where the quota is ours: who is to be preempted is outbid."""
    return replace(step, kind="raise") if step.kind == "preempt" else step
