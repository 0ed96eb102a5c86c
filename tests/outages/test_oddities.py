"""What should not be: objects that cannot be read, events of another version, a clock that jumps, the management
cluster away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from controlplane.clock import SystemClock
from controlplane.controllers.connectivity.events import cluster_stream
from controlplane.controllers.multikueue.observe import workload_stream
from controlplane.kube.kinds import EVENTS, JOBS, MULTIKUEUE_CONFIGS, meta
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Event, NewEvent
from controlplane.log.postgres import PostgresLog
from tests.outages.stage import NS, RETRY, ROLE, Stage, running_on_a, settings
from tests.support.deep import deep_after

Make = Callable[..., Awaitable[Stage]]
ORIGIN = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}


def sample(on: Stage, name: str, *, prefix: str = "controlplane", **labels: str) -> float:
    return on.replica.metrics.registry.get_sample_value(f"{prefix}_{name}", labels) or 0.0


async def test_a_poisoned_object_stops_nothing(stage: Make) -> None:
    """An object that does not fit its API is recorded as refused, told to whom it concerns, counted, and stops no
    stream.
    """
    on = await stage("a", "b", roomy=("a",))
    broken = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "broken", "namespace": NS, "labels": ORIGIN},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    }
    on.worker("a").store.create(JOBS, broken)
    config = {"metadata": {"name": "broken"}, "spec": {"clusters": "a"}}
    on.manager.store.create(
        MULTIKUEUE_CONFIGS, {**config, "apiVersion": MULTIKUEUE_CONFIGS.api_version, "kind": "MultiKueueConfig"}
    )
    on.submit()
    await on.running("a")
    on.end("a")
    await on.until(lambda: on.finished(), "finished")
    await on.until(lambda: on.left() == ["a: Job broken"], "all but the broken one gone")
    assert {(said["kind"], said["name"]) for said in on.said("ObservationRefused")} == {
        (JOBS.name, "broken"),
        (MULTIKUEUE_CONFIGS.name, "broken"),
    }
    told = [event for event in on.manager.store.list(EVENTS)[0] if event["reason"] == "Refused"]
    assert [event["regarding"]["name"] for event in told] == ["broken"]
    assert sample(on, "observations_refused_total", cluster="a", kind=JOBS.name) >= 1


class FromTheFuture(Event):
    """An event that this version does not know."""

    what: str


async def test_events_of_another_version_are_kept_and_skipped(stage: Make) -> None:
    """A newer version wrote into the log before it was taken back: this one goes on, and what it cannot read stays
    there.
    """
    on = await running_on_a(stage)
    stream = workload_stream(NS, str(meta(on.workload() or {})["name"]))
    async with PostgresLog(Database(on.url, ROLE), Codec([FromTheFuture])) as newer:
        await newer.assist()
        for where in (stream, cluster_stream("a"), "fleet", "service", "of-another-room/x"):
            await newer.append(Append([NewEvent(stream=where, event=FromTheFuture(what="news"), cluster="a")]))
    await on.until(lambda: sample(on, "log_unknown_event_types_total", type="FromTheFuture") == 5, "the events counted")
    await on.kill()
    await on.up()
    assert on.running_on() == "a"
    on.end("a")
    await on.done()
    assert len(on.said("FromTheFuture")) == 5


class JumpingClock(SystemClock):
    """The machine's clock, set by somebody while we run."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


@pytest.mark.parametrize("hours", deep_after(1, [5, -5]))
async def test_a_clock_that_jumps_decides_nothing(stage: Make, hours: int) -> None:
    """The machine's clock is set while a cluster is lost: its grace is neither over at once, nor does it never end."""
    clock = JumpingClock()
    on = await running_on_a(stage, clock=clock, settings=settings(lost=1.5))
    on.make_room("b")
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    clock.ahead = timedelta(hours=hours)
    await on.quiet(0.6)
    assert RETRY not in on.events()
    await on.running("b")
    assert RETRY in on.events()


async def test_the_management_cluster_away(stage: Make) -> None:
    """Without it nothing is decided; what runs on workers runs on, and what happened there meanwhile is told once it is
    back.
    """
    on = await running_on_a(stage)
    on.manager.faults.cut()
    await on.until(lambda: on.said("ClusterLost", "@management"), "lost")
    on.end("a")
    await asyncio.sleep(1.2)  # longer than a worker's grace
    assert not on.replica.health.ready
    on.manager.faults.clear()
    await on.done()
    assert on.witness.starts["train"] == ["a"]
    assert RETRY not in on.events()


async def test_who_got_what_can_be_counted(stage: Make) -> None:
    """How much had been offered to which cluster, and who had won, was in no metric (Kueue #4749, #11132)."""
    on = await stage("a", "b", roomy=("a",))
    for name in ("one", "two"):
        on.submit(name)
        await on.running("a", name)
    for cluster, admitted in (("a", 2), ("b", 0)):
        queue = {"cluster_queue": "cluster-queue", "cluster": cluster}
        assert sample(on, "workloads_dispatched_total", **queue) == 2
        assert sample(on, "workloads_admitted_total", **queue) == admitted
        as_kueue = {**queue, "replica_role": "leader"}
        for prefix in ("multikueue", "kueue_multikueue"):  # Kueue's own names, and what earlier versions called them
            assert sample(on, "workloads_dispatched_total", prefix=prefix, **as_kueue) == 2
            assert sample(on, "workloads_admitted_total", prefix=prefix, **as_kueue) == admitted
        if admitted:
            assert sample(on, "admission_seconds_count", **queue) == 2
    assert sample(on, "dispatch_seconds_count", cluster_queue="cluster-queue") == 2
    assert sample(on, "copies_removed_total", cluster="b", reason="AnotherClusterWon") == 2
    assert sample(on, "decisions_total", type="RemovalDecided", reason="AnotherClusterWon") == 2


async def test_what_cannot_be_read_ends_no_service(stage: Make) -> None:
    """A status nested too deep, and an annotation that the database cannot hold, stopped the whole service, or were
    passed over.
    """
    on = await stage("a", "b", roomy=("b",))
    deep: dict[str, object] = {}
    for _ in range(150):
        deep = {"a": deep}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name, metadata, status in (("deep", {}, deep), ("nul", {"annotations": {"x": "\0"}}, {})):
        head = {"name": name, "namespace": NS, "labels": ORIGIN, **metadata}
        on.worker("a").store.create(JOBS, {"metadata": head, "spec": {"suspend": True, "template": template}})
        if status:
            on.worker("a").store.patch(JOBS, NS, name, {"status": status}, subresource="status")
    await on.until(lambda: len({said["name"] for said in on.said("ObservationRefused", "a")}) == 2, "both refused")
    assert on.active("a")
    on.submit()
    await on.running("b")
    await on.kill()
    await on.up()
    on.end("b")
    await on.until(lambda: on.finished(), "finished")
