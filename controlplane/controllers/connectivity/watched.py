"""Keeps since when processes have led this log, less the times in which none did.

In: every event, in the log's order. Out: from when a cluster's absence can count at all, and when a leading process
last recorded anything. A process that takes the log over records in its first event how long nobody had looked
(`ServiceStarted.unwatched_since`), so that a replay counts as it did."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.connectivity.events import (
    ClusterForgotten,
    LeadRequested,
    LogRebound,
    MassOutageAccepted,
    ServiceStarted,
)
from controlplane.controllers.connectivity.state import resumed
from controlplane.log.event import LogHead, Recorded
from controlplane.values import ByClass

BESIDE = (ClusterForgotten, MassOutageAccepted, LogRebound, LeadRequested)
"""What an operator, or a process that follows, records, whether a process leads or not."""
# Whether an event is a start; None if it does not say that a process leads.
_SAYS: ByClass[bool | None] = ByClass({ServiceStarted: True, **dict.fromkeys(BESIDE)}, other=False)


class Watched:
    """See the module. `since` is when the first process took the log over, later by every time without one."""

    def __init__(self) -> None:
        self.since: datetime | None = None
        self._heard: datetime | None = None
        self._epoch = 0

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        if _SAYS[type(recorded.event)] is None:
            return
        self._heard = recorded.recorded_at
        self.since = self.since or recorded.recorded_at
        if _SAYS[type(recorded.event)]:
            assert isinstance(recorded.event, ServiceStarted)
            self._epoch = recorded.event.epoch
            self.since = resumed(self.since, recorded)

    def until(self, head: LogHead) -> datetime | None:
        """Return until when somebody looked, to whoever takes the log over with this head; one that resigned sent its
        last heartbeat as an event. A lead that was taken, which is a heartbeat too, and never said in the log has
        looked at nothing.
        """
        led = head.heartbeat if self._epoch == head.epoch - 1 else None
        return led or self._heard
