"""A LeaderWorkerSet between two real kube-apiservers with Kueue's and LWS's own CRDs: its replicas go to one cluster,
with one copy, whose spec passes the schema with all that the API server fills in.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with the CRDs, that
of LeaderWorkerSets among them (kubernetes-sigs/lws config/crd/bases). No controller runs there: the test plays both
Kueues and LWS's own controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.leaderworkerset import LeaderWorkerSet, workload_name
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, ORIGIN_UID, QUEUE_LABEL
from controlplane.web.health import Health
from tests.real.pair import CHECK, NEEDED, Cluster, condition, connected, servers, serving, true, until, why_not

FILES = ("leaderworkersets", "jobsets", *NEEDED)
WHY = why_not(FILES)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
ADAPTER = LeaderWorkerSet()
KIND, NS, NAME = ADAPTER.kind, "default", "serve"


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
    async with serving(clusters, database_url, [ADAPTER.integration]) as health:
        yield health


def pods(image: str) -> Json:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], "schedulingGates": [{"name": HELD}]}}


def leader_worker_set() -> Json:
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": NAME, "namespace": NS, "labels": {QUEUE_LABEL: "user-queue"}},
        "spec": {
            "replicas": 2,
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"partition": 0, "maxUnavailable": 1, "maxSurge": "50%"},
            },
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            "leaderWorkerTemplate": {
                "size": 3,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {"metadata": {"labels": {"role": "leader"}}, **pods("leader:1")},
                "workerTemplate": pods("worker:1"),
            },
        },
    }


def workload(owner: Json, index: int) -> Json:
    uid = meta(owner)["uid"]
    reference = {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": NAME, "uid": uid}
    marks = {
        "kueue.x-k8s.io/job-owner-gvk": KIND.gvk,
        "kueue.x-k8s.io/job-owner-name": NAME,
        "kueue.x-k8s.io/component-workload-index": str(index),
    }
    return {
        "apiVersion": kinds.WORKLOADS.api_version,
        "kind": kinds.WORKLOADS.kind,
        "metadata": {
            "name": workload_name(KIND, NAME, uid, index),
            "namespace": NS,
            "annotations": marks,
            "ownerReferences": [reference],
        },
        "spec": {"queueName": "user-queue", "priority": 0, "podSets": ADAPTER.pod_sets(owner)},
    }


def admission(owner: Json) -> Json:
    assigned = [
        {
            "name": one["name"],
            "count": one["count"],
            "flavors": {"cpu": "default"},
            "resourceUsage": {"cpu": str(one["count"])},
        }
        for one in ADAPTER.pod_sets(owner)
    ]
    return {"clusterQueue": "cluster-queue", "podSetAssignments": assigned}


async def say(api: Transport, name: str, status: Json) -> None:
    """Kueue's core writes the status of a Workload."""
    await api.write(Request("patch", ObjectRef(kinds.WORKLOADS, NS, name), {"status": status}, subresource="status"))


async def test_both_replicas_go_to_one_cluster_with_one_copy(service: Health, clusters: dict[str, Cluster]) -> None:
    home, worker = clusters["management"].api, clusters["worker"].api

    async def seen(
        api: Transport, kind: Kind, name: str, test: Callable[[Json], Any] = bool, namespace: str = NS
    ) -> Json:
        async def probe() -> Json | None:
            found = await api.get(kind, namespace, name)
            return found if test(found) else None

        found: Json = await until(f"{kind.kind} {name} on {api.name}", probe, 40)
        return found

    await seen(home, kinds.MULTIKUEUE_CLUSTERS, "worker", lambda o: true(o, "Active"), "")
    mine = await home.create(KIND, NS, leader_worker_set())
    filled = meta(mine)
    assert mine["spec"]["startupPolicy"] == "LeaderCreated", "the API server fills in what the schema says"
    names = []
    pending = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for index in range(2):
        made = await home.create(kinds.WORKLOADS, NS, workload(mine, index))
        names.append(meta(made)["name"])
        reserved = [condition("QuotaReserved", "QuotaReserved")]
        await say(home, names[-1], {"admission": admission(mine), "conditions": reserved, "admissionChecks": [pending]})

    admitted = [condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted")]
    for name in names:
        clone = await seen(worker, kinds.WORKLOADS, name)
        assert clone["spec"]["podSets"] == (await home.get(kinds.WORKLOADS, NS, name))["spec"]["podSets"]
        await say(worker, name, {"admission": admission(mine), "conditions": admitted})
        ready = await seen(home, kinds.WORKLOADS, name, lambda o: o["status"].get("clusterName") == "worker")
        assert ready["status"]["admissionChecks"][0]["state"] == "Ready"

    copy = await seen(worker, KIND, NAME)
    assert meta(copy)["annotations"] == {ORIGIN_UID: filled["uid"]}
    assert meta(copy)["labels"] == {QUEUE_LABEL: "user-queue", ORIGIN_LABEL: "multikueue"}
    templates = copy["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        there, here = dict(templates[part]["spec"]), dict(mine["spec"]["leaderWorkerTemplate"][part]["spec"])
        assert here.pop("schedulingGates") == [{"name": HELD}]
        assert there.pop("schedulingGates") == [{"name": "kueue.x-k8s.io/admission"}], "it waits for its own Kueue"
        assert there == here
    rest = {"leaderWorkerTemplate": None}
    assert {**copy["spec"], **rest} == {**mine["spec"], **rest}, "nothing else of it differs"

    # LWS's controller on the worker says that all is ready; the one here writes its own status, and we none.
    ready_there = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "hpaPodSelector": "a=b"}
    await worker.write(Request("patch", ObjectRef(KIND, NS, NAME), {"status": ready_there}, subresource="status"))
    before = meta(await home.get(KIND, NS, NAME))["resourceVersion"]

    # The first replica's Workload goes, the copy stays for the other; with the last it goes.
    await home.write(Request("delete", ObjectRef(kinds.WORKLOADS, NS, names[0])))

    async def one_left() -> bool:
        left = (await worker.list(ListQuery(kinds.WORKLOADS))).items
        return [meta(one)["name"] for one in left] == [names[1]]

    await until("one clone left on the worker", one_left)
    assert meta(await worker.get(KIND, NS, NAME))["uid"] == meta(copy)["uid"]
    assert meta(await home.get(KIND, NS, NAME))["resourceVersion"] == before, "nobody has written to the user's own"
    await home.write(Request("delete", ObjectRef(kinds.WORKLOADS, NS, names[1])))
    await home.write(Request("delete", ObjectRef(KIND, NS, NAME)))

    async def clean() -> bool:
        return not [
            *(await worker.list(ListQuery(kinds.WORKLOADS))).items,
            *(await worker.list(ListQuery(KIND))).items,
        ]

    await until("nothing left on the worker", clean)
    notes = [event.get("note") for event in (await home.list(ListQuery(kinds.EVENTS))).items]
    assert notes.count('The workload was admitted on "worker"') == 2
    assert service.ready
