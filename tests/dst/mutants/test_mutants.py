"""The simulation bites: each deliberate bug breaks a rule, at a seed that holds without it."""

from __future__ import annotations

import pytest

from tests.dst.mutants.hunt import shown
from tests.dst.mutants.mutants import MUTANTS, find

pytestmark = pytest.mark.deep

MORE = range(1, 40)  # where to look when the service has changed so much that the known seed no longer shows it


@pytest.mark.parametrize("name", MUTANTS)
def test_it_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    found = find(mutant, [mutant.seed, *MORE])
    assert found is not None, f"nothing notices that {mutant.what}"


def test_the_page_shows_them_all() -> None:
    assert {name: tuple(row) for name, *row in shown(r"(\d+|a scene of its own)")} == {
        name: (mutant.what, mutant.rule, mutant.where) for name, mutant in MUTANTS.items()
    }
