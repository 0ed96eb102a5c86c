"""One management cluster and the services of two logs: each has its own queues, or one of them waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    MULTIKUEUE_CONFIGS,
    Json,
    meta,
)
from controlplane.settings import Settings
from controlplane.simulation.seeding import ensure
from tests.multikueue.kep693.rig import NS, user_job
from tests.outages.stage import Replica, Stage, settings
from tests.outages.test_pods import Pods, pod

Make = Callable[..., Awaitable[Stage]]
SECOND = "example.com/second"
BRIEF = {"claim": 6.0}  # seconds: a renewal has two, also where the machine is busy
LEASE = "controlplane.kueue.x-k8s.io.multikueue"


def of_second(**multikueue: Any) -> Settings:
    """The settings of a service with another log."""
    found = settings(**multikueue)
    return msgspec.structs.replace(found, database=msgspec.structs.replace(found.database, log="second"))


def queue_of_second(on: Stage) -> None:
    """Give the second service a queue, with its check, over the same workers."""
    store = on.manager.store
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "second"}
    ensure(store, ADMISSION_CHECKS, "second", spec={"controllerName": SECOND, "parameters": parameters})
    ensure(store, MULTIKUEUE_CONFIGS, "second", spec={"clusters": list(on.world.workers)})
    queue = store.get(CLUSTER_QUEUES, "", "cluster-queue")["spec"]
    queue["admissionChecksStrategy"] = {"admissionChecks": [{"name": "second"}]}
    ensure(store, CLUSTER_QUEUES, "second-queue", spec=queue)
    ensure(store, LOCAL_QUEUES, "second", NS, spec={"clusterQueue": "second-queue"})
    for worker in on.world.workers.values():
        ensure(worker.store, LOCAL_QUEUES, "second", NS, spec={"clusterQueue": "cluster-queue"})


def submit_to_second(on: Stage, name: str) -> None:
    job = user_job(name)
    meta(job)["labels"]["kueue.x-k8s.io/queue-name"] = "second"
    job["spec"]["managedBy"] = SECOND
    on.manager.store.create(JOBS, job)


def written(on: Stage, log: str) -> int:
    ((count,),) = on.query("SELECT count(*) FROM controlplane.events WHERE log = %s", log)
    return int(count)


def streams_of(on: Stage, log: str) -> set[str]:
    return {str(one) for (one,) in on.query("SELECT DISTINCT stream FROM controlplane.events WHERE log = %s", log)}


def workload_of(on: Stage, job: str) -> str:
    found = on.workload(name=job)
    assert found is not None
    return f"workload/{NS}/{meta(found)['name']}"


def waits(replica: Replica) -> str:
    check = replica.health.checks.get("leader")
    return check.detail if check is not None and check.detail.startswith("waits: ") else ""


def lease(on: Stage) -> Json:
    found: Json = on.manager.store.get(LEASES, "kube-system", LEASE)["spec"]
    return found


async def test_each_has_its_own_queues_and_leaves_those_of_the_other_alone(stage: Make) -> None:
    on = await stage("a", "b", ports=BRIEF)
    queue_of_second(on)
    await on.up(wanted=of_second(controller_name=SECOND, origin="second"))
    names = [f"one-{n}" for n in range(3)] + [f"two-{n}" for n in range(3)]
    for name in names:
        on.submit(name) if name.startswith("one") else submit_to_second(on, name)
    for name in names:
        await on.running(name=name)
    await on.replica.stop()
    on._task = on.replicas[0].task
    for name in names[:3]:
        on.end(await on.running(name=name), name=name)
        await on.done(name)
    for name in names[3:]:
        await on.running(name=name)
        assert on.clones(name=name), "the copies of a service that stands still are not another one's to remove"
    await on.up(wanted=of_second(controller_name=SECOND, origin="second"))
    for name in names[3:]:
        on.end(await on.running(name=name), name=name)
        await on.done(name)
    chosen = on.query("SELECT log, count(*) FROM controlplane.events WHERE type = 'WinnerChosen' GROUP BY 1 ORDER BY 1")
    assert chosen == [("main", 3), ("second", 3)]
    assert all(len(on.witness.starts[name]) == 1 for name in names)


async def test_who_records_its_own_records_nothing_of_what_the_other_dispatches(stage: Make) -> None:
    own = of_second(controller_name=SECOND, origin="second", recorded_workloads="own")
    on = await stage("a", "b", ports=BRIEF)
    queue_of_second(on)
    second = await on.up(wanted=own)
    fleet = second.service.fleet
    assert fleet is not None
    await on.until(lambda: fleet.index.leads_to_us(NS, "user-queue") is False, "where the queues lead is known")
    on.submit("one")
    submit_to_second(on, "two")
    for name in ("one", "two"):
        on.end(await on.running(name=name), name=name)
        await on.done(name)
    found = on.query("SELECT DISTINCT stream FROM controlplane.events WHERE log = 'second' ORDER BY 1")
    streams = {str(stream) for (stream,) in found if stream.startswith(("workload/", "job/"))}
    assert streams == {f"job/jobs.batch/{NS}/two", workload_of(on, "two")}
    assert all(len(on.witness.starts[name]) == 1 for name in ("one", "two"))


async def test_what_was_not_recorded_is_listed_again_once_its_queue_leads_here(stage: Make) -> None:
    """A check is made anew under the second one's name while a pod waits for it, which has no `managedBy`."""
    both = ("batch/job", "pod")
    own = of_second(controller_name=SECOND, origin="second", recorded_workloads="own", kinds=both)
    on = await stage("a", "b", ports=BRIEF, settings=settings(kinds=both), pods=True)
    store = on.manager.store
    queue_of_second(on)
    check = store.get(ADMISSION_CHECKS, "", "second")["spec"]
    ensure(store, ADMISSION_CHECKS, "second", keep=False, spec={**check, "controllerName": "example.com/nobody"})
    second = await on.up(wanted=own)
    fleet = second.service.fleet
    assert fleet is not None
    await on.until(lambda: fleet.index.leads_to_us(NS, "second") is False, "where the queue leads is known")
    there, waiting = Pods(on), pod("train")
    meta(waiting)["labels"]["kueue.x-k8s.io/queue-name"] = "second"
    there.make(waiting)
    await on.until(lambda: there.workloads() and "admissionChecks" in str(there.workloads()), "the Workload waits")
    await on.until(lambda: "workload/" in str(streams_of(on, "main")), "the other one has recorded it")
    store.delete(ADMISSION_CHECKS, "", "second")
    await on.until(lambda: "second" not in fleet.index.checks, "the check is gone")
    assert "workload/" not in str(streams_of(on, "second"))
    assert "job/" not in str(streams_of(on, "second")), "nothing of it concerned this one"
    ensure(store, ADMISSION_CHECKS, "second", spec=check)
    await on.until(lambda: there.all("Succeeded") and there.finished() and not there.copies(), "its end is told")
    assert len(there.ran) == 1


async def test_one_with_another_log_waits_and_says_for_whom_and_takes_over_when_that_one_goes(stage: Make) -> None:
    """A rolling update with another database has both for a while."""
    on = await stage("a", "b", ports=BRIEF)
    first, second = on.replica, await on.up(wanted=of_second(), ready=False)
    told = str(await on.until(lambda: waits(second), "waiting"))
    assert f"Lease kube-system/{LEASE} is held by the log main/" in told
    assert "(process replica-1)" in told
    assert second.health.ready, "who waits does not keep the one before from being stopped"
    on.submit("train")
    where = await on.running()
    assert (first.leads, second.leads, written(on, "second")) == (True, False, 0)
    await first.stop()
    await on.until(lambda: second.leads and second.health.ready, "the other leads")
    await on.until(lambda: lease(on)["holderIdentity"].startswith("second/"), "the Lease is its own")
    on.end(where)
    await on.done()
    assert on.witness.starts["train"] == [where]


async def test_one_that_was_killed_is_waited_for_as_long_as_its_lease_lasts(stage: Make) -> None:
    on = await stage("a", ports=BRIEF)
    on.submit("train")
    where = await on.running()
    await on.kill()
    ensure(
        on.manager.store,
        LEASES,
        LEASE,
        "kube-system",
        keep=False,
        spec={**lease(on), "holderIdentity": "main/killed", "leaseDurationSeconds": 2},
    )
    second = await on.up(wanted=of_second(), ready=False)
    await on.until(lambda: waits(second), "waiting")
    await on.until(lambda: second.leads and second.health.ready, "the other leads")
    on.end(where)
    await on.done()
    assert on.witness.starts["train"] == [where]


async def test_a_replica_of_the_same_log_waits_for_no_lease(stage: Make) -> None:
    on = await stage("a", ports={"claim": 600.0})
    first, second = on.replica, await on.up(ready=False)
    await on.until(lambda: lease(on)["holderIdentity"].startswith("main/"), "the Lease is taken")
    await first.kill()
    await on.until(lambda: second.leads and second.health.ready, "the other leads")
    assert not waits(second)
    on.submit("train")
    on.end(await on.running())
    await on.done()


async def test_whose_lease_another_log_took_acts_no_more(stage: Make) -> None:
    on = await stage("a", ports=BRIEF)
    await on.until(lambda: lease(on)["holderIdentity"].startswith("main/"), "the Lease is taken")
    taken = {"holderIdentity": "other/log", "leaseDurationSeconds": 600, "renewTime": None}
    on.manager.store.patch(LEASES, "kube-system", LEASE, {"spec": taken})
    await on.until(lambda: waits(on.replica), "waiting")
    assert not on.replica.leads
    on.submit("train")
    await on.until(lambda: on.workload(), "the Workload")
    on.manager.store.patch(LEASES, "kube-system", LEASE, {"spec": {"holderIdentity": None}})
    where = await on.running()
    assert on.replica.leads
    assert len(on.said("ServiceStarted")) == 2
    on.end(where)
    await on.done()


async def test_who_cannot_renew_them_writes_nothing_until_it_can(
    stage: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another log may have taken them: who is cut off from the management cluster cannot see it."""
    on = await stage("a", ports=BRIEF, roomy=())
    await on.until(lambda: lease(on)["holderIdentity"].startswith("main/"), "the Lease is taken")
    on.submit("train")
    await on.until(lambda: on.clones(), "offered")
    on.manager.faults.cut()
    said: list[str] = []

    def over() -> bool:
        said.append(capsys.readouterr().out)
        return "so another log may act there" in "".join(said)

    await on.until(over, "the renewals are over")
    on.manager.faults.clear()
    on.make_room("a")
    where = await on.running()
    on.end(where)
    await on.done()
    assert on.witness.starts["train"] == [where]


async def test_where_leases_may_not_be_written_it_goes_on_without(
    stage: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    on = await stage("a", ports=BRIEF)
    await on.replica.stop()
    on.manager.faults.storm(403, resources=["leases.coordination.k8s.io"])
    await on.up()
    on.submit("train")
    on.end(await on.running())
    await on.done()
    assert "another one is not kept out" in capsys.readouterr().out
