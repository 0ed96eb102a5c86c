"""A webhook over real TLS: certificates that are renewed, that are not there, and that do not fit."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import structlog

from controlplane.web import Certificate, CertificateError, ListenError, Webhook, serve_webhook, webhook
from controlplane.web.webhook import MayWait
from tests.clusters import pki
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, each with a certificate for this machine."""
    place = tmp_path_factory.mktemp("authorities")
    for name in ("first", "second"):
        (place / name).mkdir()
        pki.make(place / name, "IP:127.0.0.1")
    return place


@pytest.fixture
def folder(authorities: Path, tmp_path: Path) -> Path:
    shutil.copytree(authorities, tmp_path, dirs_exist_ok=True)
    install(tmp_path, "first")
    return tmp_path


def install(folder: Path, which: str) -> None:
    for name in ("server.crt", "server.key"):
        shutil.copy(folder / which / name, folder / name)


async def echo(review: dict[str, Any], may_wait: MayWait) -> dict[str, Any]:
    if "no" in review:
        raise ValueError("no review")
    return {"seen": review}


@pytest.fixture
async def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Webhook]:
    monkeypatch.setattr(webhook, "LOOK_AGAIN", 0.05)
    certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
    running = await serve_webhook({"/mutate": echo}, certificate, "127.0.0.1", 0)
    yield running
    await running.stop()


async def post(port: int, authority: Path, body: bytes = b"{}", path: str = "/mutate") -> tuple[int, str]:
    trust = ssl.create_default_context(cafile=str(authority))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{port}{path}", data=body, ssl=trust) as answer,
    ):
        return answer.status, await answer.text()


async def test_reviews_are_answered(served: Webhook, folder: Path) -> None:
    assert await post(served.port, folder / "first" / "ca.crt", b'{"a":1}') == (200, '{"seen":{"a":1}}')
    assert (await post(served.port, folder / "first" / "ca.crt", path="/other"))[0] == 404


@pytest.mark.parametrize(("size", "status"), [(6 * 1024 * 1024, 200), (8 * 1024 * 1024, 413)])
async def test_a_review_may_have_a_large_object_twice(served: Webhook, folder: Path, size: int, status: int) -> None:
    half = "x" * (size // 2)
    body = orjson.dumps({"request": {"object": half, "oldObject": half}})
    assert (await post(served.port, folder / "first" / "ca.crt", body))[0] == status


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"no":1}'])
async def test_what_is_no_review_is_refused(served: Webhook, folder: Path, body: bytes) -> None:
    status, text = await post(served.port, folder / "first" / "ca.crt", body)
    assert status == 400
    assert text.strip()


async def test_a_renewed_certificate_is_served_without_a_restart(served: Webhook, folder: Path) -> None:
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await post(served.port, folder / "second" / "ca.crt")
    install(folder, "second")
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                assert (await post(served.port, folder / "second" / "ca.crt"))[0] == 200
            except aiohttp.ClientConnectorCertificateError:
                await asyncio.sleep(0.05)
            else:
                return


async def test_half_a_renewal_leaves_the_certificate_before_in_force(served: Webhook, folder: Path) -> None:
    shutil.copy(folder / "second" / "server.key", folder / "server.key")
    await asyncio.sleep(0.3)
    assert (await post(served.port, folder / "first" / "ca.crt"))[0] == 200
    (folder / "server.crt").unlink()
    await asyncio.sleep(0.3)
    assert (await post(served.port, folder / "first" / "ca.crt"))[0] == 200


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(CertificateError, match=r"nowhere\.crt cannot be read \(No such file or directory\)"):
        Certificate(str(folder / "nowhere.crt"), str(folder / "server.key"))


def test_a_key_that_does_not_fit_is_said(folder: Path) -> None:
    with pytest.raises(CertificateError, match="belong together"):
        Certificate(str(folder / "server.crt"), str(folder / "second" / "server.key"))


def test_one_file_may_hold_both(folder: Path) -> None:
    both = folder / "both.pem"
    both.write_bytes((folder / "server.crt").read_bytes() + (folder / "server.key").read_bytes())
    assert not Certificate(str(both)).renew()


async def test_a_port_that_is_taken_is_said_with_its_setting(folder: Path) -> None:
    certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ListenError, match=r"webhook\.port"):
            await serve_webhook({"/mutate": echo}, certificate, "127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ListenError, match=r"coscheduling\.webhookPort"):
            await serve_webhook(
                {"/mutate": echo}, certificate, "127.0.0.1", taken.getsockname()[1], "coscheduling.webhook"
            )


async def begun(folder: Path, port: int, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send all of a review but its end."""
    trust = ssl.create_default_context(cafile=str(folder / "first" / "ca.crt"))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    writer.write(b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
    writer.write(b" " * (size - 2))
    return reader, writer


@pytest.mark.parametrize("small", [b"{}", b" " * 60_000 + b"{}"])
async def test_few_large_reviews_are_read_at_a_time_and_small_ones_are_answered(
    served: Webhook, folder: Path, monkeypatch: pytest.MonkeyPatch, small: bytes
) -> None:
    """Else whoever reaches the port takes the process its memory."""
    monkeypatch.setattr(webhook, "_WAIT", 0.2)
    monkeypatch.setattr(webhook, "_ARRIVES", PATIENCE)
    slow = [await begun(folder, served.port, 6_000_000) for _ in range(2)]
    await asyncio.sleep(0.2)
    large = b" " * 1_000_000 + b"{}"
    authority = folder / "first" / "ca.crt"
    assert (await post(served.port, authority, small))[0] == 200
    assert await post(served.port, authority, large) == (503, "too many large reviews come at once: ask again\n")
    for reader, writer in slow:
        writer.write(b"{}")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
    assert (await post(served.port, authority, large))[0] == 200


class Unknown:
    """Answers a review at once, or, if it says so, once its queue is known: or there is no room to wait for that."""

    def __init__(self) -> None:
        self.known = asyncio.Event()
        self.waiting = 0

    async def __call__(self, review: dict[str, Any], may_wait: MayWait) -> dict[str, Any]:
        if "waits" not in review:
            return {"known": True}
        while not self.known.is_set():
            if not may_wait():
                return {"known": False}
            self.waiting += 1
            await self.known.wait()
        return {"known": True}


async def test_large_reviews_that_wait_for_a_queue_keep_nobody_waiting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes large jobs for queues that do not exist would have all other large ones refused."""
    monkeypatch.setattr(webhook, "_WAIT", PATIENCE)
    unknown, authority = Unknown(), folder / "first" / "ca.crt"
    certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
    running = await serve_webhook({"/mutate": unknown}, certificate, "127.0.0.1", 0)
    large, waits = b" " * 1_000_000 + b"{}", b" " * 1_000_000 + b'{"waits":1}'
    try:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            waiting = [group.create_task(post(running.port, authority, waits)) for _ in range(webhook._LARGE_WAITING)]
            while unknown.waiting < webhook._LARGE_WAITING:
                await asyncio.sleep(0.01)
            # No more of them wait, all others are answered, and small ones wait as they did.
            assert [await post(running.port, authority, waits) for _ in range(3)] == [(200, '{"known":false}')] * 3
            assert [await post(running.port, authority, large) for _ in range(3)] == [(200, '{"known":true}')] * 3
            assert await post(running.port, authority, b"{}") == (200, '{"known":true}')
            small = group.create_task(post(running.port, authority, b'{"waits":1}'))
            while unknown.waiting == webhook._LARGE_WAITING:
                await asyncio.sleep(0.01)
            assert not any(one.done() for one in (*waiting, small))
            unknown.known.set()
        assert [one.result() for one in (*waiting, small)] == [(200, '{"known":true}')] * (len(waiting) + 1)
        # Each has given back what it had: so many are read at a time as before, and so many may wait.
        unknown.known.clear()
        unknown.waiting = 0
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            again = [group.create_task(post(running.port, authority, waits)) for _ in waiting]
            while unknown.waiting < len(waiting):
                await asyncio.sleep(0.01)
            slow = [await begun(folder, running.port, 6_000_000) for _ in range(webhook._LARGE_AT_ONCE)]
            await asyncio.sleep(0.2)
            monkeypatch.setattr(webhook, "_WAIT", 0.2)
            assert (await post(running.port, authority, large))[0] == 503
            for _, writer in slow:
                writer.close()
            unknown.known.set()
        assert {one.result() for one in again} == {(200, '{"known":true}')}
    finally:
        await running.stop()


async def test_a_large_review_that_does_not_come_is_not_waited_for(
    served: Webhook, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_ARRIVES", 0.2)
    slow = [await begun(folder, served.port, 6_000_000) for _ in range(2)]
    for reader, writer in slow:
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 408")
        writer.close()
    assert (await post(served.port, folder / "first" / "ca.crt", b" " * 1_000_000 + b"{}"))[0] == 200


def ended(folder: Path, days: str) -> None:
    """Install a certificate that ends in so many days."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(folder / "server.key"), "-out", str(folder / "server.crt"), "-subj", "/CN=x"]
    subprocess.run([*command, *files, "-days", days], check=True, capture_output=True)


async def test_a_certificate_that_ends_is_told_before_nobody_takes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `failurePolicy: Ignore` nothing else says that nobody is asked any more."""
    monkeypatch.setattr(webhook, "LOOK_AGAIN", 0.05)
    ended(folder, "1")
    certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
    with structlog.testing.capture_logs() as logs:
        running = await serve_webhook({"/mutate": echo}, certificate, "127.0.0.1", 0)
        try:
            async with asyncio.timeout(PATIENCE):
                while not logs:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.3)
                assert [one["log_level"] for one in logs] == ["warning"]
                assert "server.crt ends at 20" in logs[0]["error"]
                ended(folder, "30")
                while len(logs) < 2:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.3)
                assert [one["event"] for one in logs[1:]] == ["webhook certificate changed"]
        finally:
            await running.stop()
