"""Sets that are scaled, our webhook away while jobs are created, and orchestrated preemption, in the simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.fifth_edition import NEW_KINDS
from controlplane.dst.scenes.workloads.processes import ALL_AT_ONCE, GATES, KIND, WEBHOOK
from tests.dst.plans import held, plan, step, told

GROUP, SET, REPLICAS = "once-group-1", "once-statefulset-2", "once-leaderworkerset-3"


def under(trait: str, *steps: Step) -> Plan:
    found = plan(*sorted(steps, key=lambda one: one.at))
    return replace(found, traits=(ALL_AT_ONCE, trait, *(KIND + name for name in NEW_KINDS)))


def test_a_set_that_has_no_replicas_for_a_while_is_placed_anew() -> None:
    outcome = play(under(WEBHOOK, step(6, "submit-kind", SET, 90, 2), step(30, "scale", SET, 20)))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided", "statefulset")) == 2


@pytest.mark.parametrize(("before", "after", "workloads"), [(1, 3, 3), (3, 1, 3)])
def test_replicas_that_come_and_go_are_where_the_others_are(before: int, after: int, workloads: int) -> None:
    outcome = play(under(WEBHOOK, step(6, "submit-kind", REPLICAS, 90, before), step(30, "scale", REPLICAS, 0, after)))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided", "leaderworkerset")) == 1
    assert len(told(outcome, "store management: ADDED Workload", "leaderworkerset")) == workloads


@pytest.mark.parametrize("kind", ["job-job-4", GROUP])
def test_what_is_created_while_the_webhook_is_away_is_rejected_until_it_is_made_again(kind: str) -> None:
    submit = step(8, "submit-group" if kind == GROUP else "submit-kind", kind, 20, 2)
    outcome = play(under(WEBHOOK, step(5, "webhook-away", "", 20), submit))
    assert held(outcome)
    rejected, made = (told(outcome, *words) for words in (("because NotManaged",), ("JobCreationDecided",)))
    assert rejected
    assert made
    assert float(made[0].split()[0]) > 25.0


def test_an_urgent_job_preempts_where_it_is_let() -> None:
    lows = [step(5 + at, "submit", f"job-{at}", 200, 3) for at in range(1, 4)]
    full = {"management": 12, "w1": 3, "w2": 3, "w3": 3}
    outcome = play(replace(under(GATES, *lows, step(20, "submit-urgent", "once-9", 20, 3)), quotas=full))
    assert held(outcome)
    assert len(told(outcome, "GateOpeningDecided")) == 1
