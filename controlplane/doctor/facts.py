"""What is known of an installation, before anybody judges it: values, or `Unread` in their place.

Pure. Secrets are in none of it: of a token there is when it ends, of a kubeconfig which server it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from controlplane.controllers.connectivity.state import Connection
from controlplane.doctor.findings import Unread
from controlplane.doctor.rights import NeededRight
from controlplane.kube.kinds import Json, Kind
from controlplane.values import Value

Objects: TypeAlias = Sequence[Json] | Unread

NOT_ASKED = Unread(said="it was not asked, since nothing answered before")


class Login(Value):
    """What the login may do, with `database.role` taken on: `missing` are rights that the service needs, `beyond` such
    that it must not have.
    """

    user: str
    owns: bool = False
    missing: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()


class Server(Value):
    """The database server. `version` is its number (150004), `settings` what was asked of pg_settings, `clock` its time
    and ours when it was asked.
    """

    version: int
    standby: bool
    read_only: bool
    settings: Mapping[str, str]
    clock: tuple[datetime, datetime]


class Standbys(Value):
    """What follows the server: how many standbys are `connected`, and what a commit of this login waits for, as
    `synchronous_standby_names` and `synchronous_commit` say it.
    """

    names: str = ""
    commit: str = "on"
    connected: int = 0


class OldVersions(Value):
    """What keeps the database from removing old versions of rows. `count` is how many it has of the log's head;
    `holder` who has a transaction open for the longest time, of those that this login is shown, and for how many
    `seconds`; "" for none.
    """

    count: int = 0
    holder: str = ""
    seconds: float = 0.0


class DatabaseMember(Value):
    """One of several servers that the URL names, as HOST:PORT. `silent` is why it did not answer; `timeline` 0 where it
    is not known.
    """

    name: str
    writes: bool = False
    timeline: int = 0
    silent: str = ""


class Lead(Value):
    """Who leads a log. `age` is how many seconds ago the last heartbeat came, None if the lead was given back;
    `position` is the last event's.
    """

    log: str
    log_id: str
    position: int
    epoch: int
    holder: str
    age: float | None


class DatabaseFacts(Value):
    """The database. `revision` is that of the schema, or why it cannot be used; `lead` is None for a log that nobody
    has opened; `connections` are those that the log knows, by cluster; `members` are the servers that the URL names, if
    they are several; `no_room` is why the server could not write a temporary file, "" if it could. `unknown_copies` are
    those on each cluster that are left alone, since nobody knows whose they are.
    """

    unreachable: str = ""
    unverified_host: str = ""
    encrypted: bool | Unread = False
    server: Server | Unread = NOT_ASKED
    standbys: Standbys | Unread = NOT_ASKED
    members: Sequence[DatabaseMember] | Unread = ()
    no_room: str | Unread = NOT_ASKED
    old_versions: OldVersions | Unread = NOT_ASKED
    revision: str | Unread = NOT_ASKED
    login: Login | Unread = NOT_ASKED
    lead: Lead | Unread | None = NOT_ASKED
    connections: Mapping[str, Connection] | Unread = NOT_ASKED
    unknown_copies: Mapping[str, Sequence[str]] | Unread = NOT_ASKED


class ClusterFacts(Value):
    """One cluster, as it answers: `refused` is why it cannot even be tried. `clock` is the header Date of an answer and
    our time when it came; `identity` the UID of kube-system; `served` of each kind whether it is; `rights` of each
    right whether it is there.
    """

    refused: Unread | None = None
    server: str = ""
    token_ends: datetime | None = None
    certificate_ends: datetime | None = None
    version: str | Unread = NOT_ASKED
    clock: tuple[datetime, datetime] | None = None
    identity: str | Unread = NOT_ASKED
    served: Mapping[Kind, bool | Unread] = {}
    rights: Sequence[tuple[NeededRight, bool | Unread]] = ()
    local_queues: Objects = NOT_ASKED


class QueueFacts(Value):
    """What dispatch is wired with on the management cluster. `configuration` is Kueue's own, as text, and the arguments
    of its container; `builtin`: this service decides on quota, and no Kueue does."""

    controller_name: str
    origin: str
    builtin: bool = False
    profiles: bool = False
    checks: Objects = NOT_ASKED
    configs: Objects = NOT_ASKED
    clusters: Objects = NOT_ASKED
    cluster_queues: Objects = NOT_ASKED
    local_queues: Objects = NOT_ASKED
    configuration: str | Unread = NOT_ASKED
    arguments: Sequence[str] | Unread = NOT_ASKED


class Facts(Value):
    """All of it. `management` is the cluster alone, `workers` have the names of their MultiKueueClusters."""

    now: datetime
    database: DatabaseFacts
    management: ClusterFacts
    queues: QueueFacts
    workers: Mapping[str, ClusterFacts]
