"""`controlplane simulate`, as people and scripts meet it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from controlplane.__main__ import run
from controlplane.dst.scenes.workloads import processes
from tests.dst.mutants.candidates import BUGS
from tests.dst.mutants.mutants import MUTANTS
from tests.support.deep import deep_after


def test_a_seed_that_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "7", "--steps", "1-3"]) == 0
    assert capsys.readouterr().out.startswith("seed 7: ok (")


def test_its_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "7", "--steps", "1-3", "--story"]) == 0
    out = capsys.readouterr().out
    assert "leads epoch 1" in out
    assert "all trouble ends" in out


@pytest.mark.deep  # what the scene of candidates tells of a failure is in `make test`
def test_a_seed_that_fails_is_told_in_its_smallest_form(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS["ready-before-job"].patch(monkeypatch)
    assert run(["simulate", "--seed", "1"]) == 1
    out = capsys.readouterr().out
    assert "X steps are taken in their order:" in out
    assert "seed 1: FAILED" in out
    last = out.rstrip().splitlines()[-1]
    assert re.match(r"[1-3] of \d+ steps", last)
    assert "controlplane simulate --seed 1 --steps" in last


@pytest.mark.parametrize(
    ("scene", "bug", "rule"),
    deep_after(
        1,
        [
            ("candidates", BUGS["bind-unpermitted"], "nothing is bound without a permit"),
            ("workloads", MUTANTS["ready-before-job"], "steps are taken in their order"),
        ],
        ids=["candidates", "workloads"],
    ),
)
def test_many_seeds(
    scene: str, bug: Any, rule: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["simulate", "--scene", scene, "--seeds", "1..2"]) == 0
    assert capsys.readouterr().out.startswith("2 of 2 seeds hold")
    bug.patch(monkeypatch)
    assert run(["simulate", "--scene", scene, "--seeds", "1..2", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["seeds"] == 2
    assert {row["rule"] for row in found["failed"]} == {rule}


@pytest.mark.parametrize(
    "arguments",
    [[], ["--seed", "1", "--seeds", "1..2"], ["--seeds", "3"], ["--seeds", "9..1"], ["--seed", "1", "--steps", "x"]],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *arguments]) == 2
    assert capsys.readouterr().err


def test_what_is_simulated_is_the_policy_of_production_made_quicker() -> None:
    defaults = type(processes.POLICY)(adapters=processes.POLICY.adapters)
    changed = {
        name for name in defaults.__struct_fields__ if getattr(defaults, name) != getattr(processes.POLICY, name)
    }
    assert changed == {"worker_lost_timeout", "refusal_pause"}
