"""Most clusters away together, and we ourselves away: nothing is held against the clusters that may be our own
fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controlplane.app import operate
from controlplane.controllers.connectivity.events import FLEET_STREAM
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.log.connect import Database
from tests.outages.stage import RETRY, ROLE, Stage, check_of, running_on_a, settings

Make = Callable[..., Awaitable[Stage]]
ALL = ("a", "b", "c", "d")


def retries(on: Stage, name: str) -> int:
    return int(check_of(on.workload(name=name) or {}).get("retryCount", 0))


async def spread(on: Stage) -> None:
    """A job on each of the four clusters: one after the other has room for it."""
    for cluster in ALL:
        on.make_room(cluster, "1")
        on.submit(f"on-{cluster}")
        await on.running(cluster, f"on-{cluster}")


# A grace of two seconds: on a busy machine a second lies between the first loss and the third, which makes the outage.


async def test_a_mass_outage_takes_nothing_and_resumes_by_itself(stage: Make) -> None:
    """The control plane's own trouble was counted against every cluster at once (Armada #315, #904)."""
    on = await stage(*ALL, roomy=(), settings=settings(lost=2.0))
    await spread(on)
    on.make_room("d", "100")
    on.cut("a", "b", "c")
    await on.until(lambda: on.said("MassOutageBegan"), "the alarm")
    (began,) = on.said("MassOutageBegan")
    assert (began["away"], began["of"]) == (["a", "b", "c"], 4)
    await on.quiet(2.6)
    assert RETRY not in on.events()
    on.submit("new")
    await on.running("d", "new")  # what is not taken from anybody goes on
    on.heal("a", "b", "c")
    await on.until(lambda: on.said("MassOutageEnded"), "the end")
    await on.until(lambda: all(on.active(name) for name in ALL), "all back")
    await on.quiet(0.3)
    assert [retries(on, f"on-{name}") for name in ALL] == [0, 0, 0, 0]
    for cluster in ALL:
        on.end(cluster, name=f"on-{cluster}")
        await on.done(f"on-{cluster}")
    assert all(on.witness.starts[f"on-{name}"] == [name] for name in ALL)


@pytest.mark.deep
async def test_the_last_to_come_back_have_their_grace_after_a_mass_outage(stage: Make) -> None:
    """When half the clusters were back, the rest paid for the time in which nobody had been reachable (Armada #315,
    #904).
    """
    on = await stage(*ALL, roomy=(), settings=settings(lost=1.4))
    await spread(on)
    on.make_room("d", "100")
    on.cut("a", "b", "c")
    await on.until(lambda: on.said("MassOutageBegan"), "the alarm")
    await asyncio.sleep(1.6)
    on.heal("a")
    await on.until(lambda: on.said("MassOutageEnded"), "the end")
    await on.quiet(0.4)
    on.heal("b")
    await on.until(lambda: on.active("b"), "b back")
    assert retries(on, "on-b") == 0
    await on.running("d", "on-c")  # who stays away is given up all the same
    assert retries(on, "on-b") == 0


@pytest.mark.deep
async def test_an_accepted_mass_outage_is_a_loss_like_any_other(stage: Make) -> None:
    """Nobody could say that three of four clusters were really gone."""
    wanted = settings(lost=2.0)
    on = await stage(*ALL, roomy=(), settings=wanted)
    await spread(on)
    on.make_room("d", "100")
    on.cut("a", "b", "c")
    await on.until(lambda: on.said("MassOutageBegan"), "the alarm")
    await on.quiet(2.5)
    assert RETRY not in on.events()
    assert await operate.accept_outage(Database(on.url, ROLE), "main", policy_of(wanted), "me") == 3
    for name in ("a", "b", "c"):
        await on.running("d", f"on-{name}")
    on.heal("a", "b", "c")
    await on.until(lambda: all(on.jobs(name=f"on-{name}") == {"d"} for name in ("a", "b", "c")), "old copies gone")
    assert all(on.witness.starts[f"on-{name}"] == [name, "d"] for name in ("a", "b", "c"))


@pytest.mark.deep
async def test_a_mass_outage_outlives_the_process(stage: Make) -> None:
    """A process that starts in the middle of it knows of no cluster yet: it takes nothing either, and raises no second
    alarm.
    """
    on = await stage(*ALL, roomy=(), settings=settings(lost=2.0))
    await spread(on)
    on.make_room("d", "100")
    on.cut("a", "b", "c")
    await on.until(lambda: on.said("MassOutageBegan"), "the alarm")
    await on.kill()
    await asyncio.sleep(2.0)
    await on.up()
    await on.quiet(1.0)
    assert RETRY not in on.events()
    rows = on.query("SELECT type FROM controlplane.events WHERE stream = %s ORDER BY position", FLEET_STREAM)
    assert [kind for (kind,) in rows] == ["MassOutageBegan"]


async def test_our_own_absence_is_no_loss(stage: Make) -> None:
    """A cluster lost shortly before the service went away had its grace run out while nobody looked, and lost its jobs
    although it was back (Armada #315, #904)."""
    on = await running_on_a(stage, settings=settings(lost=20.0))
    on.make_room("b")
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    await on.kill()
    on.heal("a")
    on.age(25)
    on.worker("a").faults.slow(0.15)  # it answers, though not before the management cluster does
    await on.up()
    await on.until(lambda: on.active("a"), "back")
    await on.quiet(0.3)
    assert (on.running_on(), retries(on, "train"), on.witness.starts["train"]) == ("a", 0, ["a"])
