"""Logs of a source pod through the kubelet API of its virtual Node, which the process that leads answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from controlplane.app.candidates.kubelet import VirtualKubelet, serving, trusting
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.management_access import from_kubeconfig
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import meta
from controlplane.settings.candidates import VirtualNodeSettings
from controlplane.web.kubelet import KubeletServer
from controlplane.web.webhook import Certificate
from tests.candidates.e2e.stage import NS, Stage
from tests.candidates.e2e.test_virtual_nodes import ON, bound, node
from tests.outages.stage import Replica
from tests.web.front_proxy import make

Make = Callable[..., Awaitable[Stage]]


@contextlib.asynccontextmanager
async def kubelet(it: Stage, folder: Path) -> AsyncIterator[KubeletServer]:
    """Serve the API of the process that was started last."""
    chosen = msgspec.structs.replace(VirtualNodeSettings(), address="127.0.0.1", port=0)
    served = Certificate(str(folder / "server" / "server.crt"), str(folder / "server" / "server.key"))
    authority = trusting(served, str(folder / "front" / "ca.crt"))
    kubeconfig = str(it.folder / "management.kubeconfig")
    async with serving(chosen, authority, it.replicas[-1].service, lambda: from_kubeconfig("", kubeconfig)) as server:
        yield server


async def ask(server: KubeletServer, folder: Path, path: str) -> tuple[int, str]:
    trust = ssl.create_default_context(cafile=str(folder / "server" / "ca.crt"))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    trust.load_cert_chain(folder / "front" / "client.crt", folder / "front" / "client.key")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    whole = await reader.read()
    writer.close()
    head, _, body = whole.decode().partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pki").mkdir()
    make(tmp_path / "pki")
    return tmp_path / "pki"


async def test_the_log_of_a_source_pod_is_its_delegates(stage: Make, folder: Path) -> None:
    it = await stage("east", **ON)
    it.submit()
    await bound(it, "east")
    async with kubelet(it, folder) as server:
        code, said = await ask(server, folder, f"/containerLogs/{NS}/web/c?tailLines=10")
        assert (code, said) == (200, "simulated: nothing runs here; the image is i\n")
        code, said = await ask(server, folder, f"/containerLogs/{NS}/web/other")
        assert (code, said) == (
            400,
            f"container other is not valid for pod {meta(it.targets['east'].bound[0])['name']}\n",
        )
        assert (await ask(server, folder, f"/containerLogs/{NS}/nobody/c"))[0] == 404
        code, said = await ask(server, folder, "/pods")
        assert [one["spec"]["nodeName"] for one in msgspec.json.decode(said)["items"]] == ["candidates-east"]
        it.cut("east")
        await it.until(lambda: "TargetUnreachable" in str(node(it, "east")), "the target is away")
        code, said = await ask(server, folder, f"/containerLogs/{NS}/web/c")
        assert (code, said) == (502, 'cluster "east", in which the pod runs, cannot be reached now\n')


async def test_a_replica_that_follows_says_who_answers(stage: Make, folder: Path) -> None:
    it = await stage("east", **ON)
    it.submit()
    await bound(it, "east")
    replica = Replica(it.url, it.folder / "management.kubeconfig", it.settings, "follower")
    it.replicas.append(replica)
    follower = replica.service
    await it.until(lambda: VirtualKubelet(follower, None).node_of(NS, "web"), "it has read the log")  # type: ignore[arg-type]
    async with kubelet(it, folder) as server:
        code, said = await ask(server, folder, f"/containerLogs/{NS}/web/c")
        assert (code, said.startswith("another replica leads")) == (503, True)


async def test_who_may_not_use_the_node_gets_nothing(stage: Make, folder: Path) -> None:
    it = await stage("east", **ON)
    it.submit()
    await bound(it, "east")
    asked = []

    def allows(user: str, right: object) -> bool:
        asked.append((user, str(right), getattr(right, "name", "")))
        return False

    it.world.management.server.access.allows = allows
    async with kubelet(it, folder) as server:
        assert (await ask(server, folder, f"/containerLogs/{NS}/web/c"))[0] == 403
    assert asked == [("client", "get nodes/proxy", "candidates-east")]


async def test_a_target_that_does_not_answer_just_now_is_said_to_be_away(stage: Make, folder: Path) -> None:
    """Its connection is not known to be lost yet."""
    it = await stage("east", **ON)
    it.submit()
    await bound(it, "east")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        away = Transport("east", ClientConfig(server=f"http://127.0.0.1:{nobody.getsockname()[1]}"))
        it.replicas[-1].service.server = lambda name: away  # type: ignore[method-assign, assignment, return-value]
        async with kubelet(it, folder) as server:
            code, said = await ask(server, folder, f"/containerLogs/{NS}/web/c")
        await away.close()
    assert code == 502
    assert said.startswith('cluster "east", in which the pod runs, cannot be reached now (')
    assert "ConnectionRefusedError" in said
