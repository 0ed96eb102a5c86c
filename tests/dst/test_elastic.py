"""Elastic jobs in the simulation: they become larger and smaller in the midst of trouble, and the same rules look at
them; of one job no two copies run, under whatever Workloads' names.
"""

from __future__ import annotations

import random

import pytest

from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.plan import TROUBLE
from tests.dst.plans import ended, held, plan, step, told
from tests.support.deep import deep_after, deep_but

JOB = "job-1"
ON_A_JOB = ("preempt", "suspend", "delete-job", "priority")
ON_A_PROCESS = ("crash", "pause", "stop", "clock")
NOWHERE = ("database-away", "drain-queue")


def grown(*more: Step, seconds: float = 200, name: str = JOB) -> list[Step]:
    """A job of one pod that becomes one of three at 30 s, one of two at 60 s, and one of five at 90 s."""
    sizes = [step(30, "resize", name, value=3), step(60, "resize", name, value=2), step(90, "resize", name, value=5)]
    return sorted([step(5, "submit-elastic", name, seconds, 1), *sizes, *more], key=lambda one: one.at)


def test_it_is_one_job_of_the_size_that_was_asked_for() -> None:
    outcome = play(plan(*grown()))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 1
    assert len(told(outcome, "SpecUpdateDecided", "SliceAdmitted")) == 2
    assert len(told(outcome, "ADDED Job job-1")) == 2  # the user's, and one copy
    assert ended(outcome)


@pytest.mark.parametrize("at", deep_after(1, [30.05, 29.0, 30.5, 60.0, 90.2]))
def test_it_stays_one_job_when_its_worker_is_lost_at_any_step(at: float) -> None:
    outcome = play(plan(*grown(step(at, "partition", "w1", 250), name="once-1")))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 1


@pytest.mark.parametrize("trouble", deep_but(("crash", "partition", "preempt"), [*TROUBLE, "absence"]))
@pytest.mark.parametrize("seed", deep_after(1, range(2)))
def test_it_holds_in_any_trouble(trouble: str, seed: int) -> None:
    source = random.Random(f"{trouble} {seed}")
    at = [round(source.choice((30, 60, 90)) + source.uniform(-1, 3), 2) for _ in range(3)]
    where = "w1"
    if trouble in ON_A_JOB:
        where = JOB
    elif trouble in ON_A_PROCESS:
        where = "replica-1"
    elif trouble in NOWHERE or trouble == "absence":
        where = ""
    more = [step(one, trouble, where, source.choice((10, 40, 120)), source.randint(1, 60)) for one in sorted(at)]
    assert held(play(plan(*grown(*more), seed=seed)))
