"""/metrics, /healthz, /readyz and /loglevel over a real socket."""

from __future__ import annotations

import asyncio
import logging
import platform
import socket
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from controlplane import telemetry
from controlplane.telemetry import Metrics
from controlplane.web import Health, ListenError, WebServer, create_app, serve


@pytest.fixture
def health() -> Health:
    return Health(("schema", "clusters"))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def server(health: Health, metrics: Metrics) -> AsyncIterator[WebServer]:
    running = await serve(create_app(health, metrics.registry), "127.0.0.1", 0)
    yield running
    await running.stop()


async def get(server: WebServer, path: str, **headers: str) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{server.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_alive_though_not_ready(server: WebServer) -> None:
    assert await get(server, "/healthz") == (200, "text/plain; charset=utf-8", "ok\n")


async def test_ready_says_what_is_missing(server: WebServer, health: Health) -> None:
    async def readyz() -> tuple[int, dict[str, object]]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{server.port}/readyz") as answer,
        ):
            assert answer.headers["Cache-Control"] == "no-store"
            return answer.status, await answer.json()

    status, body = await readyz()
    assert status == 503
    assert body["ready"] is False
    health.set("schema", True)
    health.set("clusters", False, "worker1: connection refused")
    status, body = await readyz()
    assert status == 503
    checks = body["checks"]
    assert isinstance(checks, dict)
    assert {name: (check["ok"], check["detail"]) for name, check in checks.items()} == {
        "schema": (True, ""),
        "clusters": (False, "worker1: connection refused"),
    }
    health.set("clusters", True, "3 of 3")
    assert (await readyz())[0] == 200
    health.set("schema", False, "gone")
    assert (await readyz())[0] == 503


async def test_a_check_that_is_excluded_does_not_count_and_is_shown(server: WebServer, health: Health) -> None:
    health.set("schema", True)
    health.set("clusters", False, "worker1: connection refused")
    assert (await get(server, "/readyz"))[0] == 503
    status, _, text = await get(server, "/readyz?exclude=clusters")
    assert status == 200
    assert "worker1: connection refused" in text
    assert (await get(server, "/readyz?exclude=schema&exclude=clusters"))[0] == 200
    assert (await get(server, "/readyz?exclude=database"))[0] == 503, "of that name there is none"


async def test_metrics_in_both_formats(server: WebServer, metrics: Metrics) -> None:
    metrics.events_appended.labels(type="WorkloadSeen").inc(3)
    status, content_type, text = await get(server, "/metrics")
    assert status == 200
    assert content_type.startswith("text/plain")
    assert 'controlplane_log_events_appended_total{type="WorkloadSeen"} 3.0' in text
    _, content_type, text = await get(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


async def test_other_paths_and_methods_are_refused(server: WebServer) -> None:
    assert (await get(server, "/"))[0] == 404
    async with aiohttp.ClientSession() as session, session.post(f"http://127.0.0.1:{server.port}/readyz") as answer:
        assert answer.status == 405


async def test_a_port_in_use_is_one_sentence(server: WebServer, health: Health, metrics: Metrics) -> None:
    with pytest.raises(
        ListenError, match=rf"^Another program listens on 127\.0\.0\.1:{server.port} already: .*http\.port"
    ):
        await serve(create_app(health, metrics.registry), "127.0.0.1", server.port)


async def test_an_address_of_another_machine_is_one_sentence(health: Health, metrics: Metrics) -> None:
    with pytest.raises(ListenError, match=r"^192\.0\.2\.1:\d+ is not an address of this machine"):
        await serve(create_app(health, metrics.registry), "192.0.2.1", 0)


async def test_a_stopped_server_frees_its_port(health: Health, metrics: Metrics) -> None:
    running = await serve(create_app(health, metrics.registry), "127.0.0.1", 0)
    await running.stop()
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", running.port))


def test_without_checks_nothing_is_ready() -> None:
    assert not Health().ready


def test_since_changes_with_the_verdict_only() -> None:
    health = Health()
    health.set("schema", False, "a")
    first = health.checks["schema"].since
    health.set("schema", False, "b")
    assert (health.checks["schema"].since, health.checks["schema"].detail) == (first, "b")
    health.set("schema", True)
    assert health.checks["schema"].since >= first


@pytest.fixture
def level() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    telemetry.set_level("info")
    yield
    root.setLevel(before)


async def put_level(server: WebServer, body: str | bytes) -> tuple[int, str]:
    url = f"http://127.0.0.1:{server.port}/loglevel"
    async with aiohttp.ClientSession() as session, session.put(url, data=body) as answer:
        return answer.status, await answer.text()


@pytest.mark.usefixtures("level")
async def test_the_level_of_messages_changes_while_it_runs(server: WebServer) -> None:
    assert (await get(server, "/loglevel"))[2] == '{"level":"info"}'
    assert await put_level(server, '{"level": "DEBUG"}') == (200, '{"level":"debug"}')
    assert logging.getLogger().level == logging.DEBUG
    assert logging.getLogger("aiohttp.access").level == logging.WARNING


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize(
    "body",
    ["", "debug", "[]", '{"level": 1}', '{"level": "loud"}', '{"lever": "debug"}', "x" * 5000, b'{"level":"\xff"}'],
)
async def test_a_level_that_is_none_is_refused_and_changes_nothing(server: WebServer, body: str | bytes) -> None:
    status, text = await put_level(server, body)
    assert (status, text) == (400, 'The body must be {"level": LEVEL}; levels are debug, info, warning, error.\n')
    assert telemetry.level_now() == "info"


@pytest.mark.usefixtures("level")
async def test_from_another_machine_the_level_is_read_and_not_changed(server: WebServer) -> None:
    async def elsewhere(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await handler(request.clone(remote="192.0.2.7"))

    app = create_app(Health(()), Metrics().registry)
    app.middlewares.append(web.middleware(elsewhere))
    running = await serve(app, "127.0.0.1", 0)
    try:
        assert (await get(running, "/loglevel"))[0] == 200
        assert (await put_level(running, '{"level": "debug"}'))[0] == 403
        assert telemetry.level_now() == "info"
    finally:
        await running.stop()


async def test_the_version_is_served_and_no_series_of_creation(server: WebServer, metrics: Metrics) -> None:
    metrics.requeues.labels("worker-1").inc()
    for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
        text = (await get(server, "/metrics", Accept=accept))[2]
        assert f'controlplane_build_info{{python="{platform.python_version()}",version="' in text
        assert 'controlplane_requeues_from_lost_clusters_total{cluster="worker-1"} 1.0' in text
        assert "_created" not in text


@pytest.mark.usefixtures("level")
async def test_a_level_may_come_in_pieces(server: WebServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = b'{"level": "warning"}'
    writer.write(b"PUT /loglevel HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
    for piece in (body[:5], body[5:]):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.1)
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
