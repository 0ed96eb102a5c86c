"""Holds what a connection is given by its caller: where deltas and facts go, what is known already, and the times it
keeps.

In: nothing. Out: two values, made by the service's root or by a test, that every `ClusterConnection` shares.
"""

from __future__ import annotations

import random as _random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.clock import Clock, SystemClock
from controlplane.clusters.backoff import Random
from controlplane.clusters.budget import RateLimits
from controlplane.clusters.cluster_profile import not_found
from controlplane.clusters.connection_reports import Facts, FailureReason
from controlplane.clusters.deliveries import Patient, never
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.pace import Pace
from controlplane.clusters.protocol import Sink
from controlplane.clusters.reflector_hooks import OnPoison
from controlplane.clusters.sources import DEFAULT_PREFIX
from controlplane.clusters.streams import ApiServer
from controlplane.clusters.transport import Transport
from controlplane.clusters.verbs import OnRequest, always
from controlplane.kube.kinds import Kind
from controlplane.kube.watches import WatchSpec
from controlplane.settings.access_providers import AccessProvider


@dataclass(frozen=True, slots=True)
class ConnectionTiming:
    """Seconds: back-off of connecting, how often it is looked meanwhile whether the cluster answers again, the
    heartbeat and its time-out, for how long and how often a silent cluster is asked before it is lost, and how often a
    kubeconfig file is looked at."""

    backoff_base: float = 1.0
    backoff_cap: float = 60.0
    away_probe: float = 4.0
    heartbeat: float = 10.0
    heartbeat_timeout: float = 5.0
    suspect_grace: float = 10.0
    suspect_heartbeat: float = 1.0
    file_poll: float = 0.75


def _nothing_known(cluster: str, spec: WatchSpec) -> Mapping[str, tuple[str, str, str]]:
    """Seed a reflector with nothing."""
    return {}


def _nothing_seen(cluster: str, kind: Kind) -> int:
    """Seed a reflector with no resourceVersion."""
    return 0


def _nothing_gone(cluster: str, uid: str) -> bool:
    """Remember no object that went."""
    return False


def _admitted(cluster: str, incarnation: str) -> None:
    """Take whatever cluster answers for the one that is meant."""


def _its_own(cluster: str, incarnation: str) -> str:
    """Take whatever cluster answers for one that nobody else has."""
    return ""


def _for_good(cluster: str) -> str:
    """Keep a cluster under the name that it has."""
    return ""


async def _no_profile(name: str) -> bytes:
    """Know no ClusterProfile."""
    raise not_found(name)


def _uncounted(*_: object) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """What every connection is given: where deltas and facts go, how secrets are read and servers opened, and time and
    chance.

    `read_secret(name)` returns the bytes of the Secret's key `kubeconfig`, or raises `KubeconfigError` or a
    `ClusterError`; `read_profile(name)` what a ClusterProfile says of the way to its cluster, where one of
    `access_providers` logs in. `known(cluster, spec)` is asked once for each watch, after `Reached` was reported, for
    uid → (namespace, name, resourceVersion), and `newest(cluster, kind)` for the highest resourceVersion that was ever
    seen in the cluster's present incarnation; `on_expiry(cluster, time)` hears when the token of a kubeconfig that was
    read ends, None if it does not say; `is_gone(cluster, uid)` whether an object was seen to go in it. `allowed` is
    asked before each write, and `patient` returns once what was given to the sink waits for more.
    `objection(cluster, incarnation)` is asked whenever a cluster answers, before anything of it is believed: why it is
    not to be used under this name, None if it may be; `held_by(cluster, incarnation)` before that: the name under which
    the same cluster is used already, "" if there is none. `yields(cluster)` at each heartbeat: the other name under
    which the cluster is to be used from now on, "" if it is to stay."""

    specs: Sequence[WatchSpec]
    sink: Sink
    facts: Facts
    read_secret: Callable[[str], Awaitable[bytes]]
    known: Callable[[str, WatchSpec], Mapping[str, tuple[str, str, str]]] = _nothing_known
    newest: Callable[[str, Kind], int] = _nothing_seen
    is_gone: Callable[[str, str], bool] = _nothing_gone
    objection: Callable[[str, str], tuple[FailureReason, str] | None] = _admitted
    held_by: Callable[[str, str], str] = _its_own
    yields: Callable[[str], str] = _for_good
    open_server: Callable[[str, ClientConfig], ApiServer] = Transport
    on_request: OnRequest = _uncounted
    on_expiry: Callable[[str, datetime | None], None] = _uncounted
    allowed: Callable[[], bool] = always
    patient: Patient = never
    on_poison: OnPoison = _uncounted
    path_prefix: str = DEFAULT_PREFIX
    read_profile: Callable[[str], Awaitable[bytes]] = _no_profile
    access_providers: Sequence[AccessProvider] = ()
    limits: RateLimits = field(default_factory=RateLimits)
    pace: Pace = field(default_factory=Pace)
    timing: ConnectionTiming = field(default_factory=ConnectionTiming)
    clock: Clock = field(default_factory=SystemClock)
    random: Random = _random.random
