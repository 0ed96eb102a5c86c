"""Quota is reserved by the whole service, on a management cluster where no Kueue is: a Workload is admitted, dispatched
and ends; the process is killed on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from controlplane.kube.kinds import CLUSTER_QUEUES, EVENTS, JOBS, LEASES, LOCAL_QUEUES, Json
from controlplane.settings import Settings
from tests.outages.stage import NS, Stage, check_of, condition, settings

Make = Callable[..., Awaitable[Stage]]


def builtin() -> Settings:
    found = settings(lost=3600)  # nobody is there who would release what a lost worker evicts
    return msgspec.structs.replace(found, quota=msgspec.structs.replace(found.quota, mode="builtin"))


async def without_kueue(stage: Make, *workers: str) -> Stage:
    return await stage(*workers, settings=builtin(), manager_is={"kueue": False})


def submit(on: Stage, name: str = "train", cpu: str = "1") -> None:
    """Submit a job, of which the service makes a Workload."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"namespace": NS, "name": name, "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    spec = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "parallelism": 1, "template": template}
    on.manager.store.create(JOBS, {"metadata": metadata, "spec": spec}, field_manager="user")


def queue(on: Stage) -> Json:
    found: Json = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue").get("status", {})
    return found


def balance(on: Stage) -> dict[str, int]:
    """What the ledger says that each Workload has."""
    rows = on.query("SELECT name, sum(amount)::int FROM audit.quota_ledger GROUP BY 1")
    return {name: amount for name, amount in rows if amount}


async def test_a_workload_is_admitted_dispatched_and_gives_its_quota_back(stage: Make) -> None:
    on = await without_kueue(stage, "a")
    await on.until(lambda: condition(on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue"), "Active"), "Active")
    submit(on)
    await on.running("a")
    workload = on.workload()
    assert workload is not None
    assert check_of(workload)["state"] == "Ready"
    await on.until(lambda: queue(on).get("admittedWorkloads") == 1, "one is admitted")

    def counted() -> bool:
        local = on.manager.store.get(LOCAL_QUEUES, NS, "user-queue")["status"]
        return (local["admittedWorkloads"], local["pendingWorkloads"]) == (1, 0)

    await on.until(counted, "the LocalQueue counts it")
    on.end("a")
    await on.until(lambda: on.finished(), "finished")
    await on.until(lambda: queue(on).get("reservingWorkloads") == 0, "the quota is back")
    await on.until(lambda: balance(on) == {}, "the ledger adds up to nothing")
    told = {one["reason"] for one in on.manager.store.list(EVENTS)[0] if one["regarding"]["kind"] == "Workload"}
    assert {"QuotaReserved", "Admitted"} <= told


@pytest.mark.deep
async def test_a_process_that_is_killed_again_and_again_reserves_once(stage: Make) -> None:
    """Between what is decided and what is written; whoever takes over goes on with what was decided."""
    on = await without_kueue(stage, "a")
    room = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    room["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "2"
    on.manager.store.update(CLUSTER_QUEUES, room)
    names = [f"job{number}" for number in range(4)]
    for name in names:
        submit(on, name)
        await on.kill()
        await on.up()
    await on.until(lambda: queue(on).get("admittedWorkloads") == 2, "two have room")
    await on.until(lambda: queue(on).get("pendingWorkloads") == 2, "two wait")
    assert sorted(balance(on).values()) == [1000, 1000]
    done: list[str] = []
    while len(done) < len(names):
        running = await on.until(
            lambda: [name for name in names if name not in done and on.running_on(name=name)], "somebody runs"
        )
        on.end("a", name=running[0])
        await on.kill()
        await on.up()
        await on.until(lambda name=running[0]: on.finished(name=name), "finished")
        done.append(running[0])
    await on.until(lambda: balance(on) == {}, "the ledger adds up to nothing")
    decided = on.said("QuotaReservationDecided")
    overtaken = on.said("QuotaPosted", reason="ReservationOvertaken")
    assert len(decided) - len(overtaken) == len(names), "each got its quota once"
    kept = "SELECT FROM controlplane.snapshots WHERE part = 'admission'"
    await on.until(lambda: on.query(kept), "a snapshot has what was folded of admission")


def _patches(on: Stage) -> int:
    """How many patches there were on the management cluster, but for the Leases that say which log acts there."""
    return on.count("management", "patch") - on.count("management", "patch", LEASES)


async def test_while_nothing_happens_nothing_is_written(stage: Make) -> None:
    on = await without_kueue(stage, "a")
    submit(on, "big", cpu="1000")
    submit(on)
    await on.running("a")
    await on.until(lambda: queue(on).get("pendingWorkloads") == 1, "one waits")
    await on.quiet(2.5)
    before, asked = on.position, _patches(on)
    await on.quiet(2.5)
    assert (on.position, _patches(on)) == (before, asked)
    on.end("a")
    await on.until(lambda: on.finished(), "finished")
