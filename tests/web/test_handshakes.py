"""TLS ports, flooded with connections that never end their handshake: few are kept, and who speaks TLS is answered."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
import uvloop

from controlplane.web import Certificate, guard, serve_webhook
from controlplane.web.client_authority import ClientAuthority
from controlplane.web.kubelet import KubeletServer
from tests.clusters import pki
from tests.support.waiting import PATIENCE
from tests.web.test_kubelet import Asked
from tests.web.test_webhook import echo

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop] | None] = {"asyncio": None, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("handshakes")
    pki.make(found, "IP:127.0.0.1")
    return found


def trust(folder: Path) -> ssl.SSLContext:
    found = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    found.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return found


def silent(port: int) -> socket.socket:
    """Connect, and say nothing."""
    found = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    found.setblocking(False)
    return found


async def closed(one: socket.socket) -> bool:
    try:
        return await asyncio.get_running_loop().sock_recv(one, 1) == b""
    except ConnectionError:
        return True


async def answered(folder: Path, port: int) -> int:
    url = f"https://127.0.0.1:{port}/mutate"
    async with aiohttp.ClientSession() as session, session.post(url, data=b"{}", ssl=trust(folder)) as answer:
        return answer.status


async def flooded(folder: Path) -> None:
    """Open more than may be: the first ones are closed long before a handshake's time is over."""
    certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
    running = await serve_webhook({"/mutate": echo}, certificate, "127.0.0.1", 0)
    opened: list[socket.socket] = []
    try:
        async with asyncio.timeout(PATIENCE):
            for _ in range(200):
                opened.append(silent(running.port))
                await asyncio.sleep(0)
            assert await answered(folder, running.port) == 200
            for one in opened[:50]:
                assert await closed(one)
    finally:
        await running.stop()
        for one in opened:
            one.close()
    with pytest.raises(ConnectionRefusedError):
        silent(running.port)


@pytest.mark.parametrize("loop", LOOPS)
def test_handshakes_that_never_end_are_few(folder: Path, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_PATIENCE", 10 * PATIENCE)
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(flooded(folder))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_handshake_is_not_waited_for_without_end(folder: Path, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_PATIENCE", 0.2)

    async def waited() -> None:
        certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
        running = await serve_webhook({"/mutate": echo}, certificate, "127.0.0.1", 0)
        with silent(running.port) as one:
            async with asyncio.timeout(PATIENCE):
                assert await closed(one)
                assert await answered(folder, running.port) == 200
        await running.stop()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(waited())


@pytest.fixture
async def kubelet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeletServer]:
    monkeypatch.setattr("controlplane.web.kubelet._PATIENCE", 10 * PATIENCE)
    monkeypatch.setattr("controlplane.web.kubelet.MOST", 8)
    certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
    running = KubeletServer(Asked(), ClientAuthority(certificate))
    await running.listen("127.0.0.1", 0, "candidates.virtualNodes")
    yield running
    await running.stop()


async def test_who_asks_a_kubelet_is_heard_however_many_say_nothing(folder: Path, kubelet: KubeletServer) -> None:
    context, opened = trust(folder), []
    async with asyncio.timeout(PATIENCE):
        for _ in range(30):
            opened.append(await asyncio.open_connection("127.0.0.1", kubelet.port, ssl=context))
        reader, writer = await asyncio.open_connection("127.0.0.1", kubelet.port, ssl=context)
        writer.write(b"GET /healthz HTTP/1.1\r\nAuthorization: Bearer good\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
    for _, one in [*opened, (reader, writer)]:
        one.close()
