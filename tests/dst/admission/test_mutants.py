"""The scene of admission bites: each deliberate bug breaks a rule, at a seed that holds without it; and the page shows
them all."""

from __future__ import annotations

import pytest

from tests.dst.admission.mutants import MUTANTS, find
from tests.dst.mutants.hunt import shown
from tests.support.deep import deep_but

MORE = range(1, 40)  # where to look when the service has changed so much that the known seed no longer shows it
_QUICK = ("never-free",)


@pytest.mark.parametrize("name", deep_but(_QUICK, MUTANTS))
def test_it_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    found = find(mutant, [mutant.seed, *MORE])
    assert found is not None, f"nothing notices that {mutant.what}"


def test_each_changes_something_that_is_there() -> None:
    for mutant in MUTANTS.values():
        with pytest.MonkeyPatch.context() as patched:
            mutant.patch(patched)


def test_the_page_shows_them_all() -> None:
    assert {name: (what, rule, int(seed)) for name, what, rule, seed in shown(r"admission (\d+)")} == {
        name: (mutant.what, mutant.rule, mutant.seed) for name, mutant in MUTANTS.items()
    }
