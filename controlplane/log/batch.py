"""The requests that are committed together, as the statement takes them.

In: requests. Out: columns in PostgreSQL's binary form, and afterwards, with what the database said of each event, the
events that are new."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from controlplane.log.arrays import Array, bigints, blobs, ints, texts, timestamps
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedEvent
from controlplane.log.event import Append, Body


class Outcome(NamedTuple):
    """What became of an event: `new`, `known` or `conflict`; the place is None unless it is new."""

    request: int
    said: str
    position: int | None
    version: int | None
    committed_at: datetime


class _Row(NamedTuple):
    request: int
    stream: str
    source: str
    mark: int
    type: str
    schema: int
    data: str
    reason: str
    cluster: str
    caused_by: int
    trace: str
    observed_at: datetime | None


_ROW: tuple[Callable[[Any], Array], ...] = (
    ints,
    texts,
    texts,
    bigints,
    texts,
    ints,
    texts,
    texts,
    texts,
    bigints,
    texts,
    timestamps,
)
_EXPECTED: tuple[Callable[[Any], Array], ...] = (ints, texts, bigints)


class Batch:
    """See the module. Raises `TypeError` or `ValueError` for what no log can hold. `known` counts events that an earlier
    one of the batch says already."""

    def __init__(self, requests: Sequence[Append], codec: Codec) -> None:
        self.id = uuid.uuid4()
        self.known = 0
        self._rows: list[_Row] = []
        bodies: dict[bytes, Body] = {}
        expected: list[tuple[int, str, int]] = []
        marks: dict[str, int] = {}
        for number, request in enumerate(requests):
            expected += [(number, stream, version) for stream, version in (request.expected or {}).items()]
            for new in request.events:
                if new.source:
                    if new.mark <= marks.get(new.source, -1):
                        self.known += 1
                        continue
                    marks[new.source] = new.mark
                name, schema, data = codec.encode(new.event)
                self._rows.append(
                    _Row(
                        number,
                        new.stream,
                        new.source,
                        new.mark,
                        name,
                        schema,
                        data,
                        str(getattr(new.event, "reason", "")),
                        new.cluster,
                        new.caused_by,
                        new.trace,
                        new.observed_at,
                    )
                )
                bodies.update((body.hash, body) for body in new.bodies)
        self.parameters = (
            *_columns(_ROW, self._rows),
            *_columns(_EXPECTED, expected),
            blobs(list(bodies)),
            texts([body.text for body in bodies.values()]),
        )

    @property
    def streams(self) -> list[str]:
        """The streams of the events."""
        return [row.stream for row in self._rows]

    def types(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Return the types of the events that are new."""
        return [row.type for row, outcome in zip(self._rows, outcomes, strict=True) if outcome.said == "new"]

    def committed(self, outcomes: Sequence[Outcome]) -> list[CommittedEvent]:
        """Return the events that are new, in the order of the log. None that an earlier try of the batch committed: where
        it is, the database did not say."""
        return [
            CommittedEvent(
                outcome.position,
                row.stream,
                outcome.version,
                row.type,
                row.schema,
                row.data,
                row.cluster,
                row.caused_by,
                row.trace,
                row.observed_at,
                outcome.committed_at,
                self.id,
            )
            for row, outcome in zip(self._rows, outcomes, strict=True)
            if outcome.position is not None and outcome.version is not None
        ]


def _columns(kinds: Sequence[Callable[[Any], Array]], rows: Sequence[tuple[Any, ...]]) -> list[Array]:
    columns: Sequence[Any] = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return [kind(column) for kind, column in zip(kinds, columns, strict=True)]
