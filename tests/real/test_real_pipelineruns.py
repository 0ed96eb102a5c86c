"""A PipelineRun between two real kube-apiservers with Kueue's and Tekton's own CRDs: judged, left out with its reason,
dispatched, relayed.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with the CRDs. No
controller runs there: the test plays the parts of both Kueues and of Tekton."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.controllers.coscheduling.objects import CLAIMS, CONFIG_MAPS
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request, meta
from controlplane.settings import KINDS
from controlplane.web.health import Health
from tests.real.pair import CHECK, NEEDED, Cluster, condition, connected, servers, serving, true, until, why_not

FILES = ("pipelineruns", "jobsets", *NEEDED)
WHY = why_not(FILES)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
NS, RUN, WL = "default", "build", "pipelinerun-build-abcde"
OURS = "kueue.x-k8s.io/multikueue"


@pytest.fixture(scope="module")
def kubeconfigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Json]]:
    with servers(tmp_path_factory.mktemp("pair"), FILES) as found:
        yield found


@pytest.fixture
async def clusters(kubeconfigs: dict[str, Json]) -> AsyncIterator[dict[str, Cluster]]:
    async with connected(kubeconfigs) as found:
        yield found


@pytest.fixture
async def service(clusters: dict[str, Cluster], database_url: str) -> AsyncIterator[Health]:
    async with serving(clusters, database_url, KINDS) as health:
        yield health


async def make(api: Transport, kind: Kind, name: str, namespace: str = "", **more: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **more}
    return await api.create(kind, namespace, body)


async def room(api: Transport, cpu: str) -> None:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "50"}, "capacity": {"cpu": cpu}}
    await api.write(Request("patch", ObjectRef(kinds.NODES, "", "n1"), {"status": status}, subresource="status"))


def run() -> Json:
    step = {"name": "s", "image": "busybox", "computeResources": {"requests": {"cpu": "2"}}}
    uses = [{"name": "src"}, {"name": "scratch"}]
    task = {"name": "one", "taskSpec": {"steps": [step]}, "workspaces": [{"name": "src", "workspace": "src"}]}
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    return {
        "managedBy": OURS,
        "status": "PipelineRunPending",
        "pipelineSpec": {"tasks": [task], "workspaces": uses},
        "workspaces": [
            {"name": "src", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "volumeClaimTemplate": claim},
        ],
    }


async def test_a_run_from_submission_to_clean_up(service: Health, clusters: dict[str, Cluster]) -> None:
    home, worker = clusters["management"].api, clusters["worker"].api

    async def seen(api: Transport, kind: Kind, name: str, test: Callable[[Json], Any]) -> Json:
        async def probe() -> Json | None:
            found = await api.get(kind, NS, name)
            return found if test(found) else None

        found: Json = await until(f"{kind.kind} {name} on {api.name}", probe, 40)
        return found

    # What the worker has: a node that is too small, the claim, a class, and Tekton's flags.
    await make(worker, kinds.NAMESPACES, "tekton-pipelines")
    await make(worker, CONFIG_MAPS, "feature-flags", "tekton-pipelines", data={"coschedule": "pipelineruns"})
    late = {"provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"}
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    await make(worker, kinds.STORAGE_CLASSES, "disk", metadata={"annotations": default}, **late)
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await make(worker, CLAIMS, "data", NS, spec=storage)
    await make(worker, kinds.NODES, "n1")
    await worker.write(Request("patch", ObjectRef(kinds.NODES, "", "n1"), {"spec": {"taints": None}}))
    await room(worker, "2")

    asks = {"controlplane/coschedule": "pipelineruns"}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    mine = await make(home, kinds.PIPELINE_RUNS, RUN, NS, metadata={"annotations": asks, "labels": labels}, spec=run())
    owner = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": RUN, "uid": meta(mine)["uid"]}
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "2050m"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    spec = {"queueName": "user-queue", "priority": 0, "podSets": [pods]}
    await make(home, kinds.WORKLOADS, WL, NS, metadata={"ownerReferences": [{**owner, "controller": True}]}, spec=spec)
    usage = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2050m"}}
    admission = {"clusterQueue": "cluster-queue", "podSetAssignments": [usage]}
    reserved: Json = {"admission": admission, "conditions": [condition("QuotaReserved", "QuotaReserved")]}
    pending = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {**reserved, "admissionChecks": [pending]}
    await home.write(Request("patch", ObjectRef(kinds.WORKLOADS, NS, WL), {"status": status}, subresource="status"))

    said = (
        "No cluster can take it: worker: no node has enough cpu: the largest wave of 1 task, with its placeholder, "
        "needs 2050m, and the most that a node has is 2"
    )
    waits = await seen(home, kinds.WORKLOADS, WL, lambda o: o["status"]["admissionChecks"][0].get("message") == said)
    assert "nominatedClusterNames" not in waits["status"]
    assert waits["status"]["admissionChecks"][0]["state"] == "Pending"
    await room(worker, "4")

    await seen(home, kinds.WORKLOADS, WL, lambda o: o["status"].get("nominatedClusterNames") == ["worker"])
    await seen(worker, kinds.WORKLOADS, WL, lambda o: True)
    conditions = [*reserved["conditions"], condition("Admitted", "Admitted")]
    admitted: Json = {"admission": admission, "conditions": conditions}
    await worker.write(Request("patch", ObjectRef(kinds.WORKLOADS, NS, WL), {"status": admitted}, subresource="status"))
    copy = await seen(worker, kinds.PIPELINE_RUNS, RUN, lambda o: True)
    assert copy["spec"]["status"] == "PipelineRunPending"
    assert "managedBy" not in copy["spec"]
    notes = {"controlplane/attempt": "1", "kueue.x-k8s.io/prebuilt-workload-name": WL, **asks}
    assert notes.items() <= meta(copy)["annotations"].items()
    await seen(home, kinds.WORKLOADS, WL, lambda o: o["status"].get("clusterName") == "worker")

    # Both frameworks let the run go; then Tekton says what happens.
    for api in (home, worker):
        await api.write(Request("patch", ObjectRef(kinds.PIPELINE_RUNS, NS, RUN), {"spec": {"status": None}}))
    begun = {"type": "Succeeded", "status": "Unknown", "reason": "Running"}
    started: Json = {"startTime": "2026-01-01T00:00:01Z", "conditions": [begun]}
    await worker.write(
        Request("patch", ObjectRef(kinds.PIPELINE_RUNS, NS, RUN), {"status": started}, subresource="status")
    )
    await seen(home, kinds.PIPELINE_RUNS, RUN, lambda o: o.get("status", {}).get("startTime") == started["startTime"])
    ended = {"completionTime": "2026-01-01T00:01:00Z", "conditions": [condition("Succeeded", "Succeeded")]}
    await worker.write(
        Request("patch", ObjectRef(kinds.PIPELINE_RUNS, NS, RUN), {"status": ended}, subresource="status")
    )
    finished = {"conditions": [*conditions, condition("Finished", "Succeeded", "all tasks have run")]}
    await worker.write(Request("patch", ObjectRef(kinds.WORKLOADS, NS, WL), {"status": finished}, subresource="status"))
    done = await seen(home, kinds.WORKLOADS, WL, lambda o: true(o, "Finished"))
    assert (true(done, "Finished") or {})["message"] == "all tasks have run"
    assert true(await home.get(kinds.PIPELINE_RUNS, NS, RUN), "Succeeded")

    async def clean() -> bool:
        return not [
            *(await worker.list(ListQuery(kinds.WORKLOADS))).items,
            *(await worker.list(ListQuery(kinds.PIPELINE_RUNS))).items,
        ]

    await until("nothing left on the worker", clean)
    assert said in [event.get("note") for event in (await home.list(ListQuery(kinds.EVENTS))).items]
    assert service.ready
