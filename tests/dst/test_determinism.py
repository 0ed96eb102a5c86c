"""A seed replays byte for byte, in this process, in another one, and whatever strings hash to."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from controlplane.dst.engine.run import Outcome
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.plan import plan_of
from tests.support.deep import deep_after

PROGRAM = """
import sys
from controlplane.dst.scenes.workloads.plan import plan_of
from controlplane.dst.play import play
print(play(plan_of(int(sys.argv[1]))).digest)
"""


@cache
def first(seed: int) -> Outcome:
    """What a seed gave when it was played first."""
    return play(plan_of(seed))


def digest(seed: int, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("seed", deep_after(0, [7, 1]))
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    one, other = first(seed), play(plan_of(seed))
    assert [str(line) for line in one.lines] == [str(line) for line in other.lines]
    assert one.digest == other.digest


@pytest.mark.parametrize(
    ("seed", "hash_seed"), deep_after(1, [(39, "4242"), (7, "4242"), (11, "4242"), (7, "1"), (11, "1")])
)
def test_hashes_of_strings_change_nothing(seed: int, hash_seed: str) -> None:
    assert digest(seed, hash_seed) == first(seed).digest


@pytest.mark.deep
def test_another_seed_gives_another_trace() -> None:
    assert first(1).digest != first(2).digest


def test_a_subset_of_the_steps_is_a_run_of_its_own() -> None:
    plan = plan_of(39)
    some = plan.only(plan.numbers[::2])
    assert play(some).digest == play(some).digest != first(39).digest
