"""What is to happen in a run of the scene `local`, drawn from its seed: owners, runs, people, trouble, as a numbered
list of steps.

In: a seed. Out: a `Plan`; the same seed gives the same plan for ever, and any part of its steps is a plan again.
`quotas` is CPUs by node. Three of the nodes are there from the beginning and small, so that gangs wait for each other;
six more come when all trouble ends."""

from __future__ import annotations

import random

from controlplane.dst.engine.drawing import ON_PROCESS, Trouble, kinds, numbered, span, with_later
from controlplane.dst.engine.plan import EDITION, Plan
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes import faults
from controlplane.dst.scenes.local.processes import CONTROLLERS, SCHEDULER
from controlplane.dst.scenes.workloads.processes import PIECES, SNAPSHOTS

SCENE = "local"
NODES = ("n1", "n2", "n3")

#: What people create, and how often each is drawn; the first word of its name says what it is.
MADE: dict[str, int] = {
    "deploy": 8,
    "set": 3,
    "job": 4,
    "pod": 2,
    "custom": 4,
    "team": 3,
    "run": 9,
    "run-later": 2,
    "run-without-claim": 3,
    "squat-group": 2,
}

#: What people do to what is there, and how often, and for how long: (weight, shortest, longest).
DONE: Trouble = {
    "roll": (8, 0, 0),
    "scale": (4, 0, 0),
    "delete-owner": (4, 0, 0),
    "cancel-run": (4, 0, 0),
    "delete-run": (4, 0, 0),
    "again-run": (3, 0, 0),
    "flag": (3, 0, 0),
    "rules": (5, 20, 120),
    "withdraw": (9, 10, 150),
    "cordon": (8, 20, 150),
    "drain": (5, 20, 150),
    "lose-node": (3, 10, 120),
    "evict": (8, 0, 0),
    "delete-pod": (4, 0, 0),
    "squat-set": (3, 20, 120),
}

TROUBLE: Trouble = {
    "partition": (8, 5, 150),
    "refuse": (5, 2, 120),
    "mute": (5, 5, 90),
    "slow": (5, 20, 120),
    "lose-replies": (9, 10, 120),
    "throttle": (3, 10, 60),
    "errors": (5, 10, 90),
    "late-errors": (5, 10, 90),
    "conflicts": (5, 10, 60),
    "echo": (4, 30, 120),
    "cut": (4, 0, 0),
    "compact": (4, 0, 0),
    "crash": (14, 0, 0),
    "stop": (3, 0, 0),
    "pause": (8, 5, 90),
    "clock": (4, 0, 0),
    "database-away": (5, 1, 40),
}
_ON_NODE = frozenset({"cordon", "drain", "lose-node"})
_NOWHERE = frozenset({"compact", "database-away"})


def plan_of(seed: int, *, edition: int = EDITION, made: int = 0, trouble: int = -1) -> Plan:
    """Draw a plan; editions before the tenth are alike. `made` and `trouble` fix how much is created and how much goes
    wrong."""
    source = random.Random(f"plan local {seed}")  # noqa: S311 - reproducible on purpose
    cpus = {name: source.choice((2, 3, 4)) for name in NODES}
    replicas = 2 if source.random() < 0.5 else 1
    made_kinds = source.choices(list(MADE), list(MADE.values()), k=made or source.randint(4, 8))
    steps: list[Step] = [_made(source, kind, number) for number, kind in enumerate(made_kinds, start=1)]
    steps += [_done(source, kind, len(made_kinds)) for kind in kinds(source, DONE, source.randint(4, 9))]
    count = source.randint(3, 9) if trouble < 0 else trouble
    steps += [_trouble(source, kind, replicas) for kind in kinds(source, TROUBLE, count)]
    traits: tuple[str, ...] = ()
    steps = numbered(steps)
    if edition > 9:
        traits, more = _tenth(random.Random(f"plan 10 local {seed}"), replicas)  # noqa: S311 - as above
        steps = with_later(steps, more)
    return Plan(seed, cpus, replicas, tuple(steps), len(steps), edition, scene=SCENE, traits=traits)


def _tenth(source: random.Random, replicas: int) -> tuple[tuple[str, ...], list[Step]]:
    """Draw what the tenth edition has beside those before, from a source of its own: snapshots, pieces of watches that
    are handed over together, faults of one process, of a database, of the API server."""
    traits = tuple(trait for trait, share in ((SNAPSHOTS, 0.4), (PIECES, 0.5)) if source.random() < share)
    sorts = (CONTROLLERS, SCHEDULER)
    processes = [f"{sort}-{number}" for sort in sorts for number in range(1, replicas + 1)]
    return traits, faults.draw(source, processes, sorts, sorts)


def _made(source: random.Random, kind: str, number: int) -> Step:
    at, seconds = round(source.uniform(1.0, HORIZON * 0.6), 3), float(source.choice((2, 5, 15, 40)))
    name = f"{'run' if kind.startswith('run') else kind}-{number}"
    return Step(0, at, kind, name, seconds, source.randint(0, 209))


def _done(source: random.Random, kind: str, made: int) -> Step:
    at, seconds = span(source, DONE, kind, earliest=5.0)
    where = (
        source.choice(NODES) if kind in _ON_NODE else f"run-{source.randint(1, made)}" if kind == "squat-set" else ""
    )
    if kind == "squat-set":
        at = round(source.uniform(0.0, HORIZON * 0.4), 3)
    return Step(0, at, kind, where, seconds, source.randint(0, 209))


def _trouble(source: random.Random, kind: str, replicas: int) -> Step:
    at, seconds = span(source, TROUBLE, kind)
    sort, value = source.choice((CONTROLLERS, SCHEDULER)), source.randint(1, 60)
    if kind in ON_PROCESS:
        return Step(0, at, kind, f"{sort}-{source.randint(1, replicas)}", seconds, value)
    return Step(0, at, kind, "" if kind in _NOWHERE else sort, seconds, value)
