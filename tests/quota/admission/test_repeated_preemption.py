"""Workloads that take the same quota from one another in a circle: each is preempted again by Kueue's rules, at a pace
that slows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.repeated_preemption import end_of_pause, preempted, tried_from
from controlplane.controllers.quota.admission.state import WorkloadState
from controlplane.kube import kinds
from tests.quota.admission.scene import Scene, quota

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def often(count: int, apart: timedelta = timedelta(seconds=1)) -> WorkloadState:
    state = WorkloadState()
    for number in range(count):
        state = preempted(state, NOON + number * apart)
    return state


@pytest.mark.parametrize(
    ("count", "apart", "seconds"),
    [
        (1, 1, None),
        (7, 1, None),
        (8, 1, 1),
        (9, 1, 2),
        (11, 1, 8),
        (14, 1, 60),
        (50, 1, 60),
        (50, 60, 4),  # ten in ten minutes
        (50, 120, None),
    ],
)
def test_with_the_eighth_time_in_ten_minutes_it_waits_and_then_twice_as_long(
    count: int, apart: int, seconds: int | None
) -> None:
    state = often(count, timedelta(seconds=apart))
    last = NOON + (count - 1) * timedelta(seconds=apart)
    until = tried_from(state.preempted)
    assert (until - last if until is not None else None) == (timedelta(seconds=seconds) if seconds else None)
    assert state.paused == (seconds is not None)


def test_it_is_looked_at_when_the_pause_is_over_or_before() -> None:
    state = often(8)
    over = NOON + timedelta(seconds=8)
    assert end_of_pause(state.preempted, NOON, None) == ([], over)
    assert end_of_pause(state.preempted, NOON, over - timedelta(seconds=3)) == ([], over - timedelta(seconds=3))
    (event,), wake = end_of_pause(state.preempted, over, None)
    assert (event.reason, wake) == (R.PREEMPTION_PAUSE_OVER, None)


def circle() -> Scene:
    """A Cohort has 3: `a` 2, `b` 1. `mid` takes all 3 for `a` and preempts `low`; `high` borrows one for `b` and
    preempts `mid`, which borrows too; `low` reclaims what `b` borrows."""
    scene = Scene()
    scene.put(kinds.COHORTS, "all", spec={})
    preemption = {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 50},
    }
    for name, cpu in (("a", "2"), ("b", "1")):
        scene.queue(name, cohortName="all", resourceGroups=[quota(cpu)], preemption=preemption)
    for name, queue, cpu, priority in (("low", "a", "2", 0), ("mid", "a", "3", 10), ("high", "b", "2", 100)):
        scene.workload(name, queue, cpu, priority=priority)
    return scene


def preemptions(scene: Scene) -> int:
    return sum(isinstance(one.event, events.WorkloadPreemptionDecided) for one in scene.log)


def run(scene: Scene, seconds: float) -> None:
    """Let time pass; a job stops as soon as it is told to."""
    end = scene.now + timedelta(seconds=seconds)
    while scene.now < end:
        for _ in range(40):
            moved = scene.decide() or scene.carry_out()
            for name in ("low", "mid", "high"):
                if scene.is_true(name, "Evicted") and scene.is_true(name, "QuotaReserved"):
                    scene.release(name)
                    moved = True
            if not moved:
                break
        scene.now += timedelta(seconds=0.5)


def test_a_circle_of_preemptions_slows_down() -> None:
    scene = circle()
    run(scene, 60)
    first = preemptions(scene)
    run(scene, 600)
    later = preemptions(scene) - first
    assert first > 10, "it goes round by Kueue's rules"
    assert later <= 60, "ten minutes: none of the three more than about once in half a minute"
