"""The scheduler beside a real kube-apiserver with made-up Nodes: pods are bound, refused, preempted, candidates
reserved and bound.

It has the rights of deploy/scheduler and no others.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd. No kubelet and no controller runs there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.scheduler import SCHEDULER_CHECKS, SchedulerService
from controlplane.app.scheduler_profiles import load
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES, FINALIZER, SOURCE_LABEL, stamp
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STRATEGIC_PATCH,
    Json,
    Kind,
    ObjectRef,
    Request,
)
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.real.pair import kubeconfig_of
from tests.simulation.contract import realserver

WHY = realserver.missing()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]

CRDS = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("candidates.controlplane.dev_*.yaml"))
DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
HOME = "on-premises"
MANIFESTS = Path(__file__).parents[2] / "deploy" / "scheduler"
ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
RBAC = "rbac.authorization.k8s.io"
ACCOUNT_KINDS = (
    NAMESPACES,
    ACCOUNTS,
    Kind(RBAC, "v1", "ClusterRole", "clusterroles", False),
    Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Json]:
    folder = tmp_path_factory.mktemp("real")
    with realserver.running(folder) as server:
        yield kubeconfig_of(server, folder)


@dataclasses.dataclass
class Real:
    api: Transport

    async def node(self, name: str, cpu: str = "2") -> None:
        room = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
        with contextlib.suppress(ApiError):
            await self.api.create(NODES, "", {"metadata": {"name": name, "labels": {"pool": name}}})
        body = {"status": {"allocatable": room, "capacity": room}}
        await self.api.write(
            Request("patch", ObjectRef(NODES, "", name), body, subresource="status", content_type=STRATEGIC_PATCH)
        )
        await self.api.write(Request("patch", ObjectRef(NODES, "", name), {"spec": {"taints": None}}))

    async def pod(self, name: str, node: str, cpu: str = "1", **spec: Any) -> Json:
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        return await self.api.create(
            PODS,
            "default",
            {
                "metadata": {"name": name},
                "spec": {
                    "schedulerName": "controlplane",
                    "nodeSelector": {"pool": node},
                    "containers": [container],
                    **spec,
                },
            },
        )

    async def on(self, name: str) -> str:
        return str((await self.api.get(PODS, "default", name))["spec"].get("nodeName", ""))

    async def condition(self, name: str) -> Json:
        conditions = (await self.api.get(PODS, "default", name))["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    async def told(self, name: str) -> list[str]:
        page = await self.api.list(ListQuery(EVENTS, namespace="default"))
        return [event["reason"] for event in page.items if event["regarding"]["name"] == name]


async def until(holds: Callable[[], Awaitable[Any]], within: float = 40.0) -> None:
    end = asyncio.get_running_loop().time() + within
    while True:
        with contextlib.suppress(ApiError, LookupError):
            if await holds():
                return
        assert asyncio.get_running_loop().time() < end, f"not within {within} s"
        await asyncio.sleep(0.05)


async def account(api: Transport, kubeconfig: Json) -> Json:
    """Install the scheduler's rights as deploy/scheduler has them, and return a kubeconfig with its account."""
    found = [
        document
        for name in ("namespace", "serviceaccount", "clusterrole", "candidates")
        for document in yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text())
    ]
    for document in found:
        kind = next(kind for kind in ACCOUNT_KINDS if kind.kind == document["kind"])
        with contextlib.suppress(ApiError):
            await api.create(kind, document["metadata"].get("namespace", ""), document)
    place = next(document["metadata"] for document in found if document["kind"] == "ServiceAccount")
    return await with_account(api, kubeconfig, place["namespace"], place["name"])


async def with_account(api: Transport, kubeconfig: Json, namespace: str, name: str) -> Json:
    """Return a kubeconfig that speaks as a ServiceAccount."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await api.write(Request("create", ObjectRef(ACCOUNTS, namespace, name), asked, subresource="token"))
    return {**kubeconfig, "users": [{"name": "real", "user": {"token": answer["status"]["token"]}}]}


@pytest.fixture
async def real(kubeconfig: Json, database_url: str) -> AsyncIterator[Real]:
    """The API server, with Candidates' definitions and a scheduler beside it."""
    config = parse_kubeconfig(yaml.safe_dump(kubeconfig).encode())
    api = Transport("test", config)
    for path in CRDS:
        for definition in yaml.safe_load_all(path.read_text()):
            if definition and definition.get("kind") == "CustomResourceDefinition":
                with contextlib.suppress(ApiError):
                    await api.create(DEFINITIONS, "", definition)
    await until(lambda: api.list(ListQuery(CANDIDATES, namespace="default")))

    limited = await account(api, kubeconfig)

    async def opened() -> Transport:
        return Transport(MANAGEMENT, parse_kubeconfig(yaml.safe_dump(limited).encode()))

    health, stop = Health(SCHEDULER_CHECKS), asyncio.Event()
    health.set("schema", True)
    service = SchedulerService(
        Settings(), load(""), ports_of(Database(database_url)), opened, metrics=Metrics(), health=health
    )
    running = asyncio.create_task(service.run(stop))

    async def leads() -> bool:
        return health.ready and service.term is not None and service.term._ready()

    await until(leads)
    try:
        yield Real(api)
    finally:
        stop.set()
        await running
        await api.close()


async def test_a_pod_is_bound_and_said_to_be(real: Real) -> None:
    await real.node("bound")
    await real.pod("a", "bound")
    await until(lambda: real.on("a"))
    assert (await real.condition("a"))["status"] == "True"
    await until(lambda: real.told("a"))
    assert await real.told("a") == ["Scheduled"]


async def test_a_pod_waits_for_its_node(real: Real) -> None:
    await real.node("waits", cpu="1")
    await real.pod("b", "waits", cpu="4")

    async def refused() -> bool:
        return (await real.condition("b")).get("reason") == "Unschedulable"

    await until(refused)
    assert "Insufficient cpu" in (await real.condition("b"))["message"]
    await until(lambda: real.told("b"))
    await real.node("waits", cpu="8")
    await until(lambda: real.on("b"))


async def test_the_important_pod_takes_the_place(real: Real) -> None:
    await real.node("taken", cpu="1")
    await real.api.create(PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 1000})
    await real.pod("low", "taken")
    await until(lambda: real.on("low"))
    await real.pod("high", "taken", priorityClassName="high")

    async def going() -> bool:
        return bool((await real.api.get(PODS, "default", "low"))["metadata"].get("deletionTimestamp"))

    await until(going)
    victim = await real.api.get(PODS, "default", "low")
    marked = next(c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert marked["reason"] == "PreemptionByScheduler"
    nominated = await real.api.get(PODS, "default", "high")
    assert nominated["status"]["nominatedNodeName"] == "taken"
    # Where there is no kubelet, somebody has to say that the victim has stopped.
    await real.api._json(
        "DELETE", PODS.path("default", "low"), {}, {"gracePeriodSeconds": 0}, content_type="application/json"
    )
    await until(lambda: real.on("high"))


async def test_a_candidate_is_reserved_permitted_and_bound(real: Real) -> None:
    await real.node("held", cpu="1")
    head = {"apiVersion": CANDIDATES.api_version}
    invitation = {
        **head,
        "kind": "CandidateSource",
        "metadata": {"name": HOME},
        "spec": {"cluster": HOME, "user": "on-premises", "podSecurity": "baseline"},
    }
    await real.api.create(CANDIDATE_SOURCES, "default", invitation)
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "nodeSelector": {"pool": "held"}}}
    source = {"cluster": HOME, "namespace": "default", "name": "c", "uid": "uid-c", "epoch": 1}
    metadata = {"name": "c", "labels": {SOURCE_LABEL: HOME}, "finalizers": [FINALIZER]}
    spec = {"source": source, "template": template}
    await real.api.create(CANDIDATES, "default", {**head, "kind": "Candidate", "metadata": metadata, "spec": spec})

    async def phase(wanted: str) -> bool:
        found = await real.api.get(CANDIDATES, "default", "c")
        return (found.get("status") or {}).get("phase") == wanted

    await until(lambda: phase("Reserved"))
    assert await real.on("c") == ""
    until_ = stamp(datetime.now(UTC) + timedelta(seconds=30))
    permit = {"number": 1, "kind": "Bind", "reservation": 1, "until": until_}
    await real.api.write(Request("patch", ObjectRef(CANDIDATES, "default", "c"), {"spec": {"permit": permit}}))
    await until(lambda: phase("Bound"))
    assert await real.on("c") == "held"
