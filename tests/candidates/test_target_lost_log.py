"""A target's log that was lost, or put back: what a Candidate says that was done for it is not done again."""

from __future__ import annotations

from controlplane.controllers.candidates.target.events import PodRemoved, Reported
from tests.candidates.stage import NS
from tests.candidates.test_target_causes import Told

STREAM = f"candidate/{NS}/web"


def test_a_withdrawal_that_was_acknowledged_stays_acknowledged() -> None:
    reported = Reported(phase="Bound", reservation=2, acknowledged=1, bound_by=2, node="node")
    told = Told().invited().candidate(withdrawn=1, reported=reported).pod(node="node").settle()
    assert told.targets.candidates[STREAM].withdrawn == 1


def test_a_permit_to_preempt_that_was_used_up_is_not_used_again() -> None:
    told = Told().invited().candidate().settle().pod().settle()
    told.candidate(reported=Reported(phase="Pending", tried=1))
    told.permitted("Preempt").settle()
    assert not told.targets.may_preempt(STREAM, told.process.now)


def test_a_permit_to_preempt_that_was_not_used_is() -> None:
    told = Told().invited().candidate().settle().pod().settle()
    told.permitted("Preempt").settle()
    assert told.targets.may_preempt(STREAM, told.process.now)


def test_what_runs_is_not_refused_where_the_log_went_back_to_before_its_binding() -> None:
    """The source was uninvited after the binding. Refused, the pod would be placed elsewhere while its delegate still
    runs."""
    told = Told().reserved().permitted().settle()
    reported = Reported(phase="Bound", reservation=1, bound_by=1, node="node")
    told.pod(node="node").invitation_gone().candidate(reported=reported).settle()
    state = told.targets.candidates[STREAM]
    assert state.refused is None
    assert state.bound is not None
    assert state.bound.number == 1
    assert not [row for row in told.process.rows if isinstance(row.event, PodRemoved)]


def test_what_was_refused_and_is_bound_by_somebody_goes_all_the_same() -> None:
    told = Told().made().invitation_gone().settle()
    told.pod(node="node").settle()
    assert told.targets.candidates[STREAM].refused is not None
    assert [row for row in told.process.rows if isinstance(row.event, PodRemoved)]
