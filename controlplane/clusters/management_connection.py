"""Keeps the management cluster itself connected: as a worker, but with the process's own credentials.

In: a way to open its API server, asked again for each attempt, so that a rotated kubeconfig is read anew. Out: as
`ClusterConnection`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from controlplane.clusters.connection import ClusterConnection
from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.sources import SecretSource
from controlplane.clusters.streams import ApiServer
from controlplane.kube.kinds import Kind


class ManagementConnection(ClusterConnection):
    """A `ClusterConnection` without a kubeconfig of its own."""

    def __init__(self, name: str, open_server: Callable[[], Awaitable[ApiServer]], around: ConnectionConfig) -> None:
        super().__init__(name, SecretSource(""), around)
        self._open_server = open_server

    def list_again(self, kinds: Collection[Kind]) -> None:
        """Have kinds listed anew, so that the sinks are shown once more what they have seen."""
        self._watches.list_again(kinds)

    async def run(self) -> None:
        """Keep the cluster connected until cancelled. Raises only what the sink or the facts' receiver raise."""
        self.answered_at = self._clock.monotonic()  # who begins is given time to be answered
        try:
            await self._keep_connected(ClientConfig(server=self.name))
        finally:
            self.executor = self.looks = None

    async def _until_worth_trying(self) -> None:
        """Nothing reports a change of the process's own credentials: look again now and then."""
        await self._clock.sleep(self._around.timing.away_probe)

    async def _open(self, config: ClientConfig) -> ApiServer:
        return await self._open_server()
