"""Makes the schedulers beside the targets, and says under which settings the source's service runs.

In: a connection to each target's API server, and a database each. Out: `SimulatedReplica`s of production's own
processes. The processor time of a scheduling cycle is drawn at random.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from datetime import timedelta

import msgspec

from controlplane.app.scheduler import SchedulerService
from controlplane.app.scheduler_profiles import DEFAULT_PROFILE, load, setup_of
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE
from controlplane.controllers.scheduling.framework.configuration import read
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.process import Heard, SimulatedReplica, metrics
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE
from controlplane.dst.scenes.workloads.processes import named
from controlplane.runtime.lifecycle import Ports
from controlplane.settings import Settings
from controlplane.settings.candidates import Candidates
from controlplane.settings.model import RunSettings
from controlplane.web.health import Health

LOST_AFTER = timedelta(minutes=2)
GANGS = {
    "profiles": [
        {
            "schedulerName": DEFAULT_PROFILE,
            "plugins": {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}},
        }
    ]
}
_LONGEST_CYCLE = 0.006  # seconds of the processor


def source_settings(execution_policy: str = AT_LEAST_ONCE, *, jobs: bool = True) -> Settings:
    """Return the settings of the source's service; `jobs`: MultiKueue is on beside candidates."""
    settings = Settings()
    chosen = Candidates(
        cluster=CAMPUS, namespaces=(NAMESPACE,), lost_after=LOST_AFTER, execution_policy=execution_policy
    )
    controllers = ("multikueue", "candidates") if jobs else ("candidates",)
    return msgspec.structs.replace(settings, run=RunSettings(controllers=controllers), candidates=chosen)


def scheduler(
    name: str,
    loop: VirtualLoop,
    seed: str,
    database: SimulatedDatabase,
    open_server: Callable[[str], ApiServer],
    trace: Trace,
    heard: Heard,
    *,
    gangs: bool = False,
) -> SimulatedReplica:
    """Return a replica of the scheduler beside a target."""

    def make(process: str, ports: Ports, source: random.Random) -> SchedulerService:
        async def open_target() -> ApiServer:
            return open_server(process)

        spent = 0.0

        def stopwatch() -> float:
            nonlocal spent
            spent += _LONGEST_CYCLE * source.random()
            return spent

        return SchedulerService(
            named(Settings(), process),
            setup_of(read(GANGS), "the simulation") if gangs else load(""),
            dataclasses.replace(ports, stopwatch=stopwatch),
            open_target,
            metrics=metrics(),
            health=Health(),
            clock=replica.clock,
            rng=source,
        )

    replica = SimulatedReplica(name, loop, seed, database, trace, make, heard)
    return replica
