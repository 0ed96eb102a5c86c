"""A hundred seeds of the local scene hold. `controlplane simulate --scene local --seeds A..B` plays more of them."""

from __future__ import annotations

import pytest

from controlplane.dst.engine.plan import chosen
from controlplane.dst.play import play
from controlplane.dst.scenes.local.plan import plan_of
from tests.dst.local.known import KNOWN, MENDED
from tests.dst.seeds import broken, failures
from tests.support.deep import deep_after

SEEDS = range(1, 101)


@pytest.mark.parametrize("seed", deep_after(1, SEEDS))
def test_a_seed_holds(seed: int) -> None:
    text = failures([seed], KNOWN, lambda seed: play(plan_of(seed)).brief())
    assert not text, text


@pytest.mark.parametrize(("seed", "steps", "what"), deep_after(4, MENDED))
def test_what_was_found_is_mended(seed: int, steps: str, what: str) -> None:
    text = broken(play(plan_of(seed).only(chosen(steps))).brief())
    assert not text, f"{what}\n{text}"
