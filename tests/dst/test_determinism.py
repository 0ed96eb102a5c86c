"""A seed replays byte for byte, in this process, in another one, and whatever strings hash to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.plan import plan_of
from tests.support.deep import deep_after

PROGRAM = """
from controlplane.dst.scenes.workloads.plan import plan_of
from controlplane.dst.play import play
for seed in (7, 11):
    print(play(plan_of(seed)).digest)
"""


def digests(hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize("seed", deep_after(1, [7, 1]))
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    one, other = play(plan_of(seed)), play(plan_of(seed))
    assert [str(line) for line in one.lines] == [str(line) for line in other.lines]
    assert one.digest == other.digest


@pytest.mark.parametrize("hash_seed", deep_after(1, ["4242", "1"]))
def test_hashes_of_strings_change_nothing(hash_seed: str) -> None:
    assert digests(hash_seed) == [play(plan_of(seed)).digest for seed in (7, 11)]


def test_another_seed_gives_another_trace() -> None:
    assert play(plan_of(1)).digest != play(plan_of(2)).digest


def test_a_subset_of_the_steps_is_a_run_of_its_own() -> None:
    plan = plan_of(7)
    some = plan.only(plan.numbers[::2])
    assert play(some).digest == play(some).digest != play(plan).digest
