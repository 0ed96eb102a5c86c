"""Sixty seeds of the scene `candidates` hold, each in a test; a seed replays byte for byte; the command line plays it.

`make sim ARGS="--scene candidates"` plays more of them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from controlplane.__main__ import run
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.story import command, summary
from controlplane.dst.play import plan_of, play
from controlplane.dst.scenes.candidates import acts, disruptions
from controlplane.dst.scenes.candidates.plan import SCENE, TROUBLE
from controlplane.dst.scenes.workloads import acts as around
from tests.dst.mutants.candidates import BUGS
from tests.support.deep import deep_after
from tests.support.rows import each

SEEDS = range(1, 61)
FIRST_EDITION = "db25b2ad7d8c4f786017e1819638a752ff90f0a79c0c3f532e21ec478508e266"

PROGRAM = """
from controlplane.dst.play import plan_of, play
print(play(plan_of(3, scene="candidates")).digest)
"""


def drawn(seed: int) -> Outcome:
    return play(plan_of(seed, scene=SCENE))


@pytest.mark.parametrize("seed", deep_after(1, SEEDS))
def test_a_seed_holds(seed: int) -> None:
    found = drawn(seed).brief()
    assert found.violation is None, f"{summary(found)}\n  {command(found.plan)}"


@pytest.mark.parametrize("every", deep_after(0, [3, 1]))
def test_the_same_seed_gives_the_same_trace(every: int) -> None:
    plan = plan_of(3, scene=SCENE)
    some = plan.only(plan.numbers[::every])
    assert play(some).digest == play(some).digest


@pytest.mark.deep
def test_another_seed_gives_another_trace() -> None:
    assert drawn(3).digest != drawn(4).digest


@pytest.mark.parametrize("hash_seed", deep_after(0, ["4242", "1"]))
def test_the_trace_is_the_same_whatever_strings_hash_to(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [drawn(3).digest]


def test_every_kind_of_trouble_is_drawn_and_can_be_played() -> None:
    first = {step.kind for seed in range(300) for step in plan_of(seed, scene=SCENE, edition=1).steps}
    drawn = {step.kind for seed in range(300) for step in plan_of(seed, scene=SCENE, edition=9).steps}
    later = {step.kind for seed in range(300) for step in plan_of(seed, scene=SCENE).steps}
    assert first == {*TROUBLE, "submit-pod"}
    assert first | set(acts.ACTS) == drawn <= {*acts.ACTS, *around.ACTS}
    assert later == drawn | set(disruptions.ACTS)


def test_the_first_edition_is_closed() -> None:
    """Seeds that are noted mean what they meant: whoever changes how it is drawn makes another edition."""
    text = "\n".join(str(plan_of(seed, scene=SCENE, edition=1)) for seed in range(1, 101))
    assert hashlib.sha256(text.encode()).hexdigest() == FIRST_EDITION


@each("seed", range(1, 30))
def test_the_second_edition_is_the_first_and_more(seed: int) -> None:
    first, second = plan_of(seed, scene=SCENE, edition=1), plan_of(seed, scene=SCENE, edition=9)
    assert second.only(first.numbers).steps == first.steps
    assert second.traits[: len(first.traits)] == first.traits
    assert sorted(second.numbers) == list(range(1, second.size + 1))
    assert [step.at for step in second.steps] == sorted(step.at for step in second.steps)
    assert second.size > first.size


@each("seed", range(1, 30))
def test_the_tenth_edition_is_the_seventh_and_more(seed: int) -> None:
    """The eighth and the ninth are of the scene of admission. What comes while all targets are full needs room."""
    seventh, tenth = plan_of(seed, scene=SCENE, edition=7), plan_of(seed, scene=SCENE, edition=10)
    assert plan_of(seed, scene=SCENE, edition=9).steps == seventh.steps
    assert tenth.only(seventh.numbers).steps == seventh.steps
    assert tenth.traits[: len(seventh.traits)] == seventh.traits
    assert all(tenth.quotas[name] > nodes for name, nodes in seventh.quotas.items())
    assert sorted(tenth.numbers) == list(range(1, tenth.size + 1))


def test_a_part_of_a_plan_is_a_plan_and_says_how_it_is_played() -> None:
    plan = plan_of(3, scene=SCENE)
    some = plan.only([1, 3, 5])
    assert command(plan) == "controlplane simulate --seed 3 --scene candidates --story"
    assert command(some) == "controlplane simulate --seed 3 --scene candidates --steps 1,3,5 --story"
    before = plan_of(3, scene=SCENE, edition=1)
    assert command(before) == "controlplane simulate --seed 3 --scene candidates --plan 1 --story"


def test_the_command_line_plays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "3", "--scene", "candidates", "--steps", "1-3", "--story"]) == 0
    out = capsys.readouterr().out
    assert "PermitGranted on sourcepod/" in out
    assert "seed 3: ok (" in out


def test_the_command_line_tells_a_failure_in_its_smallest_form(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    BUGS["bind-unpermitted"].patch(monkeypatch)
    assert run(["simulate", "--seed", "1", "--scene", "candidates"]) == 1
    out = capsys.readouterr().out
    assert "X nothing is bound without a permit:" in out
    assert "--scene candidates --steps" in out.rstrip().splitlines()[-1]


def test_every_scene_has_editions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "1", "--scene", "candidates", "--plan", "1", "--steps", "1"]) == 0
    assert run(["simulate", "--seed", "1", "--scene", "local", "--plan", "1", "--steps", "1"]) == 0
    assert "seed 1: ok" in capsys.readouterr().out
