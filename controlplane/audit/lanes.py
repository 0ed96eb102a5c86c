"""Who had what, as intervals on lanes: what a picture of a timeline is made of.

In: recorded events, or moments that were told of them, in order. Out: lanes with bars, each with the word for what it
shows, the sentence that began it and the position of that event. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from controlplane.audit.timeline import TimelineEntry, why
from controlplane.audit.words import what
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import (
    AttemptBegun,
    ClusterRefused,
    NominationDecided,
    WinnerChosen,
    WinnerReleased,
)
from controlplane.controllers.multikueue.own_events import of_own_objects
from controlplane.log.event import Recorded
from controlplane.values import Value

WORDS = (
    "pending", "offered", "copied", "reserved", "admitted", "chosen", "running", "lost", "back", "finished", "connected",
    "other",
)  # fmt: skip
"""What a bar can show, in the order of a Workload's way."""


class Bar(Value):
    """An interval on a lane: `until` is None while it lasts. `word` is one of `WORDS`, `text` says why it began."""

    word: str
    since: datetime
    until: datetime | None
    text: str
    position: int


class Lane(Value):
    """What happened in one place, or to one object: bars that do not overlap, in order."""

    name: str
    bars: Sequence[Bar]


class Lanes:
    """Lanes in the making: a lane shows one word at a time, until it is told another."""

    def __init__(self, *first: str) -> None:
        """Make lanes; those named come first, whoever begins."""
        self._bars: dict[str, list[Bar]] = {name: [] for name in first}

    def show(self, lane: str, word: str, at: datetime, text: str, position: int) -> None:
        """Begin a bar, and end the one before; "" ends it only. A word that is shown already goes on."""
        bars = self._bars.setdefault(lane, [])
        if bars and bars[-1].until is None:
            if bars[-1].word == word:
                return
            bars[-1] = msgspec.structs.replace(bars[-1], until=at)
        if word:
            bars.append(Bar(word=word, since=at, until=None, text=text, position=position))

    def made(self) -> list[Lane]:
        """Return the lanes that show anything, the first ones first, the others in the order in which they began."""
        return [Lane(name=name, bars=bars) for name, bars in self._bars.items() if bars]


def _is_true(copy: observations.CloneObserved | None, condition: str) -> bool:
    return copy is not None and copy.is_true(condition)


class _OnCluster(msgspec.Struct):
    """How far a Workload has come on one cluster."""

    offered: bool = False
    copy: observations.CloneObserved | None = None
    chosen: bool = False
    job: observations.RemoteJobObserved | None = None
    away: bool = False
    back: bool = False

    @property
    def word(self) -> str:
        """The word that a bar shows."""
        copy, job = self.copy, self.job
        if not (self.offered or copy or self.chosen or job):
            return ""
        told: tuple[tuple[str, object], ...] = (
            ("lost", self.away),
            ("back", self.back),
            ("finished", (job is not None and job.finished) or _is_true(copy, "Finished")),
            ("running", job is not None and not (job.suspended and job.inactive)),
            ("chosen", self.chosen),
            ("admitted", _is_true(copy, "Admitted")),
            ("reserved", _is_true(copy, "QuotaReserved")),
            ("copied", copy is not None),
        )
        return next((word for word, holds in told if holds), "offered")


def workload_lanes(events: Iterable[Recorded], stream: str) -> list[Lane]:
    """Return the way of a Workload: a lane for the management cluster, and one for each cluster it had to do with.

    `events` are its own and those of the clusters, in order."""
    made, clusters = Lanes(MANAGEMENT), dict[str, _OnCluster]()
    away: set[str] = set()
    for recorded in of_own_objects(events, stream):
        if recorded.stream == stream:
            if (word := _at_home(recorded)) is not None:
                made.show(MANAGEMENT, word, recorded.recorded_at, _text(recorded), recorded.position)
            changed = _own(clusters, recorded, away)
        else:
            changed = _connection(clusters, recorded, away)
        for name in changed:
            made.show(name, clusters[name].word, recorded.recorded_at, _text(recorded), recorded.position)
    return made.made()


def _text(recorded: Recorded) -> str:
    return ": ".join(filter(None, [what(recorded.event), why(recorded.event)]))


def _at_home(recorded: Recorded) -> str | None:
    """Return what the management cluster's lane shows from an event on; None if that does not change."""
    event = recorded.event
    if isinstance(event, observations.WorkloadGone):
        return ""
    if not isinstance(event, observations.WorkloadObserved):
        return None
    for kind, word in (("Finished", "finished"), ("Evicted", "pending"), ("Admitted", "admitted")):
        if event.is_true(kind):
            return word
    return "reserved" if event.is_true("QuotaReserved") else "pending"


def _own(clusters: dict[str, _OnCluster], recorded: Recorded, away: set[str]) -> list[str]:
    """Take one more event of the Workload; return the clusters of which it says something."""
    event, name = recorded.event, recorded.cluster
    if isinstance(event, NominationDecided | AttemptBegun):
        for each in event.clusters:
            clusters.setdefault(each, _OnCluster(away=each in away)).offered = True
        return list(event.clusters)
    if isinstance(event, observations.WorkloadObserved | observations.WorkloadGone):
        return _withdrawn(clusters, event)
    change = _CHANGES.get(type(event))
    if change is None or name == MANAGEMENT:
        return []
    one = clusters.setdefault(name, _OnCluster(away=name in away))
    change(one, event)
    one.back = False
    if not isinstance(event, WinnerChosen):
        return [name]
    for other in clusters.values():
        other.offered = other is one
    return list(clusters)


def _withdrawn(clusters: dict[str, _OnCluster], event: object) -> list[str]:
    """Take back offers and the choice where a Workload lost its quota, finished or is gone."""
    held = isinstance(event, observations.WorkloadObserved) and event.is_true("QuotaReserved")
    if held and isinstance(event, observations.WorkloadObserved) and not event.is_true("Finished"):
        return []
    for one in clusters.values():
        one.offered = one.chosen = False
    return list(clusters)


def _set(field: str, value: object = None, *, seen: bool = False) -> Callable[[_OnCluster, object], None]:
    """Return what sets a field: to a value, or to the event itself."""
    return lambda one, event: setattr(one, field, event if seen else value)


def _removed(one: _OnCluster, event: object) -> None:
    one.copy, one.offered = None, False


def _choice(*, chosen: bool) -> Callable[[_OnCluster, object], None]:
    def change(one: _OnCluster, event: object) -> None:
        one.chosen, one.offered = chosen, chosen

    return change


_CHANGES: Mapping[type, Callable[[_OnCluster, object], None]] = {
    observations.CloneObserved: _set("copy", seen=True),
    observations.CloneGone: _removed,
    observations.RemoteJobObserved: _set("job", seen=True),
    observations.RemoteJobGone: _set("job"),
    WinnerChosen: _choice(chosen=True),
    WinnerReleased: _set("chosen", value=False),
    ClusterRefused: _choice(chosen=False),
}


def _connection(clusters: dict[str, _OnCluster], recorded: Recorded, away: set[str]) -> list[str]:
    """Take one more event of what is around; return the cluster that the Workload has to do with, if it is about
    one."""
    name = recorded.stream.partition("/")[2]
    if recorded.stream != cluster_stream(name) or name == MANAGEMENT:
        return []
    event, one = recorded.event, clusters.get(name, _OnCluster())
    if isinstance(event, connectivity.ClusterConnected):
        one.away, one.back = False, name in away
        away.discard(name)
    elif isinstance(
        event, connectivity.ClusterLost | connectivity.ClusterConnectFailed | connectivity.ClusterDisconnected
    ):
        one.away = True
        away.add(name)
    else:
        return []
    return [name] if name in clusters else []


_TYPES: Mapping[str, str] = {
    "CandidateRequested": "offered", "Elected": "offered", "PendingPodObserved": "pending", "SourcePodObserved": "pending",
    "CandidateWaiting": "copied", "CandidateObserved": "copied", "Admitted": "copied", "CandidatePodObserved": "copied",
    "CandidateUnschedulable": "pending", "NotSchedulable": "pending", "SchedulingFailed": "pending",
    "CandidateReserved": "reserved", "Reserved": "reserved", "NodeReserved": "reserved",
    "PermitGranted": "chosen", "PermitSeen": "chosen", "BindStarted": "chosen", "BindingDecided": "chosen",
    "CandidateBound": "running", "DelegateStatus": "running", "Bound": "running", "PlaceholderReady": "running",
    "DelegateLost": "lost", "DelegateMissing": "lost",
}  # fmt: skip
"""What an event of another layer shows, by its type; where it is of none of these, `other`."""
_ENDS = (
    "CandidateGone", "CandidateVanished", "SourceDeleted", "PendingPodGone", "MemberGone", "GroupGone", "GangGone",
    "VictimGone", "Unreserved", "ReservationDropped", "CandidateUnreserved", "PlaceholderGone",
)  # fmt: skip
"""The types of events with which what a lane shows is over."""


def lanes_of(entries: Iterable[tuple[str, TimelineEntry]]) -> list[Lane]:
    """Return the lanes of moments, each with the name of its lane."""
    made = Lanes()
    for lane, entry in entries:
        word = "" if entry.type in _ENDS else _TYPES.get(entry.type, "other")
        text = ": ".join(filter(None, [entry.what, entry.why or entry.reason]))
        made.show(lane, word, entry.at, text, entry.position)
    return made.made()


def clipped(lanes: Iterable[Lane], since: datetime | None, until: datetime | None) -> list[Lane]:
    """Return what of the lanes is between two times; lanes that show nothing then are left out."""
    found = []
    for lane in lanes:
        bars = [
            msgspec.structs.replace(
                bar,
                since=max(bar.since, since) if since is not None else bar.since,
                until=bar.until if until is None else min(bar.until or until, until),
            )
            for bar in lane.bars
            if (until is None or bar.since < until) and (since is None or bar.until is None or bar.until > since)
        ]
        if bars:
            found.append(Lane(name=lane.name, bars=bars))
    return found
