"""The requests that are committed together: which of their events are new, and where in the log they come to be.

In: requests whose events are encoded, and what the writer knows of the log. Out: what becomes of each request, as if one
came after the other; columns in PostgreSQL's binary form; and once they are committed, the events as a reader would get
them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from controlplane.log.arrays import Array, bigints, blobs, encoded_texts, ints, texts, timestamps
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedEvent
from controlplane.log.event import Append, Body
from controlplane.log.writer_cache import WriterCache


class EncodedEvent(NamedTuple):
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


_ROW: tuple[Callable[[Any], Array], ...] = (
    texts,
    ints,
    encoded_texts,
    texts,
    texts,
    bigints,
    texts,
    timestamps,
)


class EncodedRequest(NamedTuple):
    """A request as it is appended; see `controlplane.log.event.Append`."""

    events: Sequence[EncodedEvent]
    expected: dict[str, int]
    bodies: Sequence[Body]


def encoded(request: Append, codec: Codec) -> EncodedRequest:
    """Return a request as it is appended. Raises `TypeError` or `ValueError` for what no log can hold."""
    events: list[EncodedEvent] = []
    bodies: list[Body] = []
    for new in request.events:
        event = new.event
        name, schema, data = codec.encode(event)
        reason = str(getattr(event, "reason", ""))
        events.append(
            EncodedEvent(
                new.source,
                new.mark,
                new.stream,
                name,
                schema,
                data,
                reason,
                new.cluster,
                new.caused_by,
                new.trace,
                new.observed_at,
            )
        )
        bodies += new.bodies
    return EncodedRequest(events, request.expected or {}, bodies)


_FEW = 32
"""So many streams and sources are taken for new without having been asked for."""


def ahead(requests: Iterable[EncodedRequest], cache: WriterCache) -> bool:
    """Whether a request expects more of a stream than the writer knows: somebody else has appended, and was read."""
    return any(
        (cache.version(stream) or version) < version for one in requests for stream, version in one.expected.items()
    )


class UnknownSources:
    """The streams and the sources of requests of which the writer knows nothing: those that the log has not had either,
    or that were not written for long."""

    def __init__(self, requests: Iterable[EncodedRequest], cache: WriterCache) -> None:
        streams: dict[str, int] = {}
        sources: set[str] = set()
        for request in requests:
            streams.update(request.expected)
            for event in request.events:
                streams.setdefault(event.stream, 0)
                sources.add(event.source)
        sources.discard("")
        self.streams = [one for one in streams if cache.version(one) is None]
        self.sources = [one for one in sources if cache.mark(one) is None]
        few = len(self.streams) + len(self.sources) <= _FEW
        self.likely_new = few and not any(streams[one] for one in self.streams)
        """Whether it is worth trying as if the log had none of them: they are few, and none is expected to be there."""

    def __bool__(self) -> bool:
        return bool(self.streams or self.sources)

    def of(self, expected: Iterable[Iterable[str]]) -> bool:
        """Return whether streams that requests expect something of are among them."""
        return not set(self.streams).isdisjoint(stream for one in expected for stream in one)


class Batch:
    """See the module. What is `unknown` of the requests is taken for new. Raises `ValueError` for what no log can hold.

    `new` is the number of new events of each request, None if it is refused since a stream has moved on; `followed` the
    number of those that followed from them; `after` is the position after which they come."""

    def __init__(self, requests: Sequence[EncodedRequest], cache: WriterCache, unknown: UnknownSources) -> None:
        self.id = uuid.uuid4()
        self.after = cache.position or 0
        self.new: list[int | None] = []
        self.followed = 0
        self._events: list[EncodedEvent] = []
        self._versions: list[int] = []
        self._newest: dict[str, int] = {}
        self._marks: dict[str, int] = {}
        self._bodies: dict[bytes, Body] = {}
        self._unknown = unknown
        self.new.extend(self._judged(request, cache) for request in requests)

    def follow(self, requests: Iterable[EncodedRequest], cache: WriterCache) -> None:
        """Add requests that follow from the events that are new; one that is refused, or that rests on a stream of which
        the writer knows nothing, is left out."""
        for request in requests:
            streams = [*request.expected, *(event.stream for event in request.events)]
            if all(stream in self._newest or cache.version(stream) is not None for stream in streams):
                self.followed += self._judged(request, cache) or 0

    def _judged(self, request: EncodedRequest, cache: WriterCache) -> int | None:
        if any(self._version(stream, cache) != version for stream, version in request.expected.items()):
            return None
        self._bodies.update((body.hash, body) for body in request.bodies)
        return sum(self._take(event, cache) for event in request.events)

    def _version(self, stream: str, cache: WriterCache) -> int:
        return self._newest.get(stream) or cache.version(stream) or 0

    def _take(self, event: EncodedEvent, cache: WriterCache) -> bool:
        """Return whether an event is new; it has a place then."""
        source, stream = event.source, event.stream
        if source:
            before = self._marks.get(source)
            if before is None:
                before = cache.mark(source)
            if before is not None and event.mark <= before:
                return False
            self._marks[source] = event.mark
        version = self._newest[stream] = self._version(stream, cache) + 1
        self._events.append(event)
        self._versions.append(version)
        return True

    @property
    def empty(self) -> bool:
        """Whether nothing of it is new."""
        return not self._events

    def __len__(self) -> int:
        return len(self._events)

    @property
    def types(self) -> list[str]:
        """The types of the events that are new."""
        return [event.type for event in self._events]

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What the statement takes after the batch's id."""
        _, _, streams, *rest = zip(*self._events, strict=True)
        return (
            self.after,
            texts(streams),
            bigints(self._versions),
            *(kind(column) for kind, column in zip(_ROW, rest, strict=True)),
            texts(list(self._marks)),
            bigints(list(self._marks.values())),
            texts(self._unknown.streams),
            texts(self._unknown.sources),
            blobs(list(self._bodies)),
            texts([body.text for body in self._bodies.values()]),
        )

    def teach(self, cache: WriterCache) -> None:
        """Let the writer know what it committed."""
        cache.wrote(self.after + len(self._events), self._newest, self._marks)

    def committed(self, at: datetime) -> list[CommittedEvent]:
        """Return the new events as they are in the log."""
        return [
            CommittedEvent(
                position,
                event.stream,
                version,
                event.type,
                event.schema,
                event.data,
                event.cluster,
                event.caused_by,
                event.trace,
                event.observed_at,
                at,
                self.id,
            )
            for position, (event, version) in enumerate(
                zip(self._events, self._versions, strict=True), start=self.after + 1
            )
        ]
