"""What the tenth edition of a plan has beside those before: processes that are cut off alone, start from snapshots and
are replaced by others with other settings, a database that errs, rights that are taken away, copies that are deleted as
soon as they have ended, and what people and administrators do to copies, Workloads, checks, Secrets and workers'
queues.

In: a source of its own, so that nothing of the editions before is drawn differently; the workers; the replicas; the
steps so far. Out: traits, and steps without numbers. What is drawn here counts as published once a seed of it is
pinned."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes import faults
from controlplane.dst.scenes.faults import at, lasting, number
from controlplane.dst.scenes.workloads.processes import BRIEF, FLAVORS, LOCALITY, PIECES, SCORED, SNAPSHOTS
from controlplane.simulation.world import MANAGEMENT

_Scene = Callable[[random.Random, Sequence[str], Sequence[str]], list[Step]]


def traits(source: random.Random, drawn: Sequence[str]) -> tuple[str, ...]:
    """Draw what holds for the whole run."""
    found = [trait for trait, share in ((SNAPSHOTS, 0.4), (PIECES, 0.5), (BRIEF, 0.25)) if source.random() < share]
    if SCORED in drawn:
        found += [trait for trait, share in ((FLAVORS, 0.5), (LOCALITY, 0.3)) if source.random() < share]
    return tuple(found)


def draw(source: random.Random, workers: Sequence[str], replicas: int, steps: Sequence[Step]) -> list[Step]:
    """Draw the steps: one to three faults, and one to three scenes in which people and administrators act."""
    jobs = sorted({step.where for step in steps if step.kind.startswith("submit")})
    processes = [f"replica-{number}" for number in range(1, replicas + 1)]
    more = faults.draw(source, processes, ("",), (MANAGEMENT, *workers))
    return [*more, *scenes(source, SCENES, source.choice((1, 2, 3)), workers, jobs)]


def _somewhere(kind: str, shortest: float, longest: float) -> _Scene:
    """Return a scene of one step on a worker."""

    def draw_one(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
        return [Step(0, at(source), kind, source.choice(workers), lasting(source, shortest, longest), number(source))]

    return draw_one


def _of_a_job(kind: str) -> _Scene:
    """Return a scene of one step that a job is met with."""

    def draw_one(source: random.Random, _: Sequence[str], jobs: Sequence[str]) -> list[Step]:
        return [Step(0, at(source, 5.0), kind, source.choice(jobs), 0.0, number(source))]

    return draw_one


def _of_all(kind: str, shortest: float, longest: float) -> _Scene:
    """Return a scene of one step on the management cluster."""

    def draw_one(source: random.Random, _: Sequence[str], __: Sequence[str]) -> list[Step]:
        return [Step(0, at(source), kind, MANAGEMENT, lasting(source, shortest, longest), number(source))]

    return draw_one


def _edit_copies(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """Copies are edited, a few times."""
    return [Step(0, at(source, 8.0), "edit-copy", source.choice(workers), 0.0, number(source)) for _ in range(3)]


def _rollout(source: random.Random, _: Sequence[str], __: Sequence[str]) -> list[Step]:
    """Settings are changed, once or twice."""
    return [Step(0, at(source), "rollout", "", 0.0, number(source)) for _ in range(source.choice((1, 1, 2)))]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "rollout": (4, _rollout),
    "config": (3, _of_all("config", 5, 150)),
    "check": (4, _of_all("check", 5, 120)),
    "secret": (3, _somewhere("secret", 5, 240)),
    "hold-worker": (3, _somewhere("hold-worker", 5, 120)),
    "refuse-jobs": (4, _somewhere("refuse-jobs", 5, 150)),
    "foreign-clone": (3, _somewhere("foreign-clone", 0, 0)),
    "edit-copies": (3, _edit_copies),
    "remove-workload": (4, _of_a_job("remove-workload")),
    "reclass": (3, _of_a_job("reclass")),
}
