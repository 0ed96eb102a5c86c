"""Until when somebody looked at the clusters: to whom takes the log over, the heartbeats of the one before tell it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controlplane.controllers.connectivity.events import ClusterForgotten, ClusterSuspected, ServiceStarted
from controlplane.controllers.connectivity.watched import Watched
from controlplane.log.event import Event, LogHead, Recorded

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def led() -> Watched:
    """A process took epoch 1, and recorded something ten seconds later."""
    watched = Watched()
    started = ServiceStarted(epoch=1, holder="a", version="1")
    said: list[Event] = [started, ClusterSuspected(message="slow"), ClusterForgotten(by="me")]
    for number, (event, seconds) in enumerate(zip(said, (0, 10, 15), strict=True)):
        watched.fold(Recorded(position=number + 1, stream="s", version=1, event=event, recorded_at=at(seconds)))
    return watched


def test_the_last_heartbeat_of_the_one_before_counts() -> None:
    assert led().until(LogHead(3, 2, at(20))) == at(20)


def test_one_that_resigned_looked_until_its_last_event() -> None:
    assert led().until(LogHead(3, 2)) == at(10)


def test_a_lead_that_was_taken_and_never_begun_looked_at_nothing() -> None:
    """Its answer was lost, or its holder died before the log said so: to take the lead is a heartbeat too."""
    assert led().until(LogHead(3, 3, at(600))) == at(10)
