"""Copies that their workers preempt before they have a job: they are made anew, and the job runs."""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue import dispatch
from controlplane.dst.play import play
from tests.dst.plans import PREEMPTED_EVERYWHERE, held, told


def test_copies_that_are_preempted_everywhere_are_made_anew() -> None:
    outcome = play(PREEMPTED_EVERYWHERE)
    assert held(outcome)
    assert told(outcome, "RemovalDecided", "because StaleCopy")


def test_else_they_would_keep_their_quota_and_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_evicted_without_job", lambda remote: False)
    outcome = play(PREEMPTED_EVERYWHERE)
    assert outcome.violation is not None
    assert outcome.violation.rule == "everything settles"
