"""The exploration target by target: it holds, it sees everything that the joint one sees, and it finds the deliberate bugs.

The larger configurations are explored from the command line: `python -m tests.candidates.model NAME`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.candidates.model.any_sources import CI, alone
from tests.candidates.model.component import GRAIN
from tests.candidates.model.ends import circles
from tests.candidates.model.modular import Modular, prove
from tests.candidates.model.moves import Moves
from tests.candidates.model.mutants import MUTANTS, Mutant
from tests.candidates.model.shapes import Global
from tests.candidates.model.world import KINDS, Config, Faults


@pytest.mark.parametrize("config", CI, ids=lambda config: config.name)
def test_it_holds(config: Config) -> None:
    found = prove(config)
    assert found.violation is None, f"{found.violation}\n{found.where}"
    assert found.ends > 0


# --- it forgets nothing that can be ------------------------------------------------------------------------------------


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


def forgotten(joint: Config) -> tuple[int, list[str]]:
    """Return how many states a joint model has, and those that the sets of one of its sources do not have a part of."""
    moves, lost = Moves(joint), list[str]()
    states = list(reached(moves))
    latest = max(g.now for g in states) or GRAIN
    parts = []
    for s in range(joint.sources):
        part = Modular(replace(joint, sources=1), of=moves, source=s)
        part.moves.every_time = latest  # the same clock, to compare state with state
        part.run()
        parts.append(part)
    for g in states:
        lost += [f"{s}: {g}" for s, part in enumerate(parts) if not has(part, moves, g, s)]
    return len(states), lost


def has(part: Modular, moves: Moves, g: Global, s: int) -> bool:
    """Whether what a joint state says of one source is among its sets, with at least the faults left that the joint run has left."""
    frozen = (0, g.frozen[1]) if g.frozen is not None and g.frozen[0] == s else None
    bare = g._replace(srcs=(g.srcs[s],), pods=(g.pods[s],), cells=(), frozen=frozen, deviations=0)
    mine = [g.cells[moves.index(s, t)] for t in range(part.config.targets)]
    for faults in dict.fromkeys((g.faults, part.moves.first().faults)):
        control = part.number(bare._replace(faults=faults))
        if control is not None and all(part.goes(t, control, cell) for t, cell in enumerate(mine)):
            return True
    return False


@pytest.mark.parametrize(
    "joint",
    [
        *(alone(f"one-target-{kind}", targets=1, faults=Faults.only(kind)) for kind in KINDS if kind != "ticks"),
        alone("two-targets", targets=2, faults=Faults(total=0)),
        *(alone(f"two-targets-{kind}", targets=2, faults=Faults.only(kind)) for kind in ("cut", "late", "delayed")),
        alone("two-sources", sources=2, targets=1, faults=Faults(total=0)),
        *(
            alone(f"two-sources-{kind}", sources=2, targets=1, faults=Faults.only(kind))
            for kind in ("cut", "late", "delayed")
        ),
    ],
    ids=lambda joint: joint.name,
)
def test_it_sees_all_that_the_joint_model_sees(joint: Config) -> None:
    count, lost = forgotten(joint)
    assert count > 50
    assert lost == []


# --- it bites ----------------------------------------------------------------------------------------------------------


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
    "everybody is invited": (2, ""),
    "reservations are not counted": (1, ""),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what.replace(" ", "-"))
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    targets, kind = FOUND_WITH[mutant.what]
    mutant.patch(monkeypatch)
    faults = Faults.only(kind) if kind else Faults(total=0)
    given = {"execution": mutant.config.execution, "uninvited": mutant.config.uninvited, "life": mutant.config.life}
    found = prove(alone("mutant", targets=targets, faults=faults, **given))
    assert found.violation is not None
    assert found.violation.rule in mutant.rules, str(found.violation)


def test_a_circle_is_told_from_a_way() -> None:
    assert circles(3, [(0, 1), (1, 2)]) == [0, 1, 2]
    there_and_back = circles(4, [(0, 1), (1, 2), (2, 0), (2, 3)])
    assert there_and_back[0] == there_and_back[1] == there_and_back[2] != there_and_back[3]
