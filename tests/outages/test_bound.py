"""A log belongs to one management cluster: another one on the same database falsified it, and wedged it for both."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.app import operate
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.log.connect import Database
from controlplane.runtime.bound import WrongCluster
from tests.outages.stage import ROLE, Replica, Stage, settings

NAMES = [f"train-{number}" for number in range(10)]


@pytest.fixture
async def two(database_url: str, tmp_path: Path, quick: None) -> AsyncIterator[tuple[Stage, Stage]]:
    """Two fleets, each with a management cluster of its own, and one database. The first one runs."""
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(Stage(database_url, tmp_path / name, "a", "b", settings=settings(lost=60.0)))
    first, second = made
    await first.start()
    await second.world.start()
    yield first, second
    for stage in made:
        with contextlib.suppress(WrongCluster):
            await stage.stop()


async def refused(on: Stage) -> str:
    """Start a service where the log is not its own; return what it ends with."""
    replica = await on.up(ready=False)
    with pytest.raises(WrongCluster) as told:
        await replica.task
    on.replicas.remove(replica)
    return str(told.value)


async def rebind(on: Stage) -> int:
    return await operate.rebind(Database(on.url, ROLE), "main", policy_of(settings()), "tester")


async def test_a_service_beside_another_management_cluster_is_refused_with_one_sentence(
    two: tuple[Stage, Stage],
) -> None:
    first, second = two
    for name in NAMES:
        first.submit_for(name)
        await first.running(name=name)
    await first.replica.stop()
    position = first.position
    told = await refused(second)
    assert "belongs to another cluster" in told
    assert "controlplane log rebind" in told
    assert "\n" not in told
    assert first.position == position, "it said nothing in a log that is not its own"
    await first.up()
    assert all(first.running_on(name=name) for name in NAMES)
    assert not first.said("WorkloadGone")


async def test_a_log_is_moved_on_purpose_and_back_and_everything_comes_back(two: tuple[Stage, Stage]) -> None:
    """After the other one, one of ten Workloads came back, and clusters and checks never: their versions had been seen
    before.
    """
    first, second = two
    for name in NAMES:
        first.submit_for(name)
        await first.running(name=name)
    await first.replica.stop()
    assert await rebind(first) == 10
    with pytest.raises(operate.NotAllowed, match="already"):
        await rebind(first)
    await second.up()
    second.submit_for("other", "200ms")
    await second.done("other")
    await second.replica.stop()
    assert "belongs to another cluster" in await refused(first)
    await rebind(first)
    again = await first.up()
    await first.until(lambda: len(live(again)) == 10, "all Workloads in view")
    await first.until(first._all_active, "active clusters")
    first.submit_for("more", "200ms")
    await first.done("more")
    for name in NAMES:
        first.end(await first.running(name=name), name=name)
        await first.done(name)
    assert all(len(first.witness.starts[name]) == 1 for name in NAMES)


@pytest.mark.deep
async def test_what_was_listed_before_a_connection_stood_does_not_hold_its_cluster_up(two: tuple[Stage, Stage]) -> None:
    """Its copies had been recorded, and it did not count as connected yet: so they counted as copies on the cluster
    that had had its name before, and the right one was refused until an operator gave that one up."""
    first, second = two
    first.submit_for("train-0")
    home = await first.running(name="train-0")
    await first.replica.stop()
    await rebind(first)
    await second.up()
    await second.until(second._all_active, "active clusters")
    await second.replica.stop()
    await rebind(first)
    faults = first.world.clusters[home].faults
    held = faults.slow(60.0, verbs=["list"], resources=["jobsets.jobset.x-k8s.io"])
    seen = len(first.said("RemoteJobObserved"))
    await first.up(ready=False)
    await first.until(lambda: len(first.said("RemoteJobObserved")) > seen, "the job is recorded")
    await first.kill()
    faults.remove(held)
    again = await first.up()
    await first.until(lambda: len(live(again)) == 1, "the Workload in view")
    await first.until(first._all_active, "active clusters")
    first.end(await first.running(name="train-0"), name="train-0")
    await first.done("train-0")
    assert len(first.witness.starts["train-0"]) == 1


def live(replica: Replica) -> list[str]:
    fleet = replica.service.fleet
    assert fleet is not None
    return [stream for stream, state in fleet.index.workloads.items() if state.local is not None]


async def test_a_management_cluster_that_is_another_one_by_now_is_not_believed(two: tuple[Stage, Stage]) -> None:
    """The address leads elsewhere while the service leads: it waits, is not ready, and says why."""
    first, second = two
    first.submit_for("train-0")
    await first.running(name="train-0")
    own = first.world.clusters["management"].server.kubeconfig()
    path = first._folder / "management.kubeconfig"
    text = path.read_text()
    path.write_text((second._folder / "management.kubeconfig").read_text())
    first.world.clusters["management"].faults.cut()
    await first.until(lambda: "another cluster" in first.replica.health.checks["caches"].detail, "the reason")
    assert not first.replica.health.ready
    assert not first.replica.task.done()
    path.write_text(text)
    first.world.clusters["management"].faults.clear()
    await first.until(lambda: first.replica.health.ready, "ready again")
    assert own
    first.end(await first.running(name="train-0"), name="train-0")
    await first.done("train-0")
    assert not first.said("WorkloadGone")
