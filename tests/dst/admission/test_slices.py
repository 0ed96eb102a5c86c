"""Elastic jobs where this service decides on quota: they grow and shrink in the midst of trouble, quota is never above
what there is, the ledger adds up, and one copy of each runs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.dst.scenes.admission.plan import SHAPE
from controlplane.dst.scenes.workloads.processes import ALL_AT_ONCE, BUILTIN
from tests.dst.plans import held, plan, step, told
from tests.support.deep import deep_after, deep_but

JOB, OTHER = "job-1-a-mid", "job-2-b-high"
TROUBLE = (
    "crash",
    "pause",
    "stop",
    "partition",
    "cut",
    "refuse",
    "slow",
    "mute",
    "conflicts",
    "raise",
    "stop-queue",
    "suspend",
    "delete-workload",
)


def builtin(*steps: Step, seed: int = 1, replicas: int = 1, shape: int = 0) -> Plan:
    made = plan(*sorted(steps, key=lambda one: one.at), seed=seed, replicas=replicas)
    return replace(made, scene="admission", traits=(BUILTIN, ALL_AT_ONCE, f"{SHAPE}{shape}"))


def grown(*more: Step, seed: int = 1, shape: int = 0) -> Plan:
    """A job of one pod that becomes one of three at 30 s, one of two at 60 s, and of three again at 90 s; another one
    wants quota."""
    sizes = [step(30, "resize", JOB, value=3), step(60, "resize", JOB, value=2), step(90, "resize", JOB, value=3)]
    return builtin(
        step(5, "submit-elastic", JOB, 200, 1), *sizes, step(40, "submit", OTHER, 60, 1), *more, seed=seed, shape=shape
    )


def test_it_grows_and_shrinks() -> None:
    outcome = play(grown())
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 2
    assert told(outcome, "WorkloadSliceReplaced")


def test_workloads_that_are_deleted_while_another_slice_waits_are_made_again() -> None:
    """The user's job says that pods run until somebody says otherwise: whose copy is gone, and another Workload of it
    waits."""
    at = [step(one, "delete-workload", JOB) for one in (32.38, 90.03, 91.88)]
    assert held(play(grown(*at, seed=21)))


@pytest.mark.parametrize("trouble", deep_but(("crash", "stop-queue"), TROUBLE))
@pytest.mark.parametrize("seed", deep_after(1, range(2)))
def test_it_holds_in_any_trouble(trouble: str, seed: int) -> None:
    source = random.Random(f"{trouble} {seed}")
    at = [round(source.choice((30, 60, 90)) + source.uniform(-1, 3), 2) for _ in range(3)]
    where = {
        "crash": "replica-1",
        "pause": "replica-1",
        "stop": "replica-1",
        "raise": JOB,
        "stop-queue": JOB,
        "suspend": JOB,
        "delete-workload": JOB,
    }
    named = where.get(trouble) or source.choice(("management", "w1"))
    more = [step(one, trouble, named, source.choice((10, 40)), source.randint(1, 60)) for one in at]
    assert held(play(grown(*more, seed=seed, shape=source.randrange(3))))
