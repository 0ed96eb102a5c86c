"""Makes the replicas of the service: production's own, whose workers are simulated.

In: the environment's API servers and the database. Out: `SimulatedReplica`s.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from datetime import timedelta

import msgspec

from controlplane.app.service import Service
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.process import Heard, SimulatedReplica, metrics
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.environment import led_to
from controlplane.job_kinds import adapters_for
from controlplane.runtime.lifecycle import Ports
from controlplane.settings import Settings
from controlplane.settings.model import LeaderSettings
from controlplane.web.health import Health

OpenServer = Callable[[str, str, str], ApiServer]
"""`open_server(cluster, process, token)`: a connection to a cluster, `@management` included."""

POLICY = MultiKueuePolicy(
    adapters=adapters_for(["batch/job", "jobset.x-k8s.io/jobset"]),
    worker_lost_timeout=timedelta(minutes=3),
    refusal_pause=timedelta(minutes=1),
)
_JOBS_ONLY = msgspec.structs.replace(POLICY, adapters=adapters_for(["batch/job"]))
HOME_TOKEN = "0"  # noqa: S105 - of a cluster that does not exist


def policy_of(edition: int) -> MultiKueuePolicy:
    """Return the policy under which plans of an edition are played: the first one knows no JobSets."""
    return POLICY if edition > 1 else _JOBS_ONLY


def named(settings: Settings, identity: str) -> Settings:
    """Return settings for a process of a name."""
    return msgspec.structs.replace(settings, leader=LeaderSettings(identity=identity))


def service(
    name: str,
    settings: Settings,
    loop: VirtualLoop,
    seed: str,
    database: SimulatedDatabase,
    open_server: OpenServer,
    trace: Trace,
    heard: Heard,
    policy: MultiKueuePolicy | None = None,
) -> SimulatedReplica:
    """Return a replica of the service; `policy` takes the place of what the settings say of Workloads."""

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
            policy=policy,
        )

    replica = SimulatedReplica(name, loop, seed, database, trace, make, heard)
    return replica
