"""Makes the two sorts of processes of the scene: the controllers of the cluster's own pods, and its scheduler.

In: the environment's API server, by the network of each sort, and a log for each. Out: `SimulatedReplica`s of
production's own processes. A scheduling cycle takes no processor time here.
"""

from __future__ import annotations

import dataclasses
import random

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler import SchedulerService
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.app.scheduler_profiles import Setup, setup_of
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.scheduling.framework.configuration import read
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.process import Heard, SimulatedReplica, metrics
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.processes import HOME_TOKEN, OpenServer, named
from controlplane.runtime.lifecycle import Ports
from controlplane.settings import Settings
from controlplane.settings.local import CoschedulingSettings
from controlplane.settings.model import RunSettings
from controlplane.web.health import Health

CONTROLLERS, SCHEDULER = "rooms", "scheduler"
"""The two sorts, by the first word of their processes' names and by the name of their way to the API server."""
PROFILES = ("controlplane", "default-scheduler")
SETTINGS = msgspec.structs.replace(
    Settings(),
    run=RunSettings(controllers=("podgroups", "coscheduling")),
    coscheduling=CoschedulingSettings(image="example.com/nop:1"),
)
_GANG = {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}}


def hosted() -> HostedControllers:
    """Return the controllers of the controllers, with nothing in them."""
    return HostedControllers(SETTINGS)


def setup() -> Setup:
    """Return the scheduler's profiles: one for gangs, one for everybody else, both with the plugin Gang."""
    args = [{"name": "Gang", "args": {"waitForGroup": [PROFILES[0]], "scheduleTimeoutSeconds": 40}}]
    profiles = [{"schedulerName": name, "plugins": _GANG, "pluginConfig": args} for name in PROFILES]
    return setup_of(read({"profiles": profiles}), "the simulation")


def scheduler_controllers(identity: str) -> SchedulerControllers:
    """Return the controllers of the scheduler, with nothing in them."""
    return SchedulerControllers(named(SETTINGS, identity), PROFILES, gangs=True)


def scheduler(
    name: str,
    settings: Settings,
    loop: VirtualLoop,
    seed: str,
    database: SimulatedDatabase,
    open_server: OpenServer,
    trace: Trace,
    heard: Heard,
) -> SimulatedReplica:
    """Return a replica of the scheduler."""

    def make(process: str, ports: Ports, source: random.Random) -> SchedulerService:
        async def open_cluster() -> ApiServer:
            return open_server(MANAGEMENT, process, HOME_TOKEN)

        return SchedulerService(
            named(settings, process),
            setup(),
            dataclasses.replace(ports, stopwatch=replica.clock.monotonic),
            open_cluster,
            metrics=metrics(),
            health=Health(),
            clock=replica.clock,
            rng=source,
        )

    replica = SimulatedReplica(name, loop, seed, database, trace, make, heard)
    return replica
