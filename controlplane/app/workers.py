"""Keeps the connections in line with the MultiKueueClusters that the log knows.

In: the names that changed in a fold. Out: `set` and `remove` on the connections, one at a time and in order, away from
the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controlplane.clusters import connection_reports
from controlplane.clusters.connection_reports import Fact
from controlplane.clusters.connections import Connections
from controlplane.clusters.sources import PathSource, ProfileSource, SecretSource
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.observations import MultiKueueClusterObserved


class Workers:
    """The driver of `Connections`; `report(cluster, fact)` is for what cannot even be tried. `profiles`: whether
    clusters are reached by ClusterProfiles too."""

    def __init__(
        self,
        fleet: MultiKueueController,
        connections: Connections,
        report: Callable[[str, Fact], Awaitable[None]],
        *,
        profiles: bool = False,
    ) -> None:
        self._fleet, self._connections, self._report, self._profiles = fleet, connections, report, profiles
        self._changed = asyncio.Event()
        self._sources: dict[str, tuple[str, ...]] = {}

    def wake(self) -> None:
        """Look at what changed."""
        if self._fleet.index.changed_clusters:
            self._changed.set()

    async def run(self) -> None:
        """Apply changes until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            changed = sorted(self._fleet.index.changed_clusters)
            self._fleet.index.changed_clusters.clear()
            for name in changed:
                await self._apply(name, self._fleet.index.clusters.get(name))

    async def _apply(self, name: str, seen: MultiKueueClusterObserved | None) -> None:
        if seen is None or seen.deleting:
            if self._sources.pop(name, None) is not None:
                await self._connections.remove(name)
            return
        source, before = (seen.uid, seen.location_type, seen.location, seen.cluster_profile), self._sources.get(name)
        if before == source:
            return
        if before is not None and before[0] != seen.uid:
            await self._connections.remove(name)  # what was known was of another object of that name
        self._sources[name] = source
        if seen.cluster_profile and self._profiles:
            self._connections.set(name, ProfileSource(seen.cluster_profile))
        elif seen.cluster_profile:
            await self._connections.remove(name)
            message = "load client config failed: MultiKueueClusterProfile feature gate is disabled"
            failed = connection_reports.ConnectFailed("MultiKueueClusterProfileFeatureDisabled", message, 0, None)
            await self._report(name, failed)
        elif seen.location_type == "Path":
            self._connections.set(name, PathSource(seen.location))
        else:
            self._connections.set(name, SecretSource(seen.location))
