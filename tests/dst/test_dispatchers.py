"""The dispatchers and the sizes of jobs that only plans of the fourth edition draw, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.processes import DISPATCHERS, EXTERNAL
from tests.dst.plans import ended, held, plan, step, told

NOMINATOR = step(0.5, "nominator", value=8)


def under(dispatcher: str, *steps: Step) -> Plan:
    return replace(plan(*([NOMINATOR] if dispatcher == EXTERNAL else []), *steps), traits=(dispatcher,))


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_job_runs_once_and_its_cluster_is_named(dispatcher: str) -> None:
    outcome = play(under(dispatcher, step(5, "submit", "job-1", 60, 2)))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 1
    assert len(told(outcome, "CheckStateDecided", "AdmittedOnWorker")) == 1
    assert not told(outcome, "422 Invalid")
    assert ended(outcome)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_name_that_is_taken_away_stops_nothing(dispatcher: str) -> None:
    outcome = play(under(dispatcher, step(5, "submit", "once-1", 200, 2), step(60, "take-name", "once-1")))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 1
