"""What the second edition of a plan of this scene has beside the first: clusters that begin anew, targets that are
given up, gangs.

In: a source of its own, so that nothing of the first edition is drawn differently; the targets, the pods that are
submitted. Out: steps without numbers. What is drawn here counts as published once a seed of it is pinned; add a third
edition then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.simulation.world import MANAGEMENT

_Scene = Callable[[random.Random, Sequence[str], Sequence[Step]], list[Step]]
AT_ONCE, PLACING = 0.5, 0.12  # the share that comes while a pod is being placed, and for how many seconds it is


def draw(source: random.Random, targets: Sequence[str], pods: Sequence[Step]) -> list[Step]:
    """Draw the steps: one to three scenes of trouble."""
    return scenes(source, SCENES, source.choice((1, 1, 2, 3)), targets, pods)


def gangs(source: random.Random) -> list[Step]:
    """Draw a gang, or none: `value` is ten times its members and its quorum, `seconds` how long each member comes after
    the one before.
    """
    if source.random() < 0.55:
        return []
    members = source.choice((2, 3, 3))
    least = members - (source.random() < 0.3)
    at, apart = round(source.uniform(2.0, HORIZON * 0.4), 3), source.choice((0.0, 0.01, 0.05, 2.0))
    return [Step(0, at, "submit-gang", "gang-9", apart, 10 * members + least)]


def _at(source: random.Random, pods: Sequence[Step]) -> float:
    """Draw when something begins: mostly while a pod is placed, since that is when what is known of it is little."""
    if source.random() < 0.75:
        return round(source.choice(pods).at + source.uniform(0.0, PLACING), 3)
    return round(source.uniform(0.0, HORIZON * 0.8), 3)


def _lasting(source: random.Random, shortest: float, longest: float) -> float:
    return round(source.uniform(shortest, longest), 1)


def _restore(source: random.Random, targets: Sequence[str], pods: Sequence[Step]) -> list[Step]:
    """A target is put back to what it was: a moment ago, or long ago."""
    seconds = _lasting(source, *source.choice(((0.1, 3.0), (5, 120))))
    return [Step(0, _at(source, pods), "restore", source.choice(targets), seconds)]


def _rebuild(source: random.Random, targets: Sequence[str], pods: Sequence[Step]) -> list[Step]:
    return [Step(0, _at(source, pods), "rebuild", source.choice(targets), _lasting(source, 0, 60))]


def _restore_home(source: random.Random, _: Sequence[str], pods: Sequence[Step]) -> list[Step]:
    seconds = _lasting(source, *source.choice(((0.1, 3.0), (5, 120))))
    return [Step(0, _at(source, pods), "restore-home", MANAGEMENT, seconds)]


def _give_up(source: random.Random, targets: Sequence[str], pods: Sequence[Step]) -> list[Step]:
    """A target is away for long, and an operator gives it up; some of its pods are taken back before it returns, if it
    does.
    """
    at, target = min(_at(source, pods), 120.0), source.choice(targets)
    seconds = _lasting(source, *source.choice(((60, 120), (320, 400))))
    said = round(at + source.uniform(0, 60), 3)
    steps = [Step(0, at, "partition", target, seconds), Step(0, said, "forget", target, _lasting(source, 60, 150))]
    if source.random() < 0.6:
        kind = source.choice(("delete-pod", "replace-pod"))
        when = round(at + source.uniform(0, 100), 3)
        steps.append(Step(0, when, kind, _pod(source, pods), _lasting(source, 1, 30)))
    return steps


def idle(source: random.Random, targets: Sequence[str]) -> list[Step]:
    """Draw a target that does not do its part until all else is over, or none; mostly with pods beside it that are to
    be spread.

    It is drawn from a source of its own, so that no other step of a seed is drawn differently.
    """
    if source.random() < 0.7:
        return []
    at = round(source.uniform(1.0, HORIZON * 0.5), 3)
    steps = [Step(0, at, "idle", source.choice(targets), 0.0, source.randint(1, 60))]
    if source.random() < 0.7:
        when = round(at + source.uniform(0.0, 20.0), 3)
        steps += [
            Step(0, round(when + n * source.uniform(0.0, 1.0), 3), "submit-pod", f"apart-{20 + n}", 0.0, 1)
            for n in (0, 1)
        ]
    if source.random() < 0.4:
        steps.append(Step(0, round(at + source.uniform(0.0, 20.0), 3), "submit-pod", "huge-30", 0.0, 100))
    return steps


def amendments(source: random.Random, pods: Sequence[Step]) -> list[Step]:
    """Draw changes of pods that were submitted, or none: while they are placed, or later. `value` says what is changed.

    They are drawn from a source of their own, as `idle` is."""
    if source.random() < 0.6:
        return []
    steps = []
    for _ in range(source.choice((1, 2, 3))):
        one = source.choice(pods)
        later = source.choice((source.uniform(0.0, PLACING), source.uniform(0.0, 2.0), source.uniform(0.0, 120.0)))
        steps.append(Step(0, round(one.at + later, 3), "amend-pod", one.where, 0.0, source.randint(0, 59)))
    return steps


def _pod(source: random.Random, pods: Sequence[Step]) -> str:
    """Draw the name of a pod; of a gang, a member's."""
    one = source.choice(pods)
    return f"{one.where}-{source.randint(1, one.value // 10)}" if one.kind == "submit-gang" else one.where


def _one_member(source: random.Random, _: Sequence[str], pods: Sequence[Step]) -> list[Step]:
    """What people do to one pod, done while it is placed with others, or later: its controller makes another one,
    mostly.
    """
    kind = source.choice(("replace-pod", "replace-pod", "delete-pod"))
    one = pods[-1]
    at = round(one.at + source.choice((source.uniform(0.0, 0.2), source.uniform(0.0, 100.0))), 3)
    return [Step(0, at, kind, _pod(source, [one]), _lasting(source, 0, 5))]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "restore": (4, _restore),
    "rebuild": (2, _rebuild),
    "restore-home": (3, _restore_home),
    "give-up": (4, _give_up),
    "one-member": (2, _one_member),
}
