"""Three hundred seeds hold. `make sim` plays more of them.

Two seeds are a test: few enough that several processes share them evenly, and that `make test` can play the first
two. The logs that they leave are kept for the tests that read them (`tests.support.played`)."""

from __future__ import annotations

import pytest

from controlplane.dst.scenes.workloads.plan import plan_of
from tests.dst.known import KNOWN
from tests.dst.seeds import broken, failures
from tests.support.deep import deep_after
from tests.support.played import simulated

SEEDS, AT_ONCE = range(1, 301), 2
#: Every hundred and fiftieth seed together, so that no test has all of a run of long ones.
TESTS = len(SEEDS) // AT_ONCE


@pytest.mark.parametrize("first", deep_after(1, SEEDS[:TESTS]))
def test_two_seeds_hold(first: int) -> None:
    text = failures(SEEDS[first - 1 :: TESTS], KNOWN, lambda seed: simulated(plan_of(seed))[0].brief())
    assert not text, text


@pytest.mark.parametrize("seed", KNOWN)
def test_a_known_seed(seed: int) -> None:
    """Whoever mends what it shows takes it off the list."""
    text = broken(simulated(plan_of(seed))[0].brief())
    if text:
        pytest.xfail(f"{KNOWN[seed]}\n{text}")


def test_every_seed_is_played_once() -> None:
    played = [seed for first in SEEDS[:TESTS] for seed in SEEDS[first - 1 :: TESTS]]
    assert sorted(played) == list(SEEDS)
