"""An operator's word gets into the log beside a leader who goes on writing."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.app import operate
from controlplane.app.hosted import TYPES
from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterConnectFailed,
    ClusterForgotten,
    ClusterLost,
    cluster_stream,
)
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.log.codec import Codec
from controlplane.log.event import Append, Event, NewEvent
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.settings import Settings


def of_cluster(event: Event) -> NewEvent:
    return NewEvent(stream=cluster_stream("a"), event=event, cluster="a")


class Overtaken(MemoryLog):
    """An operator's view of a log in which the leader is faster each time, as often as `ahead` says."""

    leader: MemoryLog
    ahead = 0

    async def append(self, request: Append) -> int:
        if self.ahead:
            self.ahead -= 1
            failed = ClusterConnectFailed(reason="ClientConnectionFailed", message="no answer", attempt=self.ahead)
            await self.leader.append(Append([of_cluster(failed)]))
        return await super().append(request)


async def test_a_cluster_is_forgotten_although_each_attempt_to_reach_it_is_recorded_meanwhile() -> None:
    """Its stream moves on with every attempt: an operator whose machine is slow was refused after the third."""
    store, codec = MemoryStore(), Codec(TYPES)
    leader = MemoryLog(store, codec, lambda: datetime.now(UTC))
    await leader.take_epoch("leader")
    lost = ClusterLost(reason="ClientConnectionFailed", message="no answer")
    await leader.append(Append([of_cluster(ClusterConnected(incarnation="a")), of_cluster(lost)]))
    operator = Overtaken(store, codec, lambda: datetime.now(UTC))
    operator.leader, operator.ahead = leader, 8
    assert await operate.forget_in(operator, policy_of(Settings()), "a", "me") == 0
    last = (await leader.read(0))[-1].event
    assert isinstance(last, ClusterForgotten)
    assert last.by == "me"
