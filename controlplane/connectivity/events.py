"""What can be recorded of a connection. All of it is on the stream `cluster/NAME`, the management cluster's own under `@management`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from controlplane.log.event import Event

MANAGEMENT = "@management"  # not a name that a MultiKueueCluster can have


def cluster_stream(name: str) -> str:
    """Return the stream of a cluster's history."""
    return f"cluster/{name}"


class ServiceStarted(Event, frozen=True, kw_only=True):
    """A process took the log over: what it knew of connections is void, what the log knows is not."""

    epoch: int
    holder: str
    version: str


class ClusterConnected(Event, frozen=True, kw_only=True):
    """The cluster can be written to. `kinds` are listed and watched (those that resumed a watch were not listed again),
    `incarnation` is the UID of its kube-system namespace, if readable."""

    incarnation: str = ""
    server_version: str = ""
    kinds: list[str] = []


class ClusterConnectFailed(Event, frozen=True, kw_only=True):
    """An attempt to connect failed; `reason` and `message` are those of the MultiKueueCluster's condition."""

    reason: str
    message: str
    attempt: int
    next_attempt_at: datetime | None = None


class ClusterLost(Event, frozen=True, kw_only=True):
    """An established connection broke: a probe or the watches failed, or the credentials are refused."""

    reason: str
    message: str


class ClusterDisconnected(Event, frozen=True, kw_only=True):
    """We let go ourselves: the MultiKueueCluster was deleted or points elsewhere."""

    reason: Literal["Removed", "Reconfigured"]


class KindSynced(Event, frozen=True, kw_only=True):
    """The list of a kind is complete. `gap`: the watch before it could not be resumed, changes in between were not seen."""

    kind: str
    count: int
    resource_version: str
    gap: bool = False


class KindOff(Event, frozen=True, kw_only=True):
    """The cluster does not serve the kind, or forbids it; everything else there works on."""

    kind: str
    reason: Literal["NotServed", "Forbidden"]
    message: str


EVENTS: tuple[type[Event], ...] = (
    ServiceStarted,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterLost,
    ClusterDisconnected,
    KindSynced,
    KindOff,
)
