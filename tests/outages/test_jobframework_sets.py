"""Sets of pods, TrainJobs, SparkApplications and jobs without a queue by the whole service, on a management cluster
where no Kueue is; the process is killed on the way. The test is in the place of the sets' own controllers, and makes
their pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBS, PODS, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import QUEUE_LABEL
from controlplane.settings import Settings
from controlplane.simulation.kinds.base import DEFAULT_KINDS, served
from tests.job_kinds.rows import ROWS, RUNTIME
from tests.jobframework import set_scene
from tests.outages.stage import NS, Stage, settings
from tests.outages.test_jobframework import Make, own, own_queue, suspended
from tests.support.deep import deep_after

STATEFUL_SET, GROUPS = set_scene.STATEFUL_SET, set_scene.GROUPS
TRAIN, SPARK = JOB_KINDS["trainer.kubeflow.org/trainjob"], JOB_KINDS["sparkoperator.k8s.io/sparkapplication"]
sets = pytest.mark.parametrize("kind", deep_after(1, [STATEFUL_SET, GROUPS], ids=["StatefulSet", "LeaderWorkerSet"]))


def builtin(*kinds: JobKind) -> Settings:
    found = settings(kinds=("batch/job", *(one.integration for one in kinds)))
    return msgspec.structs.replace(found, quota=msgspec.structs.replace(found.quota, mode="builtin"))


async def without_kueue(stage: Make, *kinds: JobKind, cpu: str) -> Stage:
    served_ = (*DEFAULT_KINDS, *(served(one) for one in (STATEFUL_SET, GROUPS)))
    on = await stage(settings=builtin(*kinds), manager_is={"kueue": False}, kinds=served_, pods=True)
    own_queue(on, cpu=cpu)
    return on


def make_set(on: Stage, kind: JobKind, **spec: Any) -> Json:
    made: Json = on.manager.store.create(kind.kind, set_scene.made(kind, queue="own", **spec), field_manager="user")
    return made


def make_pods(on: Stage, kind: JobKind, owner: Json) -> list[str]:
    names = []
    for number in range(2 if kind is STATEFUL_SET else 3):
        pod = set_scene.pod_of(owner, kind, 0, number)
        names.append(meta(pod)["name"])
        meta(pod)["annotations"]["simulation.controlplane/duration"] = "1h"
        on.manager.store.create(PODS, pod, field_manager="its controller")
    return names


def run(on: Stage, names: list[str]) -> bool:
    """Whether all these pods run; the kubelet of the stage starts none that is gated."""
    pods = {meta(one)["name"]: one for one in on.manager.store.list(PODS)[0]}
    return all(name in pods and (pods[name].get("status") or {}).get("phase") == "Running" for name in names)


def workloads(on: Stage, kind: JobKind) -> list[Json]:
    owned = (
        one
        for one in on.manager.store.list(WORKLOADS)[0]
        if any(owner["kind"] == kind.kind.kind for owner in meta(one).get("ownerReferences") or ())
    )
    return sorted(owned, key=lambda one: str(meta(one)["name"]))


@sets
async def test_the_pods_of_a_set_run_by_the_quota_of_their_group_through_kills(stage: Make, kind: JobKind) -> None:
    on = await without_kueue(stage, kind, cpu="4")
    replicas = {} if kind is STATEFUL_SET else {"replicas": 1}
    owner = make_set(on, kind, **replicas)
    await on.kill()
    await on.up()
    await on.until(lambda: workloads(on, kind), "its Workload")
    (workload,) = workloads(on, kind)
    names = make_pods(on, kind, owner)
    await on.kill()
    await on.up()
    await on.until(lambda: run(on, names), "its pods run")
    uids = {meta(on.manager.store.get(PODS, NS, name))["uid"] for name in names}
    await on.kill()
    await on.up()
    own(on, "beside", parallelism=4, completions=4)
    await on.until(lambda: on.workload(name="beside"), "another waits")
    assert suspended(on, "beside"), "there is no quota for both"
    assert {meta(on.manager.store.get(PODS, NS, name))["uid"] for name in names} == uids, "none was made anew"
    assert [meta(one)["uid"] for one in workloads(on, kind)] == [meta(workload)["uid"]], "none was made twice"
    on.manager.store.delete(kind.kind, NS, meta(owner)["name"])
    await on.until(lambda: not workloads(on, kind), "its Workload is gone, as its pods are")
    await on.until(lambda: not suspended(on, "beside"), "the other has its turn")


async def test_a_stateful_set_of_no_pods_leaves_its_quota_to_others_until_it_has_some(stage: Make) -> None:
    on = await without_kueue(stage, STATEFUL_SET, cpu="2")
    owner = make_set(on, STATEFUL_SET)
    names = make_pods(on, STATEFUL_SET, owner)
    await on.until(lambda: run(on, names), "its pods run")
    on.manager.store.patch(STATEFUL_SET.kind, NS, set_scene.NAME, {"spec": {"replicas": 0}}, field_manager="user")
    for name in names:
        on.manager.store.delete(PODS, NS, name, grace=0)

    def held() -> bool:
        found = condition(workloads(on, STATEFUL_SET)[0], "QuotaReserved")
        return found is not None and found["reason"] == "OnHold"

    await on.until(held, "its Workload is on hold")
    own(on, "beside", parallelism=2, completions=2)
    await on.until(lambda: on.workload(name="beside") and not suspended(on, "beside"), "the other runs")
    await on.kill()
    await on.up()
    assert held()
    on.manager.store.patch(STATEFUL_SET.kind, NS, set_scene.NAME, {"spec": {"replicas": 2}}, field_manager="user")
    await on.until(lambda: not held(), "it waits again")
    assert not is_true(workloads(on, STATEFUL_SET)[0], "QuotaReserved"), "there is no quota for both"


def make_job(on: Stage, kind: JobKind) -> None:
    labels = {QUEUE_LABEL: "own"}
    spec = kind.submitted(ROWS[kind.integration].job())["spec"]
    on.manager.store.create(
        kind.kind,
        {"metadata": {"namespace": NS, "name": "train", "labels": labels}, "spec": spec},
        field_manager="user",
    )


def started(on: Stage, kind: JobKind) -> bool:
    return not kind.suspended(on.manager.store.get(kind.kind, NS, "train"))


@pytest.mark.deep
async def test_a_train_job_waits_for_its_runtime_and_runs_through_kills(stage: Make) -> None:
    on = await without_kueue(stage, TRAIN, cpu="3")
    make_job(on, TRAIN)
    await on.kill()
    await on.up()
    on.manager.store.create(TRAIN.runtimes[0], {"metadata": {"name": "plain"}, "spec": RUNTIME}, field_manager="admin")
    await on.kill()
    await on.up()
    await on.until(lambda: started(on, TRAIN), "it runs")
    (workload,) = workloads(on, TRAIN)
    assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [("node", 3)]
    patches = on.manager.store.get(TRAIN.kind, NS, "train")["spec"]["runtimePatches"]
    (own_,) = [one for one in patches if one["manager"] == "kueue.x-k8s.io/manager"]
    (job,) = own_["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}
    done = {"type": "Complete", "status": "True", "reason": "Done", "message": "it is done"}
    status = {"status": {"conditions": [done], "jobsStatus": []}}
    on.manager.store.patch(TRAIN.kind, NS, "train", status, subresource="status", field_manager="trainer")
    await on.kill()
    await on.up()
    await on.until(lambda: is_true(workloads(on, TRAIN)[0], "Finished"), "it is finished")
    assert len(workloads(on, TRAIN)) == 1


async def test_a_spark_application_runs_with_what_it_was_admitted_with_and_ends(stage: Make) -> None:
    on = await without_kueue(stage, SPARK, cpu="3")
    make_job(on, SPARK)
    await on.kill()
    await on.up()
    await on.until(lambda: started(on, SPARK), "it runs")
    spec = on.manager.store.get(SPARK.kind, NS, "train")["spec"]
    assert {spec[role]["nodeSelector"]["pool"] for role in ("driver", "executor")} == {"spot"}
    status = {"status": {"applicationState": {"state": "COMPLETED", "errorMessage": ""}}}
    on.manager.store.patch(SPARK.kind, NS, "train", status, subresource="status", field_manager="spark-operator")
    await on.until(lambda: is_true(workloads(on, SPARK)[0], "Finished"), "it is finished")


@pytest.mark.deep
async def test_jobs_that_name_no_queue_wait_until_they_name_one_through_kills(stage: Make) -> None:
    wanted = builtin()
    quota = msgspec.structs.replace(wanted.quota, manage_jobs_without_queue_name="yes")
    on = await stage(settings=msgspec.structs.replace(wanted, quota=quota), manager_is={"kueue": False})
    own_queue(on, cpu="1")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec: Json = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}, "parallelism": 1}
    for namespace, name in ((NS, "free"), ("kube-system", "theirs")):
        body = {"metadata": {"namespace": namespace, "name": name}, "spec": spec}
        on.manager.store.create(JOBS, body, field_manager="user")
    await on.kill()
    await on.up()
    await on.until(lambda: on.workload(name="free") and suspended(on, "free"), "it waits, with a Workload")
    await on.kill()
    await on.up()
    labels = {"metadata": {"labels": {QUEUE_LABEL: "own"}}}
    on.manager.store.patch(JOBS, NS, "free", labels, field_manager="user")
    await on.until(lambda: not suspended(on, "free"), "it runs by the quota of its queue")
    assert on.manager.store.get(JOBS, "kube-system", "theirs")["spec"].get("suspend") is not True
    assert len(on.manager.store.list(WORKLOADS)[0]) == 1
