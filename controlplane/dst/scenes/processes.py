"""Makes the replicas of all scenes: the service and the scheduler of production, among simulated clusters.

In: settings, connections to the environment's API servers, and the place where a replica runs. Out:
`SimulatedReplica`s.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import msgspec

from controlplane.app.scheduler import SchedulerService
from controlplane.app.scheduler_profiles import Setup
from controlplane.app.service import Service
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.dst.engine.process import ReplicaEnvironment, SimulatedReplica, metrics
from controlplane.dst.scenes.workloads.environment import led_to
from controlplane.runtime.lifecycle import Ports
from controlplane.settings import Settings
from controlplane.settings.model import LeaderSettings
from controlplane.web.health import Health

OpenServer = Callable[[str, str, str], ApiServer]
"""`open_server(cluster, process, token)`: a connection to a cluster, `@management` included."""

Stopwatch = Callable[[SimulatedReplica, random.Random], Callable[[], float]]
"""What the processor time of a scheduler's cycles is read from."""
HOME_TOKEN = "0"  # noqa: S105 - of a cluster that does not exist


def named(settings: Settings, identity: str) -> Settings:
    """Return settings for a process of a name."""
    return msgspec.structs.replace(settings, leader=LeaderSettings(identity=identity))


def service(
    name: str,
    settings: Settings,
    place: ReplicaEnvironment,
    open_server: OpenServer,
    policy: Callable[[], MultiKueuePolicy] | None = None,
) -> SimulatedReplica:
    """Return a replica of the service; `policy()` takes the place of what the settings say of Workloads at each
    start."""

    def make(process: str, ports: Ports, source: random.Random) -> Service:
        async def open_management() -> ApiServer:
            return open_server(MANAGEMENT, process, HOME_TOKEN)

        def open_worker(_: str, config: ClientConfig) -> ApiServer:
            return open_server(led_to(config.server), process, config.token)

        return Service(
            named(settings, process),
            dataclasses.replace(ports, open_worker=open_worker),
            open_management,
            metrics=metrics(),
            health=Health(),
            clock=replica.clock,
            rng=source,
            policy=policy() if policy is not None else None,
        )

    replica = SimulatedReplica(name, place, make)
    return replica


def scheduler(
    name: str,
    settings: Settings,
    setup: Setup,
    place: ReplicaEnvironment,
    open_server: Callable[[str], ApiServer],
    stopwatch: Stopwatch,
) -> SimulatedReplica:
    """Return a replica of a scheduler; `open_server(process)` connects it to the cluster beside which it stands."""

    def make(process: str, ports: Ports, source: random.Random) -> SchedulerService:
        async def open_cluster() -> ApiServer:
            return open_server(process)

        return SchedulerService(
            named(settings, process),
            setup,
            dataclasses.replace(ports, stopwatch=stopwatch(replica, source)),
            open_cluster,
            metrics=metrics(),
            health=Health(),
            clock=replica.clock,
            rng=source,
        )

    replica = SimulatedReplica(name, place, make)
    return replica
