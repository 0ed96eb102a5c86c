"""Two processes on one log, of which the leader has lost its way to the management cluster, and the other one has
not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from controlplane.runtime import bound
from tests.outages.stage import Replica, Stage, settings
from tests.outages.wire import Wire

Make = Callable[..., Awaitable[Stage]]
Lay = Callable[[Stage, str], Awaitable[tuple[Wire, Path]]]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "_AGAIN", 0.1)
    monkeypatch.setattr(bound, "_SEEN_AWAY", 0.3)
    monkeypatch.setattr(bound, "_PATIENCE", 1.0)


@pytest.fixture
async def lay(tmp_path: Path) -> AsyncIterator[Lay]:
    """Lay a wire to the management cluster that can be cut: the kubeconfig of a process leads through it."""
    laid: list[Wire] = []

    async def make(on: Stage, name: str) -> tuple[Wire, Path]:
        config = yaml.safe_load((tmp_path / "management.kubeconfig").read_text())
        cluster = config["clusters"][0]["cluster"]
        wire = Wire(cluster["server"])
        laid.append(wire)
        cluster["server"] = await wire.start()
        kubeconfig = tmp_path / f"{name}.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        return wire, kubeconfig

    yield make
    for wire in laid:
        await wire.stop()


async def through(on: Stage, kubeconfig: Path, name: str) -> Replica:
    replica = Replica(on.url, kubeconfig, settings(), name)
    on.replicas.append(replica)
    on._task = replica.task
    return replica


def epoch(on: Stage) -> int:
    return int(on.query("SELECT epoch FROM controlplane.log_head")[0][0])


async def test_one_that_reaches_the_management_cluster_gets_the_lead(stage: Make, lay: Lay) -> None:
    on = await stage("a", "b")
    await on.replica.stop()
    wire, kubeconfig = await lay(on, "first")
    first = await through(on, kubeconfig, "first")
    await on.until(lambda: first.leads and first.health.ready, "the first leads")
    second = await on.up(ready=False)
    on.submit("before")
    where = await on.running(name="before")
    wire.set("cut")
    await on.until(lambda: second.leads and second.health.ready, "the second leads")
    on.submit("after")
    on.end(where, name="before")
    on.end(await on.running(name="after"), name="after")
    await on.done("before")
    await on.done("after")
    assert {name: len(on.witness.starts[name]) for name in ("before", "after")} == {"before": 1, "after": 1}
    assert [data["holder"] for data in on.said("LeadRequested")] == [second.name]
    assert first.name in [data["holder"] for data in on.said("ServiceStopped")]
    await on.until(lambda: not first.health.ready, "who follows cannot lead, and says so")
    assert "the management cluster does not answer this process" in first.health.checks["leader"].detail
    assert not first.leads
    wire.set("whole")
    await on.until(lambda: first.health.ready, "it is answered again")
    assert epoch(on) == 3


async def test_where_nobody_reaches_it_the_leader_stays_and_goes_on_recording(stage: Make, lay: Lay) -> None:
    on = await stage("a", "b")
    first = on.replica
    wire, kubeconfig = await lay(on, "second")
    second = await through(on, kubeconfig, "second")
    await on.until(lambda: second.health.ready and not second.leads, "the second follows")
    on.submit("train")
    where = await on.running()
    wire.set("cut")
    on.manager.faults.cut()
    await on.until(lambda: on.said("ClusterLost", "@management"), "the loss")
    await on.until(lambda: not second.health.ready, "the second asked in vain")
    on.end(where)
    await on.until(lambda: on.said("RemoteJobObserved", where, finished=True), "what a worker shows is recorded")
    assert (first.leads, epoch(on), on.said("LeadRequested")) == (True, 1, [])
    on.manager.faults.clear()
    wire.set("whole")
    await on.done()
    assert (first.leads, epoch(on)) == (True, 1)


async def test_with_nobody_else_one_that_does_not_reach_it_takes_the_lead(stage: Make) -> None:
    on = await stage("a")
    on.submit("train")
    where = await on.running()
    await on.kill()
    on.manager.faults.cut()
    replica = await on.up(ready=False)
    await on.until(lambda: replica.leads, "it leads all the same")
    on.manager.faults.clear()
    on.end(where)
    await on.done()
    assert on.witness.starts["train"] == [where]
