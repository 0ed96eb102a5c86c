"""The kubelet API of virtual Nodes: who is let in, what is handed on and how, and what is said where that cannot be."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

import orjson
import pytest

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.protocol import Unreachable
from controlplane.clusters.tunnel import open_tunnel
from controlplane.kube.front_proxy import UserInfo
from controlplane.kube.kinds import Json
from controlplane.kube.kubelet_api import KubeletRequest
from controlplane.web import webhook
from controlplane.web.client_authority import ClientAuthority
from controlplane.web.kubelet import KubeletRefusal, KubeletServer, Stream
from controlplane.web.webhook import Certificate
from tests.clusters import pki
from tests.support.waiting import PATIENCE
from tests.web.front_proxy import make

Handler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    """Answers of a source with one pod, whose delegate is behind a server of the test."""

    port: int = 0
    allowed: bool = True
    node: str = "candidates-east"
    moves_to: str = ""
    heads: list[bytes] = field(default_factory=list)
    verbs: list[tuple[str, str, str]] = field(default_factory=list)

    async def user(self, shown: tuple[str, tuple[str, ...]] | None, token: str) -> UserInfo | None:
        if shown is not None:
            return UserInfo(name=shown[0], groups=shown[1])
        return UserInfo(name="jane") if token == "good" else None

    async def allows(self, user: UserInfo, verb: str, node: str) -> bool:
        self.verbs.append((user.name, verb, node))
        self.node = self.moves_to or self.node
        return self.allowed

    def node_of(self, namespace: str, pod: str) -> str:
        return self.node if pod == "web" else ""

    def pods(self) -> Json:
        return {"kind": "PodList", "items": []}

    async def open(self, asked: KubeletRequest, method: str, headers: list[tuple[str, str]]) -> Stream:
        if asked.pod != "web":
            raise KubeletRefusal(404, "no such pod")
        config = ClientConfig(server=f"http://127.0.0.1:{self.port}/prefix")
        path = asked.path_for("there", "web-1")
        try:
            return await open_tunnel("east", config, None, (method, path, headers), "Bearer secret")
        except Unreachable as error:
            raise KubeletRefusal(502, f"east is away: {error}") from None


@dataclass
class Kubelet:
    folder: Path
    answers: Asked
    server: KubeletServer

    def context(self, shows: str) -> ssl.SSLContext:
        trust = ssl.create_default_context(cafile=str(self.folder / "server" / "ca.crt"))
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if shows:
            trust.load_cert_chain(self.folder / shows / "client.crt", self.folder / shows / "client.key")
        return trust

    async def connect(self, head: str, shows: str = "front") -> Stream:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, ssl=self.context(shows))
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        return reader, writer

    async def ask(self, path: str, shows: str = "front", method: str = "GET", token: str = "") -> tuple[int, bytes]:
        head = f"{method} {path} HTTP/1.1\nHost: here" + (f"\nAuthorization: Bearer {token}" if token else "")
        reader, writer = await self.connect(head, shows)
        whole = await reader.read()
        writer.close()
        answer, _, body = whole.partition(b"\r\n\r\n")
        return int(answer.split(b" ")[1]), body

    @contextlib.asynccontextmanager
    async def target(self, handler: Handler) -> AsyncIterator[None]:
        """Play the target's API server."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                self.answers.heads.append(head)
                await handler(head, reader, writer)
            writer.close()

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self.answers.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()


def says(answer: bytes) -> Handler:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return handler


async def echo(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello ")
    while data := await reader.read(100):
        writer.write(data)
        await writer.drain()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("kubelet")
    make(found)
    return found


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    authority = ClientAuthority(
        Certificate(str(folder / "server" / "server.crt"), str(folder / "server" / "server.key"))
    )
    authority.trust((folder / "front" / "ca.crt").read_text())
    answers = Asked()
    server = KubeletServer(answers, authority)
    await server.listen("127.0.0.1", 0, "candidates.virtualNodes")
    yield Kubelet(folder, answers, server)
    await server.stop()


async def test_nobody_without_a_certificate_or_a_token_gets_anything(kubelet: Kubelet) -> None:
    for path in ("/healthz", "/pods", "/containerLogs/team/web/main", "/nothing"):
        assert (await kubelet.ask(path, shows=""))[0] == 401
        assert (await kubelet.ask(path, shows="", token="bad"))[0] == 401
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError, IndexError)):
        await kubelet.ask("/healthz", shows="other")
    assert not kubelet.answers.heads


async def test_who_has_no_right_gets_nothing(kubelet: Kubelet) -> None:
    kubelet.answers.allowed = False
    for path in ("/healthz", "/pods", "/containerLogs/team/web/main", "/nothing"):
        assert (await kubelet.ask(path))[0] == 403
    assert kubelet.answers.verbs[2] == ("client", "get", "candidates-east")


async def test_what_is_about_no_pod(kubelet: Kubelet) -> None:
    assert await kubelet.ask("/healthz", shows="", token="good") == (200, b"ok")
    code, body = await kubelet.ask("/pods")
    assert (code, orjson.loads(body)["kind"]) == (200, "PodList")
    assert (await kubelet.ask("/pods", method="POST"))[0] == 405
    assert (await kubelet.ask("/stats/summary"))[0] == 501
    assert (await kubelet.ask("/run/team/web/main"))[0] == 404
    assert (await kubelet.ask("/containerLogs/team/other/main"))[0] == 404
    assert (await kubelet.ask("/containerLogs/team/web/main", method="POST"))[0] == 405
    assert (await kubelet.ask("/exec/team/web/main", method="POST"))[0] == 400


async def test_a_log_is_the_targets_own_answer(kubelet: Kubelet) -> None:
    async with kubelet.target(says(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\none\ntwo\n")):
        assert await kubelet.ask("/containerLogs/team/web/main?tailLines=2") == (200, b"one\ntwo\n")
    head = kubelet.answers.heads[0].decode()
    first, *lines = head.split("\r\n")
    assert first == "GET /prefix/api/v1/namespaces/there/pods/web-1/log?container=main&tailLines=2 HTTP/1.0"
    assert "Authorization: Bearer secret" in lines
    assert not any(line.lower().startswith("upgrade") for line in lines)


async def test_a_log_is_followed_line_by_line_until_the_reader_goes(kubelet: Kubelet) -> None:
    more, gone = asyncio.Event(), asyncio.Event()

    async def slow(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await more.wait()
        writer.write(b"HTTP/1.0 200 OK\r\n\r\none\n")
        assert await reader.read() == b""
        gone.set()

    async with kubelet.target(slow):
        reader, writer = await kubelet.connect("GET /containerLogs/team/web/main?follow=true HTTP/1.1\nHost: here")
        more.set()
        assert await reader.readuntil(b"one\n")
        writer.close()
        await asyncio.wait_for(gone.wait(), PATIENCE)


async def test_a_reader_that_goes_before_anything_was_said_is_noticed(kubelet: Kubelet) -> None:
    gone = asyncio.Event()

    async def silent(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        gone.set()

    async with kubelet.target(silent):
        _, writer = await kubelet.connect("GET /containerLogs/team/web/main?follow=true HTTP/1.1\nHost: here")
        while not kubelet.answers.heads:
            await asyncio.sleep(0.01)
        writer.close()
        await asyncio.wait_for(gone.wait(), PATIENCE)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (
            b'HTTP/1.0 404 Not Found\r\n\r\n{"kind":"Status","message":"pods \\"web-1\\" not found"}',
            (404, b'pods "web-1" not found\n'),
        ),
        (b"HTTP/1.0 400 Bad Request\r\n\r\ncontainer is waiting to start", (400, b"container is waiting to start\n")),
        (b'HTTP/1.0 401 Unauthorized\r\n\r\n{"message":"Unauthorized"}', (502, b"Unauthorized\n")),
        (b"HTTP/1.0 500 x\r\n\r\n", (500, b"the cluster in which the pod runs refused it\n")),
        (b"", (502, b"the cluster in which the pod runs did not answer\n")),
        (b"nonsense\r\n\r\n", (502, b"the cluster in which the pod runs refused it\n")),
    ],
)
async def test_a_refusal_of_the_target_is_told_in_its_words(
    kubelet: Kubelet, answer: bytes, wanted: tuple[int, bytes]
) -> None:
    async with kubelet.target(says(answer)):
        assert await kubelet.ask("/containerLogs/team/web/main") == wanted


async def test_a_target_that_is_away_is_named(kubelet: Kubelet) -> None:
    async with kubelet.target(echo):
        pass
    code, body = await kubelet.ask("/containerLogs/team/web/main")
    assert code == 502
    assert body.startswith(b"east is away")


@pytest.mark.parametrize(
    "upgrade",
    [
        (
            "Connection: Upgrade\nUpgrade: SPDY/3.1\nX-Stream-Protocol-Version: v4.channel.k8s.io\n"
            "X-Stream-Protocol-Version: v3.channel.k8s.io"
        ),
        (
            "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: x\nSec-WebSocket-Version: 13\n"
            "Sec-WebSocket-Protocol: v5.channel.k8s.io"
        ),
    ],
)
async def test_an_upgraded_connection_is_a_pipe(kubelet: Kubelet, upgrade: str) -> None:
    async with kubelet.target(echo):
        head = f"POST /exec/team/web/main?command=cat&input=1 HTTP/1.1\nHost: here\nCookie: no\n{upgrade}"
        reader, writer = await kubelet.connect(head)
        writer.write(b"\x00\x01binary")
        answer = await reader.readuntil(b"binary")
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert answer.endswith(b"\r\n\r\nhello \x00\x01binary")
        writer.write(b"x" * 300_000)
        assert await reader.readexactly(300_000) == b"x" * 300_000
        writer.close()
    sent = kubelet.answers.heads[0].decode().split("\r\n")
    assert sent[0].startswith("POST /prefix/api/v1/namespaces/there/pods/web-1/exec?")
    assert dict(parse_qsl(sent[0].split("?")[1].split(" ")[0])) == {
        "container": "main",
        "stdin": "true",
        "command": "cat",
    }
    assert [line.lower() for line in sent if "Cookie" in line] == []
    names = {line.lower() for line in sent}
    assert {line.lower() for line in upgrade.split("\n")} <= names
    assert kubelet.answers.verbs == [("client", "create", "candidates-east")]


async def test_an_upgrade_that_the_target_refuses_is_told(kubelet: Kubelet) -> None:
    body = b'{"kind":"Status","message":"pods \\"web-1\\" is forbidden"}'
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    head = "POST /exec/team/web/main HTTP/1.1\nHost: here\nConnection: Upgrade\nUpgrade: SPDY/3.1"
    async with kubelet.target(says(refused)):
        reader, _ = await kubelet.connect(head)
        whole = await reader.read()
    assert whole.startswith(b"HTTP/1.1 403 ")
    assert whole.endswith(b'pods "web-1" is forbidden\n')


@pytest.mark.parametrize(
    "raw", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET http://x/ HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n"]
)
async def test_what_is_no_request_is_refused(kubelet: Kubelet, raw: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", kubelet.server.port, ssl=kubelet.context("front"))
    writer.write(raw)
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_certificate_that_changes_is_served_from_then_on(
    kubelet: Kubelet, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "LOOK_AGAIN", 0.01)
    pki.make(tmp_path, "IP:127.0.0.1")
    served = [folder / "server" / name for name in ("server.crt", "server.key")]
    before = [path.read_bytes() for path in served]
    authority = ClientAuthority(Certificate(*map(str, served)))
    authority.trust((folder / "front" / "ca.crt").read_text())
    other = KubeletServer(kubelet.answers, authority)
    await other.listen("127.0.0.1", 0, "candidates.virtualNodes")
    try:
        for path in served:
            path.write_bytes((tmp_path / path.name).read_bytes())
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        while True:
            with contextlib.suppress(ssl.SSLError):
                _, writer = await asyncio.open_connection("127.0.0.1", other.port, ssl=trust)
                writer.close()
                break
            await asyncio.sleep(0.01)
    finally:
        for path, content in zip(served, before, strict=True):
            path.write_bytes(content)
        await other.stop()


async def asked(kubelet: Kubelet, raw: str) -> bytes:
    """Say something, and return the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", kubelet.server.port, ssl=kubelet.context("front"))
    writer.write(raw.encode())
    try:
        return await reader.readline()
    finally:
        writer.close()


async def test_nothing_is_handed_on_before_the_target_has_agreed(kubelet: Kubelet) -> None:
    """On a connection that is authenticated as a whole, what follows a refused upgrade would be another request."""
    more: list[bytes] = []

    async def refuses(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                more.append(await reader.read(100))
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()

    head = "POST /exec/team/web/main?command=sh HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
    async with kubelet.target(refuses):
        assert b" 403 " in await asked(kubelet, f"{head}DELETE /api/v1/namespaces/kube-system HTTP/1.1\r\n\r\n")
    assert len(kubelet.answers.heads) == 1
    assert more in ([], [b""])


@pytest.mark.parametrize("sign", ["\n", "\r", "\0"])
async def test_a_header_is_one_line(kubelet: Kubelet, sign: str) -> None:
    async with kubelet.target(says(b"HTTP/1.1 200 OK\r\n\r\n")):
        headers = f"Connection: Upgrade\r\nUpgrade: SPDY/3.1{sign}Impersonate-User: admin\r\n\r\n"
        assert b" 400 " in await asked(kubelet, f"POST /exec/team/web/main?command=sh HTTP/1.1\r\n{headers}")
    assert kubelet.answers.heads == []


async def test_a_pod_that_is_on_another_node_once_the_right_is_known_is_asked_for_again(kubelet: Kubelet) -> None:
    """Another pod of its name: who may use the one Node may not use the other."""
    kubelet.answers.moves_to = "candidates-west"
    code, said = await kubelet.ask("/containerLogs/default/web/c")
    assert (code, said) == (503, b'pod "default/web" was bound to another Node just now; ask again\n')
    assert kubelet.answers.verbs == [("client", "get", "candidates-east")]
    assert kubelet.answers.heads == []
