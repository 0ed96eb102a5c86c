"""What a controller tells of the objects that it records: which words a person may type for one, where its history is,
and why it is where it is.

In: a kind, a namespace and a name, and a reader of the log. Out: an `ObjectHistory`, and its `Explanation`. A slice has
them in its `explain.py`; `controlplane.audit.local` puts those of all slices together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.explanation import Explanation
from controlplane.runtime.writes import WriteFailed
from controlplane.values import Value


class LostNode(Value):
    """A node that is gone since a time, by an event of a log."""

    node: str
    since: datetime
    log: str
    position: int


class ObjectHistory(msgspec.Struct, frozen=True):
    """The events of one object, and those around it that its sentence may rest on; `others` of them are told of in its
    timeline too. `lost`: the node that it is on is gone.
    """

    kind: str
    stream: str
    events: Sequence[Recorded]
    around: Sequence[Recorded] = ()
    others: Sequence[Recorded] = ()
    lost: LostNode | None = None


class HistoryReader(Protocol):
    """A log, for reading."""

    def of(self, *streams: str, after: int = 0, kind: str = "", newest: bool = False) -> list[Recorded]:
        """Return the events after a position, by position: of some streams, or of one type; with `newest` the last
        alone."""


class ObjectStories(Value):
    """What one controller tells. `words` has what may stand before NAMESPACE/NAME, as kubectl has it, with the kind
    that is meant; `absent` says of a kind when its objects are recorded, for somebody who asks for one that is not
    there.

    `streams` names those in which an object of a kind may have its history, the first its own; `find` reads more than
    that one.

    What follows is by the kind of a history. `explain` says why its object is where it is. `chain`: the part of it
    within which an event that says what the one before said is no news; `repeats`: whether an event says what another
    stream says as well; `detail`: what its moments say beside the phrase of an event."""

    words: Mapping[str, str] = {}
    streams: Callable[[str, str, str], Sequence[str]]
    find: Callable[[HistoryReader, str, str, str], ObjectHistory | None] | None = None
    explain: Mapping[str, Callable[[ObjectHistory], Explanation]] = {}
    chain: Mapping[str, Callable[[Recorded], Hashable]] = {}
    repeats: Mapping[str, Callable[[ObjectHistory, Recorded], bool]] = {}
    detail: Mapping[str, Callable[[ObjectHistory], Callable[[Event | Unknown], str]]] = {}
    absent: Mapping[str, str] = {}

    def history(self, reader: HistoryReader, kind: str, namespace: str, name: str) -> ObjectHistory | None:
        """Return the history of an object; None if the log has none of it."""
        if self.find is not None:
            return self.find(reader, kind, namespace, name)
        streams = self.streams(kind, namespace, name)
        events = reader.of(streams[0]) if streams else []
        return ObjectHistory(kind, streams[0], events) if events else None


def chain_of(event: Event | Unknown, *, decided: bool) -> Hashable:
    """Return the object within whose events one may repeat the one before: what was seen of it, or what was decided for
    it.
    """
    kind = type(event).__name__ if decided or isinstance(event, WriteFailed) else ""
    return decided, kind, getattr(event, "uid", ""), getattr(event, "name", "")
