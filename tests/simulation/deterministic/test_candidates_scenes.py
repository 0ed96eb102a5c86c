"""Scenes of candidates by hand: what each hazard of the protocol comes to, from the first message to the end of all trouble."""

from __future__ import annotations

from controlplane.candidates.policy import NEVER_TWICE
from tests.simulation.deterministic.candidates import CANDIDATES_KIND, played, pod, step
from tests.simulation.deterministic.plans import told


def test_a_pod_is_offered_permitted_and_runs() -> None:
    outcome = played(pod(5.0))
    assert len(told(outcome, "Reserved on candidate")) >= 1
    assert len(told(outcome, "PermitGranted")) == 1
    assert len(told(outcome, "binding pods web-1")) == 1


def test_candidates_that_come_into_view_late_are_taken_all_the_same() -> None:
    """A scheduler is connected once a kind has failed often enough; what it could not list then, it lists later."""
    outcome = played(
        pod(20.0),
        step(21.0, "crash", "east-scheduler-1"),
        step(21.0, "crash", "west-scheduler-1"),
        step(21.5, "blind", "near-east", 40.0, CANDIDATES_KIND),
        step(21.5, "blind", "near-west", 40.0, CANDIDATES_KIND),
        pod(22.0, "best-2"),
        step(90.0, "cut", "management"),
    )
    assert told(outcome, "Bound on candidate", "best-2")


def test_a_node_that_is_full_is_not_taken_by_a_scheduler_that_has_just_begun() -> None:
    outcome = played(
        step(1.0, "rival", "east", 200.0, 3),
        step(2.0, "rival", "east", 200.0, 3),
        pod(20.0, "web-1", 2),
        step(20.2, "crash", "east-scheduler-1", 0.0, 1),
        pod(30.0, "best-2", 2),
    )
    assert told(outcome, "binding pods", "on west")


def test_a_target_that_is_cut_off_with_a_permit_keeps_it_under_never_twice() -> None:
    """The permit is given, the target is gone: nobody else gets one before it is back (H1)."""
    outcome = played(pod(5.0), step(5.042, "partition", "east", 100.0), traits=(NEVER_TWICE,), east=2, west=2)
    granted = told(outcome, "PermitGranted")
    assert granted
