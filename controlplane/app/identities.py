"""Which cluster answers under which name: who may not be used, by the log and by what this process is connected to.

In: the facts of connections, as they are reported; questions of connections that have found an API server. Out: an
objection, or none. A name has its identity from the moment at which its cluster was accepted, which is before the log
knows of it: of two names that lead to one cluster and are tried together, one is too late."""

from __future__ import annotations

from collections.abc import Callable, Container
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
    Standby,
)
from controlplane.controllers.connectivity import identity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.index import WorkloadIndex


class Identities:
    """See the module. `now` is the log's time."""

    def __init__(self, hosted: HostedControllers, now: Callable[[], datetime]) -> None:
        self._hosted, self._now = hosted, now
        self._answering: dict[str, str] = {}

    def noted(self, cluster: str, fact: Fact) -> None:
        """Take what a connection reports."""
        if isinstance(fact, Reached):
            self._answering[cluster] = fact.incarnation
        elif isinstance(fact, (Standby, ConnectFailed, Lost, Disconnected, Removed)):
            self._answering.pop(cluster, None)

    def objection(self, cluster: str, incarnation: str) -> tuple[FailureReason, str] | None:
        """Return why the cluster that answers is not to be used under this name, None if it may be."""
        known = self._hosted.connections.get(cluster)
        if cluster == MANAGEMENT:
            return identity.unbound(incarnation, known)
        claims = self._claims()
        claims |= self._resting(incarnation, claims)
        return identity.objection(cluster, incarnation, claims, known, lambda: self._at_stake(cluster))

    def held_by(self, cluster: str, incarnation: str) -> str:
        """Return the name under which the cluster that answers is used already, "" if it may be used under this one.

        A name that is gone holds it as long as something waits for word from there: under another name its copies
        would be taken for superfluous ones, and be removed while they run."""
        if cluster == MANAGEMENT:
            return ""
        if other := self.yields(cluster):
            return other
        claims, known = self._claims(), self._hosted.connections.get(cluster)
        claims |= self._resting(incarnation, claims)
        return identity.held_by(cluster, incarnation, claims, known, lambda: self._at_stake(cluster))

    def _resting(self, incarnation: str, claims: Container[str]) -> dict[str, str]:
        """Return the names that are gone, were used for the cluster that answers, and for word of which something
        waits.
        """
        return {
            name: incarnation
            for name, one in self._hosted.connections.items()
            if one.incarnation == incarnation
            and name not in claims
            and not (one.behind or one.forgotten)
            and self._at_stake(name)
        }

    def yields(self, cluster: str) -> str:
        """Return the further name that is to be used in the place of this one: one that a MultiKueueConfig lists, while
        none lists this one and no Workload has to do with it any more. "" if there is none."""
        fleet = self._hosted.fleet
        if not fleet.policy.dispatches or self._hosted.sources is not None:
            return ""  # others than MultiKueueConfigs say where pods may go
        index = fleet.index
        listed = {name for config in index.configs.values() for name in config.clusters}
        behind = sorted(name for name in listed if name in index.clusters and _stands_by(index, name, cluster))
        if cluster in listed or not behind or not index.ready:
            return ""
        return "" if any(state.has_to_do_with(cluster) for state in index.workloads.values()) else behind[0]

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


def _stands_by(index: WorkloadIndex, name: str, cluster: str) -> bool:
    connection = index.connections.get(name)
    return connection is not None and connection.phase == "Standby" and connection.behind == cluster
