"""Pods that are not ready in time, where this service decides on quota: the Workload gives its quota back, waits, and
has it again, also when the process is killed while it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from controlplane.settings import Settings
from controlplane.settings.quota import RequeuingStrategy, WaitForPodsReady
from controlplane.simulation.controllers.jobs import JobPace
from tests.outages.stage import Stage
from tests.outages.test_admission import builtin, submit

Make = Callable[..., Awaitable[Stage]]
NEVER_READY = JobPace(duration=timedelta(hours=1), startup=timedelta(hours=1))


def impatient() -> Settings:
    found = builtin()
    again = RequeuingStrategy(backoff_base_seconds=1, backoff_max_seconds=1)
    waiting = WaitForPodsReady(enable="yes", timeout=timedelta(seconds=1), requeuing_strategy=again)
    return msgspec.structs.replace(found, quota=msgspec.structs.replace(found.quota, wait_for_pods_ready=waiting))


async def test_who_is_evicted_for_its_pods_has_quota_again_after_the_wait(stage: Make) -> None:
    """With the eviction the name of the cluster goes, so that it was written with a merge patch; an apply did not take
    away what it said of when to try again, and the Workload was queued no more."""
    on = await stage("a", settings=impatient(), manager_is={"kueue": False}, workers_are={"pace": NEVER_READY})
    submit(on)

    def evictions(least: int) -> Callable[[], bool]:
        return lambda: (
            len([one for one in on.said("WorkloadStatusDecided") if one["reason"] == "PodsNotReady"]) >= least
        )

    await on.until(evictions(2), "it was evicted, admitted again, and evicted again")
    await on.kill()
    await on.up()
    await on.until(evictions(4), "and so on")
    (counted,) = (on.workload() or {})["status"]["schedulingStats"]["evictions"]
    assert counted["reason"] == "PodsReadyTimeout"
