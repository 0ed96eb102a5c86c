"""Keeps the connections in line with the MultiKueueClusters that the log knows.

In: the names that changed in a fold. Out: `set` and `remove` on the connections, one at a time and in order, away from
the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controlplane.clusters import connection_reports
from controlplane.clusters.connection_reports import Fact
from controlplane.clusters.connections import Connections
from controlplane.clusters.sources import PathSource, SecretSource
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.observations import MultiKueueClusterObserved


class Workers:
    """The driver of `Connections`; `report(cluster, fact)` is for what cannot even be tried."""

    def __init__(
        self, fleet: MultiKueueController, connections: Connections, report: Callable[[str, Fact], Awaitable[None]]
    ) -> None:
        self._fleet, self._connections, self._report = fleet, connections, report
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
        source = (seen.location_type, seen.location, seen.cluster_profile)
        if self._sources.get(name) == source:
            return
        self._sources[name] = source
        if seen.cluster_profile:
            await self._connections.remove(name)
            message = "load client config failed: MultiKueueClusterProfile feature gate is disabled"
            failed = connection_reports.ConnectFailed("MultiKueueClusterProfileFeatureDisabled", message, 0, None)
            await self._report(name, failed)
        elif seen.location_type == "Path":
            self._connections.set(name, PathSource(seen.location))
        else:
            self._connections.set(name, SecretSource(seen.location))
