"""Scenes of candidates by hand in which a cluster begins anew: put back to a backup, a target or the source, or built
anew.
"""

from __future__ import annotations

import pytest

from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.dst.scenes.candidates.plan import NO_JOBS
from tests.dst.candidates import played, pod, step
from tests.dst.plans import told
from tests.support.deep import deep_but

#: A placement takes some eighty milliseconds: what a backup holds of it depends on when it was made.
MOMENTS = [round(5.0 + milliseconds / 1000, 3) for milliseconds in range(12, 132, 24)]
POLICIES = pytest.mark.parametrize(
    "policy", [(), pytest.param((NEVER_TWICE, NO_JOBS), marks=pytest.mark.deep)], ids=["", NEVER_TWICE]
)


@pytest.mark.deep
@POLICIES
@pytest.mark.parametrize("at", deep_but((5.036,), MOMENTS))
def test_targets_go_back_into_the_middle_of_a_placement(at: float, policy: tuple[str, ...]) -> None:
    """At once, while what was decided is on its way, or when the pod has been running for long."""
    for seconds in (0.03, 20.0):
        played(pod(5.0), *(step(at, "restore", where, seconds) for where in ("east", "west")), traits=policy)


@POLICIES
@pytest.mark.parametrize("at", deep_but((5.036,), MOMENTS[1::2]))
def test_targets_go_back_to_what_was_deleted_since(at: float, policy: tuple[str, ...]) -> None:
    """What is back of it is seen and removed; nobody else's pod waits for longer than that takes."""
    back = [step(at, "restore", where, 40.0) for where in ("east", "west")]
    outcome = played(pod(5.0), *back, step(20.0, "delete-pod", "web-1"), traits=policy)
    assert told(outcome, "ClusterRestored")
    played(pod(5.0), *back, step(20.0, "replace-pod", "web-1", 2.0), traits=policy)


@POLICIES
def test_what_ran_on_a_target_that_is_built_anew_is_unknown_and_not_gone(policy: tuple[str, ...]) -> None:
    """It is placed again once its grace is over; what must not run twice, once an operator has given the target up."""
    outcome = played(pod(5.0), *(step(30.0, "rebuild", where, 5.0) for where in ("east", "west")), traits=policy)
    assert told(outcome, "ClusterConnectFailed", "leads to another cluster than before")
    assert len(told(outcome, "DelegateLost", "TargetForgotten" if policy else "TargetLost")) == 1
    assert not told(outcome, "DelegateLost", "PodMissing")
    assert len(told(outcome, "binding pods web-1")) == 2


@POLICIES
@pytest.mark.parametrize("at", deep_but((5.036,), MOMENTS[1::2]))
def test_the_source_goes_back_into_the_middle_of_a_placement(at: float, policy: tuple[str, ...]) -> None:
    """Its log has not gone back: it knows every candidate, and the pod is placed once."""
    for seconds in (0.03, 20.0):
        outcome = played(pod(5.0), step(at, "restore-home", "management", seconds), traits=policy)
        assert len(told(outcome, "binding pods web-1")) == 1


def test_a_pod_that_came_after_the_backup_is_gone_with_all_of_its_candidates() -> None:
    outcome = played(step(4.0, "restore-home", "management", 20.0), pod(5.0))
    assert told(outcome, "SourceDeleted on sourcepod/default/web-1")
    assert told(outcome, "CleanupDone on sourcepod/default/web-1")


def test_a_pod_that_was_deleted_since_the_backup_runs_again() -> None:
    steps = [step(20.0, "restore-home", "management", 30.0), step(30.0, "delete-pod", "web-1")]
    outcome = played(pod(5.0), *steps)
    assert len(told(outcome, "binding pods web-1")) == 2
    assert len(told(outcome, "CleanupDone on sourcepod/default/web-1")) == 1


def test_copies_of_config_maps_come_and_go_with_their_pods() -> None:
    back = [step(20.0, "restore", where, 40.0) for where in ("east", "west")]
    played(pod(5.0, "conf-1"), *back, step(30.0, "delete-pod", "conf-1"), traits=(NO_JOBS,))
