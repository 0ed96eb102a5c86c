"""Keeps the highest resourceVersion that was seen of each kind on each cluster: it tells a restored backup from a
cluster that was away.

In: every event, in the log's order, and what a controller's events say of objects. Out: a number by cluster and kind,
of the cluster's present incarnation alone, and whether the kind was listed as a whole in it. A list that is older than
the number comes from a store that went back, even if all that was seen since is gone again; the log has no other sign
of that. Before the first whole list of an incarnation, what the log knows of an object may be of the incarnation
before. And what was seen to go does not come back: for a while it is remembered by its UID."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterDisconnected,
    ClusterIdentified,
    ClusterRestored,
    KindSynced,
    LogRebound,
)
from controlplane.kube.kinds import version_number
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.values import ByClass

# Enough for the time between a backup and its restore, and a few megabytes for each cluster.
_REMEMBERED = 20_000


_OF_CONNECTIONS = ByClass(
    dict.fromkeys(
        (KindSynced, ClusterRestored, LogRebound, ClusterDisconnected, ClusterConnected, ClusterIdentified), True
    ),
    other=False,
)


class ShownVersion(msgspec.Struct, frozen=True):
    """What an observation says of an object: its kind (`Kind.name`), its version, and its UID if it is `gone`."""

    kind: str
    resource_version: str
    gone: str = ""


#: Returns what an event says of an object; None if it is no observation.
Reads = Callable[[Event], ShownVersion | None]


class ResourceVersionTracker:
    """See the module."""

    GIVEN = ("_reads",)

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._versions: dict[str, dict[str, int]] = {}
        self._shown_by: dict[str, dict[str, str]] = {}
        self._listed: dict[str, set[str]] = {}
        self._gone: dict[str, OrderedDict[str, None]] = {}
        self._incarnations: dict[str, str] = {}

    def of(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind (`Kind.name`) on a cluster, 0 if none was seen in its present
        incarnation.
        """
        return self._versions.get(cluster, {}).get(kind, 0)

    def listed(self, cluster: str, kind: str) -> bool:
        """Whether the kind was listed as a whole in the cluster's present incarnation."""
        return kind in self._listed.get(cluster, ())

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go in the cluster's present incarnation, not too long ago."""
        return uid in self._gone.get(cluster, ())

    def shown_by(self) -> set[str]:
        """Return the streams that the highest resourceVersions are known by: without their events these would be
        lower."""
        return {stream for shown in self._shown_by.values() for stream in shown.values()}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        event, cluster = recorded.event, recorded.cluster
        if isinstance(event, Unknown):
            return
        shown = self._reads(event)
        if shown is not None:
            self._note(recorded, shown.kind, shown.resource_version)
            if shown.gone:
                self._buried(cluster, shown.gone)
        elif _OF_CONNECTIONS[type(event)]:
            self._fold_connection(recorded)

    def _fold_connection(self, recorded: Recorded) -> None:
        event, cluster = recorded.event, recorded.cluster
        if isinstance(event, KindSynced):
            self._note(recorded, event.kind, event.resource_version)
            self._listed.setdefault(cluster, set()).add(event.kind)
        elif isinstance(event, (ClusterRestored, LogRebound)) or (
            isinstance(event, ClusterDisconnected) and event.reason == "Removed"
        ):
            self._begin(cluster)
        elif isinstance(event, (ClusterConnected, ClusterIdentified)):
            if self._incarnations.get(cluster, event.incarnation) != event.incarnation:
                self._begin(cluster)
            self._incarnations[cluster] = event.incarnation

    def _buried(self, cluster: str, uid: str) -> None:
        gone = self._gone.setdefault(cluster, OrderedDict())
        gone[uid] = None
        if len(gone) > _REMEMBERED:
            gone.popitem(last=False)  # of a plain dict, the search for the first passes all that went before

    def _begin(self, cluster: str) -> None:
        self._versions.pop(cluster, None)
        self._shown_by.pop(cluster, None)
        self._listed.pop(cluster, None)
        self._gone.pop(cluster, None)

    def _note(self, recorded: Recorded, kind: str, version: str) -> None:
        if (number := version_number(version)) is None:
            return
        versions = self._versions.setdefault(recorded.cluster, {})
        if number > versions.get(kind, -1):
            versions[kind] = number
            self._shown_by.setdefault(recorded.cluster, {})[kind] = recorded.stream
