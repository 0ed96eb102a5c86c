"""What is to happen in a run of the scene `candidates`, drawn from its seed: targets, pods, users, and trouble, as
numbered steps.

In: a seed. Out: a `Plan`; the same seed gives the same plan for ever, and any part of its steps is a plan again. What a
pod asks for is said by the first word of its name (`SORTS`); all that is submitted fits at once, so whatever nobody
took back has to run in the end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.dst.engine.drawing import ON_PROCESS, ON_THE_WAY, Trouble, kinds, numbered, span, with_later
from controlplane.dst.engine.plan import EDITION, Plan
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes.candidates import second_edition, seventh_edition, tenth_edition
from controlplane.dst.scenes.candidates.environment import NEAR
from controlplane.dst.scenes.candidates.second_edition import AT_ONCE, PLACING
from controlplane.simulation.world import MANAGEMENT

SCENE = "candidates"
NO_JOBS, TWO_SCHEDULERS = "candidates-alone", "two-schedulers"
VIRTUAL_NODES = tenth_edition.VIRTUAL_NODES  # those that are drawn without it may be played with it as well
GANG_PLUGIN = "gang-plugin"  # the schedulers reserve and report a quorum or nobody
TARGETS = ("east", "west", "north")
SOURCE_LOG = "source"
MOST_CPUS = 7  # of all pods that are to run: less than the smallest run has, however they lie

#: What pods are there, by the first word of their names, and how often each is drawn.
SORTS: dict[str, int] = {"web": 6, "task": 5, "spread": 4, "best": 2, "high": 3, "conf": 2, "huge": 1}

TROUBLE: Trouble = {
    "partition": (9, 5, 240),
    "refuse": (5, 2, 200),
    "mute": (6, 5, 90),
    "slow": (6, 20, 120),
    "lose-replies": (9, 10, 120),
    "throttle": (3, 10, 60),
    "errors": (4, 10, 90),
    "late-errors": (5, 10, 90),
    "conflicts": (5, 10, 60),
    "echo": (3, 30, 120),
    "blind": (6, 5, 90),
    "compact": (4, 0, 0),
    "cut": (4, 0, 0),
    "crash": (14, 0, 0),
    "stop": (3, 0, 0),
    "pause": (8, 5, 90),
    "clock": (3, 0, 0),
    "database-away": (6, 1, 40),
    "delete-pod": (6, 0, 0),
    "replace-pod": (5, 1, 30),
    "delete-delegate": (6, 0, 0),
    "delete-candidate": (4, 0, 0),
    "cordon": (5, 10, 120),
    "delete-node": (5, 20, 150),
    "rival": (7, 20, 150),
    "intruder": (4, 20, 150),
    "uninvite": (5, 10, 120),
    "disallow": (3, 10, 120),
    "stranger": (3, 20, 120),
}
_NETWORK = ON_THE_WAY | {"blind"}
_ON_POD = frozenset(["delete-pod", "replace-pod"])


def plan_of(seed: int, *, edition: int = EDITION, trouble: int = -1) -> Plan:
    """Draw a plan; `trouble` fixes the number of the first edition's troubles, which are otherwise 5 to 12.

    The first edition is closed: a seed of it means the same for ever. The second is the first, step for step, and more
    (`scenes`), and so is the seventh of those before it."""
    source = random.Random(f"plan {SCENE} {seed}")  # noqa: S311 - reproducible on purpose
    targets = TARGETS[: source.choice((2, 2, 3))]
    nodes = {name: source.choice((2, 2, 3)) for name in targets}
    replicas = 2 if source.random() < 0.4 else 1
    drawn = ((NEVER_TWICE, 0.3), (NO_JOBS, 0.5), (TWO_SCHEDULERS, 0.25))
    traits = tuple(trait for trait, share in drawn if source.random() < share)
    steps = _pods(source)
    submitted = list(steps)
    processes = process_names(targets, replicas, traits)
    count = source.randint(5, 12) if trouble < 0 else trouble
    steps += [_trouble(source, kind, targets, submitted, processes) for kind in kinds(source, TROUBLE, count)]
    steps = numbered(steps)
    if edition > 1:
        later = random.Random(f"plan 2 {SCENE} {seed}")  # noqa: S311 - as above
        gangs = second_edition.gangs(later)
        if gangs:
            # A node more for the members: all that is submitted still fits at once, and in each target the whole gang.
            nodes = {name: count + 1 for name, count in nodes.items()}
            traits += (GANG_PLUGIN,) * (later.random() < 0.5)
        steps += numbered([*gangs, *second_edition.draw(later, targets, [*submitted, *gangs])], len(steps) + 1)
        beside = second_edition.idle(random.Random(f"plan idle {SCENE} {seed}"), targets)  # noqa: S311 - as above
        if beside:
            # What is to be spread comes on top of what fits, and into one target less.
            nodes = {name: count + 1 for name, count in nodes.items()}
        steps += numbered(beside, len(steps) + 1)
        amended = second_edition.amendments(random.Random(f"plan amend {SCENE} {seed}"), submitted)  # noqa: S311 - as above
        steps += numbered(amended, len(steps) + 1)
        steps += numbered(_seventh(seed, edition, targets, submitted), len(steps) + 1)
        steps.sort(key=lambda step: step.at)
    plan = Plan(seed, nodes, replicas, tuple(steps), len(steps), edition, scene=SCENE, traits=traits)
    return _tenth(plan, targets, processes) if edition > 9 else plan  # the eighth and the ninth are of another scene


def _tenth(plan: Plan, targets: Sequence[str], processes: Sequence[str]) -> Plan:
    """Return a plan with what the tenth edition has beside those before: and a node more for what comes while all
    targets are full, and for the pod that comes gated."""
    source = random.Random(f"plan 10 {SCENE} {plan.seed}")  # noqa: S311 - as above
    more = tenth_edition.traits(source)
    nodes = {name: count + 1 + (tenth_edition.FULL in more) for name, count in plan.quotas.items()}
    steps = with_later([*plan.steps], tenth_edition.draw(source, more, targets, plan.steps, processes))
    return replace(plan, quotas=nodes, steps=tuple(steps), size=len(steps), traits=plan.traits + more)


def _seventh(seed: int, edition: int, targets: Sequence[str], submitted: Sequence[Step]) -> list[Step]:
    last = random.Random(f"plan 7 {SCENE} {seed}")  # noqa: S311 - as above
    return seventh_edition.draw(last, targets, submitted, SOURCE_LOG) if edition > 6 else []


def process_names(targets: Sequence[str], replicas: int, traits: Sequence[str]) -> list[str]:
    """Return the names of all processes of a run."""
    each = 2 if TWO_SCHEDULERS in traits else 1
    schedulers = [f"{name}-scheduler-{number}" for name in targets for number in range(1, each + 1)]
    return [f"replica-{number}" for number in range(1, replicas + 1)] + schedulers


def _pods(source: random.Random) -> list[Step]:
    """Draw the pods: four to six, as long as all of them fit."""
    steps, cpus = [], 0
    for number in range(1, source.randint(4, 6) + 1):
        sort = source.choices(list(SORTS), list(SORTS.values()))[0]
        wants = 1 if sort == "spread" else source.choice((1, 1, 2))
        if sort != "huge" and cpus + wants > MOST_CPUS:
            break
        cpus += 0 if sort == "huge" else wants
        at, seconds = round(source.uniform(2.0, HORIZON * 0.5), 3), float(source.choice((5, 20, 60, 150)))
        steps.append(Step(0, at, "submit-pod", f"{sort}-{number}", seconds, 100 if sort == "huge" else wants))
    return steps


def _trouble(
    source: random.Random, kind: str, targets: Sequence[str], pods: Sequence[Step], processes: Sequence[str]
) -> Step:
    at, seconds = span(source, TROUBLE, kind)
    if source.random() < AT_ONCE:
        at = round(source.choice(pods).at + source.uniform(0.0, PLACING), 3)
    value, target = source.randint(1, 60), source.choice(targets)
    if kind in _NETWORK:
        way = source.choice((target, target, f"{NEAR}{target}", f"{NEAR}{target}", MANAGEMENT))
        return Step(0, at, kind, way, seconds if way != MANAGEMENT else min(seconds, 90.0), value)
    if kind == "compact":
        return Step(0, at, kind, source.choice((target, target, MANAGEMENT)), seconds, value)
    if kind in ON_PROCESS:
        return Step(0, at, kind, source.choice(processes), seconds, value)
    if kind == "database-away":
        return Step(0, at, kind, source.choice((SOURCE_LOG, target)), seconds, value)
    if kind in _ON_POD:
        return Step(0, at, kind, source.choice(pods).where, seconds, value)
    return Step(0, at, kind, target, seconds, value)
