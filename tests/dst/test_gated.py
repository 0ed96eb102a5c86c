"""Pods, groups of pods and sets in the simulation: they run on one cluster, whoever keeps them from running on the
management cluster, and the pods of a group, or the replicas of a set, stay together.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.fifth_edition import NEW_KINDS
from controlplane.dst.scenes.workloads.plan import TROUBLE
from controlplane.dst.scenes.workloads.processes import ALL_AT_ONCE, KIND, KUEUES, WEBHOOK
from tests.dst.plans import held, plan, step, told
from tests.support.deep import deep_after

GATES = ("", WEBHOOK, KUEUES)
GROUP, SET, REPLICAS = "once-group-1", "once-statefulset-2", "once-leaderworkerset-3"
ON_A_JOB = ("preempt", "suspend", "delete-job", "priority")
ON_A_PROCESS = ("crash", "pause", "stop", "clock")
NOWHERE = ("database-away", "drain-queue")


def submitted(seconds: float = 90) -> list[Step]:
    return [
        step(5, "submit-group", GROUP, seconds, 3),
        step(6, "submit-kind", SET, seconds, 1),
        step(7, "submit-kind", REPLICAS, seconds, 2),
        step(8, "submit-kind", "job-pod-4", seconds, 1),
    ]


def under(gate: str, *steps: Step, seed: int = 1) -> Plan:
    found = plan(*sorted(steps, key=lambda one: one.at), seed=seed)
    return replace(found, traits=(ALL_AT_ONCE, *([gate] if gate else []), *(KIND + name for name in NEW_KINDS)))


@pytest.mark.parametrize("gate", deep_after(1, GATES))
def test_each_runs_once_and_its_parts_are_together(gate: str) -> None:
    outcome = play(under(gate, *submitted()))
    assert held(outcome)
    made = told(outcome, "JobCreationDecided")
    assert len(made) == 6, "three pods of a group, a pod, and a copy of each set"
    group = {line.rpartition("(")[2] for line in made if f"workload/default/{GROUP} " in line}
    assert len(group) == 1
    assert not told(outcome, "Rejected")


@pytest.mark.parametrize("at", deep_after(1, [40.0, 5.05, 5.3]))
def test_they_stay_together_when_a_worker_is_lost(at: float) -> None:
    away = [step(at, "partition", where, 100) for where in ("w1", "w2", "w3")]
    outcome = play(under("", *submitted(), *away[: 1 + int(at) % 3]))
    assert held(outcome)


@pytest.mark.parametrize("part", deep_after(1, [0, 1]))
def test_a_replica_that_is_preempted_comes_back_to_the_others(part: int) -> None:
    """Its Workload waits for quota again, and finds the copy where it was."""
    outcome = play(under("", *submitted(), step(30, "preempt-one", REPLICAS, 0, part)))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided", "leaderworkerset")) == 1


def test_a_pod_of_a_group_that_is_deleted_and_made_again_has_a_copy_of_its_own() -> None:
    """The copy of the one that is gone goes with it: it would run beside the one in its place, and both would count."""
    outcome = play(under(KUEUES, *submitted(), step(30, "delete-pod", GROUP, 0, 1)))
    assert held(outcome)
    assert len(told(outcome, f"store management: ADDED Pod {GROUP}-pod-1")) == 2
    assert len(told(outcome, "JobCreationDecided", GROUP)) == 4


@pytest.mark.parametrize(("trouble", "gate"), deep_after(1, [(one, gate) for gate in GATES for one in TROUBLE]))
def test_they_hold_in_any_trouble(trouble: str, gate: str) -> None:
    source = random.Random(f"{trouble} {gate}")
    times = [round(source.uniform(4, 80), 2) for _ in range(3)]
    where = source.choice(("w1", "w2", "w3"))
    if trouble in ON_A_JOB:
        where = source.choice((GROUP, SET, REPLICAS))
    elif trouble in ON_A_PROCESS:
        where = "replica-1"
    elif trouble in NOWHERE:
        where = ""
    more = [step(at, trouble, where, source.choice((10, 40, 120)), source.randint(1, 60)) for at in times]
    assert held(play(under(gate, *submitted(), *more)))
