"""The control plane is away itself while a worker is: what nobody of ours saw is not held against the worker, and what
one saw adds up.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
import yaml

from controlplane.kube.kinds import SECRETS
from controlplane.simulation.world import KUEUE_NAMESPACE, secret_name
from tests.outages.stage import RETRY, Stage, check_of, running_on_a, settings
from tests.support.deep import deep_after

Make = Callable[..., Awaitable[Stage]]
GRACE = 1.5
JOBS_OF_IT = ("one", "two", "three")


def break_connection(on: Stage, how: str) -> None:
    """Cut the network, or, as Kueue's own tests do, let the kubeconfig lead to where nobody listens."""
    if how == "network":
        on.cut("a")
        return
    config = on.worker("a").server.kubeconfig()
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    data = {"kubeconfig": base64.b64encode(yaml.safe_dump(config).encode()).decode()}
    on.manager.store.patch(SECRETS, KUEUE_NAMESPACE, secret_name("a"), {"data": data})


async def crash(on: Stage) -> None:
    """Kill the process and leave its lease behind: the next one has to wait for its end."""
    on._task = None
    await on.replica.kill()


def times(on: Stage, kind: str, **fields: Any) -> list[datetime]:
    """When events of a type were recorded."""
    rows = on.query("SELECT recorded_at, data FROM controlplane.events WHERE type = %s ORDER BY position", kind)
    return [at for at, data in rows if all(data.get(key) == value for key, value in fields.items())]


def unwatched(on: Stage) -> list[datetime]:
    """Until when somebody looked, as each process but the first one said it."""
    return [datetime.fromisoformat(data["unwatched_since"]) for data in on.said("ServiceStarted")[1:]]


def looked(on: Stage, since: datetime, until: datetime) -> float:
    """For how many seconds somebody of ours looked between two times, by what the processes said."""
    starts = times(on, "ServiceStarted")[1:]
    absent = [(max(gone, since), min(back, until)) for gone, back in zip(unwatched(on), starts, strict=True)]
    return (until - since).total_seconds() - sum(max(0.0, (end - begin).total_seconds()) for begin, end in absent)


async def running(on: Stage) -> None:
    for name in JOBS_OF_IT:
        on.submit(name)
    for name in JOBS_OF_IT:
        await on.running("a", name)


@pytest.mark.parametrize("how", deep_after(1, ["network", "kubeconfig"]))
async def test_after_a_restart_a_lost_worker_has_its_grace_and_no_more_than_that(stage: Make, how: str) -> None:
    """A manager that was restarted while the worker was unreachable evicted at once what ran there; neither may it wait
    for ever (Kueue, test/integration/multikueue/jobs_test.go: "Should not immediately evict but eventually retry
    admitted workloads after a manager restart while the admitting worker is unreachable")."""
    on = await stage("a", "b", roomy=("a",), settings=settings(lost=GRACE))
    await running(on)
    await asyncio.sleep(GRACE)  # the check is Ready for longer than the grace
    break_connection(on, how)
    await on.until(lambda: on.lost("a"), "lost")
    await crash(on)
    await asyncio.sleep(2 * GRACE)
    await on.up()
    await on.until(lambda: len(times(on, "CheckStateDecided", reason="RemoteLost")) == len(JOBS_OF_IT), "all retried")
    lost, first = (
        times(on, "ClusterLost" if how == "network" else "ClusterDisconnected")[0],
        times(on, "CheckStateDecided", reason="RemoteLost")[0],
    )
    assert (first - lost).total_seconds() > 3 * GRACE, "nobody looked for two graces"
    assert looked(on, lost, first) >= GRACE
    for name in JOBS_OF_IT:
        await on.until(lambda: check_of(on.workload(name=name) or {}).get("retryCount") == 1, f"{name} queued again")  # noqa: B023


@pytest.mark.deep
async def test_the_time_in_which_somebody_looked_adds_up_over_restarts(stage: Make) -> None:
    """A grace that begins anew with each process is never over where processes do not live as long as it."""
    on = await running_on_a(stage, settings=settings(lost=4.0))
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    lost = times(on, "ClusterLost")[0]
    for number in range(60):
        tried = len(on.said("ClusterConnectFailed"))
        await asyncio.sleep(0.2)
        await (on.replica.stop() if number % 2 else on.kill())
        on._task = None
        if times(on, "CheckStateDecided", reason="RemoteLost"):
            break
        await on.up(ready=False)
        await on.until(lambda: len(on.said("ClusterConnectFailed")) > tried, "tried again")  # noqa: B023 - awaited at once
    retried = times(on, "CheckStateDecided", reason="RemoteLost")[0]
    assert looked(on, lost, retried) >= 4.0
    assert len(unwatched(on)) > 2, "no process lived for a whole grace"


async def test_who_stops_says_until_when_it_looked(stage: Make) -> None:
    on = await stage("a")
    await on.replica.stop()
    on._task = None
    (stopped,) = times(on, "ServiceStopped", holder="replica-1")
    await asyncio.sleep(0.3)
    await on.up()
    assert unwatched(on) == [stopped]


@pytest.mark.parametrize("workers", [pytest.param(("a",), marks=pytest.mark.deep), ("a", "b")])
async def test_when_the_only_worker_is_lost_or_both_nothing_is_taken_from_them(
    stage: Make, workers: tuple[str, ...]
) -> None:
    """There is nowhere to run it again, and it may be us."""
    on = await stage(*workers, roomy=("a",), settings=settings(lost=0.4))
    on.submit()
    await on.running("a")
    on.cut(*workers)
    await on.until(lambda: on.said("MassOutageBegan"), "the alarm")
    await on.quiet(1.2)
    assert RETRY not in on.events()
    on.heal(*workers)
    await on.until(lambda: on.said("MassOutageEnded"), "the end")
    await on.until(lambda: all(on.active(name) for name in workers), "all back")
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]
