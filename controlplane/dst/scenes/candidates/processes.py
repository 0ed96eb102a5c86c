"""Says under which settings the source's service runs, and how the schedulers beside the targets are set up.

The processor time of a scheduling cycle is drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

import msgspec

from controlplane.app.scheduler_profiles import DEFAULT_PROFILE, Setup, load, setup_of
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE
from controlplane.controllers.scheduling.framework.configuration import read
from controlplane.dst.engine.process import SimulatedReplica
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE
from controlplane.settings import Settings
from controlplane.settings.candidates import Candidates, VirtualNodeSettings
from controlplane.settings.model import RunSettings

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


def source_settings(
    execution_policy: str = AT_LEAST_ONCE, *, jobs: bool = True, virtual_nodes: bool = False, snapshots: bool = False
) -> Settings:
    """Return the settings of the source's service; `jobs`: MultiKueue is on beside candidates."""
    settings = scheduler_settings(snapshots=snapshots)
    chosen = Candidates(
        cluster=CAMPUS,
        namespaces=(NAMESPACE,),
        lost_after=LOST_AFTER,
        execution_policy=execution_policy,
        virtual_nodes=VirtualNodeSettings(enabled="yes" if virtual_nodes else "no"),
        scale_up_wait=timedelta(days=1),  # whose time is over is followed by another, and that is no quiet
    )
    controllers = ("multikueue", "candidates") if jobs else ("candidates",)
    return msgspec.structs.replace(settings, run=RunSettings(controllers=controllers), candidates=chosen)


def scheduler_settings(*, snapshots: bool) -> Settings:
    """Return the settings of a scheduler; `snapshots`: it keeps what it has folded after every few events."""
    settings = Settings()
    if not snapshots:
        return settings
    return msgspec.structs.replace(settings, log=msgspec.structs.replace(settings.log, snapshot_every=20))


def setup(*, gangs: bool) -> Setup:
    """Return the profiles of the schedulers; `gangs`: with the plugin Gang."""
    return setup_of(read(GANGS), "the simulation") if gangs else load("")


def drawn_time(_: SimulatedReplica, source: random.Random) -> Callable[[], float]:
    """Return a stopwatch by which each cycle takes a time that is drawn."""
    spent = 0.0

    def stopwatch() -> float:
        nonlocal spent
        spent += _LONGEST_CYCLE * source.random()
        return spent

    return stopwatch
