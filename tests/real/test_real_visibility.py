"""Kueue's visibility API, asked for by kubectl at a real kube-apiserver, which hands requests on to the service by the
manifests that are shipped: with its own front proxy, its own ConfigMap about it, and its own RBAC.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's
CRDs."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controlplane.cli.run import serve
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.transport import Transport
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.settings.quota import VisibilitySettings
from tests.clusters import pki
from tests.deploy.manifests import ROOT, documents, render
from tests.real.pair import install, kubeconfig_of, until, why_not
from tests.real.test_real_admission import FILES, Cluster
from tests.simulation.contract import realserver
from tests.web.front_proxy import Client

WHY = why_not(FILES)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
GROUP, NAMESPACE = "/apis/visibility.kueue.x-k8s.io", "kueue-system"
OF_CLUSTER_QUEUE = "clusterqueues/batch/pendingworkloads"
OF_LOCAL_QUEUE = "namespaces/default/localqueues/batch/pendingworkloads"


class Kubectl:
    """kubectl, as the cluster's administrator or as somebody else."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def __call__(self, *words: str, given: Any = None, may_fail: bool = False) -> str:
        done = await asyncio.to_thread(self.run, *words, given=given)
        assert may_fail or done.returncode == 0, done.stderr
        return done.stdout if done.returncode == 0 else done.stderr

    def run(self, *words: str, given: Any = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *words],
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            check=False,
        )

    async def apply(self, *objects: Json) -> None:
        await self("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)})

    async def pending(self, place: str, version: str = "v1beta2", **more: str) -> list[tuple[str, int, int]]:
        """Return names and positions of what is pending somewhere."""
        found = json.loads(await self("get", "--raw", f"{GROUP}/{version}/{place}", **more))
        assert (found["kind"], found["apiVersion"]) == (
            "PendingWorkloadsSummary",
            f"visibility.kueue.x-k8s.io/{version}",
        )
        return [
            (one["metadata"]["name"], one["positionInClusterQueue"], one["positionInLocalQueue"])
            for one in found["items"]
        ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An API server with a front proxy, Kueue's CRDs, and a kubeconfig of its administrator."""
    found = tmp_path_factory.mktemp("visibility")
    for name in ("front", "server"):
        (found / name).mkdir()
        pki.make(found / name, f"DNS:controlplane-visibility.{NAMESPACE}.svc,IP:127.0.0.1")
    flags = {
        "requestheader-client-ca-file": found / "front" / "ca.crt",
        "requestheader-allowed-names": "client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": found / "front" / "client.crt",
        "proxy-client-key-file": found / "front" / "client.key",
    }
    with realserver.running(found, *(f"--{name}={value}" for name, value in flags.items())) as server:
        kubeconfig = found / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(server, found)))
        from tests.real.pair import CRDS

        install(kubeconfig, [next(Path(CRDS).glob(f"*_{file}.yaml")) for file in FILES])
        yield found


@pytest.fixture
async def kubectl(folder: Path, database_url: str) -> AsyncIterator[Kubectl]:
    """The service with the rights of its account, behind the API server."""
    found = Kubectl(folder / "kubeconfig")
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "controlplane", "namespace": NAMESPACE},
    }
    await found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, account)
    rights = [
        documents((ROOT / f"deploy/rbac/management/{name}.yaml").read_text()) for name in ("admission", "jobframework")
    ]
    await found.apply(*render("deploy/rbac/management"), *(one for document in rights for one in document))
    port = realserver.free_port()
    await found.apply(*(_on_loopback(one, folder, port) for one in render("deploy/visibility")))
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": (await found("create", "token", "controlplane", "-n", NAMESPACE)).strip()}
    client = parse_kubeconfig(yaml.safe_dump(config).encode())

    async def open_management() -> Transport:
        return Transport("@management", client)

    stop, started = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(
        serve(
            _settings(folder, port),
            Database(database_url, "controlplane_service"),
            "head",
            open_management,
            stop,
            lambda _: started.set(),
        )
    )
    found.port = port
    yield found
    stop.set()
    await running


def _on_loopback(item: Json, folder: Path, port: int) -> Json:
    """Return an object as it is shipped, but that the service is on this machine."""
    if item["kind"] == "Service":
        return {**item, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    if item["kind"] == "APIService":
        authority = base64.b64encode((folder / "server" / "ca.crt").read_bytes()).decode()
        return {
            **item,
            "spec": {**item["spec"], "caBundle": authority, "service": {**item["spec"]["service"], "port": port}},
        }
    return item


def _settings(folder: Path, port: int) -> Settings:
    files = {"certificate": str(folder / "server" / "server.crt"), "key": str(folder / "server" / "server.key")}
    wanted = Settings()
    replace = msgspec.structs.replace
    return replace(
        wanted,
        quota=replace(
            wanted.quota, mode="builtin", visibility=VisibilitySettings(**files, address="127.0.0.1", port=port)
        ),
        http=replace(wanted.http, address="127.0.0.1", port=0),
        leader=replace(wanted.leader, identity="real"),
    )


async def available(kubectl: Kubectl) -> bool:
    for version in ("v1beta1", "v1beta2"):
        found = json.loads(await kubectl("get", "apiservice", f"{version}.visibility.kueue.x-k8s.io", "-o", "json"))
        conditions = {one["type"]: one["status"] for one in found.get("status", {}).get("conditions", ())}
        if conditions.get("Available") != "True":
            return False
    return True


async def test_kubectl_is_told_what_waits_and_who_may_not_is_not(folder: Path, kubectl: Kubectl) -> None:
    api = Transport("management", parse_kubeconfig((folder / "kubeconfig").read_bytes()))
    cluster = Cluster(api)
    await cluster.create(kinds.RESOURCE_FLAVORS, "default", {})
    await cluster.queue("batch", "4")
    await cluster.create(kinds.LOCAL_QUEUES, "other", {"clusterQueue": "batch"}, "default")
    for name, queue, priority in (("small", "batch", 0), ("urgent", "batch", 9), ("between", "other", 5)):
        await cluster.workload(name, queue, "8", priority)
    await until("the API to be available", lambda: available(kubectl), 60)

    async def all_wait() -> bool:
        said = await kubectl("get", "--raw", f"{GROUP}/v1beta2/{OF_CLUSTER_QUEUE}", may_fail=True)
        return said.startswith("{") and len(json.loads(said)["items"]) == 3

    await until("all to wait", all_wait, 60)
    expected = [("urgent", 0, 0), ("between", 1, 0), ("small", 2, 1)]
    for version in ("v1beta1", "v1beta2"):
        assert await kubectl.pending(OF_CLUSTER_QUEUE, version) == expected
        assert await kubectl.pending(OF_LOCAL_QUEUE, version) == [expected[0], expected[2]]
    assert await kubectl.pending(f"{OF_CLUSTER_QUEUE}?offset=1&limit=1") == [expected[1]]
    said = await kubectl("get", "--raw", f"{GROUP}/v1beta2/clusterqueues/none/pendingworkloads", may_fail=True)
    assert "NotFound" in said
    served = json.loads(await kubectl("get", "--raw", GROUP))
    assert served["preferredVersion"]["version"] == "v1beta2"

    async def documented() -> bool:
        paths = ("v2", f"v3{GROUP}/v1beta2")  # not there before it is taken over
        found = [await kubectl("get", "--raw", f"/openapi/{path}", may_fail=True) for path in paths]
        return all("io.k8s.kueue.visibility.v1beta2.PendingWorkloadsSummary" in one for one in found)

    await until("the OpenAPI documents to be taken over", documented, 90)
    await _refused(kubectl, folder)
    await api.close()


async def _refused(kubectl: Kubectl, folder: Path) -> None:
    """See that who has no right gets nothing, from the API server or from us; and who gets a right, that alone."""
    front = Client(folder, kubectl.port)
    for place in (OF_CLUSTER_QUEUE, OF_LOCAL_QUEUE):
        said = await kubectl("get", "--raw", f"{GROUP}/v1beta2/{place}", "--as", "jane", may_fail=True)
        assert "Forbidden" in said, said
        answer = await front.ask(f"{GROUP}/v1beta2/{place}")
        assert (answer.status, b'"items"' in answer.body) == (403, False)
        assert (await front.ask(f"{GROUP}/v1beta2/{place}", shows="")).status == 401
    role = "kueue-pending-workloads-lq-viewer-role"
    await kubectl("create", "rolebinding", "jane", "-n", "default", f"--clusterrole={role}", "--user=jane")

    async def may() -> bool:
        said = await kubectl("get", "--raw", f"{GROUP}/v1beta2/{OF_LOCAL_QUEUE}", "--as", "jane", may_fail=True)
        return said.startswith("{")

    await until("jane to have her right", may, 60)
    said = await kubectl("get", "--raw", f"{GROUP}/v1beta2/{OF_CLUSTER_QUEUE}", "--as", "jane", may_fail=True)
    assert "Forbidden" in said

    await kubectl("delete", "clusterrolebinding", "controlplane-visibility")

    async def unsaid() -> bool:
        answer = await front.ask(f"{GROUP}/v1beta2/{OF_LOCAL_QUEUE}", user="jane", groups=("again",))
        assert answer.status in (200, 503)
        return answer.status == 503

    await until("the answer to need a SubjectAccessReview", unsaid, 60)
