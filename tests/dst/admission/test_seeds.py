"""A hundred and twenty seeds of the scene of admission hold. `controlplane simulate --scene admission --seeds A..B`
plays more."""

from __future__ import annotations

import pytest

from controlplane.dst.engine.plan import chosen
from controlplane.dst.play import play
from controlplane.dst.scenes.admission.plan import plan_of
from tests.dst.admission.known import KNOWN, KNOWN_IN_10, MENDED, MENDED_IN_8, MENDED_IN_9, MENDED_IN_10
from tests.dst.seeds import broken, failures
from tests.support.deep import deep_after

FIRST = 7  # the editions before the eighth are alike
SEEDS, AT_ONCE = range(1, 121), 1
TESTS = len(SEEDS) // AT_ONCE


@pytest.mark.parametrize("first", deep_after(1, SEEDS[:TESTS]))
def test_a_seed_holds(first: int) -> None:
    text = failures(SEEDS[first - 1 :: TESTS], KNOWN, lambda seed: play(plan_of(seed, edition=FIRST)).brief())
    assert not text, text


@pytest.mark.parametrize(
    ("edition", "seed", "steps", "what"),
    deep_after(
        0,
        [
            *((FIRST, *one) for one in MENDED),
            *((8, *one) for one in MENDED_IN_8),
            *((9, *one) for one in MENDED_IN_9),
            *((10, *one) for one in MENDED_IN_10),
        ],
    ),
)
def test_what_was_found_is_mended(edition: int, seed: int, steps: str, what: str) -> None:
    plan = plan_of(seed, edition=edition)
    text = broken(play(plan.only(chosen(steps)) if steps else plan).brief())
    assert not text, f"{what}\n{text}"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("edition", "seed", "what"),
    [*((FIRST, *one) for one in KNOWN.items()), *((10, *one) for one in KNOWN_IN_10.items())],
)
def test_a_known_seed(edition: int, seed: int, what: str) -> None:
    """Whoever mends what it shows takes it off the list."""
    if text := broken(play(plan_of(seed, edition=edition)).brief()):
        pytest.xfail(f"{what}\n{text}")


def test_every_seed_is_played_once() -> None:
    played = [seed for first in SEEDS[:TESTS] for seed in SEEDS[first - 1 :: TESTS]]
    assert sorted(played) == list(SEEDS)


@pytest.mark.parametrize("every", deep_after(0, [3, 1]))
def test_a_seed_is_the_same_run_each_time(every: int) -> None:
    plan = plan_of(3)
    some = plan.only(plan.numbers[::every])
    assert play(some).digest == play(some).digest
