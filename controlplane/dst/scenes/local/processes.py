"""Says how the two sorts of processes of the scene are set up: the controllers of the cluster's own pods, and its
scheduler.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.app.scheduler_profiles import Setup, setup_of
from controlplane.controllers.scheduling.framework.configuration import read
from controlplane.dst.scenes.local.hosted import SETTINGS
from controlplane.dst.scenes.processes import named
from controlplane.dst.scenes.workloads.processes import SNAPSHOTS
from controlplane.settings import Settings

CONTROLLERS, SCHEDULER = "rooms", "scheduler"
"""The two sorts, by the first word of their processes' names and by the name of their way to the API server."""
PROFILES = ("controlplane", "default-scheduler")
_GANG = {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}}


def settings_of(traits: Collection[str]) -> Settings:
    """Return the settings of the processes of a run."""
    if SNAPSHOTS not in traits:
        return SETTINGS
    return msgspec.structs.replace(SETTINGS, log=msgspec.structs.replace(SETTINGS.log, snapshot_every=20))


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
