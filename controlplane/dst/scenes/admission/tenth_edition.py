"""What the tenth edition of a plan of admission has beside the ninth: groups of pods that fail, serve, are admitted
early and are deleted as a whole, finalizers that somebody takes away by hand; jobs that run for too long; queues,
Cohorts, flavors and checks that are rearranged under load; jobs that also run with fewer pods; sets that are scaled; a
process that alone loses its way to a cluster, and API servers that are not available in bursts or have forgotten their
history.

In: a source of its own, so that nothing of the editions before is drawn differently; the letters of the queues; the
steps so far. Out: traits, and steps without numbers. Each part has a source of its own, so that one that comes to the
others leaves them as they are. What is drawn here counts as published once a seed of it is pinned; add an eleventh
edition then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from controlplane.dst.engine.drawing import Trouble, kinds, span
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes.admission.eighth_edition import CHECKS, SUBMISSIONS, submission
from controlplane.dst.scenes.admission.limits import LIMITED
from controlplane.dst.scenes.admission.pod_groups import GROUPS
from controlplane.dst.scenes.admission.rearrangements import FLAVORED, FLAVORS
from controlplane.dst.scenes.workloads.processes import KIND
from controlplane.kube.kinds import PODS
from controlplane.simulation.world import MANAGEMENT

_PODS = KIND + PODS.kind
_SETS = ("StatefulSet", "LeaderWorkerSet")
_MOST_PARTS = 16
_Part = Callable[[random.Random, Sequence[str], Sequence[str], Sequence[Step], int], list[Step]]


def traits(source: random.Random) -> tuple[str, ...]:
    """Draw what holds for the whole run: whether pods have queues, also where the ninth edition has none; whether
    ClusterQueues have two flavors; which sets have queues."""
    found = [_PODS] if source.random() < 0.5 else []
    if source.random() < 0.3:
        found.append(f"{FLAVORS}{source.randrange(FLAVORED)}")
    if source.random() < 0.35:
        found += [_PODS, *(KIND + name for name in _SETS[: source.choice((1, 2))])]
    return tuple(found)


def draw(source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step]) -> list[Step]:
    """Draw the steps."""
    sources = [random.Random(source.getrandbits(64)) for _ in range(_MOST_PARTS)]  # noqa: S311 - reproducible on purpose
    steps: list[Step] = []
    for number, part in enumerate(_PARTS):
        first = len(before) + 261 + 20 * number
        steps += part(sources[number], drawn, letters, [*before, *steps], first)
    return steps


def _at(source: random.Random, earliest: float = 10.0, latest: float = HORIZON * 0.8) -> float:
    return round(source.uniform(earliest, latest), 3)


def _sort(source: random.Random) -> str:
    return source.choice(("job", "job", "once"))


def _groups(
    source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step], first: int
) -> list[Step]:
    """Groups of pods, and what is done to them."""
    if _PODS not in drawn:
        return []
    count = source.choice((1, 2, 2, 3))
    steps = [
        submission(source, source.choice(GROUPS), f"{_sort(source)}-group-{number}", letters)
        for number in range(first, first + count)
    ]
    groups = [step.where for step in (*before, *steps) if "-group-" in step.where and step.kind.startswith("submit-")]
    acts = ("delete-pods", "delete-pods", "strip-pods", "strip-workload", "delete-workload", "end-group", "raise")
    return steps + [
        Step(0, _at(source), source.choice(acts), source.choice(groups), 0.0, source.randint(1, 60))
        for _ in range(source.choice((0, 1, 2, 3)))
    ]


def _stripped(
    source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step], first: int
) -> list[Step]:
    """Somebody takes the finalizer from a Workload, and deletes it."""
    jobs = [step.where for step in before if step.kind in SUBMISSIONS]
    return [
        Step(
            0, _at(source), source.choice(("strip-workload", "strip-workload", "delete-workload")), source.choice(jobs)
        )
        for _ in range(source.choice((0, 0, 1, 2)))
    ]


def _limited(
    source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step], first: int
) -> list[Step]:
    """Jobs that run for too long, or nearly; and Workloads that are deactivated and activated again."""
    steps = []
    for number in range(first, first + source.choice((0, 1, 2))):
        name = f"{_sort(source)}-{LIMITED}{source.choice((20, 40, 90, 160))}-{number}"
        steps.append(submission(source, "submit-limited", name, letters))
    jobs = [step.where for step in (*before, *steps) if step.kind in {*SUBMISSIONS, "submit-limited"}]
    acts = ("flicker", "flicker", "suspend", "stop-queue", "raise")
    for _ in range(source.choice((0, 1, 1, 2))):
        lasting = round(source.choice((0.01, 0.1, 1.0, 10.0)) * source.uniform(0.5, 5), 3)
        steps.append(Step(0, _at(source), source.choice(acts), source.choice(jobs), lasting, source.randint(1, 60)))
    return steps


_REARRANGED: Trouble = {
    "preemption": (5, 10, 120),
    "move-queue": (4, 5, 90),
    "edit-cohort": (4, 5, 90),
    "add-flavor": (4, 10, 120),
    "delete-flavor": (3, 1, 60),
    "edit-checks": (4, 5, 90),
    "stop-queue": (3, 1, 60),
    "delete-queue": (2, 1, 60),
    "lower-quota": (2, 5, 60),
}


def _rearranged(
    source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step], first: int
) -> list[Step]:
    """Queues that are rearranged while jobs wait and run, of which some also run with fewer pods; and a check that
    answers."""
    steps = [
        submission(source, "submit-partial", f"{_sort(source)}-part-{number}", letters)
        for number in range(first, first + source.choice((0, 1, 1, 2)))
    ]
    names = [step.where for step in (*before, *steps) if step.kind in {*SUBMISSIONS, "submit-partial"}]
    for kind in kinds(source, _REARRANGED, source.choice((0, 1, 2, 3, 4, 5))):
        at, seconds = span(source, _REARRANGED, kind)
        steps.append(Step(0, at, kind, source.choice(names), seconds, source.randint(0, 59)))
    if CHECKS not in drawn and any(step.kind == "edit-checks" for step in steps):
        steps.append(Step(0, 0.4, "checker", "", 0.0, source.randint(2, 20)))
    return steps


def _sets(
    source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step], first: int
) -> list[Step]:
    """Sets, which are scaled, and what people do to them."""
    words = [name.lower() for name in _SETS if KIND + name in drawn]
    if not words:
        return []
    steps = [
        submission(source, "submit-kind", f"{_sort(source)}-{source.choice(words)}-{number}", letters)
        for number in range(first, first + source.choice((1, 2, 2)))
    ]
    names, acts = (
        [step.where for step in steps],
        ("scale", "scale", "scale", "raise", "strip-workload", "delete-workload"),
    )
    return steps + [
        Step(
            0,
            _at(source),
            source.choice(acts),
            source.choice(names),
            round(source.uniform(2, 60), 1),
            source.randint(0, 3),
        )
        for _ in range(source.choice((0, 1, 2, 3)))
    ]


_ON_THE_WAY: Trouble = {"lose-way": (5, 5, 90), "unavailable": (5, 1, 15), "expire": (4, 0, 0)}


def _troubled(
    source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step], first: int
) -> list[Step]:
    """Trouble on the way to the management cluster, mostly, or to a worker."""
    steps = []
    for kind in kinds(source, _ON_THE_WAY, source.choice((0, 1, 1, 2, 3))):
        at, seconds = span(source, _ON_THE_WAY, kind)
        where = source.choice((MANAGEMENT, MANAGEMENT, "w1", "w2", "w3"))
        steps.append(Step(0, at, kind, where, seconds, source.randint(0, 59)))
    return steps


_PARTS: Sequence[_Part] = (_groups, _stripped, _limited, _rearranged, _troubled, _sets)
