"""Jobs are run by the whole service, on a management cluster where no Kueue is: a job gets its Workload, is dispatched
to a worker, and ends; the process is killed on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import CLUSTER_QUEUES, EVENTS, JOBS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, Json, meta
from controlplane.settings import Settings
from tests.outages.stage import NS, Stage, settings

Make = Callable[..., Awaitable[Stage]]


def builtin() -> Settings:
    found = settings()
    return msgspec.structs.replace(found, quota=msgspec.structs.replace(found.quota, mode="builtin"))


async def without_kueue(stage: Make, *workers: str, **more: Any) -> Stage:
    return await stage(*workers, settings=builtin(), manager_is={"kueue": False}, **more)


def told(on: Stage, name: str) -> list[str]:
    """The reasons of the Kubernetes Events on a job."""
    found = [one for one in on.manager.store.list(EVENTS)[0] if one["regarding"]["kind"] == "Job"]
    return sorted(one["reason"] for one in found if one["regarding"]["name"] == name)


def own(on: Stage, name: str, **spec: Any) -> None:
    """Submit a job that is to run on the management cluster: its queue has no check of MultiKueue."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    body: Json = {
        "metadata": {"namespace": NS, "name": name, "labels": {"kueue.x-k8s.io/queue-name": "own"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}, "parallelism": 1, **spec},
    }
    on.manager.store.create(JOBS, body, field_manager="user")


def own_queue(on: Stage, cpu: str = "2") -> None:
    store = on.manager.store
    store.create(RESOURCE_FLAVORS, {"metadata": {"name": "spot"}, "spec": {"nodeLabels": {"pool": "spot"}}})
    flavor = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    preemption = {"withinClusterQueue": "LowerPriority"}
    spec = {"resourceGroups": groups, "namespaceSelector": {}, "preemption": preemption}
    store.create(CLUSTER_QUEUES, {"metadata": {"name": "own"}, "spec": spec})
    store.create(LOCAL_QUEUES, {"metadata": {"namespace": NS, "name": "own"}, "spec": {"clusterQueue": "own"}})


def end(on: Stage, name: str) -> None:
    """Let a job of the management cluster end."""
    done = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "done"}
    status = {"status": {"conditions": [done], "active": 0, "succeeded": 1}}
    on.manager.store.patch(JOBS, NS, name, status, subresource="status", field_manager="kube-controller-manager")


def waits(on: Stage, name: str) -> bool:
    """Whether it was said of a job's Workload that there is no quota for it."""
    found = on.workload(name=name) or {"status": {}}
    conditions = found.get("status", {}).get("conditions", ())
    return any(one["type"] == "QuotaReserved" and one["status"] == "False" for one in conditions)


def suspended(on: Stage, name: str) -> bool:
    job = on.job(name=name)
    return job is None or job["spec"].get("suspend") is True


async def test_a_job_gets_its_workload_is_dispatched_and_ends(stage: Make) -> None:
    on = await without_kueue(stage, "a", "b", roomy=("b",))
    on.submit()
    assert await on.running() == "b"
    await on.until(lambda: not suspended(on, "train"), "its Workload is admitted, so the job is started here too")
    job = on.job()
    assert job is not None
    assert job["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    on.end("b")
    finished = await on.until(lambda: on.finished(), "finished")
    assert finished["reason"] == "Succeeded"
    await on.until(lambda: "finalizers" not in meta(on.workload() or {"metadata": {"finalizers": []}}), "let go")
    assert told(on, "train").count("CreatedWorkload") == told(on, "train").count("Started") == 1


async def test_a_worker_that_is_lost_costs_the_job_its_place_and_nothing_else(stage: Make) -> None:
    on = await without_kueue(stage, "a", "b", roomy=("a",))
    on.submit()
    assert await on.running() == "a"
    on.make_room("b")
    on.cut("a")
    await on.until(lambda: on.running_on() == "b", "it runs on the other")
    on.end("b")
    await on.until(lambda: on.finished(), "finished")


async def test_jobs_of_the_management_cluster_itself_run_wait_and_follow(stage: Make) -> None:
    on = await without_kueue(stage)
    own_queue(on, cpu="1")
    own(on, "first")
    await on.until(lambda: told(on, "first").count("Started"), "the first is started")
    job = on.job(name="first")
    assert job is not None
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}
    own(on, "second", suspend=True)
    await on.until(lambda: waits(on, "second"), "the second waits")
    assert suspended(on, "second")
    end(on, "first")
    await on.until(lambda: not suspended(on, "second"), "the second has its turn")
    end(on, "second")
    await on.until(lambda: on.finished(name="second"), "finished")


@pytest.mark.deep
async def test_a_process_that_is_killed_again_and_again_makes_each_workload_once(stage: Make) -> None:
    on = await without_kueue(stage)
    own_queue(on)
    names = [f"job{number}" for number in range(6)]
    for name in names:
        own(on, name)
        await on.kill()
        await on.up()
    done: list[str] = []
    while len(done) < len(names):
        running = await on.until(
            lambda: [name for name in names if name not in done and admitted(on, name) and not suspended(on, name)],
            "somebody runs",
        )
        assert len(running) <= 2, "no more than there is quota for"
        end(on, running[0])
        await on.kill()
        await on.up()
        await on.until(lambda name=running[0]: on.finished(name=name), "finished")
        done.append(running[0])
    for name in names:
        assert told(on, name).count("CreatedWorkload") <= 1
    owners = [meta(one)["ownerReferences"][0]["name"] for one in on.manager.store.list(WORKLOADS)[0]]
    assert sorted(owners) == names


def admitted(on: Stage, name: str) -> bool:
    found = on.workload(name=name)
    return found is not None and is_true(found, "Admitted")


async def test_while_nothing_happens_nothing_is_written(stage: Make) -> None:
    on = await without_kueue(stage)
    own_queue(on, cpu="1")
    own(on, "runs")
    await on.until(lambda: not suspended(on, "runs") and admitted(on, "runs"), "one runs")
    own(on, "waits", suspend=True)
    await on.until(lambda: waits(on, "waits"), "one waits")
    await on.quiet(2.5)
    before, asked = on.position, on.count("management", "patch")
    await on.quiet(2.5)
    assert (on.position, on.count("management", "patch")) == (before, asked)
