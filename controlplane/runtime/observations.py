"""What every observation of an object has, whichever controller records it, and every end of one.

An object whose stream tells of others too is named in each of its events; one that its stream is about is named by
that. The events stay each controller's own: their names are in the log."""

from __future__ import annotations

from controlplane.log.event import Event, Kept


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
