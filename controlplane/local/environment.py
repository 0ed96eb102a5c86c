"""A local fleet while it runs: the database, migrated, and the clusters, serving.

In: a folder, the fleet's size, and the URL of a database if there shall be no embedded one. Out: where everything is.
Entered in the order in which one needs the other, left in the reverse order, so that nothing ever writes to what is
gone already."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import msgspec

from controlplane.clusters.management_access import from_kubeconfig
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.quantities import milli, spell
from controlplane.local import outages
from controlplane.local.folder import DataFolder, LocalError, LocalFleet, PortError
from controlplane.local.postgres import EmbeddedPostgres
from controlplane.log import schema
from controlplane.log.connect import Database
from controlplane.settings import mask_urls
from controlplane.simulation import world as simulated
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.kinds.nodes import DEVICE_CLAIM_KINDS
from controlplane.simulation.world import ClusterSpec, World
from controlplane.tasks import end, to_the_end

SERVICE_ROLE = "controlplane_service"
_MEMORY_OF_A_WORKER = 16  # GiB: never what a job waits for
_SAVE_PERIOD = 2.0  # seconds of a cluster's history that a power cut may cost


class LocalEnvironment:
    """The running parts of a local fleet: use it with `async with`. Raises `LocalError`, `EmbeddedError`,
    `SchemaError`.

    `database_url` is the user's own database, "" for an embedded one in the folder; `role` is what the service becomes
    in it. `shown_url` is for people's psql: the password is in it if it is ours, and masked if it is theirs. `kueue`:
    Kueue's manager acts on the management cluster, as long as the service does not decide on quota itself."""

    def __init__(
        self,
        folder: DataFolder,
        fleet: LocalFleet,
        *,
        database_url: str = "",
        role: str = "",
        durable: bool = True,
        kueue: bool = True,
    ) -> None:
        self.folder, self.fleet = folder, fleet
        self.shown_url = mask_urls(database_url)
        self._given, self._role, self._durable = database_url, role, durable
        self._stack = AsyncExitStack()
        self._url = ""
        self.world = _world(folder, fleet, kueue=kueue)

    @property
    def database(self) -> Database:
        """The database as the service uses it."""
        return Database(self._url, self._role)

    async def __aenter__(self) -> LocalEnvironment:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def open_management(self) -> ApiServer:
        """Return the way to the management cluster, as the service takes it: its kubeconfig."""
        return await from_kubeconfig(MANAGEMENT, str(self.management_kubeconfig))

    @property
    def management_kubeconfig(self) -> Path:
        """The file with which kubectl and the service reach the management cluster."""
        return self.folder.kubeconfig(simulated.MANAGEMENT)

    async def _start(self) -> None:
        fleet = self.fleet
        if self._given:
            self._url = self._given
        else:
            port = fleet.database_port or still_free(fleet.last_database_port)
            postgres = EmbeddedPostgres(self.folder.database, durable=self._durable, port=port)
            self._url = await postgres.start()
            self._stack.push_async_callback(postgres.stop)
            self.shown_url, self._role = postgres.tcp_url, self._role or SERVICE_ROLE
            fleet = msgspec.structs.replace(fleet, last_database_port=postgres.port)
        await to_the_end(functools.partial(_migrate, self._url))
        try:
            await self.world.start()
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL}:
                raise PortError(self._unlistened(error)) from error
            raise LocalError(f"the simulated clusters cannot be started: {error}") from error
        except ValueError as error:
            raise LocalError(f"{error}: restore {self.folder.clusters}, or begin anew with another --data") from error
        self._stack.push_async_callback(self.world.stop)
        following = asyncio.create_task(outages.follow(self.folder, self.world.clusters))
        self._stack.push_async_callback(end, following)
        self.fleet = fleet
        self.folder.remember(fleet)

    def remember_ports(self, http: int, web: int) -> None:
        """Note the ports of the metrics and of the pages for the next start; 0: there are none."""
        self.fleet = msgspec.structs.replace(
            self.fleet, last_http_port=http, last_web_port=web or self.fleet.last_web_port
        )
        self.folder.remember(self.fleet)

    def _unlistened(self, error: OSError) -> str:
        if error.errno == errno.EADDRNOTAVAIL:
            return f"{self.fleet.address} is no address of this machine: choose another --address"
        unserved = (cluster.spec.port for cluster in self.world.clusters.values() if not cluster.server.url)
        port = next(unserved, self.fleet.management_port)
        option = "--management-port" if port == self.fleet.management_port else "--cluster-ports"
        return f"port {port} cannot be listened on: choose another {option}"


def _world(folder: DataFolder, fleet: LocalFleet, *, kueue: bool) -> World:
    """Each worker has its own small quota, and the management cluster as much as all of them together, so that workers
    decide.
    """
    together = spell("cpu", milli(fleet.cpu) * fleet.workers)
    memory = _MEMORY_OF_A_WORKER * fleet.workers
    management = ClusterSpec(
        quota={"cpu": together, "memory": f"{memory}Gi"},
        port=fleet.ports[0],
        address=fleet.address,
        job_pods=True,
        kueue=kueue,
        kinds=(*DEFAULT_KINDS, *DEVICE_CLAIM_KINDS),
    )
    quota = {"cpu": fleet.cpu, "memory": f"{_MEMORY_OF_A_WORKER}Gi"}
    workers = {
        name: ClusterSpec(quota=quota, port=port, address=fleet.address, job_pods=True)
        for name, port in zip(fleet.names, fleet.ports[1:], strict=True)
    }
    return World(management, workers, folder=folder.root, data=folder.clusters, save_period=_SAVE_PERIOD)


def _migrate(url: str) -> None:
    """Bring the schema up to date; where it is, the right to migrate is not needed."""
    try:
        schema.check(url)
    except schema.SchemaError:
        schema.upgrade(url)


def still_free(wanted: int) -> int:
    """Return that port of 127.0.0.1 if nobody listens on it, otherwise 0: whoever listens takes any free one then."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted
