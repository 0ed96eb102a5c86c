"""A gang of two over two targets: it is whole in one of them, in every order of steps; and each deliberate bug is
found.
"""

from __future__ import annotations

import pytest

from tests.candidates.model.configs import GANGS_CI
from tests.candidates.model.explore import explore
from tests.candidates.model.gang_moves import GangMoves
from tests.candidates.model.gang_mutants import GANG_MUTANTS, GangMutant
from tests.candidates.model.gang_rules import check, settled
from tests.candidates.model.gang_world import GangConfig

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("config", GANGS_CI, ids=lambda config: config.name)
def test_it_holds(config: GangConfig) -> None:
    found = explore(GangMoves(config), safe=check, over=settled)
    assert found.violation is None, f"{found.violation}\n" + "\n".join(found.trace)
    assert found.complete
    assert found.ends > 0


@pytest.mark.parametrize("mutant", GANG_MUTANTS, ids=lambda mutant: mutant.what.replace(" ", "-"))
def test_a_bug_is_found(mutant: GangMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    found = explore(GangMoves(mutant.config), safe=check, over=settled)
    assert found.violation is not None
    assert found.violation.rule in mutant.rules, str(found.violation)
    assert found.trace
