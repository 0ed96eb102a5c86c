"""Virtual Nodes between two real kube-apiservers: the Node and the bound pod as the source's API server has them, and
kubectl's `logs` and `exec` on a source pod, which go from the source's API server to the service, and on to the
target's API server and its kubelet. That kubelet is the test's own. The service has the rights of deploy/ and no
others.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from controlplane.cli.run import serve
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.transport import Transport
from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.kube.kinds import LEASES, MULTIKUEUE_CLUSTERS, NODES, PODS, Json, meta
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.settings.candidates import Candidates, VirtualNodeSettings
from tests.clusters import pki
from tests.deploy.manifests import ROOT, documents
from tests.real.pair import kubeconfig_of, until
from tests.real.virtual import Clusters, _yaml, as_kubelet
from tests.simulation.contract import realserver

WHY = realserver.missing() or ("" if shutil.which("kubectl") else "kubectl is not there")
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
NS, OWN = "physics", "kueue-system"
SOURCE_RIGHTS = (
    "candidates/source/clusterrole",
    "candidates/virtual-nodes/clusterrole",
    "candidates/virtual-nodes/binding",
)
ROLES = ("controlplane-candidate-source", "controlplane-candidate-source-streams")


def _crd(group: str, kind: str, plural: str) -> Json:
    """A definition of a kind of Kueue's that the test makes objects of."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": anything, "subresources": {"status": {}}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Cluster", "versions": [version]},
    }


def _manifests(*names: str) -> list[Json]:
    return [one for name in names for one in documents((ROOT / "deploy" / f"{name}.yaml").read_text())]


def _bound(kind: str, role: str, namespace: str = "") -> Json:
    """Bind a ClusterRole to the account that speaks for the source."""
    head = {"name": role, **({"namespace": namespace} if namespace else {})}
    subject = {"kind": "ServiceAccount", "name": "campus", "namespace": "candidate-sources"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": head,
        "roleRef": ref,
        "subjects": [subject],
    }


@pytest.fixture(scope="module")
def kubeconfigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Json]]]:
    """Two API servers that ask kubelets with a certificate of the test's authority."""
    folder = tmp_path_factory.mktemp("virtual")
    (folder / "pki").mkdir()
    pki.make(folder / "pki", "IP:127.0.0.1")
    flags = [
        f"--kubelet-client-certificate={folder / 'pki' / 'client.crt'}",
        f"--kubelet-client-key={folder / 'pki' / 'client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
    ]
    found = {}
    with ExitStack() as stack:
        for name in ("campus", "east"):
            (folder / name).mkdir()
            found[name] = kubeconfig_of(stack.enter_context(realserver.running(folder / name, *flags)), folder / name)
            (folder / f"{name}.kubeconfig").write_bytes(_yaml(found[name]))
        yield folder, found


@pytest.fixture
async def clusters(kubeconfigs: tuple[Path, dict[str, Json]], database_url: str) -> AsyncIterator[Clusters]:
    """The source with its service, and a target with one node."""
    found = Clusters(*kubeconfigs)
    crds = [
        next((ROOT / "deploy/crds").glob(f"*_{kind}.yaml"))
        for kind in ("candidates", "candidatesources", "candidatetargets")
    ]
    definitions = [
        *(one for crd in crds for one in documents(crd.read_text())),
        _crd("kueue.x-k8s.io", "MultiKueueCluster", "multikueueclusters"),
    ]
    for name in ("campus", "east"):
        spaces = [NS, OWN, "candidate-sources"]
        await found.apply(
            name,
            *definitions,
            *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}} for one in spaces),
        )
    head = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await found.apply(
        "campus",
        {**head, "metadata": {"name": "controlplane", "namespace": OWN}},
        *_manifests(*SOURCE_RIGHTS, "candidates/source/binding", "rbac/management/clusterrole", "rbac/management/role"),
    )
    account = {**head, "metadata": {"name": "campus", "namespace": "candidate-sources"}}
    await found.apply("campus", {**head, "metadata": {"name": "default", "namespace": "candidate-sources"}})
    rights = [_bound("RoleBinding", role, NS) for role in ROLES]
    await found.apply(
        "east",
        account,
        *_manifests("candidates/target/clusterrole"),
        *rights,
        _bound("ClusterRoleBinding", "controlplane-candidate-source-nodes"),
    )
    # The certificate by which API servers are known to kubelets is a user like any other: here it may use nodes/proxy.
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "client"}
    await found.apply(
        "campus",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "kubelet-client"},
            "roleRef": role,
            "subjects": [user],
        },
    )
    target = await found.account("east", "candidate-sources", "campus")
    secret = {
        "metadata": {"name": "east", "namespace": OWN},
        "data": {"kubeconfig": base64.b64encode(_yaml(target)).decode()},
    }
    await found.apply("campus", {"apiVersion": "v1", "kind": "Secret", **secret})
    location = {"clusterSource": {"kubeConfig": {"location": "east", "locationType": "Secret"}}}
    async with _kubelet(found), _serving(found, database_url):
        await until("the CRDs are served", lambda: found.put("campus", MULTIKUEUE_CLUSTERS, "east", {"spec": location}))
        yield found
    for one in found.api.values():
        await one.close()


@contextlib.asynccontextmanager
async def _kubelet(clusters: Clusters) -> AsyncIterator[None]:
    """The target's one node, and its kubelet."""
    files = clusters.folder / "pki"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files / "server.crt", files / "server.key")
    server = await asyncio.start_server(as_kubelet, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    await clusters.put("east", NODES, "n1", {})
    room = {"cpu": "3500m", "memory": "16303428Ki", "pods": "110"}
    address = [{"type": "InternalIP", "address": "127.0.0.1"}]
    status = {
        "capacity": room,
        "allocatable": room,
        "addresses": address,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await clusters.patch("east", NODES, "", "n1", {"status": status}, "status")
    try:
        yield
    finally:
        server.close()


@contextlib.asynccontextmanager
async def _serving(clusters: Clusters, url: str) -> AsyncIterator[None]:
    files = clusters.folder / "pki"
    nodes = VirtualNodeSettings(
        enabled="yes",
        certificate=str(files / "server.crt"),
        key=str(files / "server.key"),
        client_authority=str(files / "ca.crt"),
        node_address="127.0.0.1",
        address="127.0.0.1",
        port=realserver.free_port(),
    )
    chosen = Candidates(
        cluster="campus", namespaces=(NS,), targets=("east",), pod_ips="show", follow="no", virtual_nodes=nodes
    )
    base = Settings(candidates=chosen)
    settings = msgspec.structs.replace(
        base,
        run=msgspec.structs.replace(base.run, controllers=("candidates",)),
        leader=msgspec.structs.replace(base.leader, identity="real"),
        http=msgspec.structs.replace(base.http, address="127.0.0.1", port=0),
    )
    config = parse_kubeconfig(_yaml(await clusters.account("campus", OWN, "controlplane")))

    async def open_server() -> Transport:
        return Transport("@management", config)

    stop = asyncio.Event()
    task = asyncio.create_task(serve(settings, Database(url, "controlplane_service"), "newest", open_server, stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def placed(clusters: Clusters) -> str:
    """Play the target's scheduler and kubelet for the one candidate that there is; return its Pod's name."""
    api = clusters.api["east"]

    async def candidate(wanted: str) -> Json | None:
        listed = json.loads(await clusters.kubectl("east", "get", CANDIDATES.name, "-n", NS, "-o", "json"))["items"]
        return next((one for one in listed if wanted in json.dumps(one["spec"])), None)

    one = await until("a candidate", lambda: candidate("source"), 60)
    name = meta(one)["name"]
    reserved = {"phase": "Reserved", "reservation": {"number": 1, "node": "n1", "score": 1}}
    await clusters.patch("east", CANDIDATES, NS, name, {"status": reserved}, "status")
    await until("the permit", lambda: candidate('"permit"'))
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "busybox"}]}
    await clusters.put("east", PODS, name, {"spec": spec}, NS)
    running = {
        "phase": "Running",
        "podIP": "10.7.0.9",
        "podIPs": [{"ip": "10.7.0.9"}],
        "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")],
        "containerStatuses": [
            {
                "name": "main",
                "image": "busybox",
                "imageID": "i",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {}},
            }
        ],
    }
    await clusters.patch("east", PODS, NS, name, {"status": running}, "status")
    shown = (await api.get(PODS, NS, name))["status"]
    bound = {"phase": "Bound", "pod": {"name": name}, "boundBy": 1, "sequence": 1, "podStatus": shown}
    await clusters.patch("east", CANDIDATES, NS, name, {"status": bound}, "status")
    return str(name)


async def test_a_target_is_a_node_and_a_pod_on_it_has_logs_and_a_shell(clusters: Clusters) -> None:
    home = clusters.api["campus"]

    async def capacity() -> Json | None:
        node = await home.get(NODES, "", "candidates-east")
        return node if node["status"].get("capacity") else None

    node = await until("the node with the target's capacity", capacity, 60)
    assert node["status"]["capacity"] == {"cpu": "3500m", "memory": "16303428Ki", "pods": "110"}
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert "candidates-east" in await clusters.kubectl("campus", "get", "nodes")
    await until("its lease", lambda: home.get(LEASES, "kube-node-lease", "candidates-east"))

    evicted = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    container = {"name": "main", "image": "busybox"}
    spec = {"schedulerName": "controlplane-candidates", "containers": [container], "tolerations": [evicted]}
    await clusters.put("campus", PODS, "web", {"spec": spec, "metadata": {"labels": {"app": "web"}}}, NS)
    delegate = await placed(clusters)

    async def ready() -> Json | None:
        pod = await home.get(PODS, NS, "web")
        said = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}
        return pod if pod["spec"].get("nodeName") == "candidates-east" and said.get("Ready") == "True" else None

    pod = await until("the pod is bound and ready", ready)
    # What an EndpointSlice is made of: addresses, readiness, and a node that is there.
    assert pod["status"]["podIPs"] == [{"ip": "10.7.0.9"}]
    assert all("tolerationSeconds" not in one for one in pod["spec"]["tolerations"])
    assert meta(await home.get(NODES, "", pod["spec"]["nodeName"]))["name"] == "candidates-east"

    said = await clusters.kubectl("campus", "logs", "web", "-n", NS, "--tail=3")
    assert said.startswith(f"log of /containerLogs/{NS}/{delegate}/main?")
    assert "tailLines=3" in said
    wrong = await clusters.kubectl("campus", "logs", "web", "-n", NS, "-c", "other", may_fail=True)
    assert "other" in wrong

    # Who comes with a token is asked for, and what he may do, as at any kubelet.
    admin = clusters.kubeconfigs["campus"]["users"][0]["user"]["token"]
    nobody = (await clusters.account("campus", "candidate-sources", "default"))["users"][0]["user"]["token"]
    asked = [await _direct(clusters, node, token) for token in (admin, nobody, "no token", "")]
    assert asked == [200, 403, 401, 401]

    node = await home.get(NODES, "", "candidates-east")
    before = meta(node)["resourceVersion"]
    await asyncio.sleep(0)
    echoed = await _upgraded(clusters, f"/api/v1/namespaces/{NS}/pods/web/exec?command=cat&stdin=true&stdout=true")
    assert echoed == b"\x00hello"
    assert meta(await home.get(NODES, "", "candidates-east"))["resourceVersion"] == before

    await clusters.kubectl("campus", "delete", "pod", "web", "-n", NS, "--wait=false")
    assert meta(await home.get(PODS, NS, "web"))["deletionTimestamp"]
    await clusters.kubectl("east", "delete", "pod", delegate, "-n", NS, "--grace-period=0", "--force")
    await clusters.patch("east", CANDIDATES, NS, delegate, {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        try:
            await home.get(PODS, NS, "web")
        except ApiError as error:
            return error.status == 404
        return False

    await until("the pod is gone", gone)


async def _direct(clusters: Clusters, node: Json, token: str) -> int:
    """Ask the Node's kubelet API without a certificate; return the code of the answer."""
    trust = ssl.create_default_context(cafile=str(clusters.folder / "pki" / "ca.crt"))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    writer.write(f"GET /pods HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ")[1])


async def _upgraded(clusters: Clusters, path: str) -> bytes:
    """Open a shell by SPDY at the source's API server, say something, and return what is echoed."""
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "SPDY/3.1"),
        ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
        ("Content-Length", "0"),
    ]
    reader, writer = await clusters.api["campus"].tunnel("POST", path, headers)
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    assert answer.startswith(b"HTTP/1.1 101 "), answer + await reader.read(1000)
    writer.write(b"\x00hello")
    said = await asyncio.wait_for(reader.readexactly(6), 30)
    writer.close()
    return said
