"""Defines the facts that a connection to a worker cluster reports.

One fact per change of a connection, in order, each awaited by the connection before it goes on: `Reached` comes before
the first delta of a connection, because only the incarnation tells a delta from one of an earlier incarnation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal

import msgspec

FailureReason = Literal[
    "BadKubeConfig",
    "InsecureKubeConfig",
    "BadClusterProfile",
    "BadRestConfig",
    "ClientConnectionFailed",
    "MultiKueueClusterProfileFeatureDisabled",
    "ClusterIdentityChanged",
    "ClusterIdentityInUse",
]


class Reached(msgspec.Struct, frozen=True, gc=False):
    """The API server answers and knows us; lists and watches begin now.

    `incarnation` is the UID of the namespace kube-system ("" if we may not read it): another UID is another cluster.
    """

    incarnation: str
    server_version: str


class Connected(msgspec.Struct, frozen=True, gc=False):
    """Every watched kind is listed, or known not to be had there (`kinds_off`, as `plural.group`); writing is
    possible.
    """

    incarnation: str
    server_version: str
    kinds_off: tuple[str, ...]


class ConnectFailed(msgspec.Struct, frozen=True, gc=False):
    """There is no connection. `reason` and `message` are those of Kueue's condition `Active`.

    `attempt` counts since the last success or change of the kubeconfig; 0 with `next_attempt_at` None means that only
    another kubeconfig helps."""

    reason: FailureReason
    message: str
    attempt: int
    next_attempt_at: datetime | None


class Standby(msgspec.Struct, frozen=True, gc=False):
    """The API server answers and knows us, and it is that of the cluster `behind`, which is used under that name alone.

    It is asked again now and then whether that holds. Nothing is watched and nothing written meanwhile."""

    behind: str
    incarnation: str


class Suspected(msgspec.Struct, frozen=True, gc=False):
    """A heartbeat is overdue. Nothing is concluded from it yet: the next fact is `Recovered` or `Lost`."""

    message: str


class Recovered(msgspec.Struct, frozen=True, gc=False):
    """The cluster answers again within the grace; nothing was torn down."""


class StoreRestored(msgspec.Struct, frozen=True, gc=False):
    """The cluster's history went back: its store was restored from a backup. Everything is listed anew, under a new
    incarnation.

    The receiver starts the new incarnation before it returns.
    """

    message: str


class Lost(msgspec.Struct, frozen=True, gc=False):
    """A connection that was there is gone, and not by our doing: no answer, or our credentials are no longer
    accepted.
    """

    reason: Literal["Unreachable", "Unauthorized"]
    message: str


class Disconnected(msgspec.Struct, frozen=True, gc=False):
    """We closed the connection because its kubeconfig changed; the next fact reports on the new one."""

    message: str


class Removed(msgspec.Struct, frozen=True, gc=False):
    """The cluster was taken out of the set."""


Fact = (
    Reached
    | Standby
    | Connected
    | ConnectFailed
    | Suspected
    | Recovered
    | StoreRestored
    | Lost
    | Disconnected
    | Removed
)

#: `await facts(cluster, fact)`. Returning means that it is in the log.
Facts = Callable[[str, Fact], Awaitable[None]]
