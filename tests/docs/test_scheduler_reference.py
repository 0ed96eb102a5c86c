"""The scheduler's events and reasons are all in its reference, and nothing else is."""

from __future__ import annotations

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.events import TARGET_EVENTS
from controlplane.controllers.scheduling.events import SCHEDULING_EVENTS
from controlplane.controllers.scheduling.reasons import SchedulingReason
from tests.docs.test_reference import first_column

PAGE = "scheduler-events.md"


def test_every_event_is_there() -> None:
    pods = first_column(PAGE, "What is seen of pods") | first_column(PAGE, "Decisions about pods")
    assert pods == {event.__name__ for event in SCHEDULING_EVENTS}
    assert first_column(PAGE, "Candidates") == {event.__name__ for event in TARGET_EVENTS}


def test_every_reason_is_there() -> None:
    assert first_column(PAGE, "Reasons about pods") == {str(reason) for reason in SchedulingReason}
    assert first_column(PAGE, "Reasons about candidates") == {str(reason) for reason in TargetReason}
