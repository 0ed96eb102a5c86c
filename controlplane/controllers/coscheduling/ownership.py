"""Whose what vanished was: a list that an object is not in any more says its place and its UID, and none of what tells
its run. Nor does an object whose owner somebody has taken off.

In: observations, as they are made and as they are folded. Out: for a UID, the stream on which it came, and the event of
its end."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from controlplane.controllers.coscheduling import observations
from controlplane.controllers.coscheduling.objects import CLAIMS
from controlplane.kube.kinds import meta
from controlplane.log.event import Event, NewEvent, Unknown
from controlplane.runtime.controller import ObjectChange

_ENDS: dict[type[Event], type[observations.CoschedulingObjectGone]] = {
    observations.PlaceholderCreated: observations.PlaceholderDeleted,
    observations.PlaceholderReady: observations.PlaceholderPodGone,
    observations.PlaceholderUnready: observations.PlaceholderPodGone,
    observations.ClaimObserved: observations.ClaimDeleted,
    observations.TaskBound: observations.TaskGone,
    observations.TaskPodObserved: observations.TaskPodGone,
    observations.VolumeObserved: observations.VolumeGone,
}


class End(NamedTuple):
    """Where the end of an object is recorded, and as what."""

    stream: str
    event: type[observations.CoschedulingObjectGone]


class Whose:
    """The ends of what is there. What was observed a moment ago counts, though it is not folded yet."""

    def __init__(self) -> None:
        self._ends: dict[str, End] = {}

    def note(self, stream: str, event: Event | Unknown) -> None:
        """Take an observation, made or folded."""
        found: Any = event
        if (end := _ENDS.get(type(found))) is not None:
            self._ends[found.uid] = End(stream, end)

    def forget(self, event: Event | Unknown) -> None:
        """Take the folded end of an object."""
        if isinstance(event, observations.CoschedulingObjectGone):
            self._ends.pop(event.uid, None)

    def end_of(self, uid: str) -> End | None:
        """Return the end of an object, None if nobody knows it."""
        return self._ends.get(uid)


def left(change: ObjectChange, now: datetime, end: End, *, live: bool) -> NewEvent | None:
    """Return the event of an object that does not say itself whose it is: it is gone, or it is a claim that somebody
    has taken from its run; None for anything else, and where nothing is left of the run (`live`).
    """
    metadata = meta(change.object)
    last: dict[str, Any] = {field: str(metadata.get(field) or "") for field in ("namespace", "name", "uid")}
    if change.gone:
        return change.observed(end.stream, end.event(**last), now)
    if not live or change.kind != CLAIMS or change.unreadable:
        return None
    seen = observations.ClaimObserved(
        **last, resource_version=change.resource_version, deleting="deletionTimestamp" in metadata
    )
    return change.observed(end.stream, seen, now)
