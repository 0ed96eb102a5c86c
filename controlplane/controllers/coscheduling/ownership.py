"""Whose what vanished was: a list that an object is not in any more says its place and its UID, and none of what tells
its run.

In: observations, as they are made and as they are folded. Out: for a UID, the stream on which it came, and the event of
its end."""

from __future__ import annotations

from typing import Any, NamedTuple

from controlplane.controllers.coscheduling import observations
from controlplane.log.event import Event, Unknown

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
