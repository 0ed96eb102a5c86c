"""Keeps the queues of one cluster, and its connection, as the log says them.

In: events of the cluster. Out: what it gives to a ClusterQueue of the management cluster, and the position of the last
change of that."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Generic, TypeVar

import msgspec

from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.quota import events
from controlplane.controllers.quota.aggregate import Place, share_of
from controlplane.kube.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
from controlplane.log.event import Recorded

KINDS = (CLUSTER_QUEUES.name, LOCAL_QUEUES.name)
T = TypeVar("T")


class SeenQuota(msgspec.Struct, Generic[T], frozen=True):
    """An object as it was seen, and at which position."""

    object: T
    position: int


class Worker:
    """See the module. `position` is that of the last change."""

    def __init__(self, name: str) -> None:
        self.connection = Connection(name=name)
        self.position = 0
        self.local_queues: dict[Place, SeenQuota[events.QuotaLocalQueueObserved]] = {}
        self.queues: dict[str, SeenQuota[events.WorkerQuotaObserved]] = {}

    def connected(self, connection: Connection, position: int) -> None:
        """Take a change of the connection."""
        if connection.facts != self.connection.facts:
            self.position = position
        self.connection = connection

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of an object. What is gone is so by its UID: another of its name may be there already."""
        event: Any = recorded.event
        seen = SeenQuota(event, recorded.position)
        self.position = recorded.position
        match event:
            case events.QuotaLocalQueueObserved():
                self.local_queues[event.namespace, event.name] = seen
            case events.WorkerQuotaObserved():
                self.queues[event.name] = seen
            case events.QuotaLocalQueueGone():
                place = (event.namespace, event.name)
                if place in self.local_queues and self.local_queues[place].object.uid == event.uid:
                    del self.local_queues[place]
            case events.WorkerQuotaGone():
                if event.name in self.queues and self.queues[event.name].object.uid == event.uid:
                    del self.queues[event.name]

    def share(self, places: Collection[Place]) -> dict[str, int]:
        """Return what it gives where these LocalQueues of the management cluster lead, in billionths."""
        leads = {place: one.object.cluster_queue for place, one in self.local_queues.items()}
        return share_of(places, leads, {name: one.object.quotas for name, one in self.queues.items()})
