"""A watch that hands over more before the log has the last, as in production: what must not happen does not happen then
either. The recorded seeds are played with one delivery at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.dst.engine import process
from controlplane.dst.engine.run import simulate
from controlplane.dst.scenes.candidates.plan import plan_of as candidates_plan_of
from controlplane.dst.scenes.candidates.run import CandidateRun
from controlplane.dst.scenes.workloads.plan import plan_of
from controlplane.dst.scenes.workloads.processes import PIECES
from controlplane.dst.scenes.workloads.run import WorkloadRun
from controlplane.runtime.lifecycle import Ports
from tests.dst.test_seeds import broken
from tests.support.deep import deep_after

SEEDS, AT_ONCE = range(301, 601), 1


@pytest.fixture(autouse=True)
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "AHEAD", Ports.__dataclass_fields__["ahead"].default)


@pytest.mark.parametrize("first", deep_after(0, SEEDS[::AT_ONCE]))
def test_a_seed_of_workloads_holds(first: int) -> None:
    outcomes = (simulate(plan_of(seed), WorkloadRun) for seed in range(first, first + AT_ONCE))
    failed = [text for outcome in outcomes if (text := broken(outcome.brief()))]
    assert not failed, "\n".join(["of these, each by itself:", *failed])


@pytest.mark.parametrize("seed", deep_after(1, range(1, 21)))
def test_a_seed_of_candidates_holds(seed: int) -> None:
    assert not broken(simulate(candidates_plan_of(seed), CandidateRun).brief())


@pytest.mark.parametrize("every", deep_after(1, [3, 1]))
def test_it_is_played_otherwise(every: int) -> None:
    whole = plan_of(301)
    one_by_one = replace(whole, traits=tuple(trait for trait in whole.traits if trait != PIECES))
    plan = one_by_one.only(one_by_one.numbers[::every])
    one = simulate(plan, WorkloadRun).digest
    process.AHEAD = 1
    assert simulate(plan, WorkloadRun).digest != one
