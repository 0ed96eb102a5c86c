"""Every process is away while a cluster is; and a job that nobody can dispatch."""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.dst.play import play
from tests.dst.plans import held, plan, step, told
from tests.support.deep import deep_after

GRACE = 180.0  # of the simulated settings


def taken(lines: list[str]) -> list[float]:
    """When Workloads were taken from lost clusters."""
    return [float(line.split()[0]) for line in lines]


@pytest.mark.parametrize("absent", deep_after(1, [150.0, 20.0, 400.0]))
def test_a_lost_cluster_has_its_grace_after_an_absence_of_ours(absent: float) -> None:
    """The job runs on `w1`, which alone has room for it, and is lost; then no process runs."""
    outcome = play(
        plan(
            step(2.0, "submit", "job-1", 900.0, 5),
            step(40.0, "partition", "w1", 1000.0),
            step(100.0, "absence", "", absent),
            step(800.0, "cut", "w2"),
        )
    )
    assert held(outcome)
    (when,) = taken(told(outcome, "CheckStateDecided", WorkloadReason.REMOTE_LOST))
    assert when >= 40.0 + GRACE + absent


def test_processes_that_live_for_less_than_a_grace_give_a_lost_job_up_all_the_same() -> None:
    outcome = play(
        plan(
            step(2.0, "submit", "job-1", 900.0, 5),
            step(40.0, "partition", "w1", 1000.0),
            step(60.0, "restarts", "", 500.0, 60),
            step(800.0, "cut", "w2"),
        )
    )
    assert held(outcome)
    assert len(told(outcome, "leads epoch")) > 5
    (when,) = taken(told(outcome, "CheckStateDecided", WorkloadReason.REMOTE_LOST))
    assert 40.0 + GRACE <= when < 560.0, "while no process lived for a whole grace"


def test_a_job_that_cannot_be_dispatched_is_rejected_whatever_its_quota() -> None:
    outcome = play(plan(step(2.0, "submit-unfit", "unfit-1", 60.0, 2)))
    assert held(outcome)
    assert told(outcome, "CheckStateDecided", WorkloadReason.CONTRADICTING_POLICIES)
    assert not told(outcome, "NominationDecided")
