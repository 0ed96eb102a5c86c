"""The management cluster is put back to a backup: what the log knows of copies outlives what the cluster has forgotten
of them.
"""

from __future__ import annotations

import pytest

from controlplane.dst.play import play
from tests.dst.plans import held, plan, step, told
from tests.support.deep import deep_after

END = step(220, "cut", "w2")
#: Just after the job is there, before its Workload has quota.
MADE = 30.004


@pytest.mark.parametrize("name", deep_after(1, ["once-1", "job-1"]))
def test_a_copy_that_runs_is_found_and_goes_on(name: str) -> None:
    outcome = play(plan(step(30, "submit", name, 120, 2), step(MADE, "restore-home", "management", 50), END))
    assert held(outcome)
    assert told(outcome, "ClusterRestored on cluster/@management")
    assert len(told(outcome, "WinnerChosen")) == 2
    assert len(told(outcome, "JobCreationDecided")) == 1


def test_what_came_after_the_backup_is_gone_and_its_copy_goes() -> None:
    outcome = play(plan(step(20, "restore-home", "management", 50), step(30, "submit", "job-1", 400, 2), END))
    assert held(outcome)
    (gone,) = told(outcome, "store w", "DELETED Job job-1")
    assert 70 < float(gone.split()[0]) < 80
    assert not told(outcome, "FinishDecided")


def test_what_was_deleted_since_is_there_again_and_finishes() -> None:
    steps = [
        step(30, "submit", "job-1", 60, 2),
        step(40, "restore-home", "management", 40),
        step(50, "delete-job", "job-1"),
    ]
    outcome = play(plan(*steps, END))
    assert held(outcome)
    first, second = told(outcome, "JobCreationDecided")
    assert float(first.split()[0]) < 50 < 80 < float(second.split()[0])


def test_what_had_finished_since_is_run_again_after_and_not_beside_its_first_run() -> None:
    steps = [step(30, "submit", "once-1", 10, 2), step(MADE, "restore-home", "management", 50)]
    outcome = play(plan(*steps, END))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 2


def test_what_was_suspended_in_the_backup_is_put_back_into_the_queue() -> None:
    steps = [step(30, "submit", "job-1", 60, 2), step(40, "suspend", "job-1", 20)]
    assert held(play(plan(*steps, step(50, "restore-home", "management", 40), END)))


def test_a_restored_management_cluster_manages() -> None:
    steps = [step(10, "restore-home", "management", 30), step(60, "submit", "job-1", 20, 2)]
    outcome = play(plan(*steps, step(70, "submit-set", "job-set-2", 20, 2), END))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 2


@pytest.mark.parametrize("name", deep_after(1, ["once-1", "job-1"]))
def test_a_copy_that_may_run_on_a_lost_worker_is_waited_for(name: str) -> None:
    steps = [step(30, "submit", name, 200, 2), step(MADE, "restore-home", "management", 50)]
    assert held(play(plan(*steps, step(45, "partition", "w1", 100), END)))
