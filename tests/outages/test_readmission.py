"""A cluster is lost with several jobs, and there is less quota afterwards: who gets it back first, by the whole
service, where it decides on quota itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES, meta
from tests.outages.stage import NS, Stage, condition
from tests.outages.test_jobframework import suspended, waits, without_kueue

Make = Callable[..., Awaitable[Stage]]


def submit(on: Stage, name: str, priority: str = "") -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    spec = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "parallelism": 1, "template": template}
    metadata = {"namespace": NS, "name": name, "labels": labels}
    on.manager.store.create(JOBS, {"metadata": metadata, "spec": spec}, field_manager="user")


def quota(on: Stage, cpu: str) -> None:
    queue = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu
    on.manager.store.update(CLUSTER_QUEUES, queue)


def given_again(on: Stage, since: int) -> list[str]:
    """The jobs that got quota since a position of the log, in that order."""
    rows = on.query(
        "SELECT stream FROM controlplane.events WHERE type = 'QuotaReservationDecided' AND position > %s ORDER BY "
        "position",
        since,
    )
    owners = {}
    for (stream,) in rows:
        workload = stream.rpartition("/")[2]
        owners.setdefault(workload.removeprefix("job-").rpartition("-")[0], None)
    return list(owners)


@pytest.mark.deep
async def test_by_priority_and_then_who_ran_for_the_longest(stage: Make) -> None:
    on = await without_kueue(stage, "a", "b", roomy=("a",))
    on.manager.store.create(
        WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100}, field_manager="user"
    )
    quota(on, "4")
    for name, priority in (("oldest", ""), ("older", ""), ("young", ""), ("urgent", "high")):
        submit(on, name, priority)
        await on.running("a", name)
        await on.until(lambda name=name: not suspended(on, name), f"{name} is admitted")
        await asyncio.sleep(2.1)  # how long something ran is counted in seconds
    submit(on, "new")
    await on.until(lambda: waits(on, "new"), "there is no quota for another one")
    quota(on, "2")
    on.make_room("b")
    since = on.position
    on.cut("a")
    assert await on.running("b", "urgent") == "b"
    assert await on.running("b", "oldest") == "b"
    assert given_again(on, since) == ["urgent", "oldest"]
    await on.until(lambda: waits(on, "older") and waits(on, "young"), "the others wait, and are told so")
    await on.kill()
    await on.up()
    on.end("b", name="urgent")
    assert await on.running("b", "older") == "b"
    on.end("b", name="oldest")
    assert await on.running("b", "young") == "b"
    on.end("b", name="older")
    assert await on.running("b", "new") == "b"
    assert given_again(on, since) == ["urgent", "oldest", "older", "young", "new"]
    workload = on.workload(name="new")
    assert workload is not None
    assert condition(workload, "Evicted") is None, meta(workload)["name"]
