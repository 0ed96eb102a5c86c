"""What the sixth edition of a plan has beside the fifth: copies that wait for us before they preempt others, sets that
are scaled, and our webhook away while jobs are created.

In: a source of its own, so that nothing of the editions before is drawn differently; the traits and the steps so far;
the number from which jobs are counted. Out: traits, and steps without numbers. What is drawn here counts as published
once a seed of it is pinned; add a seventh edition then."""

from __future__ import annotations

import random
from collections.abc import Sequence

from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, Step
from controlplane.dst.scenes.workloads.processes import GATES, KIND, WEBHOOK

_SETS = ("-statefulset-", "-leaderworkerset-")


def traits(source: random.Random) -> tuple[str, ...]:
    """Draw what holds for the whole run: whether preemption on workers is orchestrated."""
    return (GATES,) if source.random() < 0.5 else ()


def draw(source: random.Random, drawn: Sequence[str], steps: Sequence[Step], first: int) -> list[Step]:
    """Draw the steps."""
    more = _urgent(source, first) if GATES in drawn else []
    sets = [step for step in steps if any(word in step.where for word in _SETS) and step.kind == "submit-kind"]
    for step in sets:
        times = source.choice((0, 1, 2, 3))
        more += [_scaled(source, step) for _ in range(times)]
    if WEBHOOK in drawn:
        more += _unheard(source, drawn, first + 10)
    return more


def _urgent(source: random.Random, first: int) -> list[Step]:
    """Jobs of a high priority, which preempt what runs."""
    return [
        Step(0, _at(source, 20.0), "submit-urgent", f"{_sort(source)}-{first + at}", _seconds(source), 3)
        for at in range(source.choice((1, 2, 2, 3)))
    ]


def _scaled(source: random.Random, step: Step) -> Step:
    """A set gets another number of replicas. A StatefulSet may only go to none, and comes back."""
    at = round(source.uniform(step.at + 1.0, HORIZON * 0.8), 3)
    return Step(0, at, "scale", step.where, round(source.uniform(5, 90), 1), source.choice((0, 1, 2, 3)))


def _unheard(source: random.Random, drawn: Sequence[str], first: int) -> list[Step]:
    """The webhook is away, and jobs are created meanwhile."""
    at, seconds = _at(source, 2.0), round(source.uniform(5, 60), 1)
    kinds = ["job", *(trait.removeprefix(KIND).lower() for trait in drawn if trait.startswith(KIND))]
    found = [Step(0, at, "webhook-away", "", seconds)]
    for number in range(first, first + source.choice((1, 2))):
        when = round(at + source.uniform(0, seconds), 3)
        name = f"{_sort(source)}-{source.choice(kinds)}-{number}"
        found.append(Step(0, when, "submit-kind", name, _seconds(source), source.randint(1, 3)))
    return found


def _sort(source: random.Random) -> str:
    return NEVER_TWICE if source.random() < 0.3 else "job"


def _seconds(source: random.Random) -> float:
    return float(source.choice((5, 20, 60, 150)))


def _at(source: random.Random, earliest: float) -> float:
    return round(source.uniform(earliest, HORIZON * 0.5), 3)
