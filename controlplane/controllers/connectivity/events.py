"""Defines what can be recorded of connections: one cluster's on the stream `cluster/NAME` (the management cluster's own
under `@management`), what concerns all of them on `fleet`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from controlplane.log.event import Event

FLEET_STREAM = "fleet"
MANAGEMENT = "@management"  # not a name that a MultiKueueCluster can have


def cluster_stream(name: str) -> str:
    """Return the stream of a cluster's history."""
    return f"cluster/{name}"


class ServiceStarted(Event):
    """A process took the log over: what it knew of connections is void, what the log knows is not.

    `unwatched_since`: until when the process before sent heartbeats. From then on nobody of ours looked at any
    cluster."""

    epoch: int
    holder: str
    version: str
    unwatched_since: datetime | None = None


class ServiceStopped(Event):
    """A process lets the log go, of its own will: until now it looked at the clusters."""

    epoch: int
    holder: str


class LeadRequested(Event):
    """A process that follows asks for the lead: the management cluster answers it, and does not answer the one that
    leads. `epoch` is that of the leader, who lets the log go if that is so for a while."""

    epoch: int
    holder: str


class PolicyInForce(Event):
    """The settings that decisions rest on from here: said by a process that begins to lead, if they are not those that
    were in force.

    The names are those of the settings; `kinds` are the kinds of jobs that are dispatched, none where nothing is;
    `cluster_profiles` whether ClusterProfiles are followed, and `access_providers` the names of the commands that log
    in to their clusters. `own_only`: of the management cluster only the Workloads of our own queues are recorded.
    `quota` is the section of that name, as a settings file has it, where this service decides on quota: empty where
    Kueue does, and in logs of versions that did not say it.
    """

    controllers: list[str] = []
    origin: str
    controller_name: str
    kinds: list[str] = []
    judged: list[str] = []
    execution_policy: str
    worker_lost_timeout_seconds: float
    gc_interval_seconds: float
    status_interval_seconds: float
    readmission_grace_seconds: float
    refusal_pause_seconds: float
    loser_patience_seconds: float
    requeues_per_minute: int
    mass_outage_share: float
    dispatcher: str = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
    step_size: int = 3
    pod_gate: str = "own"
    dispatch_round_seconds: float = 300.0
    scoring_window_seconds: float = 3600.0
    scoring: dict[str, Any] = {}
    own_only: bool = False
    orchestrated_preemption: bool = False
    quota_automation: bool = False
    cluster_profiles: bool = False
    access_providers: list[str] = []
    quota: dict[str, Any] = {}


class LogWentBack(Event):
    """The log is not the one that was read: a backup was restored, or a standby was promoted that lacked the last
    commits.

    Up to `read_to` it had been read; `ends_at` is where it ended when that was noticed. What clusters show is recorded
    anew."""

    read_to: int
    ends_at: int
    message: str
    seen_by: str


class EventRefused(Event):
    """The database refused an event for what is in it: it was left out, and is tried again when what it tells of
    changes.

    `stream` and `type` are the event's own; `error` is what the database said.
    """

    stream: str
    type: str
    error: str


class LogRebound(Event):
    """An operator lets the log follow another management cluster: the next one that answers, whatever its identity is.

    What the one before had, and this one does not show, is gone.
    """

    by: str


class ClusterConnected(Event):
    """The cluster can be written to. `kinds` are listed and watched (those that resumed a watch were not listed again),
    `incarnation` is the UID of its kube-system namespace, if readable."""

    incarnation: str = ""
    server_version: str = ""
    kinds: list[str] = []


class ClusterConnectFailed(Event):
    """An attempt to connect failed; `reason` and `message` are those of the MultiKueueCluster's condition."""

    reason: str
    message: str
    attempt: int
    next_attempt_at: datetime | None = None


class ClusterStandby(Event):
    """The API server answers, and it is that of the cluster that is used under the name `behind`: nothing is watched or
    written under this name, until that one is gone."""

    behind: str
    incarnation: str
    message: str


class ClusterIdentified(Event):
    """Another cluster than before answers under the name, and it is followed: what is observed from here on is of this
    one, also if it is lost before it counts as connected. `incarnation` is the UID of its kube-system namespace."""

    incarnation: str


class ClusterSuspected(Event):
    """A heartbeat is overdue. Nothing follows from it yet: a short flap changes nothing."""

    message: str
    seen_by: str = ""


class ClusterRecovered(Event):
    """A suspected cluster answered again within its grace."""


class ClusterLost(Event):
    """An established connection broke: a probe or the watches failed, or the credentials are refused.

    `seen_by` is the replica that saw it, `others_connected` of `others` clusters answered it at that moment: whether
    the trouble may be our own."""

    reason: str
    message: str
    seen_by: str = ""
    others: int = 0
    others_connected: int = 0


class ClusterRestored(Event):
    """The cluster's history went back, as after a restore of its store: what is seen from now on belongs to another
    incarnation.
    """

    message: str
    restores: int = msgspec.field(name="life")


class ClusterForgotten(Event):
    """An operator says that a lost cluster will not come back with anything that still runs: its grace is over now."""

    by: str


class MassOutageBegan(Event):
    """Most clusters are away together: it may be us. Nothing is taken from a lost cluster until it ends or is
    accepted.
    """

    away: list[str]
    of: int


class MassOutageEnded(Event):
    """Enough clusters are back."""

    away: list[str]
    of: int


class MassOutageAccepted(Event):
    """An operator says that the clusters are really gone: their workloads may be queued again."""

    by: str


class ClusterDisconnected(Event):
    """We let go ourselves: the MultiKueueCluster was deleted or points elsewhere."""

    reason: Literal["Removed", "Reconfigured"]


class KindSynced(Event):
    """The list of a kind is complete. `gap`: the watch before it could not be resumed, changes in between were not
    seen.
    """

    kind: str
    count: int
    resource_version: str
    gap: bool = False


class KindOff(Event):
    """The cluster does not serve the kind, forbids it, or answers what cannot be read; everything else there works
    on.
    """

    kind: str
    reason: Literal["NotServed", "Forbidden", "Unreadable"]
    message: str


TROUBLE = (ClusterConnectFailed, ClusterStandby, ClusterSuspected, ClusterLost)
"""What an operator is to look at, of what is told of a connection."""
EVENTS: tuple[type[Event], ...] = (
    ServiceStarted,
    ServiceStopped,
    LeadRequested,
    PolicyInForce,
    LogWentBack,
    EventRefused,
    LogRebound,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterStandby,
    ClusterIdentified,
    ClusterSuspected,
    ClusterRecovered,
    ClusterLost,
    ClusterRestored,
    ClusterForgotten,
    MassOutageBegan,
    MassOutageEnded,
    MassOutageAccepted,
    ClusterDisconnected,
    KindSynced,
    KindOff,
)
