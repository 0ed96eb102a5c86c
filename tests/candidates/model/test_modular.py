"""The exploration target by target: it holds, it sees everything that the joint one sees, and it finds the deliberate
bugs.

The larger configurations are explored from the command line: `python -m tests.candidates.model NAME`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from tests.candidates.model.any_sources import ANSWER, CI, IDLE, alone, placing
from tests.candidates.model.component import GRAIN
from tests.candidates.model.ends import circles
from tests.candidates.model.idle_mutants import IDLE_MUTANTS
from tests.candidates.model.modular import Modular, Proof, prove
from tests.candidates.model.moves import Moves
from tests.candidates.model.mutants import MUTANTS, Mutant
from tests.candidates.model.projection import Projection
from tests.candidates.model.shapes import Global
from tests.candidates.model.world import EVEN_WAITS, KINDS, Config, Faults

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("config", CI, ids=lambda config: config.name)
def test_it_holds(config: Config) -> None:
    found = prove(config)
    assert found.violation is None, f"{found.violation}\n{found.where}"
    assert found.ends > 0


# --- it forgets nothing that can be ----------------------------------------------------------------------------------


def reached(moves: Moves) -> Iterator[Global]:
    """Every state of a joint model, one after the other."""
    first = moves.first()
    seen, ahead = {first}, [first]
    while ahead:
        g = ahead.pop()
        yield g
        for move in moves.of(g):
            if move.to not in seen:
                seen.add(move.to)
                ahead.append(move.to)


def forgotten(joint: Config, *, placing: bool = False) -> tuple[int, list[str]]:
    """Return how many states a joint model has, and those that the sets of one of its sources do not have a part of."""
    moves, lost = Moves(joint), list[str]()
    states = list(reached(moves))
    latest = max(g.now for g in states) or GRAIN
    parts = []
    for s in range(joint.sources):
        part = Modular(replace(joint, sources=1, placing=placing), of=moves, source=s)
        part.moves.every_time = latest  # the same clock, to compare state with state
        part.run()
        parts.append(Projection(part, moves, s))
    for g in states:
        lost += [f"{part.s}: {g}" for part in parts if not part.has(g)]
    return len(states), lost


JOINT = (
    *(alone(f"one-target-{kind}", targets=1, faults=Faults.only(kind)) for kind in KINDS if kind != "ticks"),
    *(alone(f"one-target-{kind}-answer", targets=1, faults=Faults.only(kind), answer=ANSWER) for kind in IDLE),
    alone("two-targets", targets=2, faults=Faults(total=0)),
    *(alone(f"two-targets-{kind}", targets=2, faults=Faults.only(kind)) for kind in ("cut", "late", "delayed")),
    alone("two-sources", sources=2, targets=1, faults=Faults(total=0)),
    *(
        alone(f"two-sources-{kind}", sources=2, targets=1, faults=Faults.only(kind))
        for kind in ("cut", "late", "delayed")
    ),
)


def _is_large(joint: Config) -> bool:
    """Whether all that is shown takes too long beside a target that is gone, or silent, for ever."""
    return "away" in joint.name or "silent" in joint.name


def two(first: str, second: str) -> Config:
    """Return a configuration in which two things may go wrong."""
    faults = replace(Faults.only(first, 2), **{first: 1, second: 1})
    return alone(f"one-target-{first}-{second}", targets=1, faults=faults, epochs=3)


TWO_FAULTS = (two("delayed", "late"), two("late", "timeouts"), two("cut", "deletions"))


@pytest.mark.parametrize(
    ("joint", "placing"),
    [
        *((joint, placing) for joint in JOINT for placing in (False, True) if placing or not _is_large(joint)),
        *((joint, True) for joint in TWO_FAULTS),
    ],
    ids=lambda given: getattr(given, "name", "placing" if given is True else "all"),
)
def test_it_sees_all_that_the_joint_model_sees(joint: Config, placing: bool) -> None:
    count, lost = forgotten(joint, placing=placing)
    assert count > 50
    assert lost == []


# --- it bites --------------------------------------------------------------------------------------------------------


# For each bug the number of targets and the one fault that it takes ("": none).
FOUND_WITH = {
    "a lease is enough": (2, "ticks"),
    "a withdrawal needs no answer": (2, "ticks"),
    "a permit is forgotten": (2, ""),
    "the log takes any append": (2, "frozen"),
    "never-twice is ignored": (2, "ticks"),
    "an un-reserve is not heard": (1, "timeouts"),
    "losers stay": (2, ""),
    "old epochs stay": (1, "lost_pods"),
    "a deleted pod is only forgotten": (1, "deletions"),
    "losers go before the bind": (2, ""),
    "the status goes back": (1, "lost_pods"),
    "the end is written over": (1, "lost_pods"),
    "a lost delegate is not noticed": (1, "lost_pods"),
    "a vanished pod is not reported": (1, "lost_pods"),
    "leases do not end": (1, "ticks"),
    "any reservation will do": (1, "timeouts"),
    "a withdrawal is acknowledged while binding": (1, "ticks"),
    "a binding is never fenced": (1, "ticks"),
    "a candidate goes before its pod": (1, "deletions"),
    "a finalizer is never taken off": (1, "deletions"),
    "an absent target is waited for": (2, "away"),
    "a target that was given up is waited for": (2, "away"),
    "everybody is invited": (2, ""),
    "reservations are not counted": (1, ""),
}


SHOWN = ("the status goes back", "the end is written over")
"""The bugs that only what a pod shows can tell of."""
APPENDED = ("the log takes any append",)
"""The bugs of the log, of which the exploration that only places takes for granted that it has none."""
AWAY = ("an absent target is waited for", "a target that was given up is waited for")
"""The bugs for which the exploration with all that a pod shows takes too long: the rules are the same."""


def explored(mutant: Mutant, *, placing: bool) -> Proof:
    """Explore a bug with the fault that it takes."""
    targets, kind = FOUND_WITH[mutant.what]
    faults = Faults.only(kind) if kind else Faults(total=0)
    given = {"execution": mutant.config.execution, "uninvited": mutant.config.uninvited}
    life = mutant.config.life and not placing
    return prove(alone("mutant", targets=targets, faults=faults, placing=placing, life=life, **given))


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in MUTANTS if mutant.what not in AWAY],
    ids=lambda mutant: mutant.what.replace(" ", "-"),
)
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    found = explored(mutant, placing=False)
    assert found.violation is not None
    assert found.violation.rule in mutant.rules, str(found.violation)


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in MUTANTS if mutant.what not in (*SHOWN, *APPENDED)],
    ids=lambda mutant: mutant.what.replace(" ", "-"),
)
def test_a_bug_is_found_where_only_the_placing_is_explored(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    found = explored(mutant, placing=True)
    assert found.violation is not None
    assert found.violation.rule in mutant.rules, str(found.violation)


@pytest.mark.parametrize(
    "mutant", [one for one in IDLE_MUTANTS if not one.config.preempt], ids=lambda mutant: mutant.what.replace(" ", "-")
)
def test_a_bug_about_idle_targets_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    given = {"execution": mutant.config.execution, "elsewhere": mutant.config.elsewhere}
    waits = msgspec.structs.replace(EVEN_WAITS, max_skew=1) if mutant.config.elsewhere else EVEN_WAITS
    config = placing("mutant", targets=mutant.config.targets, faults=mutant.config.faults, answer=ANSWER, **given)
    found = prove(replace(config, placement=waits))
    assert found.violation is not None
    assert found.violation.rule in mutant.rules, str(found.violation)


def test_a_circle_is_told_from_a_way() -> None:
    assert circles(3, [(0, 1), (1, 2)]) == [0, 1, 2]
    there_and_back = circles(4, [(0, 1), (1, 2), (2, 0), (2, 3)])
    assert there_and_back[0] == there_and_back[1] == there_and_back[2] != there_and_back[3]
