"""Seeds that once broke a rule: those of mended defects hold, those of open ones are here in their smallest form."""

from __future__ import annotations

import pytest

from controlplane.simulation.deterministic.plan import chosen, plan_of
from controlplane.simulation.deterministic.simulation import simulate
from controlplane.simulation.deterministic.story import command
from tests.simulation.deterministic.known import OPEN

MENDED = {
    57: "the last status of a job came after the Workload that told of its end, and was not waited for",
    59: "the same, the job's watch being slow",
    85: "the same, after a partition",
    131: "a change of the user's job by somebody else counted as our relay of its status",
    137: "a tombstone of a restored cluster was older than what the log had, and was dropped",
    169: "as 137, found by a new leader",
}


@pytest.mark.parametrize("seed", MENDED)
def test_what_was_mended_stays_mended(seed: int) -> None:
    outcome = simulate(plan_of(seed))
    assert outcome.violation is None, f"{MENDED[seed]}: {command(outcome.plan)}"


@pytest.mark.parametrize(
    ("seed", "steps"),
    [pytest.param(seed, steps, marks=pytest.mark.xfail(reason=why, strict=False)) for seed, steps, why in OPEN],
)
def test_what_is_open(seed: int, steps: str) -> None:
    outcome = simulate(plan_of(seed).only(chosen(steps)))
    assert outcome.violation is None, command(outcome.plan)
