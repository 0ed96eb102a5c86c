"""Plans of the local scene, and that a seed replays byte for byte, in this process and in another one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from controlplane.__main__ import run
from controlplane.dst.engine.story import command
from controlplane.dst.play import SCENES, play
from controlplane.dst.scenes.local import disruptions, people
from controlplane.dst.scenes.local.plan import DONE, MADE, TROUBLE, plan_of
from controlplane.dst.scenes.workloads import acts

PROGRAM = """
from controlplane.dst.play import plan_of, play
print(play(plan_of(5, scene="local")).digest)
"""


def test_a_seed_always_means_the_same_plan() -> None:
    assert plan_of(17) == plan_of(17) != plan_of(18)
    numbers = plan_of(17, edition=9).numbers
    assert numbers == list(range(1, len(numbers) + 1))
    assert [step.at for step in plan_of(17).steps] == sorted(step.at for step in plan_of(17).steps)


def test_every_kind_of_step_is_drawn_and_can_be_played() -> None:
    drawn = {step.kind for seed in range(150) for step in plan_of(seed, edition=9).steps}
    later = {step.kind for seed in range(150) for step in plan_of(seed).steps}
    assert drawn == {*MADE, *DONE, *TROUBLE}
    assert later == drawn | set(disruptions.ACTS)
    assert drawn <= {*people.ACTS, *acts.ACTS}
    assert set(people.ACTS) <= drawn


@pytest.mark.deep
def test_the_same_seed_gives_the_same_trace() -> None:
    one, other = play(plan_of(5)), play(plan_of(5))
    assert [str(line) for line in one.lines] == [str(line) for line in other.lines]


@pytest.mark.deep
def test_the_trace_is_the_same_whatever_strings_hash_to() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [play(plan_of(5)).digest]


def test_a_part_of_a_plan_is_a_run_of_its_own() -> None:
    plan = plan_of(3)
    some = plan.only(plan.numbers[::3])
    assert play(some).digest == play(some).digest
    assert command(some).startswith("controlplane simulate --seed 3 --scene local --steps 1,4")


def test_the_verb_plays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--scene", "local", "--seed", "3", "--steps", "1-3", "--story"]) == 0
    out = capsys.readouterr().out
    assert "scheduler-1#1  leads epoch 1" in out
    assert "rooms-1#1      leads epoch 1" in out
    assert out.rstrip().splitlines()[-1].startswith("seed 3: ok (")


def test_the_tenth_edition_is_the_one_before_and_more() -> None:
    for seed in range(1, 30):
        before, tenth = plan_of(seed, edition=9), plan_of(seed, edition=10)
        assert plan_of(seed, edition=1).steps == before.steps
        assert tenth.only(before.numbers).steps == before.steps
        assert tenth.quotas == before.quotas
        assert sorted(tenth.numbers) == list(range(1, tenth.size + 1))


def test_the_verb_plays_an_edition(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--scene", "local", "--plan", "1", "--seed", "3", "--steps", "1"]) == 0
    assert "seed 3: ok" in capsys.readouterr().out


def test_the_verb_knows_every_scene(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--help"]) == 0
    assert "|".join(SCENES) in capsys.readouterr().out
