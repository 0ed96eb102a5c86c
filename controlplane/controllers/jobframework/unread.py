"""Keeps which objects are there and cannot be read, by their UIDs: what belongs to one of them has not lost its owner.

In: refusals, observations and ends, in the log's order. Out: whether an object is one of them. Pure. Of a job that was
read before it is known what it was; one that was never read is known by its UID alone, as after a log that was lost."""

from __future__ import annotations

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.jobframework.events import JobInputRefused, JobWorkloadObserved
from controlplane.log.event import Recorded


class UnreadObjects:
    """The kind, namespace and name of each, by UID."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, str, str]] = {}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        event = recorded.event
        if isinstance(event, JobInputRefused):
            if recorded.cluster == MANAGEMENT and event.uid:
                self._places[event.uid] = (event.kind, event.namespace, event.name)
        elif self._places:
            self._places.pop(getattr(event, "uid", ""), None)

    def holds(self, kind: str, namespace: str, name: str) -> bool:
        """Whether there is one of this name."""
        return (kind, namespace, name) in self._places.values()

    def has_owner_of(self, workload: JobWorkloadObserved) -> bool:
        """Whether one of them owns a Workload."""
        owners = [workload.owner.uid] if workload.owner is not None else []
        return any(uid in self._places for uid in (*owners, *(one.get("uid", "") for one in workload.references)))
