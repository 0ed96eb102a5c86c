"""Judges whether what a cluster shows belongs to the history of it that we followed. Pure.

In: the versions of one kind that were seen, and what a list or a watch shows now. Out: why it cannot be the same
history, if it cannot. resourceVersions only grow, and never stand for two states; so a store that was restored from a
backup shows it as soon as something is older than it was, also when it has grown past all that we saw: what it wrote
meanwhile lies, by its versions, in a past that we know completely. Only what is exactly alike in both histories stays
unseen, and there is nothing to be done about that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from controlplane.clusters.deltas import KnownObject, identity
from controlplane.clusters.protocol import Change, Delta
from controlplane.kube.kinds import version_number


class ClusterHistory:
    """The highest version seen, and whether everything up to it is known: `complete` from a whole list on, until a line
    is unreadable.

    `is_gone` returns whether an object, by its UID, was seen to go. Versions that are not numbers, which Kubernetes
    allows and no API server of today uses, prove nothing."""

    def __init__(self, newest: int = 0, is_gone: Callable[[str], bool] = lambda uid: False) -> None:
        self.newest, self._is_gone = newest, is_gone
        self.complete = False

    def begin(self) -> None:
        """Forget everything: another history begins."""
        self.newest, self.complete = 0, False

    def seen(self, version: str) -> None:
        """Take note of a version up to which everything was shown."""
        if (number := version_number(version)) is not None:
            self.newest = max(self.newest, number)

    def denies_line(self, version: str, shown: str) -> str | None:
        """Say why a watch that began at our place and has shown everything up to a version cannot show this one
        next."""
        newest = max(self.newest, version_number(shown) or 0)
        if (number := version_number(version)) is not None and number < newest:
            return f"resourceVersion {version} came after {newest}"
        return None

    def denies_list(self, version: str, deltas: Sequence[Delta], known: Mapping[str, KnownObject]) -> str | None:
        """Say why this history cannot have such a list (or page of it). `known` is what was seen of the kind, by
        uid.
        """
        if (number := version_number(version)) is not None and number < self.newest:
            return f"resourceVersion {version} is before {self.newest}"
        for delta in deltas:
            if isinstance(delta, Change) and delta.op == "listed" and (why := self._denies_object(delta, known)):
                return why
        return None

    def denies_absence(self, version: str, gone: Sequence[Delta], known: Mapping[str, KnownObject]) -> str | None:
        """Say why a whole list of this version cannot miss what it misses: an end has a version of its own, after the
        object's last.
        """
        listed = version_number(version)
        for delta in gone:
            if not isinstance(delta, Change):
                continue
            uid, place = identity(delta.object)
            before = known.get(uid)
            then = version_number(before.resource_version) if before is not None else None
            if listed is not None and then is not None and then >= listed:
                name = f"{place.namespace}/{place.name}" if place.namespace else place.name
                return f"{name} ({uid}) was there at resourceVersion {then}"
        return None

    def _denies_object(self, delta: Change, known: Mapping[str, KnownObject]) -> str | None:
        uid, place = identity(delta.object)
        now, before = version_number(place.resource_version), known.get(uid)
        name = f"{place.namespace}/{place.name}" if place.namespace else place.name
        if before is None and self._is_gone(uid):
            return f"{name} ({uid}) was gone"
        if now is None:
            return None
        if before is not None and (then := version_number(before.resource_version)) is not None:
            if now < then:
                return f"{name} is at resourceVersion {now}, and was at {then}"
            if now == then:
                return None
        if self.complete and now <= self.newest:
            return f"{name} is at resourceVersion {now}, which was not so when {self.newest} was reached"
        return None
