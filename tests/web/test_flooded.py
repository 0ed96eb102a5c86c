"""The operators' port, flooded: whoever asks whether we are alive is answered, and nobody else's odd request is an
error of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from controlplane.telemetry import Metrics
from controlplane.web import Health, WebServer, create_app, serve
from controlplane.web.guard import Guard
from controlplane.web.ops import serve_guarded
from tests.support.waiting import PATIENCE


@pytest.fixture
async def server() -> AsyncIterator[WebServer]:
    running = await serve(create_app(Health(("schema",)), Metrics().registry), "127.0.0.1", 0)
    yield running
    await running.stop()


async def healthz(server: WebServer) -> int:
    url = f"http://127.0.0.1:{server.port}/healthz"
    async with aiohttp.ClientSession() as session, session.get(url, timeout=aiohttp.ClientTimeout(total=20)) as answer:
        return answer.status


def half_open(server: WebServer) -> socket.socket:
    found = socket.socket()
    found.setblocking(False)
    found.connect_ex(("127.0.0.1", server.port))
    return found


@pytest.mark.parametrize("sent", [b"", b"GET /met"])
async def test_alive_under_a_thousand_requests_that_never_come(server: WebServer, sent: bytes) -> None:
    """Eleven hundred connections without a request, two hundred at a time as files allow, and one that asks."""
    for _ in range(6):
        opened = [half_open(server) for _ in range(200)]
        try:
            await asyncio.sleep(0.05)
            for one in opened:
                with contextlib.suppress(OSError):
                    one.send(sent)
            assert await healthz(server) == 200
        finally:
            for one in opened:
                one.close()


async def guarded(guard: Guard, app: web.Application | None = None) -> WebServer:
    found = app or create_app(Health(("schema",)), Metrics().registry)
    return await serve_guarded(found, guard, "127.0.0.1", 0, "http")


async def test_who_sends_no_request_is_not_waited_for() -> None:
    server = await guarded(Guard(8, patience=0.2))
    try:
        for sent in (b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            async with asyncio.timeout(PATIENCE):
                assert await _until_closed(reader) == b""
            writer.close()
    finally:
        await server.stop()


async def _until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_a_second_request_on_a_connection_is_not_waited_for_either() -> None:
    server = await guarded(Guard(8, patience=0.3))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /healthz HTTP/1.1\r\nX-")
        async with asyncio.timeout(PATIENCE):
            assert await _until_closed(reader) == b""
        writer.close()
    finally:
        await server.stop()


async def test_there_are_never_more_connections_than_may_be() -> None:
    guard = Guard(8)
    server = await guarded(guard)
    opened = [half_open(server) for _ in range(50)]
    try:
        async with asyncio.timeout(PATIENCE):
            while len(guard) < 8:
                await asyncio.sleep(0.01)
        for _ in range(20):
            assert len(guard) <= 8
            assert await healthz(server) == 200
    finally:
        for one in opened:
            one.close()
        await server.stop()


async def test_who_is_at_work_goes_last_and_not_never() -> None:
    """Whoever waits gives way before whoever works; where all work, the oldest does."""
    app, inside, over = web.Application(), asyncio.Semaphore(0), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        inside.release()
        await over.wait()
        return web.Response()

    async def quick(_: web.Request) -> web.Response:
        return web.Response()

    app.router.add_get("/slow", slow)
    app.router.add_get("/healthz", quick)
    guard = Guard(4)
    server = await guarded(guard, app)
    streams = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(4)]
    try:
        for _, writer in streams:
            writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        for _ in streams:
            await inside.acquire()
        assert await healthz(server) == 200
        async with asyncio.timeout(PATIENCE):
            assert await _until_closed(streams[0][0]) == b""
        assert not streams[3][0].at_eof()
    finally:
        over.set()  # or the server would wait for those who are at work
        for _, writer in streams:
            writer.close()
        await server.stop()


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=x",
        "text/plain; version=1.0.0; escaping=allow-utf-8; escaping",
        "application/openmetrics-text;version=",
        ";;;=,,",
        "text/plain;version=0.0.4;q=x",
        "*/*",
        "application/openmetrics-text; version=1.0.0",
        "ü",
        "",
    ],
)
async def test_an_odd_accept_header_gets_the_metrics_all_the_same(server: WebServer, accept: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"controlplane_" in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /loglevel HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: a\n\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PUT /loglevel HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"PUT /nowhere HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"PUT /loglevel HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_request_is_no_error_of_ours(
    server: WebServer, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Else whoever reaches the port fills the disk with tracebacks."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    async with asyncio.timeout(PATIENCE):
        answer = await _until_closed(reader)
    writer.close()
    assert b" 400 " in answer[:20] or b" 404 " in answer[:20]
    assert not [one for one in caplog.records if one.levelno >= logging.INFO]


async def test_an_error_of_ours_is_told_with_where_it_was(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: web.Request) -> web.Response:
        raise RuntimeError("broken")

    app = web.Application()
    app.router.add_get("/", broken)
    server = await guarded(Guard(4), app)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}/") as answer:
        assert answer.status == 500
    await server.stop()
    assert "broken" in caplog.text
