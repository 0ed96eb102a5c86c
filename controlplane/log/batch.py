"""The requests that are committed together: which of their events are new, and where in the log they come to be.

In: requests whose events are encoded, one after the other, and what the writer knows of the log. Out: what becomes of
each request, as if one came after the other; columns in PostgreSQL's binary form; and once they are committed, the
events as a reader would get them. A batch may be judged on another one that is not committed yet: what it says holds if
that one is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from controlplane.log.arrays import Array, bigints, blobs, encoded_texts, few_texts, ints, texts, timestamps
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedBatch
from controlplane.log.event import Append, Body, NewEvent
from controlplane.log.writer_cache import WriterCache


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as its row has it, but for its place; `source` and `mark` are those of `NewEvent`."""

    source: str
    mark: int
    stream: str
    type: str
    schema: int
    data: bytes
    reason: str
    cluster: str
    caused_by: int
    trace: str
    observed_at: datetime | None


_COLUMNS: tuple[tuple[str, Callable[[Any], Array]], ...] = (
    ("type", few_texts),
    ("schema", ints),
    ("data", encoded_texts),
    ("reason", few_texts),
    ("cluster", few_texts),
    ("caused_by", bigints),
    ("trace", texts),
    ("observed_at", timestamps),
)
"""The columns of a row after its stream and version, and what makes an array of each."""
_ROW = [(attrgetter(name), kind) for name, kind in _COLUMNS]
_stream_of, _type_of = attrgetter("stream"), attrgetter("type")


class EncodedRequest(NamedTuple):
    """A request as it is appended; see `controlplane.log.event.Append`."""

    events: Sequence[EncodedEvent]
    expected: Mapping[str, int]
    bodies: Sequence[Body]


_NOTHING: Mapping[str, int] = {}
_NO_BODIES: Sequence[Body] = ()


def encoded(request: Append, codec: Codec, trace_of: Callable[[NewEvent], str] = attrgetter("trace")) -> EncodedRequest:
    """Return a request as it is appended, each event with the trace that `trace_of` gives it. Raises `TypeError` or
    `ValueError` for what no log can hold."""
    events: list[EncodedEvent] = []
    bodies = _NO_BODIES
    for new in request.events:
        name, schema, data = codec.encode(new.event)
        events.append(
            EncodedEvent(
                new.source,
                new.mark,
                new.stream,
                name,
                schema,
                data,
                str(getattr(new.event, "reason", "")),
                new.cluster,
                new.caused_by,
                trace_of(new),
                new.observed_at,
            )
        )
        if new.bodies:
            bodies = [*bodies, *new.bodies]
    return EncodedRequest(events, request.expected or _NOTHING, bodies)


_FEW = 32
"""So many streams and sources are taken for new without having been asked for."""


class Batch:
    """Requests, judged. `new` has for each the number of its events that are new, None if it is refused since a stream
    has moved on; `followed` is the number of those that followed from them; `after` is the position after which they
    come. `streams` and `sources` are those of which the writer knows nothing, and which are taken for new: the log has
    not had them either, or they were not written for long. `ahead`: a request expects more of a stream than the writer
    knows, so somebody else has appended, and was read. `below`: the batch in flight that comes before this one."""

    def __init__(self, cache: WriterCache, below: Batch | None = None) -> None:
        self.id = uuid.uuid4()
        self.after: int = cache.position or 0 if below is None else below.after + len(below)
        self.rests_on = below.id if below is not None else None
        self.new: list[int | None] = []
        self.followed = 0
        self.streams: dict[str, None] = {}
        self.sources: dict[str, None] = {}
        self._cache = cache
        self._below: tuple[Mapping[str, int], Mapping[str, int]] = (
            (_NOTHING, _NOTHING) if below is None else (below._newest, below._marks)
        )
        self._events: list[EncodedEvent] = []
        self._versions: list[int] = []
        self._newest: dict[str, int] = {}
        self._marks: dict[str, int] = {}
        self._bodies: dict[bytes, Body] = {}
        self.ahead = False
        self._rests_on_unknown = self._expects_unknown = False
        self._arrays: tuple[Any, ...] | None = None

    def add(self, request: EncodedRequest) -> None:
        """Judge a request that comes after the others."""
        self.new.append(self._judged(request))

    def follow(self, requests: Iterable[EncodedRequest]) -> None:
        """Add requests that follow from the events that are new; one that is refused, or that rests on a stream of
        which the writer knows nothing, is left out."""
        for request in requests:
            streams = [*request.expected, *(event.stream for event in request.events)]
            if all(stream in self._newest or self.knows(stream) is not None for stream in streams):
                self.followed += self._judged(request) or 0

    def knows(self, stream: str) -> int | None:
        """Return the version of a stream before this batch, 0 for one that the log does not have; None if that is not
        known."""
        return self._below[0].get(stream) or self._cache.version(stream)

    def _judged(self, request: EncodedRequest) -> int | None:
        if request.expected and not self._as_expected(request.expected):
            return None
        if request.bodies:
            self._bodies.update((body.hash, body) for body in request.bodies)
        new, newest = 0, self._newest
        for event in request.events:
            if event.source and not self._marks_new(event.source, event.mark):
                continue
            stream = event.stream
            version = newest.get(stream) or self._version(stream)
            newest[stream] = version + 1
            self._events.append(event)
            self._versions.append(version + 1)
            new += 1
        if new:
            self._arrays = None
        return new

    def _as_expected(self, expected: Mapping[str, int]) -> bool:
        found = True
        for stream, version in expected.items():
            if (known := self._newest.get(stream) or self.knows(stream)) is None:
                self.streams[stream] = None
                self._expects_unknown = True
                self._rests_on_unknown = self._rests_on_unknown or version > 0
                known = 0
            elif known < version:
                self.ahead = True
            found = found and known == version
        return found

    def _marks_new(self, source: str, mark: int) -> bool:
        before = self._marks.get(source)
        if before is None:
            before = self._below[1].get(source)
        if before is None:
            before = self._cache.mark(source)
        if before is None:
            self.sources[source] = None
        elif mark <= before:
            return False
        self._marks[source] = mark
        return True

    def _version(self, stream: str) -> int:
        known = self.knows(stream)
        if known is None:
            self.streams[stream] = None
        return known or 0

    def has_to_ask(self) -> bool:
        """Whether the database has to be asked for what the writer does not know before this is sent: it is not likely
        to be new, or nothing is sent that the database would judge."""
        few = len(self.streams) + len(self.sources) <= _FEW or self._cache.meets_new
        return not few or self._rests_on_unknown or (self.empty and self._expects_unknown)

    @property
    def empty(self) -> bool:
        """Whether nothing of it is new."""
        return not self._events

    @property
    def is_ready(self) -> bool:
        """Whether its arrays are made."""
        return self._arrays is not None

    def __len__(self) -> int:
        return len(self._events)

    @property
    def types(self) -> list[str]:
        """The types of the events that are new."""
        return list(map(_type_of, self._events))

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What the statement takes after the batch's id; made once. Raises `TypeError` or `ValueError` for what no log
        can hold."""
        if self._arrays is None:
            events = self._events
            self._arrays = (
                self.after,
                texts(list(map(_stream_of, events))),
                bigints(self._versions),
                *(kind(list(map(column, events))) for column, kind in _ROW),
                texts(list(self._marks)),
                bigints(list(self._marks.values())),
                texts(list(self.streams)),
                texts(list(self.sources)),
                blobs(list(self._bodies)),
                texts([body.text for body in self._bodies.values()]),
            )
        return self._arrays

    def teach(self, cache: WriterCache) -> None:
        """Let the writer know what it committed."""
        cache.wrote(self.after + len(self._events), self._newest, self._marks)

    def committed(self, at: datetime) -> CommittedBatch:
        """Return the new events as they are in the log."""
        return CommittedBatch(self.after, self._events, self._versions, at, self.id)
