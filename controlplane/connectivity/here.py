"""The connection to the one API server that a process stands beside: the `Capability` of a process that has no other clusters.

In: the events of `cluster/NAME` and `service`. Out: the connection, and the newest versions that were seen of each kind. It decides
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from controlplane.capability import Decided, Sighting
from controlplane.connectivity.events import EVENTS, MANAGEMENT, ServiceStarted, ServiceStopped, cluster_stream
from controlplane.connectivity.newest import Newest, Reads
from controlplane.connectivity.state import Connection, fold, restarted
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.writes import WritesNothing

SERVICE_STREAM = "service"


class Here(WritesNothing):
    """The connection under `MANAGEMENT`. `reads` says what the observations of the other capabilities show of objects."""

    types: Sequence[type[Event]] = EVENTS

    def __init__(self, reads: Reads) -> None:
        self.connection = Connection(name=MANAGEMENT)
        self.newest = Newest(reads)

    def observe(self, sighting: Sighting, now: datetime) -> NewEvent | None:
        """Return nothing: objects are for the others."""
        return None

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order; of every stream, for the versions that it shows."""
        self.newest.fold(recorded)
        if isinstance(recorded.event, ServiceStarted):
            self.connection = restarted(self.connection, recorded)
        elif recorded.stream == cluster_stream(MANAGEMENT):
            self.connection = fold(self.connection, recorded)

    def take_dirty(self) -> list[str]:
        """Return nothing: there is nothing to decide."""
        return []

    def decide(self, stream: str, now: datetime) -> Decided:
        """Decide nothing."""
        return Decided()


def service_started(epoch: int, holder: str, version: str, unwatched_since: datetime | None = None) -> NewEvent:
    """Return the first event of a process that took the log over; `unwatched_since` is when the one before gave its last sign of life."""
    event = ServiceStarted(epoch=epoch, holder=holder, version=version, unwatched_since=unwatched_since)
    return NewEvent(stream=SERVICE_STREAM, event=event)


def service_stopped(epoch: int, holder: str) -> NewEvent:
    """Return the last event of a process that lets the log go."""
    return NewEvent(stream=SERVICE_STREAM, event=ServiceStopped(epoch=epoch, holder=holder))


def connectivity_event(cluster: str, event: Event) -> NewEvent:
    """Put an event of connectivity on its cluster's stream."""
    return NewEvent(stream=cluster_stream(cluster), event=event, cluster=cluster)
