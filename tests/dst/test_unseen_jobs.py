"""The log is put back to before a job was created, its worker cannot be seen, or its jobs cannot: it runs once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.multikueue import unobserved_jobs
from controlplane.dst.play import play
from tests.dst.mutants.later_bugs import LATER
from tests.dst.plans import ASKED_AND_AWAY, TAKEN_BACK_ON_ITS_WAY, held, log_put_back, step, told
from tests.support.deep import deep_after

ONE = "one cluster runs a workload"
STORMS = [(storm, seed) for seed in (2, 1, 6) for storm in ("errors", "throttle", "conflicts", "slow")]


def test_a_cluster_that_the_stored_nomination_names_is_waited_for() -> None:
    outcome = play(ASKED_AND_AWAY)
    assert held(outcome)
    assert len(told(outcome, "ADDED Job once-1")) == 2  # the user's, and one copy


def test_who_takes_no_notice_of_it_runs_the_job_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    LATER["nomination-ignored"].patch(monkeypatch)
    outcome = play(ASKED_AND_AWAY)
    assert outcome.violation is not None
    assert outcome.violation.rule == ONE


@pytest.mark.parametrize(("storm", "seed"), deep_after(2, STORMS))
def test_a_job_that_cannot_be_seen_is_waited_for_whatever_becomes_of_requests(storm: str, seed: int) -> None:
    outcome = play(log_put_back(step(5.0585, "kind-off", "w1", 100, 1), step(10, storm, "w1", 30, 2), seed=seed))
    assert held(outcome)
    assert len(told(outcome, "ADDED Job once-1")) == 2


def test_a_creation_that_was_taken_back_is_waited_for_as_long_as_its_request_may_take() -> None:
    assert held(play(TAKEN_BACK_ON_ITS_WAY))


def test_else_its_job_runs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unobserved_jobs, "SHOWS_WITHIN", timedelta(seconds=10))
    outcome = play(TAKEN_BACK_ON_ITS_WAY)
    assert outcome.violation is not None
    assert outcome.violation.rule == ONE
