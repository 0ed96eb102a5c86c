"""Three hundred seeds hold. `make sim` plays more of them.

Each is a test, so that several processes share them evenly, and `make test` plays the first. The logs that they
leave are kept for the tests that read them (`tests.support.played`)."""

from __future__ import annotations

import pytest

from controlplane.dst.scenes.workloads.plan import plan_of
from tests.dst.known import KNOWN
from tests.dst.seeds import broken, failures
from tests.support.deep import deep_after
from tests.support.played import simulated

SEEDS = range(1, 301)


@pytest.mark.parametrize("seed", deep_after(1, SEEDS))
def test_a_seed_holds(seed: int) -> None:
    text = failures([seed], KNOWN, lambda seed: simulated(plan_of(seed))[0].brief())
    assert not text, text


@pytest.mark.parametrize("seed", KNOWN)
def test_a_known_seed(seed: int) -> None:
    """Whoever mends what it shows takes it off the list."""
    text = broken(simulated(plan_of(seed))[0].brief())
    if text:
        pytest.xfail(f"{KNOWN[seed]}\n{text}")
