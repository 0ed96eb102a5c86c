"""A job's end that is on no cluster and in no log any more is asked for by nobody; one that the service threw away
itself is."""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue import final_status
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from tests.dst.plans import cluster_of, held, plan, step, told

FORBIDDEN = step(10, "withdraw", "management", 300, 6)
"""The service may not write to Jobs."""
NOT_WRITTEN = "job-1 has not finished"


def ended(where: str, *more: Step, backup: float = 15) -> Plan:
    """Return a plan in which a job of twenty seconds ends on a cluster, and the log goes back to a backup at 110 s."""
    log = step(backup, "restore-log", "", 110 - backup)
    return plan(step(5, "submit", "job-1", 20, 2), FORBIDDEN, log, *more, step(600, "cut", where))


def test_what_somebody_deleted_and_the_log_lost_nobody_knows() -> None:
    where = cluster_of("job-1")
    outcome = play(ended(where, step(80, "delete-copy", where, value=1)))
    assert held(outcome)
    assert len(told(outcome, "403 Forbidden")) == 3
    assert told(outcome, "DELETED Job job-1")


def test_what_is_on_the_worker_or_in_the_log_is_written() -> None:
    where = cluster_of("job-1")
    assert held(play(ended(where)))
    assert held(play(ended(where, step(80, "delete-copy", where, value=1), backup=100)))


def test_what_the_service_threw_away_itself_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_status, "forbidden", lambda pass_, member="": False)
    outcome = play(ended(cluster_of("job-1")))
    assert outcome.violation is not None
    assert outcome.violation.detail == NOT_WRITTEN
