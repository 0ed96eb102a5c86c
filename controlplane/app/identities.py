"""Which cluster answers under which name: who may not be used, by the log and by what this process is connected to.

In: the facts of connections, as they are reported; questions of connections that have found an API server. Out: an
objection, or none. A name has its identity from the moment at which its cluster was accepted, which is before the log
knows of it: of two names that lead to one cluster and are tried together, one is too late."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from controlplane.app.hosted import HostedControllers
from controlplane.clusters.connection_reports import (
    ConnectFailed,
    Disconnected,
    Fact,
    FailureReason,
    Lost,
    Reached,
    Removed,
)
from controlplane.controllers.connectivity import identity
from controlplane.controllers.connectivity.events import MANAGEMENT


class Identities:
    """See the module. `now` is the log's time."""

    def __init__(self, hosted: HostedControllers, now: Callable[[], datetime]) -> None:
        self._hosted, self._now = hosted, now
        self._answering: dict[str, str] = {}

    def noted(self, cluster: str, fact: Fact) -> None:
        """Take what a connection reports."""
        if isinstance(fact, Reached):
            self._answering[cluster] = fact.incarnation
        elif isinstance(fact, (ConnectFailed, Lost, Disconnected, Removed)):
            self._answering.pop(cluster, None)

    def objection(self, cluster: str, incarnation: str) -> tuple[FailureReason, str] | None:
        """Return why the cluster that answers is not to be used under this name, None if it may be."""
        known = self._hosted.connections.get(cluster)
        if cluster == MANAGEMENT:
            return identity.unbound(incarnation, known)
        return identity.objection(cluster, incarnation, self._claims(), known, lambda: self._at_stake(cluster))

    def _claims(self) -> dict[str, str]:
        fleet = self._hosted.fleet
        there = {name for name, seen in fleet.index.clusters.items() if not seen.deleting}
        if fleet.policy.dispatches:
            there.add(MANAGEMENT)  # its Workloads have the names of their clones; a pod's target may be its own cluster
        known = {name: one for name, one in self._hosted.connections.items() if name in there}
        answering = {name: one for name, one in self._answering.items() if name in there}
        return {name: identity.claim(connection) for name, connection in known.items()} | answering

    def _at_stake(self, cluster: str) -> str:
        return self._hosted.resting_on(cluster, self._now())
