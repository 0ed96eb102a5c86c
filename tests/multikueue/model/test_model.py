"""One Workload over two workers, in every order of steps, with each kind of fault: it runs once, and ends; and each
deliberate bug is found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest

from controlplane.controllers.multikueue.context import NEVER_TWICE
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
    Config("lost", 2, faults=Faults.only("lost"), together=True, prompt=True, running=True),
    Config("paused", 2, faults=Faults.only("paused"), running=True),
    Config("elastic", 2, faults=Faults.each("resized"), elastic=True, together=True, running=True),
    Config("others", 2, faults=NONE, together=True, dispatcher=ANOTHER),
    Config("gates", 2, faults=NONE, together=True, gates=True, alike=False),
    *(
        Config(kind, 2, faults=Faults.only(kind), together=True, running=True)
        for kind in ("delayed", "restored", "forgot")
    ),
    *(
        Config(kind, 2, faults=Faults.only(kind), together=True, prompt=True, running=True)
        for kind in ("evicted", "unsynced")
    ),
    Config("swapped", 2, execution=NEVER_TWICE, faults=Faults.only("swapped"), together=True, running=True),
    Config("cut", 2, execution=NEVER_TWICE, faults=Faults.only("cut"), together=True, running=True),
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
    """The reduced exploration, with what its clusters can do by themselves and what the open writes do there, and the
    full one reach the same states, but for which worker is which."""
    moves = Moves(config)
    reduced = _reached(moves)
    ahead = {one for g in reduced for one in _expanded(moves, config, g)}
    moves.config = replace(config, lazy=False, alike=False)
    full = _reached(moves)
    assert {one for g in full for one in _variants(moves, config, g)} == ahead
    assert len(reduced) < len(full)


def _reached(moves: Moves) -> list[Global]:
    graph, index = exploring._Graph(moves.first()), 0
    while index < len(graph.states):
        violation, _ = exploring._expand(moves, graph, index, check, settled)
        assert violation is None, str(violation)
        index += 1
    return graph.states


def _variants(moves: Moves, config: Config, g: Global) -> Iterable[Global]:
    return moves.alike.variants(g) if config.alike else (g,)


def _expanded(moves: Moves, config: Config, g: Global) -> set[Global]:
    """Return a state after all that its clusters can do by themselves, and the open writes there."""
    found: set[Global] = set()
    places = range(-1, moves.config.clusters)
    f = moves.frame(g)
    for ahead in product(*(moves.ahead(g, f, place, g[3 + place]) for place in places)):
        after = g
        for place, one in zip(places, ahead, strict=True):
            after = moves.with_store(after, place, one.number, ended=one.ended)
        found.update(_variants(moves, config, moves.tidy(after)))
    return found
