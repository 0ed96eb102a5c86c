"""Keeps the set of worker clusters, each with a connection of its own.

Whoever reads the `MultiKueueCluster` objects drives this set: `set` for each one that exists, `secret_changed` when a
Secret of the namespace does, `remove` when one goes. What the clusters show and how their connections fare comes back
through `ConnectionConfig`. A failure of a cluster stays in its connection; only a sink or fact receiver that fails ends
the whole, because then nothing may go on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from controlplane.clusters.connection import ClusterConnection
from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.connection_reports import Removed
from controlplane.clusters.protocol import Executes, Looks, Sink
from controlplane.clusters.sources import ProfileSource, SecretSource, Source
from controlplane.clusters.streams import ApiServer
from controlplane.kube.watches import WatchSpec
from controlplane.tasks import end


class Connections:
    """A set of `ClusterConnection`s by cluster name. Use it inside a running event loop; `close` leaves nothing
    behind.
    """

    def __init__(self, around: ConnectionConfig) -> None:
        self._around = around
        self._links: dict[str, tuple[ClusterConnection, asyncio.Task[None]]] = {}
        self._wanted: dict[str, Mapping[WatchSpec, Sink]] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def names(self) -> frozenset[str]:
        """The clusters in the set, connected or not."""
        return frozenset(self._links)

    def set(self, name: str, source: Source) -> None:
        """Add a cluster, or change where its kubeconfig is. Nothing happens if the same kubeconfig is there."""
        if name in self._links:
            link, _ = self._links[name]
            link.source = source
            link.nudge()
            return
        link = ClusterConnection(name, source, self._around)
        link.want(self._wanted.get(name, {}))
        task = asyncio.create_task(link.run(), name=f"cluster {name}")
        task.add_done_callback(self._ended)
        self._links[name] = (link, task)

    def want(self, wanted: Mapping[str, Mapping[WatchSpec, Sink]]) -> None:
        """Say what is to be followed on each cluster besides what all are watched for; clusters may come later."""
        before, self._wanted = self._wanted, dict(wanted)
        for name, (link, _) in self._links.items():
            if before.get(name, {}) != self._wanted.get(name, {}):
                link.want(self._wanted.get(name, {}))

    async def remove(self, name: str) -> None:
        """Close a cluster's connection, forget its place in every stream, and report `Removed`. Unknown names are
        ignored.
        """
        if name not in self._links:
            return
        _, task = self._links.pop(name)
        await end(task)
        await self._around.facts(name, Removed())

    def secret_changed(self, name: str) -> None:
        """Let the clusters whose kubeconfig is in this Secret look at it again."""
        for link, _ in self._links.values():
            if link.source == SecretSource(name):
                link.nudge()

    def profile_changed(self, name: str) -> None:
        """Let the clusters of a ClusterProfile look at it again; of all of them if no name is given."""
        for link, _ in self._links.values():
            if isinstance(link.source, ProfileSource) and name in ("", link.source.name):
                link.nudge()

    def executor(self, name: str) -> Executes | None:
        """Return the verbs of a connected cluster, else None. Ask each time: it changes with the connection."""
        found = self._links.get(name)
        return found[0].executor if found else None

    def server(self, name: str) -> ApiServer | None:
        """Return the API server of a connected cluster, None otherwise."""
        found = self._links.get(name)
        return found[0].server if found else None

    def looks(self, name: str) -> Looks | None:
        """Return the reading face of a connected cluster, None otherwise."""
        found = self._links.get(name)
        return found[0].looks if found else None

    async def run(self) -> None:
        """Wait until closed. Raises what a sink or fact receiver raised in any cluster's connection."""
        await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Stop every connection; reports nothing, since the clusters are still ours."""
        tasks = [task for _, task in self._links.values()]
        self._links.clear()
        try:
            await end(*tasks)
        finally:
            if not self._failed.done():
                self._failed.set_result(None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self._failed.done():
            return
        error = task.exception()
        if error is not None:
            self._failed.set_exception(error)
            self._failed.exception()  # seen, even if nobody is in `run`
