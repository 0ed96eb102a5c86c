"""Seeds of the scene `candidates`, played with virtual Nodes: what holds without them holds with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controlplane.controllers.candidates.source import binding, decide
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.story import summary
from controlplane.dst.invariants.candidates.virtual_nodes import EARLY, ELSEWHERE
from controlplane.dst.play import plan_of, play
from controlplane.dst.scenes.candidates.plan import SCENE, VIRTUAL_NODES
from tests.support.deep import deep_after

SEEDS = range(1, 61)


def drawn(seed: int) -> Outcome:
    plan = plan_of(seed, scene=SCENE)
    return play(replace(plan, traits=(*plan.traits, VIRTUAL_NODES)))


@pytest.mark.parametrize("seed", deep_after(1, SEEDS))
def test_a_seed_holds(seed: int) -> None:
    found = drawn(seed).brief()
    assert found.violation is None, summary(found)


def test_a_pod_that_is_removed_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_may_run", lambda pass_, pod: False)
    assert EARLY in _broken()


@pytest.mark.deep
def test_a_bound_pod_that_is_placed_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SourceState, "stays", property(lambda state: False))
    monkeypatch.setattr(decide, "_wanted", lambda pass_, pod: [target.name for target in pass_.context.targets])
    assert ELSEWHERE in _broken()


def _broken() -> Iterator[str]:
    """Yield the rules that seeds break, first one that breaks some."""
    found = (drawn(seed).violation for seed in (4, *SEEDS))
    return (one.rule for one in found if one is not None)


@pytest.mark.parametrize("every", deep_after(0, [3, 1]))
def test_the_same_seed_gives_the_same_trace(every: int) -> None:
    plan = plan_of(3, scene=SCENE)
    some = replace(plan.only(plan.numbers[::every]), traits=(*plan.traits, VIRTUAL_NODES))
    assert play(some).digest == play(some).digest


@pytest.mark.deep
def test_another_seed_gives_another_trace() -> None:
    assert drawn(3).digest != drawn(4).digest
