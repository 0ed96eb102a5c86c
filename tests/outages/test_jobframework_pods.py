"""Pods and groups of pods as jobs by the whole service, on a management cluster where no Kueue is: they run there or on
a worker, by the quota of the service itself, and the process is killed on the way."""

from __future__ import annotations

import msgspec
import pytest

from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.pod import MANAGED, Pod
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import EVENTS, PODS, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import ADMISSION_GATE, QUEUE_LABEL
from controlplane.settings import Settings
from controlplane.simulation.kueue.pods import TOTAL
from tests.outages.stage import NS, Stage, settings
from tests.outages.test_jobframework import Make, own_queue
from tests.outages.test_pods import GANG, Pods, phase, pod


def builtin() -> Settings:
    found = settings(kinds=("batch/job", "pod"))
    return msgspec.structs.replace(found, quota=msgspec.structs.replace(found.quota, mode="builtin"))


async def without_kueue(stage: Make, *workers: str) -> tuple[Stage, Pods]:
    on = await stage(*workers, settings=builtin(), manager_is={"kueue": False}, pods=True)
    return on, Pods(on)


def own(name: str, *, group: int = 0, duration: str = "1h") -> Json:
    """A pod that is to run on the management cluster, as the webhook has it created."""
    made = pod(name, group=group, duration=duration, held=False)
    made["metadata"]["labels"][QUEUE_LABEL] = "own"
    return Pod().submitted(made)


def dispatched(name: str, *, group: int = 0, duration: str = "1s") -> Json:
    return Pod().submitted(pod(name, group=group, duration=duration))


def gated(one: Json) -> bool:
    """Whether Kueue's gate holds a pod."""
    return {"name": ADMISSION_GATE} in one["spec"].get("schedulingGates", ())


def told(on: Stage, name: str) -> list[str]:
    found = [one for one in on.manager.store.list(EVENTS)[0] if one["regarding"]["name"] == name]
    return sorted(one["reason"] for one in found)


async def test_pods_run_wait_and_end_on_the_management_cluster_itself(stage: Make) -> None:
    on, there = await without_kueue(stage)
    own_queue(on, cpu="1")
    there.make(own("first", duration="2s"), own("second", duration="1s"))
    await on.until(lambda: any(phase(one) == "Running" for one in there.local().values()), "one runs")
    assert sum("schedulingGates" in one["spec"] for one in there.local().values()) == 1, "there is quota for one"
    await on.until(lambda: there.all("Succeeded") and there.finished(), "both have ended")
    await on.until(lambda: all("finalizers" not in meta(one) for one in there.local().values()), "both are let go")
    assert all(one["spec"]["nodeSelector"] == {"pool": "spot"} for one in there.local().values())
    assert [told(on, name).count("Started") for name in ("first", "second")] == [1, 1]


async def test_a_pod_and_a_group_are_dispatched_and_their_end_comes_back(stage: Make) -> None:
    on, there = await without_kueue(stage, "a", "b")
    there.make(dispatched("alone"), *(dispatched(f"p-{number}", group=3) for number in range(3)))
    await on.until(lambda: there.copies() is not None and len(there.ran) == 4, "each to have run")
    assert all({"name": HELD} in one["spec"]["schedulingGates"] for one in there.local().values()), "none runs here"
    await on.until(lambda: there.all("Succeeded") and there.finished(), "all to have ended")
    await on.until(lambda: not there.copies() and on.left() == [], "nothing left on the workers")
    assert len(there.workloads()) == 2
    assert len(there.ran) == 4, "each ran once"
    await on.until(lambda: all("finalizers" not in meta(one) for one in there.local().values()), "all are let go")


@pytest.mark.deep
async def test_a_process_that_is_killed_again_and_again_starts_and_deletes_each_pod_once(stage: Make) -> None:
    on, there = await without_kueue(stage)
    own_queue(on, cpu="4")
    names = ["alone", *(f"p-{number}" for number in range(3))]
    there.make(own("alone"))
    for number in range(3):
        there.make(own(f"p-{number}", group=3))
        await on.kill()
        await on.up()
    await on.until(lambda: there.all("Running"), "all run")
    uids = {meta(one)["uid"] for one in there.local().values()}
    for one in there.workloads():
        body = {"spec": {"active": False}}
        on.manager.store.patch(WORKLOADS, NS, meta(one)["name"], body, field_manager="user")
        await on.kill()
        await on.up()
    await on.until(lambda: all(_stopped(one) for one in there.local().values()), "all are stopped")
    await on.until(lambda: not any(is_true(one, "QuotaReserved") for one in there.workloads()), "the quota is back")
    assert {meta(one)["uid"] for one in there.local().values()} <= uids
    decided = [event["name"] for event in on.said("PodDeletionDecided")]
    assert sorted(decided) == sorted(names)
    assert sorted(event["name"] for event in on.said("PodStartDecided")) == sorted(names)


def _stopped(one: Json) -> bool:
    said = condition(one, "TerminationTarget")
    return said is not None and said["reason"] == "WorkloadEvictedDueToDeactivated"


async def test_a_pod_that_its_user_deletes_while_it_runs_gives_its_quota_back(stage: Make) -> None:
    on, there = await without_kueue(stage)
    own_queue(on, cpu="1")
    there.make(own("first"))
    await on.until(lambda: there.all("Running"), "it runs")
    there.make(own("second"))
    await on.until(lambda: len(there.workloads()) == 2, "another waits")
    on.manager.store.delete(PODS, NS, "first")
    await on.until(lambda: list(there.local()) == ["second"] and there.all("Running"), "the other has its turn")
    assert on.said("PodDeletionDecided") == []


async def test_while_nothing_happens_nothing_is_written(stage: Make) -> None:
    on, there = await without_kueue(stage)
    own_queue(on, cpu="1")
    there.make(own("runs"))
    await on.until(lambda: there.all("Running"), "one runs")
    there.make(*(own(f"p-{number}", group=2) for number in range(2)))
    await on.until(lambda: len(there.workloads()) == 2, "a group waits")
    await on.quiet(2.5)
    before, asked = on.position, on.count("management", "patch")
    await on.quiet(2.5)
    assert (on.position, on.count("management", "patch")) == (before, asked)
    assert meta(there.local()["p-0"])["annotations"][TOTAL] == "2"
    assert meta(there.local()["p-0"])["labels"][MANAGED] == "true"
    assert [meta(one)["name"] for one in there.workloads() if meta(one)["name"] == GANG]


async def test_dispatched_pods_that_are_stopped_leave_nothing_on_their_worker(stage: Make) -> None:
    on, there = await without_kueue(stage, "a")
    there.make(
        dispatched("alone", duration="1h"), *(dispatched(f"p-{number}", group=2, duration="1h") for number in range(2))
    )
    await on.until(lambda: there.all("Running"), "all to run")
    # A copy may run before its pod here is started: one that is still gated then is none that ran, and stays.
    await on.until(lambda: not any(map(gated, there.local().values())), "all to be started")
    for one in there.workloads():
        on.manager.store.patch(WORKLOADS, NS, meta(one)["name"], {"spec": {"active": False}}, field_manager="user")
    await on.until(lambda: not there.copies() and on.left() == [], "nothing left on the worker")
    await on.until(lambda: "alone" not in there.local(), "the single pod is gone here too")
    await on.until(
        lambda: all("deletionTimestamp" in meta(one) for one in there.local().values()),
        "those of the group wait for others in their place",
    )
    assert len(on.said("PodDeletionDecided")) == 3
    assert len(there.local()) == 2
    await on.until(lambda: not any(is_true(one, "QuotaReserved") for one in there.workloads()), "the quota is back")
