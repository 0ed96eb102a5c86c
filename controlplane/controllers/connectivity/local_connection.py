"""Follows the connection to the one API server that a process runs beside: the controller of a process that has no
other clusters.

In: the events of `cluster/NAME` and `service`. Out: the connection, and the newest versions that were seen of each
kind. It decides nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from controlplane.controllers.connectivity.events import (
    EVENTS,
    MANAGEMENT,
    EventRefused,
    LeadRequested,
    LogWentBack,
    ServiceStarted,
    ServiceStopped,
    cluster_stream,
)
from controlplane.controllers.connectivity.state import Connection, fold, restarted
from controlplane.controllers.connectivity.versions import Reads, ResourceVersionTracker
from controlplane.log.event import Event, LogReplaced, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange
from controlplane.runtime.writes import WritesNothing

SERVICE_STREAM = "service"
_LARGEST = 2**63 - 1  # what a resourceVersion may be


class LocalConnection(WritesNothing):
    """The connection under `MANAGEMENT`. `reads` says what the observations of the other capabilities show of
    objects.
    """

    types: Sequence[type[Event]] = EVENTS

    def __init__(self, reads: Reads) -> None:
        self.connection = Connection(name=MANAGEMENT)
        self.newest = ResourceVersionTracker(reads)

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
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
    """Return the first event of a process that took the log over; `unwatched_since` is when the one before gave its
    last heartbeat.
    """
    event = ServiceStarted(epoch=epoch, holder=holder, version=version, unwatched_since=unwatched_since)
    return NewEvent(stream=SERVICE_STREAM, event=event)


def service_stopped(epoch: int, holder: str) -> NewEvent:
    """Return the last event of a process that lets the log go."""
    return NewEvent(stream=SERVICE_STREAM, event=ServiceStopped(epoch=epoch, holder=holder))


def lead_requested(epoch: int, holder: str) -> NewEvent:
    """Return what a follower says that asks the leader of an epoch for the lead."""
    return NewEvent(stream=SERVICE_STREAM, event=LeadRequested(epoch=epoch, holder=holder))


def log_went_back(replaced: LogReplaced, holder: str) -> NewEvent:
    """Return what a process that takes a log over says of the one that it had read before."""
    event = LogWentBack(read_to=replaced.read_to, ends_at=replaced.ends_at, message=str(replaced), seen_by=holder)
    return NewEvent(stream=SERVICE_STREAM, event=event)


def event_refused(refused: NewEvent, error: str) -> NewEvent:
    """Return what is recorded in the place of an event that the database refuses: once for each version of what it
    tells of.

    Of the event itself nothing is kept but its type and what can be written of its stream's name.
    """
    stream = ascii(refused.stream)[1:-1][:200]
    identity = hashlib.sha256(f"{refused.source} {refused.stream}".encode(errors="backslashreplace")).hexdigest()[:32]
    event = EventRefused(stream=stream, type=type(refused.event).__name__, error=ascii(error)[1:-1][:500])
    return NewEvent(
        stream=f"refused/{refused.cluster or MANAGEMENT}/event/{identity}",
        event=event,
        source=f"refused/{identity}" if refused.source else "",
        mark=min(refused.mark, _LARGEST),
        cluster=refused.cluster,
    )


def connectivity_event(cluster: str, event: Event) -> NewEvent:
    """Put an event of connectivity on its cluster's stream."""
    return NewEvent(stream=cluster_stream(cluster), event=event, cluster=cluster)
