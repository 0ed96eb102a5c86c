"""What this process has committed and not read yet: the leader folds it from here, not from the database.

In: rows as they went in, with the places that the database gave them. Out: what a reader would have got. Only what comes
without a gap after what was read is handed out; whatever somebody else appended in between is read from the database,
with ours."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from controlplane.log.codec import Codec
from controlplane.log.event import Recorded

_MOST = 10_000
"""Of more than these nobody takes notice: then they are read from the database."""


class CommittedEvent(NamedTuple):
    """One row, and where it is. `batch` is that of its commit."""

    position: int
    stream: str
    version: int
    type: str
    schema: int
    data: bytes
    cluster: str
    caused_by: int
    trace: str
    observed_at: datetime | None
    recorded_at: datetime
    batch: uuid.UUID

    def read(self, codec: Codec) -> Recorded:
        """Return it as a reader gets it."""
        return Recorded(
            position=self.position,
            stream=self.stream,
            version=self.version,
            event=codec.decode(self.type, self.schema, self.data),
            cluster=self.cluster,
            caused_by=self.caused_by,
            trace=self.trace,
            observed_at=self.observed_at.astimezone(UTC) if self.observed_at is not None else None,
            recorded_at=self.recorded_at,
        )


class EventPage(NamedTuple):
    """Events in order. `batch` is that of the last; `heard`: how often we had been told of other appends before it was
    known that the log ends here, None if it goes on."""

    events: Sequence[Recorded]
    batch: uuid.UUID | None
    heard: int | None


class CommittedEvents:
    """See the module."""

    def __init__(self, codec: Codec, most: int = _MOST) -> None:
        self._codec, self._most = codec, most
        self._events: deque[CommittedEvent] = deque()
        self._heard = 0
        self.end = 0
        """The highest position that was committed here."""

    def clear(self) -> None:
        """Forget everything: the log may be another one."""
        self._events.clear()
        self.end = 0

    def add(self, events: Sequence[CommittedEvent], heard: int) -> None:
        """Take the events of a commit. `heard` counts what was heard of other appends before it was sent."""
        if not events:
            return
        if self._events and self._events[-1].position + 1 != events[0].position:
            self._events.clear()
        self._events.extend(events)
        self._heard, self.end = heard, events[-1].position
        if len(self._events) > self._most:
            self._events.clear()

    def after(self, position: int, limit: int) -> EventPage | None:
        """Return what follows a position; None if that is not here."""
        events = self._events
        while events and events[0].position <= position:
            events.popleft()
        if not events or events[0].position != position + 1:
            return None
        taken = [events.popleft() for _ in range(min(limit, len(events)))]
        return EventPage([one.read(self._codec) for one in taken], taken[-1].batch, None if events else self._heard)


def recorded(rows: Iterable[Sequence[Any]], codec: Codec) -> list[Recorded]:
    """Return events that were read, whose columns come first in each row: position, stream, version, type, schema, data, cluster, cause,
    trace, and when it was observed and recorded."""
    decode = codec.decode
    return [
        Recorded(
            position=position,
            stream=stream,
            version=version,
            event=decode(name, schema, data),
            cluster=cluster,
            caused_by=caused_by,
            trace=trace,
            observed_at=observed_at,
            recorded_at=recorded_at,
        )
        for position, stream, version, name, schema, data, cluster, caused_by, trace, observed_at, recorded_at, *_ in rows
    ]
