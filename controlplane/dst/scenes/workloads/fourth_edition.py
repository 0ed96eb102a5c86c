"""What the fourth edition of a plan has beside the third: who nominates, by which rules, jobs of every kind, elastic
jobs that become larger and smaller, jobs that say where they may go, and administrators who change what clusters are
called and what is said of them.

In: a source of its own, so that nothing of the editions before is drawn differently; the workers; the number from which
jobs are counted. Out: traits, which hold for the whole run, and steps without numbers. What is drawn here counts as
published once a seed of it is pinned; add a fifth edition then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, Step
from controlplane.dst.scenes.workloads.manifests import KINDS
from controlplane.dst.scenes.workloads.processes import (
    DISPATCHERS,
    EXTERNAL,
    KIND,
    NOT_IN_B,
    QUOTA,
    RULES,
    SCORED,
    USUAL_KINDS,
)

_Scene = Callable[[random.Random, Sequence[str], Sequence[str]], list[Step]]
OTHER_KINDS: Final = tuple(sorted(name for name in KINDS if name not in USUAL_KINDS))
ZONES: Final = ("a", "b")


def traits(source: random.Random) -> tuple[str, ...]:
    """Draw what holds for the whole run: the dispatcher, its rules, which kinds are dispatched beside the usual ones,
    whether quota is automated.
    """
    dispatcher = source.choices(DISPATCHERS, (2, 3, 4, 3))[0]
    found = [dispatcher]
    if dispatcher == SCORED:
        found += sorted(source.sample(sorted(RULES), source.randint(1, 3)))
    if source.random() < 0.25:
        found.append(QUOTA)
    return (*found, *(KIND + name for name in sorted(source.sample(OTHER_KINDS, 3))))


def draw(source: random.Random, drawn: Sequence[str], workers: Sequence[str], first: int) -> list[Step]:
    """Draw the steps: one to three jobs of other kinds, an elastic one, perhaps one that says where it may go, and one
    or two scenes.
    """
    kinds = [trait.removeprefix(KIND) for trait in drawn if trait.startswith(KIND)]
    steps = [_of_a_kind(source, kinds, number) for number in range(first, first + source.randint(1, 3))]
    elastic = _elastic(source, first + 10) if source.random() < 0.6 else []
    if source.random() < 0.5:
        zone = source.choice(ZONES) if NOT_IN_B not in drawn else ZONES[0]
        steps.append(_submission(source, "submit-there", f"job-{first + 20}-{zone}"))
    jobs = [step.where for step in (*steps, *elastic[:1])]
    more = scenes(source, SCENES, source.choice((1, 2, 2)), workers, jobs)
    if EXTERNAL in drawn:
        more.append(Step(0, 0.5, "nominator", "", 0.0, source.randint(8, 40)))
    return [*steps, *elastic, *more]


def _at(source: random.Random, earliest: float = 2.0, latest: float = HORIZON * 0.8) -> float:
    return round(source.uniform(earliest, latest), 3)


def _submission(source: random.Random, kind: str, name: str) -> Step:
    seconds = float(source.choice((5, 20, 60, 150, 400)))
    return Step(0, _at(source, latest=HORIZON * 0.5), kind, name, seconds, source.randint(1, 3))


def _of_a_kind(source: random.Random, kinds: Sequence[str], number: int) -> Step:
    """Submit a job of a kind, which is the middle word of its name."""
    sort = NEVER_TWICE if source.random() < 0.3 else "job"
    return _submission(source, "submit-kind", f"{sort}-{source.choice(kinds).lower()}-{number}")


def _elastic(source: random.Random, number: int) -> list[Step]:
    """Submit an elastic job, and give it other sizes."""
    name = f"{NEVER_TWICE if source.random() < 0.3 else 'job'}-{number}"
    at = _at(source, latest=HORIZON * 0.4)
    first = Step(0, at, "submit-elastic", name, float(source.choice((60, 150, 400, 900))), source.randint(1, 3))
    times = sorted(_at(source, at) for _ in range(source.randint(1, 4)))
    return [first, *(Step(0, when, "resize", name, 0.0, source.choice((1, 2, 2, 3, 3, 5))) for when in times)]


def _second_name(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """A worker has two names for a while."""
    at, seconds = _at(source), round(source.uniform(10, 260), 1)
    return [Step(0, at, "second-name", source.choice(workers), seconds, source.randint(1, 60))]


def _renew(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """A MultiKueueCluster is deleted and made again at once, once or twice."""
    where = source.choice(workers)
    return [Step(0, _at(source), "renew-cluster", where) for _ in range(source.choice((1, 1, 2)))]


def _relabel(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """What is said of clusters changes for a while."""
    return [
        Step(0, _at(source), "relabel", source.choice(workers), round(source.uniform(5, 200), 1), source.randint(1, 60))
        for _ in range(source.randint(1, 3))
    ]


def _take_name(source: random.Random, _: Sequence[str], jobs: Sequence[str]) -> list[Step]:
    """Somebody takes the name of its cluster from a Workload that has one, a few times."""
    return [Step(0, _at(source, 10.0), "take-name", source.choice(jobs)) for _ in range(source.randint(1, 4))]


def _on_a_job(source: random.Random, _: Sequence[str], jobs: Sequence[str]) -> list[Step]:
    """What people do to jobs, done to one of a kind of this edition."""
    kind = source.choice(("preempt", "delete-job", "priority", "suspend"))
    return [
        Step(0, _at(source, 10.0), kind, source.choice(jobs), round(source.uniform(5, 60), 1), source.randint(1, 60))
    ]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "second-name": (4, _second_name),
    "renew": (3, _renew),
    "relabel": (4, _relabel),
    "take-name": (4, _take_name),
    "on-a-job": (4, _on_a_job),
}
