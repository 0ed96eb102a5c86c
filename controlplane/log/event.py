"""What goes into the log and what comes out of it.

In: a capability's typed events (subclasses of `Event`), wrapped in `NewEvent` with their stream and identity. Out:
`Recorded`, the same event with the place that the log gave it. Here because the core needs the words and must not see
the database."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from controlplane.values import Value


class Event(Value, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of all events. A subclass's name is its type; `SCHEMA` counts its shapes and goes up with an upcaster."""

    SCHEMA: ClassVar[int] = 1


class Part(Value, omit_defaults=True, forbid_unknown_fields=True):
    """A piece of an event, such as one of an observed object."""


class Unknown(msgspec.Struct, frozen=True):
    """An event that this version cannot read: it is kept in the log, counted, and skipped by every fold."""

    type: str
    schema: int
    data: str | bytes
    error: str = ""


Kept = dict[str, str | int]
"""By the field of an event that names a body: the hash of what is stored of it, if that is not the body as it was seen;
or the size of one that is too large to be stored."""


class Body(msgspec.Struct, frozen=True):
    """A big object, known by the SHA-256 of its canonical JSON. What of it the log stores, and under which hash, says
    `Redaction`.
    """

    hash: bytes
    text: str

    @property
    def ref(self) -> str:
        """The hash in hex, as narrow events carry it."""
        return self.hash.hex()


def canonical(value: Any) -> bytes:
    """Return the one JSON spelling of a value (sorted keys, no spaces) that hashes are taken of."""
    return msgspec.json.encode(value, order="sorted")


def body_of(value: Any) -> Body:
    """Make the body of a JSON value."""
    text = canonical(value)
    return Body(hashlib.sha256(text).digest(), text.decode())


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way into the log.

    `source` and `mark` are the identity of an observation: where it was seen (cluster, incarnation, kind, uid) and the
    resourceVersion as a number. The log keeps the highest mark of a source and drops whatever is not newer. An empty
    source is never de-duplicated."""

    stream: str
    event: Event
    source: str = ""
    mark: int = 0
    cluster: str = ""
    caused_by: int = 0
    trace: str = ""
    observed_at: datetime | None = None
    bodies: tuple[Body, ...] = ()


class Append(msgspec.Struct, frozen=True):
    """Events that are committed together or not at all.

    `expected` maps a stream to the version that the caller decided on; a stream that has moved on refuses the whole
    request. None appends blindly, as observations do."""

    events: Sequence[NewEvent]
    expected: dict[str, int] | None = None


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event in the log. `position` is gapless and follows commit order; `version` counts within the stream from
    1.
    """

    position: int
    stream: str
    version: int
    event: Event | Unknown
    cluster: str = ""
    caused_by: int = 0
    trace: str = ""
    observed_at: datetime | None = None
    recorded_at: datetime


class LogHead(msgspec.Struct, frozen=True):
    """The end of a log: the last position given, and the epoch whose holder may append.

    Of a lead that was just taken, `heartbeat` is when the holder before gave its last one; None if it resigned, or
    there was none."""

    position: int
    epoch: int
    heartbeat: datetime | None = None


class Heartbeat(msgspec.Struct, frozen=True):
    """The last heartbeat of a log's holder. Two are equal if none was given in between; `given` has no other
    meaning.

    `free`: nobody holds the log, since nobody ever did or the last one resigned.
    """

    epoch: int
    given: str
    free: bool


class LogError(Exception):
    """The log could not do what was asked."""


class Fenced(LogError):  # noqa: N818 - a state, named as the design names it
    """A writer with a newer epoch has taken over: this one must not decide or act any more."""


class LogReplaced(Fenced):
    """The log is not the one that was read: it ends earlier (a backup was restored, a standby lacks the last commits)
    or goes on otherwise.

    What was folded of it is void. `read_to` is the position up to which it had been read, `ends_at` where it ended when
    that was noticed."""

    def __init__(self, message: str, read_to: int, ends_at: int) -> None:
        super().__init__(message)
        self.read_to, self.ends_at = read_to, ends_at


class LogArchived(Fenced):
    """While the log was read, events that were read, or were to be read next, left it for an archive, or came back.
    What was folded of it is a part of some streams: whoever reads begins again."""


class LogGap(Fenced):
    """Events that were appended are missing between those that are there, or at the end. What is folded without them is
    not what happened: whoever reads goes no further."""


class VersionConflict(LogError):  # noqa: N818
    """A stream has moved on since the decision was taken. Fold what is new and decide again."""


class LogUnavailable(LogError):  # noqa: N818
    """The database does not answer. Nothing is known to be lost; the caller waits and tries again."""
