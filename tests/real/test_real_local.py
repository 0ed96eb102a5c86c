"""PodGroups and placeholders on a real kube-apiserver with Volcano's and Tekton's own CRDs: what we write passes their
validation.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with the CRDs. No
controller runs there: the test plays the parts of the Deployment's, the StatefulSet's and Tekton's, and nobody collects
garbage but us."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clusters.kubeconfig import ClientConfig, parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.transport import Transport
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.coscheduling.names import made_claim_name, placeholder_name, template_name
from controlplane.controllers.coscheduling.objects import CLAIMS, STATEFUL_SETS
from controlplane.controllers.podgroups.capacity import NODES
from controlplane.controllers.podgroups.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    GROUP_NAME,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
)
from controlplane.kube.kinds import NAMESPACES, PIPELINE_RUNS, Json, Kind, ObjectRef, Request, meta
from controlplane.log.connect import Database
from controlplane.simulation.controllers.workload_owners import owner_reference
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.real.pair import install, kubeconfig_of, until
from tests.simulation.contract import realserver
from tests.support.local import settings

CRDS = os.environ.get("CONTROLPLANE_TEST_CRDS", "")
FILES = [Path(CRDS) / name for name in ("scheduling.volcano.sh_podgroups.yaml", "tekton.dev_pipelineruns.yaml")]
FILES.append(Path(CRDS) / "tekton.dev_taskruns.yaml")
WHY = (
    realserver.missing()
    or ("" if CRDS else "CONTROLPLANE_TEST_CRDS is not set")
    or next((f"{file} is not there" for file in FILES if not file.is_file()), "")
    or ("" if shutil.which("kubectl") else "kubectl is not there")
)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
NS = "default"
CONTAINER = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "500m"}}}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientConfig]:
    folder = tmp_path_factory.mktemp("real")
    with realserver.running(folder) as server:
        text = yaml.safe_dump(kubeconfig_of(server, folder))
        (folder / "kubeconfig").write_text(text)
        install(folder / "kubeconfig", FILES)
        yield parse_kubeconfig(text.encode())


@pytest.fixture
async def api(config: ClientConfig) -> AsyncIterator[Transport]:
    server = Transport("real", config)
    yield server
    await server.close()


@pytest.fixture
async def service(config: ClientConfig, api: Transport, database_url: str) -> AsyncIterator[Health]:
    for namespace in ("volcano-system", "tekton-pipelines"):
        await ensure(api, NAMESPACES, namespace, "")
    rules = "podgroup-level-rules:\n- {apiversion: apps/v1, kind: deployment}\n"
    data = {"volcano-controller.conf": rules}
    await ensure(api, CONFIG_MAPS, "volcano-controller-configmap", "volcano-system", data=data)
    await ensure(api, CONFIG_MAPS, "feature-flags", "tekton-pipelines", data={"coschedule": "pipelineruns"})
    await ensure(api, NODES, "n1", "")
    status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "50"}, "capacity": {"cpu": "8"}}
    ready = {"type": "Ready", "status": "True", "reason": "", "message": ""}
    await api.write(
        Request(
            "patch", ObjectRef(NODES, "", "n1"), {"status": {**status, "conditions": [ready]}}, subresource="status"
        )
    )
    taints: Json = {"spec": {"taints": None}}  # a node that is new is tainted until its controller has seen it
    await api.write(Request("patch", ObjectRef(NODES, "", "n1"), taints))

    async def open_management() -> Transport:
        return Transport(MANAGEMENT, config)

    health, stop = Health(), asyncio.Event()
    database = Database(database_url, "controlplane_service")
    chosen = settings("podgroups", "coscheduling", groups={"status_for": ("volcano",)})
    running = Service(chosen, ports_of(database), open_management, metrics=Metrics(), health=health)
    task = asyncio.create_task(running.run(stop))
    yield health
    stop.set()
    await task


async def make(api: Transport, kind: Kind, name: str, namespace: str = NS, **more: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if kind.namespaced else {}), **more.pop("metadata", {})}
    return await api.create(
        kind, namespace, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **more}
    )


async def ensure(api: Transport, kind: Kind, name: str, namespace: str, **more: Any) -> None:
    try:
        await make(api, kind, name, namespace, **more)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


async def gone(api: Transport, kind: Kind, name: str) -> bool:
    try:
        await api.get(kind, NS, name)
    except ApiError as error:
        return error.status == 404
    return False


async def test_a_deployment_owns_the_group_of_its_pod(service: Health, api: Transport) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "volcano", "containers": [CONTAINER]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    wanted = {"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}
    deployment = await make(api, DEPLOYMENTS, "web", metadata=wanted, spec=spec)
    above = {"ownerReferences": [owner_reference({**deployment, "apiVersion": "apps/v1", "kind": "Deployment"})]}
    replica_set = await make(api, REPLICA_SETS, "web-1", metadata={**above, "labels": labels}, spec=spec)
    owned = {"ownerReferences": [owner_reference({**replica_set, "apiVersion": "apps/v1", "kind": "ReplicaSet"})]}
    for name in ("web-1-a", "web-1-b"):
        await make(api, PODS, name, metadata={**owned, "labels": labels}, spec=template["spec"])
    group = f"podgroup-{meta(deployment)['uid']}"

    async def joined() -> Json | None:
        found = await api.get(PODS, NS, "web-1-b")
        return found if (meta(found).get("annotations") or {}).get(GROUP_NAME) == group else None

    await until("the annotation", joined)

    async def admitted() -> Json | None:
        found = await api.get(POD_GROUPS, NS, group)
        return found if (found.get("status") or {}).get("phase") == "Inqueue" else None

    found = await until("the phase", admitted)
    [reference] = meta(found)["ownerReferences"]
    assert reference == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": meta(deployment)["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert (found["spec"]["minMember"], found["spec"]["minResources"]) == (2, {"cpu": "1"})


async def test_a_placeholder_and_its_claim_come_and_go_by_uid(service: Health, api: Transport) -> None:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    task = {"name": "t", "taskSpec": {"steps": [{"name": "s", "image": "busybox", "script": "true"}]}}
    spec = {"pipelineSpec": {"tasks": [task]}, "workspaces": [{"name": "src", "volumeClaimTemplate": claim}]}
    run = await make(api, PIPELINE_RUNS, "build", spec=spec)
    uid, name = meta(run)["uid"], placeholder_name("", "build")

    async def placed() -> Json:
        return await api.get(STATEFUL_SETS, NS, name)

    made = await until("the placeholder", placed)
    assert meta(made)["ownerReferences"][0]["uid"] == uid
    assert meta(made["spec"]["volumeClaimTemplates"][0])["name"] == template_name("", "src", uid)
    with pytest.raises(ApiError) as refused:
        await api.write(
            Request("delete", ObjectRef(STATEFUL_SETS, NS, name), uid="00000000-0000-0000-0000-000000000000")
        )
    assert refused.value.status == 409

    claim_name = made_claim_name("", "src", uid, name)  # as the StatefulSet's controller would make it
    labels = made["spec"]["selector"]["matchLabels"]
    made_claim = await make(api, CLAIMS, claim_name, metadata={"labels": labels}, spec=claim["spec"])
    assert "kubernetes.io/pvc-protection" in meta(made_claim)["finalizers"]

    ended = {"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": ""}
    ended["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    await api.write(
        Request(
            "patch", ObjectRef(PIPELINE_RUNS, NS, "build"), {"status": {"conditions": [ended]}}, subresource="status"
        )
    )
    await until("the placeholder to go", lambda: gone(api, STATEFUL_SETS, name))
    await until("the claim to go", lambda: gone(api, CLAIMS, claim_name))
