"""Compares a list, page by page, with what was known: what is there, what took another's place, what is gone. Pure.

A list does not name what it does not contain, so the difference is made here. It is only believed if every item could
be read: one that could not may be any of those that seem to be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controlplane.clusters.deltas import KnownObject, Poison, identity, of_item, vanished
from controlplane.clusters.protocol import Change, Delta
from controlplane.kube.kinds import Kind


class Listing:
    """One pass over the pages of a list. `known` is read when the pass ends, so it may grow meanwhile."""

    def __init__(self, kind: Kind, known: Mapping[str, KnownObject]) -> None:
        self._kind, self._known = kind, known
        self._uids_at: dict[tuple[str, str], list[str]] = {}
        for uid, place in known.items():
            self._uids_at.setdefault((place.namespace, place.name), []).append(uid)
        self._seen: set[str] = set()
        self.count = 0
        self.poisons: list[Poison] = []

    def page(self, items: Sequence[Any], version: str) -> list[Delta]:
        """Return the deltas of one page: `listed`, and before it `gone` for other objects that had the same name. Of
        several nobody knows which the log has."""
        deltas: list[Delta] = []
        for item in items:
            change = of_item(self._kind, item)
            if isinstance(change, Poison):
                self.poisons.append(change)
                continue
            uid, place = identity(change.object)
            others = [other for other in self._uids_at.get((place.namespace, place.name), ()) if other != uid]
            # They ended before this one began. An end that is told again must not be newer than it: the log may have
            # both.
            ended = place.resource_version or version
            deltas += [
                vanished(self._kind, other, self._known[other], ended) for other in others if other in self._known
            ]
            self._seen.add(uid)
            self.count += 1
            before = self._known.get(uid)
            if before is not None and before.resource_version == place.resource_version:
                change = msgspec.structs.replace(change, seen=True)
            deltas.append(change)
        return deltas

    def gone(self, version: str) -> list[Delta]:
        """Return what is known and was on no page."""
        if self.poisons:
            return []
        missing = [(uid, place) for uid, place in self._known.items() if uid not in self._seen]
        return [vanished(self._kind, uid, place, version) for uid, place in missing]


def remember(known: dict[str, KnownObject], deltas: Sequence[Delta]) -> None:
    """Bring `known` up to deltas that were delivered."""
    for delta in deltas:
        if isinstance(delta, Change):
            uid, place = identity(delta.object)
            if delta.op == "gone":
                known.pop(uid, None)
            else:
                known[uid] = place


def suspect(known: dict[str, KnownObject], deltas: Sequence[Delta]) -> None:
    """Note deltas of which nobody knows whether they were delivered, or which are of an earlier incarnation: the next
    list tells them again.

    An object that is not on it is gone, in case it was delivered; one that is there is told, in case it was not.
    """
    for delta in deltas:
        if isinstance(delta, Change):
            uid, place = identity(delta.object)
            known[uid] = place._replace(resource_version="")
