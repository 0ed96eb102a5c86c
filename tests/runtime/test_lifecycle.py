"""What a process says of itself when its lead begins and ends."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.tasks import end
from tests.cancelling.whole import METRICS, Process, staged, the_scheduler, the_service


async def led(process: Process) -> None:
    """Let a process lead until it is asked to stop, and see to what only a leader knows meanwhile."""
    with staged(process) as stage:
        clock = asyncio.create_task(stage.clock.run())
        running = asyncio.create_task(stage.run())
        while not stage.leads:
            await asyncio.sleep(0)
        assert METRICS.registry.get_sample_value("controlplane_leader") == 1
        METRICS.mass_outage.set(1)
        METRICS.requeue_budget.set(5)
        stage.stop.set()
        await running
        await end(clock)


@pytest.mark.parametrize("process", [the_service, the_scheduler], ids=lambda process: process.__name__)
async def test_who_does_not_lead_any_more_does_not_say_so(process: Process) -> None:
    await led(process)
    assert METRICS.registry.get_sample_value("controlplane_leader") == 0


async def test_the_service_forgets_what_only_its_leader_knows() -> None:
    await led(the_service)
    names = ("mass_outage", "requeue_budget")
    assert {name: getattr(METRICS, name)._value.get() for name in names} == dict.fromkeys(names, 0)
