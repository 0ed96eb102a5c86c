"""The service between two real kube-apiservers with Kueue's own CRDs: what we write passes their schemas, CEL rules and
validation.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's and
JobSet's CRDs. No controller runs there: the test plays Kueue's part by hand."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.simulation.contract import realserver

CRDS = os.environ.get("CONTROLPLANE_TEST_CRDS", "")
WHY = (
    realserver.missing()
    or ("" if CRDS else "CONTROLPLANE_TEST_CRDS is not set")
    or ("" if shutil.which("kubectl") else "kubectl is not there")
)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)

CHECK, NAMESPACE, JOB, WL = "multikueue", "kueue-system", "train", "job-train-abcde"
NEEDED = ("workloads", "admissionchecks", "multikueueconfigs", "multikueueclusters", "localqueues", "clusterqueues")


@dataclass
class Cluster:
    kubeconfig: Json
    api: Transport


def kubeconfig_of(server: realserver.RealServer, folder: Path) -> Json:
    authority = (folder / "certs" / "apiserver.crt").read_bytes()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
        "clusters": [
            {
                "name": "real",
                "cluster": {
                    "server": server.url,
                    "certificate-authority-data": base64.b64encode(authority).decode(),
                },
            }
        ],
        "users": [{"name": "real", "user": {"token": server.token}}],
    }


@pytest.fixture(scope="module")
def kubeconfigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Json]]:
    with ExitStack() as stack:
        found = {}
        for name in ("management", "worker"):
            folder = tmp_path_factory.mktemp(name)
            server = stack.enter_context(realserver.running(folder))
            found[name] = kubeconfig_of(server, folder)
            path = folder / "kubeconfig"
            path.write_text(yaml.safe_dump(found[name]))
            files = [str(next(Path(CRDS).glob(f"*_{kind}.yaml"))) for kind in NEEDED]
            arguments = [word for file in files for word in ("-f", file)]
            kubectl = ["kubectl", "--kubeconfig", str(path)]
            subprocess.run(
                [*kubectl, "apply", "--server-side", "--validate=false", *arguments], check=True, capture_output=True
            )
            subprocess.run(
                [*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *arguments],
                check=True,
                capture_output=True,
            )
        yield found


@pytest.fixture
async def clusters(kubeconfigs: dict[str, Json]) -> AsyncIterator[dict[str, Cluster]]:
    found = {}
    for name, kubeconfig in kubeconfigs.items():
        config = parse_kubeconfig(yaml.safe_dump(kubeconfig).encode())
        found[name] = Cluster(kubeconfig, Transport(name, config))
    yield found
    for cluster in found.values():
        await cluster.api.close()


async def until(what: str, probe: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait until an asynchronous probe returns something true."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if found := await probe():
                        return found
                except ApiError as error:
                    if error.status != 404:
                        raise
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited in vain for: {what}") from None


def true(obj: Json, kind: str) -> Json | None:
    found = (c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind and c["status"] == "True")
    return next(found, None)


def condition(kind: str, reason: str, message: str = "by hand") -> Json:
    at = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}


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


async def set_up(clusters: dict[str, Cluster]) -> None:
    home = clusters["management"].api
    await home.create(kinds.NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    text = yaml.safe_dump(clusters["worker"].kubeconfig).encode()
    secret = {"metadata": {"name": "worker"}, "data": {"kubeconfig": base64.b64encode(text).decode()}}
    await home.create(kinds.SECRETS, NAMESPACE, secret)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    source = {"kubeConfig": {"location": "worker", "locationType": "Secret"}}
    made: list[tuple[Kind, str, Json]] = [
        (kinds.MULTIKUEUE_CLUSTERS, "worker", {"clusterSource": source}),
        (kinds.MULTIKUEUE_CONFIGS, "all", {"clusters": ["worker"]}),
        (kinds.ADMISSION_CHECKS, CHECK, {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}),
    ]
    for kind, name, spec in made:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
        await home.create(kind, "", body)


@pytest.fixture
async def service(clusters: dict[str, Cluster], database_url: str) -> AsyncIterator[Health]:
    await set_up(clusters)
    config = parse_kubeconfig(yaml.safe_dump(clusters["management"].kubeconfig).encode())

    async def open_management() -> Transport:
        return Transport("@management", config)

    health, stop, settings = Health(), asyncio.Event(), Settings()
    # Who reports an Event has to have a name.
    settings = msgspec.structs.replace(settings, leader=msgspec.structs.replace(settings.leader, identity="real"))
    running = Service(
        settings,
        ports_of(Database(database_url, "controlplane_service")),
        open_management,
        metrics=Metrics(),
        health=health,
    )
    task = asyncio.create_task(running.run(stop))
    yield health
    stop.set()
    await task


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
