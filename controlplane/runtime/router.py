"""Gives each event to the controllers that it concerns, and asks the owner of each stream what follows.

In: registrations, each a controller with the first words of the streams that it owns and of those that it hears
besides. Out: what the loop asks of one controller, answered by the right one. A controller sees the events that it
would see if it were alone, in the same order, so it decides the same; it cannot write to another's streams. A stream
with an event that cannot be folded is left alone: nothing more is folded, decided or carried out on it (`left_alone`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
import structlog

from controlplane.kube.kinds import Request
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.log.folding import Folding
from controlplane.runtime.controller import (
    Announced,
    Controller,
    Decided,
    ObjectChange,
    OpenRead,
    OpenWrite,
    ReadAnswer,
    WriteRefusal,
    observed_by,
)
from controlplane.runtime.hosting import Registration

_log = structlog.get_logger(__name__)

_NOTHING = Decided()


class ControllerRouter:
    """Controllers behind the loop's contract. Raises `ValueError` for those that claim the same streams, identities or
    event names.

    `remembers`: streams that were decided about are remembered, so that a process that starts with what this one has
    folded decides about the same streams as one that reads the whole log."""

    GIVEN = ("registrations", "types", "remembers", "_owners", "_hearers", "_begun")

    def __init__(self, registrations: Sequence[Registration]) -> None:
        self.registrations = tuple(registrations)
        self._owners: dict[str, Registration] = {}
        self._hearers: dict[str, list[Controller]] = {}
        for one in registrations:
            for word in sorted(one.owns):
                if word in self._owners:
                    raise ValueError(
                        f'controllers "{self._owners[word].name}" and "{one.name}" both own streams "{word}/…"'
                    )
                self._owners[word] = one
            for word in one.owns | one.hears:
                self._hearers.setdefault(word, []).append(one.controller)
        prefixes = [one.identities for one in registrations]
        if len(set(prefixes)) != len(prefixes):
            raise ValueError(
                "two controllers give observations the same identities: the log would drop one of them as seen already"
            )
        self.types: Sequence[type[Event]] = merged(one.controller.types for one in registrations)
        self._folding = Folding(self._give, _left)
        self.remembers = False
        self._asked: dict[str, dict[str, None]] = {}
        self._begun = False

    @property
    def left_alone(self) -> Mapping[str, str]:
        """The streams of which an event could not be folded, and what it was."""
        return self._folding.left_alone

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observations(self, change: ObjectChange, now: datetime) -> list[NewEvent]:
        """Return what each controller records of something seen; several may be concerned by the same object."""
        return [
            _marked(event, one.identities)
            for one in self.registrations
            for event in observed_by(one.controller, change, now)
        ]

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return what the first controller that is concerned records. The recorder asks for `observations`, which are
        all.
        """
        return next(iter(self.observations(change, now)), None)

    def fold(self, recorded: Recorded) -> None:
        """Give one more event to its owner and to whoever hears of it."""
        self._folding(recorded)

    def _give(self, recorded: Recorded) -> None:
        for controller in self._hearers.get(_word(recorded.stream), ()):
            controller.fold(recorded)

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about, controller after controller, each once; the first time also those that
        were asked about before the process started.
        """
        found: list[str] = []
        for one in self.registrations:
            taken = self._taken(one)
            found += self._asked[one.name] if not self._begun and one.name in self._asked else taken
        self._begun = True
        return [stream for stream in found if stream not in self.left_alone]

    def _taken(self, one: Registration) -> list[str]:
        taken = [stream for stream in one.controller.take_dirty() if self._owners.get(_word(stream)) is one]
        if self.remembers or one.name in self._asked:
            self._asked.setdefault(one.name, {}).update(dict.fromkeys(taken))
        return taken

    def tidy(self) -> None:
        """Forget the streams that are over: there is nothing to decide about them, and in a long log most are."""
        for one in self.registrations:
            if not self._begun:
                self._taken(one)
            over = getattr(one.controller, "is_over", None)
            if over is not None and one.name in self._asked:
                self._asked[one.name] = {stream: None for stream in self._asked[one.name] if not over(stream)}

    # --- what follows ------------------------------------------------------------------------------------------------

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what the owner of a stream decides."""
        owner = self._owner(stream)
        return owner.controller.decide(stream, now) if owner is not None else _NOTHING

    def anticipate(self, events: Sequence[Recorded], now: datetime) -> Decided | None:
        """Return what the owner of a stream decides on events that are about to be committed; None where they have to
        be folded first.
        """
        owner = self._owner(events[0].stream)
        return owner.anticipating.anticipate(events, now) if owner is not None and owner.anticipating else None

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        """Return the open writes of a stream."""
        owner = self._owner(stream)
        return owner.controller.open_writes(stream) if owner is not None else ()

    def is_open(self, write: OpenWrite) -> bool:
        """Whether a write is still to be carried out."""
        return write.stream not in self.left_alone and self._of(write).is_open(write)

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the refs of the bodies that `request` needs."""
        return self._of(write).bodies_needed(write)

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if there is nothing to do."""
        return self._of(write).request(write, bodies, now)

    def announcement(self, write: OpenWrite, now: datetime) -> Announced:
        """Return the Kubernetes Events to send after a write succeeded, if any."""
        return self._of(write).announcement(write, now)

    def failed(self, write: OpenWrite, failure: WriteRefusal, now: datetime) -> NewEvent:
        """Return the event that records an API server's no."""
        return self._of(write).failed(write, failure, now)

    def unneeded(self, write: OpenWrite, resource_version: str) -> NewEvent:
        """Return the event that records that a write changed nothing."""
        return self._of(write).unneeded(write, resource_version)

    # --- what has to be read -----------------------------------------------------------------------------------------

    @property
    def reads(self) -> bool:
        """Whether any controller's decisions need reads."""
        return any(one.reading is not None for one in self.registrations)

    def open_reads(self, stream: str, now: datetime) -> Sequence[OpenRead]:
        """Return the reads that a stream waits for now."""
        owner = self._owner(stream)
        return owner.reading.open_reads(stream, now) if owner is not None and owner.reading is not None else ()

    def is_wanted(self, read: OpenRead) -> bool:
        """Whether anybody still waits for a read; its answer belongs to whoever owns the stream that it is recorded
        on.
        """
        owner = self._owner(read.stream)
        return owner is not None and owner.reading is not None and owner.reading.is_wanted(read)

    def answered(self, read: OpenRead, answer: ReadAnswer, now: datetime) -> NewEvent:
        """Return the event that records how a read ended."""
        reading = self._owners[_word(read.stream)].reading
        assert reading is not None, f"nobody reads for {read.stream}"
        return reading.answered(read, answer, now)

    def _owner(self, stream: str) -> Registration | None:
        return self._owners.get(_word(stream)) if stream not in self.left_alone else None

    def _of(self, write: OpenWrite) -> Controller:
        return self._owners[_word(write.stream)].controller


def merged(types: Iterable[Iterable[type[Event]]]) -> tuple[type[Event], ...]:
    """Return all event types once; `ValueError` if two different ones have the same name, which is all that the log
    keeps of a type.
    """
    named: dict[str, type[Event]] = {}
    for declared in types:
        for event_type in declared:
            known = named.setdefault(event_type.__name__, event_type)
            if known is not event_type:
                raise ValueError(
                    f"two event types are called {event_type.__name__}: in {known.__module__} and "
                    f"{event_type.__module__}"
                )
    return tuple(named.values())


def _left(recorded: Recorded, error: Exception) -> None:
    _log.error(
        "event cannot be folded, its stream is left alone",
        stream=recorded.stream,
        position=recorded.position,
        error=repr(error),
    )


def _word(stream: str) -> str:
    return stream.partition("/")[0]


def _marked(event: NewEvent, mark: str) -> NewEvent:
    if not mark or not event.source:
        return event
    return msgspec.structs.replace(event, source=f"{mark}:{event.source}")
