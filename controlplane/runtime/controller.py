"""The contract between the loop and a controller: fold events, decide about a stream, say what an open write looks
like.

All of it is synchronous; the loop (`controlplane.runtime`) brings the time and carries things out. It stands above
both, so that a controller need not know the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import msgspec

from controlplane.kube.fields import UnreadableObject
from controlplane.kube.kinds import Json, Kind, Request, meta, version_number
from controlplane.log.event import Body, Event, NewEvent, Recorded
from controlplane.runtime.observations import ObjectVanished


class OpenWrite(msgspec.Struct, frozen=True):
    """A decided write without an outcome: its stream, its target there, the cluster it goes to, the position of its
    decision.
    """

    stream: str
    target: str
    cluster: str
    position: int
    action: str


class Decided(msgspec.Struct, frozen=True):
    """The answer of `decide`: events that hold if the stream is still at `version`, and when to ask again at the
    latest.

    What rests on other streams too, or says something on them, names their versions in `others`: all of it is appended,
    or nothing."""

    events: Sequence[NewEvent] = ()
    version: int = 0
    wake: datetime | None = None
    others: Mapping[str, int] = {}


class WriteRefusal(msgspec.Struct, frozen=True):
    """An API server's no: HTTP status, the reason of its Status object (or `Foreign`), its message. `sent_before`: the
    same write was sent before, and may have been carried out then."""

    code: int
    error: str
    message: str
    sent_before: bool = False


class ObjectChange(msgspec.Struct, frozen=True):
    """An object as a cluster showed it, or as it last was if it is `gone`; `incarnation` tells the cluster's
    incarnations apart.

    `unreadable`: why no more of it could be read than its identity; `object` holds nothing else then. `manager`: see
    `controlplane.clusters.protocol.Change`. `listed`: a list shows it, so it may be no news.
    """

    cluster: str
    incarnation: str
    kind: Kind
    object: Json
    resource_version: str
    gone: bool
    unreadable: str = ""
    manager: str = ""
    listed: bool = False

    def whole(self) -> Json:
        """Return the object as it now is; raises `UnreadableObject`, a `Misfit`, if it could not be read."""
        if self.unreadable:
            raise UnreadableObject(self.unreadable)
        return self.object

    @property
    def uid(self) -> str:
        """The object's UID, "" if it has none."""
        return str(meta(self.object).get("uid", ""))

    @property
    def mark(self) -> int:
        """The object's version as a number, 0 if it is none."""
        return version_number(self.resource_version) or 0

    @property
    def source(self) -> str:
        """Where it was seen, by which the log tells what is new of it (`NewEvent.source`); "" if that cannot be
        told.
        """
        uid = self.uid
        return f"{self.cluster}/{self.incarnation}/{self.kind.name}/{uid}" if self.mark and uid else ""

    def observed(self, stream: str, event: Event, now: datetime, bodies: tuple[Body, ...] = ()) -> NewEvent:
        """Return an observation of it with its identity, so that it is recorded once, and its end with the version of
        that, which after a new list it has not by itself.
        """
        if isinstance(event, ObjectVanished):
            event = msgspec.structs.replace(event, resource_version=self.resource_version)
        return NewEvent(
            stream=stream,
            event=event,
            source=self.source,
            mark=self.mark,
            cluster=self.cluster,
            observed_at=now,
            bodies=bodies,
        )


Announced = Request | tuple[Request, ...] | None
"""The Kubernetes Events that tell of a write."""


class OpenRead(msgspec.Struct, frozen=True):
    """An object that has to be known before a stream can be decided about, and that no watch shows.

    `stream` is where its answer is recorded, and what makes two reads the same: whoever needs it, it is read once.
    `api_version` and `kind` are a reference's words; whoever reads finds out how the API server serves them, and
    whether the kind has namespaces."""

    stream: str
    cluster: str
    api_version: str
    kind: str
    namespace: str
    name: str


class ReadAnswer(msgspec.Struct, frozen=True):
    """How a read ended: the object, or the API server's no. `absent`: that says of the object, by its name, that it is
    not there. `not_served`: discovery, looked at anew, does not know the kind.
    """

    object: Json | None = None
    failure: WriteRefusal | None = None
    absent: bool = False
    not_served: bool = False


class SeveralObservations(Protocol):
    """What a controller adds to `Controller` if one change of an object may be news for several of its streams."""

    def observations(self, change: ObjectChange, now: datetime) -> Sequence[NewEvent]:
        """Return all events of something seen on a cluster. Nobody asks `observe` then."""


class ReadingController(Protocol):
    """What a controller adds to `Controller` if its decisions need objects that are not watched (docs/decisions/0017).

    A read changes nothing on the cluster, so it needs no decision in the log before it; its answer is an event like any
    observation."""

    def open_reads(self, stream: str, now: datetime) -> Sequence[OpenRead]:
        """Return the reads that a stream waits for now."""

    def is_wanted(self, read: OpenRead) -> bool:
        """Whether anybody still waits for a read."""

    def answered(self, read: OpenRead, answer: ReadAnswer, now: datetime) -> NewEvent:
        """Return the event that records how a read ended."""


class AnticipatingController(Protocol):
    """What a controller adds to `Controller` if it can decide on events that are not committed yet
    (docs/decisions/0028)."""

    def anticipate(self, events: Sequence[Recorded], now: datetime) -> Decided | None:
        """Return all that follows once some events are folded, which are the next ones of one stream; None where they
        have to be folded first. Nothing of them may be kept: they may never come to be in the log.
        """


@runtime_checkable
class EndingController(Protocol):
    """What a controller adds to `Controller` if streams of its own may leave the log once they are over
    (docs/decisions/0037). A fold of the log without the events of such a stream gives what it gives with them."""

    ENDING: frozenset[str]
    """The first words of these streams."""

    def leaves_nothing(self, stream: str) -> bool:
        """Whether no state is left of a stream."""

    def needed_streams(self) -> set[str]:
        """Return the streams on whose events what is known of others rests, also if no state is left of them."""

    @property
    def forgets_after(self) -> timedelta:
        """For how long after its last event a stream counts for others."""


class Controller(Protocol):
    """A controller as the loop sees it."""

    types: Sequence[type[Event]]

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on a cluster; None if it concerns nobody."""

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""

    def take_dirty(self) -> list[str]:
        """Return the streams that have to be decided about since the last call, each once, in the order they became
        so.
        """

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream."""

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        """Return the open writes of a stream."""

    def is_open(self, write: OpenWrite) -> bool:
        """Whether a write is still to be carried out."""

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the refs of the bodies that `request` needs."""

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if there is nothing to do."""

    def announcement(self, write: OpenWrite, now: datetime) -> Announced:
        """Return the Kubernetes Events to send after a write succeeded, if any. Best effort: they are not repeated."""

    def failed(self, write: OpenWrite, failure: WriteRefusal, now: datetime) -> NewEvent:
        """Return the event that records an API server's no."""

    def unneeded(self, write: OpenWrite, resource_version: str) -> NewEvent:
        """Return the event that records that a write changed nothing."""


def observed_by(controller: Controller, change: ObjectChange, now: datetime) -> Sequence[NewEvent]:
    """Return the events that a controller makes of something seen."""
    several: Callable[[ObjectChange, datetime], Sequence[NewEvent]] | None = getattr(controller, "observations", None)
    if several is not None:
        return several(change, now)
    event = controller.observe(change, now)
    return () if event is None else (event,)
