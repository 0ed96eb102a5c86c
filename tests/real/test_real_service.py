"""The service between two real kube-apiservers with Kueue's own CRDs: what we write passes their schemas, CEL rules and
validation.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's and
JobSet's CRDs. No controller runs there: the test plays Kueue's part by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request
from controlplane.web.health import Health
from tests.real.pair import CHECK, NEEDED, WHY, Cluster, condition, connected, servers, serving, true, until

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)

JOB, WL = "train", "job-train-abcde"


TEMPLATE = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
    }
}


def job() -> Json:
    return {
        "metadata": {"name": JOB, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "template": TEMPLATE},
    }


def workload(owner: Json) -> Json:
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": JOB,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {
        "metadata": {
            "name": WL,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/job-uid": owner["metadata"]["uid"]},
            "ownerReferences": [reference],
        },
        "spec": {
            "queueName": "user-queue",
            "priority": 0,
            "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}],
        },
    }


ADMISSION = {
    "clusterQueue": "cluster-queue",
    "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}],
}


@pytest.fixture(scope="module")
def kubeconfigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Json]]:
    with servers(tmp_path_factory.mktemp("pair"), NEEDED) as found:
        yield found


@pytest.fixture
async def clusters(kubeconfigs: dict[str, Json]) -> AsyncIterator[dict[str, Cluster]]:
    async with connected(kubeconfigs) as found:
        yield found


@pytest.fixture
async def service(clusters: dict[str, Cluster], database_url: str) -> AsyncIterator[Health]:
    async with serving(clusters, database_url) as health:
        yield health


async def test_a_job_from_submission_to_clean_up(service: Health, clusters: dict[str, Cluster]) -> None:
    home, worker = clusters["management"].api, clusters["worker"].api

    async def seen(
        api: Transport, kind: Kind, name: str, test: Callable[[Json], Any], namespace: str = "default"
    ) -> Json:
        async def probe() -> Json | None:
            found = await api.get(kind, namespace, name)
            return found if test(found) else None

        found: Json = await until(f"{kind.kind} {name} on {api.name}", probe)
        return found

    active = await seen(home, kinds.MULTIKUEUE_CLUSTERS, "worker", lambda o: true(o, "Active"), "")
    assert true(active, "Active")["message"] == "Connected"
    checked = await seen(home, kinds.ADMISSION_CHECKS, CHECK, lambda o: true(o, "Active"), "")
    assert true(checked, "Active")["reason"] == "Active"

    mine = await home.create(kinds.JOBS, "default", {"apiVersion": "batch/v1", "kind": "Job", **job()})
    body = {"apiVersion": kinds.WORKLOADS.api_version, "kind": "Workload", **workload(mine)}
    await home.create(kinds.WORKLOADS, "default", body)
    pending = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    reserved = {
        "admission": ADMISSION,
        "conditions": [condition("QuotaReserved", "QuotaReserved")],
        "admissionChecks": [pending],
    }
    await home.write(
        Request("patch", ObjectRef(kinds.WORKLOADS, "default", WL), {"status": reserved}, subresource="status")
    )

    await seen(home, kinds.WORKLOADS, WL, lambda o: o["status"].get("nominatedClusterNames") == ["worker"])
    clone = await seen(worker, kinds.WORKLOADS, WL, lambda o: True)
    assert clone["metadata"]["labels"] == {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    assert "ownerReferences" not in clone["metadata"]
    admitted = {
        "admission": ADMISSION,
        "conditions": [condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted")],
    }
    await worker.write(
        Request("patch", ObjectRef(kinds.WORKLOADS, "default", WL), {"status": admitted}, subresource="status")
    )

    copy = await seen(worker, kinds.JOBS, JOB, lambda o: True)
    assert copy["spec"]["suspend"] is True
    assert "managedBy" not in copy["spec"]
    assert copy["metadata"]["annotations"]["kueue.x-k8s.io/prebuilt-workload-name"] == WL
    ready = await seen(home, kinds.WORKLOADS, WL, lambda o: o["status"].get("clusterName") == "worker")
    assert ready["status"]["admissionChecks"][0]["state"] == "Ready"
    assert ready["status"]["admissionChecks"][0]["message"] == 'The workload was admitted on "worker"'
    assert "nominatedClusterNames" not in ready["status"]

    # Both Kueues let the job run; then the worker's job controller says what happens.
    await home.write(Request("patch", ObjectRef(kinds.JOBS, "default", JOB), {"spec": {"suspend": False}}))
    await worker.write(Request("patch", ObjectRef(kinds.JOBS, "default", JOB), {"spec": {"suspend": False}}))
    started = {"startTime": "2026-01-01T00:00:01Z", "active": 1, "ready": 1}
    await worker.write(
        Request("patch", ObjectRef(kinds.JOBS, "default", JOB), {"status": started}, subresource="status")
    )
    running = await seen(home, kinds.JOBS, JOB, lambda o: o.get("status", {}).get("active") == 1)
    assert running["status"]["startTime"] == started["startTime"]

    succeeded = {
        "active": None,
        "ready": 0,
        "succeeded": 1,
        "uncountedTerminatedPods": {},
        "completionTime": "2026-01-01T00:01:00Z",
        "conditions": [
            condition("SuccessCriteriaMet", "CompletionsReached"),
            condition("Complete", "CompletionsReached"),
        ],
    }
    await worker.write(
        Request("patch", ObjectRef(kinds.JOBS, "default", JOB), {"status": succeeded}, subresource="status")
    )
    finished = {
        "conditions": [*admitted["conditions"], condition("Finished", "Succeeded", "Job finished successfully")]
    }
    await worker.write(
        Request("patch", ObjectRef(kinds.WORKLOADS, "default", WL), {"status": finished}, subresource="status")
    )

    done = await seen(home, kinds.WORKLOADS, WL, lambda o: true(o, "Finished"))
    assert true(done, "Finished")["message"] == "Job finished successfully"
    mirrored = await home.get(kinds.JOBS, "default", JOB)
    assert mirrored["status"]["succeeded"] == 1
    assert "active" not in mirrored["status"]
    assert true(mirrored, "Complete")

    async def clean() -> bool:
        left = [
            *(await worker.list(ListQuery(kinds.WORKLOADS))).items,
            *(await worker.list(ListQuery(kinds.JOBS))).items,
        ]
        return not left

    await until("nothing left on the worker", clean)
    notes = [event.get("note") for event in (await home.list(ListQuery(kinds.EVENTS))).items]
    assert 'The workload was admitted on "worker"' in notes
    assert service.ready


async def test_a_copy_of_a_job_that_chose_its_selector_is_taken(clusters: dict[str, Cluster]) -> None:
    home, worker, kind = clusters["management"].api, clusters["worker"].api, JOB_KINDS["batch/job"]
    chosen = {**job(), "metadata": {"name": "chosen", "namespace": "default"}}
    template = {**TEMPLATE, "metadata": {"labels": {"run": "mine", "controller-uid": "mine"}}}
    chosen["spec"] |= {"manualSelector": True, "selector": {"matchLabels": {"run": "mine"}}, "template": template}
    mine = await home.create(kinds.JOBS, "default", {"apiVersion": "batch/v1", "kind": "Job", **chosen})
    copy = kind.clone({"spec": mine["spec"]}, "default", "chosen", WL, "multikueue")
    taken = await worker.create(kinds.JOBS, "default", copy)
    assert taken["spec"]["selector"] == {"matchLabels": {"run": "mine"}}
    assert taken["spec"]["template"]["metadata"]["labels"]["run"] == "mine"
