"""The protocol holds in every state of every configuration, and each deliberate bug is found.

The larger configurations are explored from the command line: `python -m tests.candidates.model NAME`.
"""

from __future__ import annotations

import pytest

from tests.candidates.model.configs import CI, CONFIGS
from tests.candidates.model.explore import explore
from tests.candidates.model.idle_mutants import IDLE_MUTANTS, TOLD
from tests.candidates.model.moves import Moves
from tests.candidates.model.mutants import MUTANTS, Mutant
from tests.candidates.model.world import Config

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("config", [*CI, TOLD], ids=lambda config: config.name)
def test_it_holds(config: Config) -> None:
    found = explore(Moves(config))
    assert found.violation is None, f"{found.violation}\n" + "\n".join(found.trace)
    assert found.complete
    assert found.ends > 0


@pytest.mark.parametrize("mutant", [*MUTANTS, *IDLE_MUTANTS], ids=lambda mutant: mutant.what.replace(" ", "-"))
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    found = explore(Moves(mutant.config))
    assert found.violation is not None
    assert found.violation.rule in mutant.rules, str(found.violation)
    assert found.trace


def test_an_exploration_is_the_same_every_time() -> None:
    config = next(config for config in CI if config.name == "uninvited")
    first, second = explore(Moves(config)), explore(Moves(config))
    assert (first.states, first.edges, first.depth, first.ends) == (
        second.states,
        second.edges,
        second.depth,
        second.ends,
    )


def test_configurations_have_names_of_their_own() -> None:
    assert len({config.name for config in CONFIGS}) == len(CONFIGS)
