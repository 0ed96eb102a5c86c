"""A capability small enough to know by heart: somebody asks for a write to a cluster, it is begun, and it ends by being
shown.

In: `Asked`. Out: `Began` opens a write; `Shown` or `Unneeded` ends it; `Refused` closes it too, and after `PAUSE` it is
begun anew. The target of a write is its stream, so a stream has at most one."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from controlplane.clusters.protocol import Off, Synced
from controlplane.kube.kinds import EVENTS, JOBS, ObjectRef, Request, Verb, meta
from controlplane.log.event import Body, Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite, WriteRefusal

PAUSE = 10.0
VERSION = "7"


class Asked(Event, frozen=True):
    verb: str
    cluster: str
    body: str = ""
    after: float = 0.0
    announced: bool = False


class Began(Event, frozen=True):
    cluster: str
    verb: str


class Shown(Event, frozen=True):
    version: str = ""
    incarnation: str = ""
    gone: bool = False


class Refused(Event, frozen=True):
    code: int
    error: str
    message: str
    sent_before: bool = False


class Unneeded(Event, frozen=True):
    version: str


class Listed(Event, frozen=True):
    kind: str
    said: str


class Undeclared(Event, frozen=True):
    """An event that no codec of these tests knows: the log refuses it."""


def asked(
    stream: str, verb: Verb = "create", cluster: str = "east", *, body: Body | None = None, **more: object
) -> NewEvent:
    event = msgspec.convert({"verb": verb, "cluster": cluster, "body": body.ref if body else "", **more}, Asked)
    return NewEvent(stream=stream, event=event, bodies=(body,) if body else ())


def shown(stream: str) -> NewEvent:
    return NewEvent(stream=stream, event=Shown())


def lift(cluster: str, delta: Synced | Off) -> NewEvent:
    said = f"{delta.count} objects" if isinstance(delta, Synced) else delta.reason
    return NewEvent(stream=cluster, event=Listed(kind=delta.kind.name, said=said), cluster=cluster)


@dataclass
class Errand:
    version: int = 0
    wish: Asked | None = None
    since: datetime | None = None
    open: OpenWrite | None = None


class Errands:
    """The capability. Streams in `broken` cannot be decided about, those in `unrenderable` not be turned into requests,
    those in `obsolete` have nothing to send, those in `events` are Kubernetes Events; `decided` keeps what was asked
    about and when, `misused` the closed writes that somebody wanted to carry out nevertheless. What is decided rests on
    the stream `beside` too, if one is named."""

    types: Sequence[type[Event]] = (Asked, Began, Shown, Refused, Unneeded, Listed)

    def __init__(self) -> None:
        self.errands: dict[str, Errand] = {}
        self.broken: set[str] = set()
        self.unrenderable: set[str] = set()
        self.obsolete: set[str] = set()
        self.events: set[str] = set()
        self.decided: list[tuple[str, datetime]] = []
        self.misused: list[OpenWrite] = []
        self.given: dict[str, Mapping[str, bytes]] = {}
        self.beside = ""
        self._dirty: dict[str, None] = {}

    def observe(self, sighting: ObjectChange, now: datetime) -> NewEvent | None:
        metadata = meta(sighting.object)
        if metadata.get("labels") == {"mine": "no"}:
            return None
        event = Shown(version=sighting.resource_version, incarnation=sighting.incarnation, gone=sighting.gone)
        source = f"{sighting.cluster}/{sighting.incarnation}/{metadata['name']}"
        mark = int(sighting.resource_version)
        return NewEvent(
            stream=metadata["name"], event=event, source=source, mark=mark, cluster=sighting.cluster, observed_at=now
        )

    def fold(self, recorded: Recorded) -> None:
        errand = self.errands.setdefault(recorded.stream, Errand())
        errand.version = recorded.version
        match recorded.event:
            case Asked() as wish:
                errand.wish, errand.open = wish, None
                errand.since = recorded.recorded_at + timedelta(seconds=wish.after)
            case Began() as began:
                stream = recorded.stream
                errand.open = OpenWrite(stream, stream, began.cluster, recorded.position, began.verb)
            case Shown() | Unneeded():
                errand.wish = errand.open = None
            case Refused():
                errand.open, errand.since = None, recorded.recorded_at + timedelta(seconds=PAUSE)
        self._dirty[recorded.stream] = None

    def take_dirty(self) -> list[str]:
        taken, self._dirty = list(self._dirty), {}
        return taken

    def decide(self, stream: str, now: datetime) -> Decided:
        self.decided.append((stream, now))
        if stream in self.broken:
            raise RuntimeError(f"{stream} is broken")
        errand = self.errands[stream]
        if errand.wish is None or errand.open is not None or errand.since is None:
            return Decided(version=errand.version)
        if now < errand.since:
            return Decided(version=errand.version, wake=errand.since)
        began = Began(cluster=errand.wish.cluster, verb=errand.wish.verb)
        others = {self.beside: self.errands[self.beside].version} if self.beside else {}
        return Decided((NewEvent(stream=stream, event=began),), errand.version, others=others)

    def anticipate(self, events: Sequence[Recorded], now: datetime) -> Decided | None:
        ahead = copy.deepcopy(self)
        for recorded in events:
            ahead.fold(recorded)
        return ahead.decide(events[0].stream, now)

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        errand = self.errands[stream]
        return [errand.open] if errand.open else []

    def is_open(self, write: OpenWrite) -> bool:
        return self.errands[write.stream].open == write

    def _wish(self, write: OpenWrite) -> Asked:
        wish = self.errands[write.stream].wish
        if wish is None or not self.is_open(write):
            self.misused.append(write)
            raise LookupError(f"{write} is closed")
        return wish

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        wish = self._wish(write)
        return [wish.body] if wish.body else []

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        if write.stream in self.unrenderable:
            raise RuntimeError(f"{write.stream} cannot be rendered")
        if write.stream in self.obsolete:
            return None
        self.given[write.stream] = bodies
        ref = ObjectRef(EVENTS if write.stream in self.events else JOBS, "default", write.stream)
        verb: Verb = msgspec.convert(write.action, Verb)
        return Request(verb, ref, resource_version=VERSION if verb == "patch" else "")

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        if not self._wish(write).announced:
            return None
        return Request("create", ObjectRef(EVENTS, "default", f"{write.stream}-told"))

    def failed(self, write: OpenWrite, failure: WriteRefusal, now: datetime) -> NewEvent:
        event = Refused(
            code=failure.code, error=failure.error, message=failure.message, sent_before=failure.sent_before
        )
        return NewEvent(stream=write.stream, event=event, caused_by=write.position)

    def unneeded(self, write: OpenWrite, resource_version: str) -> NewEvent:
        return NewEvent(stream=write.stream, event=Unneeded(version=resource_version), caused_by=write.position)
