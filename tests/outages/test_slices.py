"""An elastic job grows and shrinks on a management cluster where no Kueue is, and on a worker, while the process is
killed: one slice has its quota, the ledger adds up, and the job runs on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS, Json, meta
from controlplane.kube.slices import ELASTIC_GATE, ELASTIC_JOB, REPLACEMENT_FOR, SLICE_NAME
from tests.outages.stage import NS, Stage, condition
from tests.outages.test_elastic import Elastic, train
from tests.outages.test_jobframework import Make, own_queue, suspended, without_kueue
from tests.support.deep import deep_after

DURATION = {"simulation.controlplane/duration": "1h"}


def submit(on: Stage, size: int = 2, name: str = "grows", **more: str) -> None:
    """Submit an elastic job that is to run on the management cluster."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels, notes = {"kueue.x-k8s.io/queue-name": "own"}, {ELASTIC_JOB: "true", **DURATION, **more}
    body: Json = {
        "metadata": {"namespace": NS, "name": name, "labels": labels, "annotations": notes},
        "spec": {"template": template, "parallelism": size, "completions": 100, "suspend": True},
    }
    on.manager.store.create(JOBS, body, field_manager="user")


def resize(on: Stage, size: int, name: str = "grows") -> None:
    on.manager.store.patch(JOBS, NS, name, {"spec": {"parallelism": size}}, field_manager="user")


def slices(on: Stage, name: str = "grows") -> list[Json]:
    found = on.manager.store.list(WORKLOADS)[0]
    mine = [one for one in found if meta(one).get("ownerReferences", [{}])[0].get("name") == name]
    return sorted(mine, key=lambda one: int(meta(one)["resourceVersion"]))


def has(on: Stage, size: int, name: str = "grows") -> bool:
    """Whether one slice of a job is left, is admitted for this size, and the job runs."""
    live = [one for one in slices(on, name) if not condition(one, "Finished")]
    if len(live) != 1 or not condition(live[0], "Admitted"):
        return False
    return live[0]["spec"]["podSets"][0]["count"] == size and not suspended(on, name)


def used(on: Stage) -> str:
    found = on.manager.store.get(CLUSTER_QUEUES, "", "own").get("status", {}).get("flavorsReservation") or []
    return next((one["total"] for flavor in found for one in flavor["resources"] if one["name"] == "cpu"), "0")


def ledger(on: Stage) -> dict[str, int]:
    """What the ledger says that each Workload of the ClusterQueue has, in thousandths of a cpu; of nobody less than
    nothing."""
    found: Counter[str] = Counter()
    rows = on.query(
        "SELECT stream, data FROM controlplane.events WHERE type IN ('QuotaReservationDecided', 'QuotaPosted') ORDER "
        "BY position"
    )
    for stream, data in rows:
        found[stream.rpartition("/")[2]] += data.get("amounts", {}).get("spot", {}).get("cpu", 0)
        assert found[stream.rpartition("/")[2]] >= 0
    return {name: amount for name, amount in found.items() if amount}


async def started(stage: Make, size: int = 2, cpu: str = "8", **more: Any) -> Stage:
    on = await without_kueue(stage, "a", **more)
    own_queue(on, cpu)
    submit(on, size)
    await on.until(lambda: has(on, size), "running")
    return on


async def test_it_grows_and_shrinks_and_never_stops(stage: Make) -> None:
    on = await started(stage)
    job = on.job(name="grows")
    assert job is not None
    assert job["spec"]["template"]["spec"]["schedulingGates"] == [{"name": ELASTIC_GATE}]
    resize(on, 5)
    await on.until(lambda: has(on, 5), "larger")
    first, second = sorted(slices(on), key=lambda one: REPLACEMENT_FOR in meta(one)["annotations"])
    assert meta(second)["annotations"][REPLACEMENT_FOR] == f"{NS}/{meta(first)['name']}"
    ended = next(one for one in first["status"]["conditions"] if one["type"] == "Finished")
    assert ended["reason"] == "WorkloadSliceReplaced"
    assert ended["message"].startswith(f"Replaced to accommodate a workload (UID: {meta(second)['uid']}, JobUID: ")
    assert ledger(on) == {meta(second)["name"]: 5000}
    resize(on, 1)
    await on.until(lambda: has(on, 1), "smaller")
    await on.until(lambda: ledger(on) == {meta(second)["name"]: 1000}, "what it needs no more is given back")
    await on.until(lambda: used(on) == "1", "the ClusterQueue says so")
    assert len(slices(on)) == 2
    assert on.said("JobStopDecided") == []
    on.manager.store.delete(JOBS, NS, "grows")
    await on.until(lambda: ledger(on) == {}, "all of it is given back")


async def test_without_quota_it_runs_on_as_it_is_and_grows_when_there_is_some(stage: Make) -> None:
    on = await started(stage, cpu="4")
    resize(on, 6)
    message = "insufficient unused quota for cpu in flavor spot, 2 more needed"

    def waits() -> bool:
        return any(message in one["message"] for one in on.said("WorkloadInadmissible"))

    await on.until(waits, "it waits for what it needs more")
    assert not suspended(on, "grows")
    assert ledger(on) == {name_of(on, 2): 2000}
    resize(on, 4)
    await on.until(lambda: has(on, 4), "as large as there is quota for")
    resize(on, 6)
    await on.until(lambda: len(slices(on)) == 3, "another slice")
    spec = on.manager.store.get(CLUSTER_QUEUES, "", "own")["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "6"
    on.manager.store.patch(CLUSTER_QUEUES, "", "own", {"spec": spec})
    await on.until(lambda: has(on, 6), "larger")
    assert sum(ledger(on).values()) == 6000
    assert on.said("JobStopDecided") == []


def name_of(on: Stage, size: int) -> str:
    (found,) = [one for one in slices(on) if one["spec"]["podSets"][0]["count"] == size]
    return str(meta(found)["name"])


@pytest.mark.parametrize(
    "after", deep_after(1, ["JobWorkloadCreationDecided", "QuotaReservationDecided", "WorkloadStatusDecided"])
)
async def test_a_process_that_is_killed_on_the_way_ends_one_slice_once(stage: Make, after: str) -> None:
    on = await started(stage)
    before = len(on.said(after))
    resize(on, 5)
    await on.until(lambda: len(on.said(after)) > before, "under way")
    await on.kill()
    await on.up()
    await on.until(lambda: has(on, 5), "larger")
    await on.until(lambda: ledger(on) == {name_of(on, 5): 5000}, "one has quota")
    assert len(slices(on)) == 2
    ends = [one for one in on.said("WorkloadStatusDecided") if one["reason"] == "WorkloadSliceReplaced"]
    assert len({one["resource_version"] for one in ends}) == len(ends) >= 1
    assert on.said("JobStopDecided") == []


@pytest.mark.deep
async def test_it_grows_while_no_process_is_there(stage: Make) -> None:
    on = await started(stage)
    await on.kill()
    resize(on, 7)
    await on.up()
    await on.until(lambda: has(on, 7), "larger")
    await on.until(lambda: ledger(on) == {name_of(on, 7): 7000}, "one has quota")


@pytest.mark.deep
async def test_its_pods_are_let_run_as_far_as_there_is_quota(stage: Make) -> None:
    on = await started(stage, cpu="3")
    first = name_of(on, 2)
    for number in range(4):
        pod(on, f"grows-{number}", first)
    await on.until(lambda: waiting(on) == ["grows-2", "grows-3"], "two run")
    await on.kill()
    on.manager.store.delete(PODS, NS, "grows-0", grace=0)
    await on.up()
    await on.until(lambda: waiting(on) == ["grows-3"], "another one in its place")
    resize(on, 3)
    await on.until(lambda: has(on, 3) and waiting(on) == [], "the larger slice has room for all")
    assert len(on.said("PodUngateDecided")) == 4
    assert on.said("AdmissionPodObserved") == []  # they count with their Workload


def pod(on: Stage, name: str, slice_name: str) -> None:
    """Make a pod of the job, as the Job controller makes it of the template."""
    notes = {"kueue.x-k8s.io/workload": slice_name, SLICE_NAME: slice_name}
    gates = [{"name": ELASTIC_GATE}]
    body: Json = {
        "metadata": {"namespace": NS, "name": name, "labels": {"kueue.x-k8s.io/podset": "main"}, "annotations": notes},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": gates},
    }
    on.manager.store.create(PODS, body, field_manager="kube-controller-manager")


def waiting(on: Stage) -> list[str]:
    pods = on.manager.store.list(PODS)[0]
    return sorted(meta(one)["name"] for one in pods if one["spec"].get("schedulingGates"))


async def test_one_that_runs_on_a_worker_grows_there(stage: Make) -> None:
    on = await without_kueue(stage, "a", "b")
    job = Elastic(on)
    on.manager.store.create(JOBS, train())
    first = await on.until(lambda: job.sized(1), "running")
    job.resize(3)
    assert await on.until(lambda: job.sized(3), "larger, where it was") == first
    await on.kill()
    job.resize(2)
    await on.up()
    assert await on.until(lambda: job.sized(2), "smaller") == first
    assert len(on.said("JobCreationDecided")) == 1
