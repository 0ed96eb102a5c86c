"""What every observation of an object has, whichever controller records it, and every end of one.

An object whose stream tells of others too is named in each of its events; one that its stream is about is named by
that. The events stay each controller's own: their names are in the log."""

from __future__ import annotations

from typing import Generic, TypeVar

from controlplane.log.event import Event, Kept

E = TypeVar("E", bound=Event)
K = TypeVar("K")
V = TypeVar("V", bound="ObjectObserved")


class ObservationsAhead(Generic[E]):
    """What was seen of objects last and is not in the fold yet, by a key of each: events are appended in batches, and
    an object may change once more, or go, before the first change is folded. What is like the fold is no news only if
    nothing else is on its way. It is not from the log: a process that starts has nothing on its way."""

    GIVEN = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, E | None] = {}

    def newest(self, key: str, folded: E | None) -> E | None:
        """Return what was seen of an object last; None if it is not there."""
        return self._last.get(key, folded)

    def note(self, key: str, seen: E | None) -> None:
        """Note that an observation is on its way, or that an object is gone."""
        self._last[key] = seen

    def folded(self, key: str, event: E | None) -> None:
        """Note that an observation, or an end, has come to the fold."""
        if key in self._last and self._last[key] == event:
            del self._last[key]


class ObjectObserved(Event):
    """An object as its API server showed it."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: str


class ObjectVanished(Event):
    """An observed object is no longer there."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: str = ""


def is_end_of_another(uids: dict[str, str], key: str, event: object) -> bool:
    """Whether an event tells the end of an object that is not the one known under a key, but an earlier one of the
    name. `uids` holds whose UID is known under which key: what the event shows is noted there, and what it ends."""
    if isinstance(event, ObjectObserved):
        uids[key] = event.uid
    elif isinstance(event, ObjectVanished):
        if event.uid != uids.get(key, event.uid):
            return True
        uids.pop(key, None)
    return False


def forget(known: dict[K, V], key: K, gone: ObjectVanished) -> None:
    """Forget what is known under a key if that is what is gone, by its UID: an end that is told again may come after
    another object of the name."""
    if key in known and known[key].uid == gone.uid:
        del known[key]


class SubjectObserved(Event):
    """The object that its stream is about, as its API server showed it."""

    uid: str
    resource_version: str


class SubjectVanished(Event):
    """The object that its stream is about is no longer there."""

    uid: str
    resource_version: str = ""


class ObjectUnfit(Event):
    """An object that does not fit its API; `object` is its body."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    field: str
    error: str
    object: str
    kept: Kept = {}
