"""A hundred seeds of the local scene hold. `controlplane simulate --scene local --seeds A..B` plays more of them."""

from __future__ import annotations

import pytest

from controlplane.dst.engine.plan import chosen
from controlplane.dst.play import play
from controlplane.dst.scenes.local.plan import plan_of
from tests.dst.local.known import KNOWN, MENDED
from tests.dst.seeds import broken, failures
from tests.support.deep import deep_after

SEEDS, AT_ONCE = range(1, 101), 2
#: Every fiftieth seed together, so that no test has all of a run of long ones.
TESTS = len(SEEDS) // AT_ONCE


@pytest.mark.parametrize("first", deep_after(1, SEEDS[:TESTS]))
def test_two_seeds_hold(first: int) -> None:
    text = failures(SEEDS[first - 1 :: TESTS], KNOWN, lambda seed: play(plan_of(seed)).brief())
    assert not text, text


@pytest.mark.parametrize(("seed", "steps", "what"), deep_after(4, MENDED))
def test_what_was_found_is_mended(seed: int, steps: str, what: str) -> None:
    text = broken(play(plan_of(seed).only(chosen(steps))).brief())
    assert not text, f"{what}\n{text}"


def test_every_seed_is_played_once() -> None:
    played = [seed for first in SEEDS[:TESTS] for seed in SEEDS[first - 1 :: TESTS]]
    assert sorted(played) == list(SEEDS)
