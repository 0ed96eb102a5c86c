"""Keeps where the observed objects of a controller are, and tells which of its observations are not new.

In: a controller's events, of which each type belongs to one kind. Out: for a reflector, what the log says exists of a
kind; for a recorder, whether something seen differs from what was recorded of it last. An object whose status changes
every few seconds is not new while all that is recorded of it stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.controllers.connectivity.versions import ResourceVersionTracker, ShownVersion
from controlplane.log.event import Event, Recorded

Place = tuple[str, str, str]


class ObjectPlaces:
    """See the module. `seen` and `gone` give the kind (`Kind.name`) of each type of observation, "" where its event
    names it as `kind`; all have `namespace`, `name`, `uid`.
    """

    GIVEN = ("_seen", "_gone")

    def __init__(self, seen: Mapping[type[Event], str], gone: Mapping[type[Event], str]) -> None:
        self._seen, self._gone = seen, gone
        self._places: dict[tuple[str, str], dict[str, Place]] = {}
        self.newest = ResourceVersionTracker(self._shown)

    def known(self, cluster: str, kind: str) -> dict[str, Place]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        return dict(self._places.get((cluster, kind), {}))

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        self.newest.fold(recorded)
        event: Any = recorded.event
        if (kind := self._seen.get(type(event))) is not None:
            place = (event.namespace, event.name, event.resource_version)
            self._places.setdefault((recorded.cluster, kind or event.kind), {})[event.uid] = place
        elif (kind := self._gone.get(type(event))) is not None:
            self._places.get((recorded.cluster, kind or event.kind), {}).pop(event.uid, None)

    def _shown(self, event: Any) -> ShownVersion | None:
        if (kind := self._seen.get(type(event))) is not None:
            return ShownVersion(kind or event.kind, event.resource_version)
        kind = self._gone.get(type(event))
        return ShownVersion(kind or event.kind, event.resource_version, event.uid) if kind is not None else None


class Deduplicator:
    """What was offered to the log last of each object by this process. It is not from the log: a process that starts
    records everything once. Nor is it known to be in the log: what was offered may be taken back before it is, and
    shown again.
    """

    GIVEN = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, tuple[Event, str]] = {}

    def says_nothing_new(self, source: str, event: Any, *, listed: bool = False) -> bool:
        """Whether an observation is the one before of the same object, its resourceVersion aside; it is remembered if
        it is not.

        The very version that was offered is news again: the log knows whether it has it. So is what a list shows: the
        watch before it may have ended before the log had the last."""
        plain, version = msgspec.structs.replace(event, resource_version=""), event.resource_version
        before = self._last.get(source)
        if before is not None and before[0] == plain and not listed and before[1] != version:
            return True
        self._last[source] = plain, version
        return False

    def forget(self, source: str) -> None:
        """Forget an object that is gone."""
        self._last.pop(source, None)
