"""A log that was kept is the log that was played, and what is no whole log is played again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.dst.engine.plan import Plan
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.workloads.processes import QUOTA
from controlplane.dst.scenes.workloads.run import WorkloadRun
from tests.dst.plans import plan, step
from tests.support import played
from tests.support.deep import deep_after

SHORT = plan(step(5, "submit", "job-1", 20, 1), step(7, "submit", "job-2", 20, 2))
WITH_QUOTA = replace(plan_of(4), traits=(*plan_of(4).traits, QUOTA))
Count = Callable[[], int]


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> Count:
    """How often something was played."""
    made: list[Plan] = []

    def run(plan: Plan) -> WorkloadRun:
        made.append(plan)
        return WorkloadRun(plan)

    monkeypatch.setattr(played, "WorkloadRun", run)
    return lambda: len(made)


@pytest.mark.parametrize("of", deep_after(1, [SHORT, plan_of(1), plan_of(2), plan_of(3), WITH_QUOTA]))
def test_what_is_kept_is_what_was_played(tmp_path: Path, plays: Count, of: Plan) -> None:
    first = played.log_of(of, tmp_path)
    again = played.log_of(of, tmp_path)
    assert plays() == 1
    assert len(first) > 30
    assert list(again) == list(first)
    assert list(map(repr, again)) == list(map(repr, first))
    assert first.requests
    assert (again.requests, again.violation) == (first.requests, first.violation)


def test_it_is_the_log_of_a_run_that_nobody_keeps(tmp_path: Path) -> None:
    run = WorkloadRun(SHORT)
    run.play()
    run.close()
    assert list(played.log_of(SHORT, tmp_path)) == list(run.database.read(0, 1_000))


def test_what_was_to_be_played_is_played_although_it_is_kept(tmp_path: Path, plays: Count) -> None:
    played.log_of(SHORT, tmp_path)
    assert played.simulated(SHORT, tmp_path)[0].violation is None
    assert plays() == 2


@pytest.mark.parametrize(
    "harm", deep_after(1, [lambda text: text[: len(text) // 2], lambda text: b"", lambda text: b"no log"])
)
def test_a_damaged_file_is_played_again(tmp_path: Path, plays: Count, harm: Callable[[bytes], bytes]) -> None:
    first = played.log_of(SHORT, tmp_path)
    file = next(path for path in tmp_path.rglob("*") if path.is_file())
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    assert list(played.log_of(SHORT, tmp_path)) == list(first)
    assert plays() == 2
    assert file.read_bytes() == whole
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_other_plans_and_other_sources_have_other_files(
    tmp_path: Path, plays: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.log_of(SHORT, tmp_path)
    played.log_of(replace(SHORT, traits=(QUOTA,)), tmp_path)
    assert plays() == 2
    monkeypatch.setattr(played, "_source", lambda: "other")
    played.log_of(SHORT, tmp_path)
    assert plays() == 3
    assert [path.name for path in tmp_path.iterdir()] == ["other"], "what another source left is gone"


def test_a_run_without_a_cache_plays(plays: Count, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played.cache, "_root", None)
    assert played.log_of(SHORT) == played.log_of(SHORT)
    assert plays() == 2
