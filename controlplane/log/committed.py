"""What this process has committed and not read yet: the leader folds it from here, not from the database.

In: rows as they went in, with the places that the database gave them. Out: what a reader would have got. Only what
comes without a gap after what was read is handed out; whatever somebody else appended in between is read from the
database, with ours."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, overload

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


class CommittedBatch(Sequence[CommittedEvent]):
    """The events of a commit, in order. Each is made when it is asked for: most commits of a writer that does not read
    are not."""

    __slots__ = ("_after", "_at", "_batch", "_events", "_versions")

    def __init__(
        self, after: int, events: Sequence[Any], versions: Sequence[int], at: datetime, batch: uuid.UUID
    ) -> None:
        self._after, self._events, self._versions, self._at, self._batch = after, events, versions, at, batch

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> CommittedEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CommittedEvent]: ...
    def __getitem__(self, index: int | slice) -> CommittedEvent | Sequence[CommittedEvent]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        event = self._events[at]
        return CommittedEvent(
            self._after + 1 + at,
            event.stream,
            self._versions[at],
            event.type,
            event.schema,
            event.data,
            event.cluster,
            event.caused_by,
            event.trace,
            event.observed_at,
            self._at,
            self._batch,
        )


class CommittedEvents:
    """See the module."""

    def __init__(self, codec: Codec, most: int = _MOST) -> None:
        self._codec, self._most = codec, most
        self._commits: deque[Sequence[CommittedEvent]] = deque()
        self._first, self._count = 1, 0  # the position of the first event of all commits, and how many there are
        self._heard = 0
        self.end = 0
        """The highest position that was committed here."""

    def clear(self) -> None:
        """Forget everything: the log may be another one."""
        self._forget()
        self.end = 0

    def _forget(self) -> None:
        self._commits.clear()
        self._count = 0

    def add(self, events: Sequence[CommittedEvent], heard: int) -> None:
        """Take the events of a commit. `heard` counts what was heard of other appends before it was sent."""
        if not events:
            return
        first = events[0].position
        if self._commits and self.end + 1 != first:
            self._forget()
        if not self._commits:
            self._first = first
        self._commits.append(events)
        self._count += len(events)
        self._heard, self.end = heard, first + len(events) - 1
        if self._count > self._most:
            self._forget()

    def after(self, position: int, limit: int) -> EventPage | None:
        """Return what follows a position; None if that is not here."""
        self._drop_to(position)
        if not self._commits or self._first != position + 1:
            return None
        taken: list[CommittedEvent] = []
        for events in self._commits:
            taken += events[: limit - len(taken)]
            if len(taken) == limit:
                break
        self._drop_to(taken[-1].position)
        found = [one.read(self._codec) for one in taken]
        return EventPage(found, taken[-1].batch, None if self._commits else self._heard)

    def _drop_to(self, position: int) -> None:
        while self._commits and self._first <= position:
            events = self._commits.popleft()
            dropped = min(len(events), position + 1 - self._first)
            self._first += dropped
            self._count -= dropped
            if dropped < len(events):
                self._commits.appendleft(events[dropped:])


def recorded(rows: Iterable[Sequence[Any]], codec: Codec) -> list[Recorded]:
    """Return events that were read, whose columns come first in each row: position, stream, version, type, schema,
    data, cluster, cause, trace, and when it was observed and recorded."""
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
