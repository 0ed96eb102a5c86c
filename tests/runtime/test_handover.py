"""When a follower asks for the lead because the leader does not reach the management cluster, and when a leader lets it
go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.controllers.connectivity.events import EVENTS, MANAGEMENT, LeadRequested, ServiceStarted
from controlplane.controllers.connectivity.state import Connection, Phase
from controlplane.log.codec import Codec
from controlplane.log.event import Event, Recorded
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime.bound import LeadRequests, let_go_for
from tests.runtime.bench import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Follower:
    """A follower beside a leader, whose connection and whose own way to the cluster a test says."""

    def __init__(self) -> None:
        self.clock, self.store = ManualClock(), MemoryStore()
        self.phase: Phase = "Connected"
        self.reaches, self.asked = True, 0
        self.requests = LeadRequests(self.open, "second", self.known, self.ask, self.clock)

    def open(self) -> MemoryLog:
        return MemoryLog(self.store, Codec(EVENTS), self.clock.now)

    def known(self) -> Connection:
        return Connection(name=MANAGEMENT, phase=self.phase)

    async def ask(self) -> bool:
        self.asked += 1
        return self.reaches

    async def looks_for(self, seconds: float) -> list[Event]:
        """Let it look twice a second; return what it has recorded so far."""
        for _ in range(int(seconds * 2)):
            self.requests.look()
            await self.clock.pass_(0.5)
        return [recorded.event for recorded in await self.open().read(0)]  # type: ignore[misc]


@pytest.fixture
async def follower() -> Follower:
    made = Follower()
    await made.open().take_epoch("first")
    return made


@pytest.mark.parametrize("phase", ["Connected", "Suspect", "Unknown"])
async def test_a_follower_asks_neither_the_cluster_nor_for_the_lead_while_the_leader_may_be_connected(
    follower: Follower, phase: Phase
) -> None:
    follower.phase = phase
    assert await follower.looks_for(60) == []
    assert follower.asked == 0


@pytest.mark.parametrize("phase", ["Lost", "Failed"])
async def test_a_follower_that_is_answered_asks_for_the_lead_and_again_when_it_does_not_get_it(
    follower: Follower, phase: Phase
) -> None:
    follower.phase = phase
    assert await follower.looks_for(4.5) == []
    assert await follower.looks_for(5) == [LeadRequested(epoch=1, holder="second")]
    assert len(await follower.looks_for(18)) == 2
    assert (await follower.open().head()).epoch == 1, "it takes nothing by itself"


async def test_a_follower_that_is_not_answered_goes_on_asking_the_cluster_only(follower: Follower) -> None:
    follower.phase, follower.reaches = "Lost", False
    assert await follower.looks_for(60) == []
    assert 10 <= follower.asked <= 12
    follower.reaches = True
    assert len(await follower.looks_for(6)) == 1


async def test_one_that_the_leader_reaches_again_is_forgotten(follower: Follower) -> None:
    follower.phase = "Lost"
    await follower.looks_for(4)
    follower.phase = "Connected"
    await follower.looks_for(1)
    follower.phase = "Lost"
    assert await follower.looks_for(4.5) == []


def recorded(position: int, event: Event) -> Recorded:
    return Recorded(position=position, stream="service", version=position, event=event, recorded_at=NOW)


@pytest.mark.parametrize(
    ("position", "event", "silent", "other"),
    [
        (12, LeadRequested(epoch=3, holder="second"), 20.0, "second"),
        (12, LeadRequested(epoch=3, holder="second"), 17.0, ""),
        (12, LeadRequested(epoch=3, holder="second"), 0.0, ""),
        (9, LeadRequested(epoch=2, holder="second"), 20.0, ""),
        (12, ServiceStarted(epoch=3, holder="second", version="1"), 20.0, ""),
    ],
)
def test_a_leader_lets_the_lead_go_when_it_is_asked_and_has_not_been_answered_for_long(
    position: int, event: Event, silent: float, other: str
) -> None:
    assert let_go_for([recorded(position, event)], 10, silent) == other
