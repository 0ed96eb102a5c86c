"""One Workload over two workers, in every order of steps, with each kind of fault: it runs once, and ends; and each
deliberate bug is found.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.candidates.model import explore as exploring
from tests.candidates.model.explore import explore
from tests.multikueue.model.configs import CI, NONE
from tests.multikueue.model.dispatchers import ANOTHER
from tests.multikueue.model.moves import Moves
from tests.multikueue.model.mutants import MUTANTS, Mutant
from tests.multikueue.model.rules import check, settled
from tests.multikueue.model.world import Config, Faults, Global

pytestmark = pytest.mark.deep
REDUCED = (
    Config("plain", 2, faults=NONE, together=True),
    Config("cut", 2, faults=Faults.only("lost"), together=True, prompt=True, running=True),
    Config("paused", 2, faults=Faults.only("paused"), running=True),
    Config("elastic", 2, faults=Faults.each("resized"), elastic=True, together=True, running=True),
    Config("others", 2, faults=NONE, together=True, dispatcher=ANOTHER),
)


@pytest.mark.parametrize("config", CI, ids=lambda config: config.name)
def test_it_holds(config: Config) -> None:
    found = explore(Moves(config), safe=check, over=settled)
    assert found.violation is None, f"{found.violation}\n" + "\n".join(found.trace)
    assert found.complete
    assert found.ends > 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    found = explore(Moves(mutant.config), safe=check, over=settled)
    assert found.violation is not None
    assert found.violation.rule in mutant.rules, str(found.violation)


@pytest.mark.parametrize("config", REDUCED, ids=lambda config: config.name)
def test_what_is_left_out_is_reached_all_the_same(config: Config) -> None:
    """The reduced exploration, with what its clusters can do by themselves, and the full one reach the same states, but
    for which worker is which."""
    moves = Moves(config)
    reduced = _reached(moves)
    ahead = {one for g in reduced for one in _expanded(moves, g)}
    moves.config = replace(config, lazy=False, alike=False)
    full = _reached(moves)
    assert {one for g in full for one in moves.alike.variants(g)} == ahead
    assert len(reduced) < len(full)


def _reached(moves: Moves) -> list[Global]:
    graph, index = exploring._Graph(moves.first()), 0
    while index < len(graph.states):
        violation, _ = exploring._expand(moves, graph, index, check, settled)
        assert violation is None, str(violation)
        index += 1
    return graph.states


def _expanded(moves: Moves, g: Global) -> set[Global]:
    """Return a state after all that its clusters can do by themselves."""
    found: set[Global] = set()
    places = range(-1, moves.config.clusters)
    for ahead in product(*(moves.local.ahead(g[3 + place]) for place in places)):
        after = g
        for place, (_, number) in zip(places, ahead, strict=True):
            after = moves.with_store(after, place, number)
        found.update(moves.alike.variants(moves.tidy(after)))
    return found
