"""The endpoints for operators: /metrics, /healthz, /readyz and /loglevel, on one small server.

In: a `Health` and a metrics registry. Out: HTTP. Liveness and readiness differ on purpose: /healthz answers as long as
the event loop turns, so that nobody restarts a process because its database is away; /readyz says what is missing."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import ssl
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from controlplane import telemetry
from controlplane.web.guard import REQUESTS, Guard, listen
from controlplane.web.handshakes import TlsServer
from controlplane.web.health import Health

HEALTH = web.AppKey("health", Health)
REGISTRY = web.AppKey("registry", CollectorRegistry)
_MOST = 64  # connections at a time: probes, a Prometheus or two, and people
_UNCACHED = {"Cache-Control": "no-store"}
_log = telemetry.logger("controlplane.web.ops")


class ListenError(Exception):
    """The address cannot be listened on; the message is one sentence that says why and what to change."""


def create_app(health: Health, registry: CollectorRegistry) -> web.Application:
    """Return the application; the dashboard may add routes of its own to it."""
    app = web.Application()
    app[HEALTH], app[REGISTRY] = health, registry
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", _readyz)
    app.router.add_get("/loglevel", _level)
    app.router.add_put("/loglevel", _set_level)
    return app


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n", headers=_UNCACHED)


async def _readyz(request: web.Request) -> web.Response:
    """Say whether the process is ready, `?exclude=CHECK` as of kube-apiserver's (kubernetes/kubernetes
    staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go): whether it would be if that check held.
    """
    health = request.app[HEALTH]
    ready = health.ready_without(request.query.getall("exclude", []))
    body = msgspec.json.encode({"ready": ready, "checks": health.checks})
    return web.Response(body=body, status=200 if ready else 503, content_type="application/json", headers=_UNCACHED)


async def _level(_request: web.Request) -> web.Response:
    body = msgspec.json.encode({"level": telemetry.level_now()})
    return web.Response(body=body, content_type="application/json", headers=_UNCACHED)


async def _set_level(request: web.Request) -> web.Response:
    """Change the level of messages until the process ends. Only for who is on this machine or comes by `kubectl
    port-forward`: the port is open to Prometheus, and `debug` fills disks.
    """
    if not _local(request.remote):
        return web.Response(status=403, text="The level is changed from 127.0.0.1 only: use kubectl port-forward.\n")
    try:
        given = msgspec.json.decode(await request.read(), type=dict[str, str])["level"].lower()
        before = telemetry.level_now()
        telemetry.set_level({level: level for level in telemetry.LEVELS}[given])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return web.Response(
            status=400, text=f'The body must be {{"level": LEVEL}}; levels are {", ".join(telemetry.LEVELS)}.\n'
        )
    _log.warning("log level changed", before=before, now=given)
    return await _level(request)


def _local(remote: str | None) -> bool:
    try:
        return ipaddress.ip_address(remote or "").is_loopback
    except ValueError:
        return False


async def _metrics(request: web.Request) -> web.Response:
    encode, content_type = _encoder(request.headers.get("Accept", ""))
    # What is reported is read at one moment, and spelled beside the loop: with a thousand queues that takes longer.
    found = _Collected(list(request.app[REGISTRY].collect()))
    body = await asyncio.to_thread(encode, found)
    return web.Response(body=body, headers={"Content-Type": content_type, **_UNCACHED})


class _Collected(CollectorRegistry):
    """What a registry has reported."""

    def __init__(self, families: list[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return it."""
        return self._families


def _encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """Return how metrics are spelled for whoever accepts this; what makes no sense asks for nothing."""
    try:
        return choose_encoder(accept)
    except (ValueError, LookupError, TypeError, AttributeError):
        return choose_encoder("")


class WebServer:
    """A running web server; `port` is the one it got, which matters if any free one was asked for."""

    def __init__(self, runner: web.AppRunner, listening: asyncio.Server | TlsServer, address: str) -> None:
        self._runner, self._listening, self.address = runner, listening, address
        self.port: int = listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and wait a moment for the requests under way."""
        self._listening.close()
        await self._runner.cleanup()


async def serve(app: web.Application, address: str, port: int) -> WebServer:
    """Listen on the address (port 0: any free one) and return the running server; `ListenError` if that cannot be
    done.
    """
    return await serve_guarded(app, Guard(_MOST), address, port, "http")


async def serve_guarded(
    app: web.Application,
    guard: Guard,
    address: str,
    port: int,
    section: str,
    context: ssl.SSLContext | None = None,
    headers: int = 0,
) -> WebServer:
    """As `serve`, with so many connections; `section` is that of the settings which say where to listen. `headers`: how
    many a request may have, 0 for as many as the library lets it."""
    app.middlewares.append(guard.middleware)
    limits: dict[str, Any] = {"max_headers": headers} if headers else {}
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=REQUESTS,
        shutdown_timeout=5,
        keepalive_timeout=guard.patience,
        lingering_time=1.0,
        **limits,
    )
    await runner.setup()
    try:
        listening = await listen(runner, guard, address, port, context)
    except OSError as error:
        await runner.cleanup()
        raise ListenError(why_not(error, address, port, section)) from None
    except asyncio.CancelledError:
        await runner.cleanup()
        raise
    return WebServer(runner, listening, address)


def why_not(error: OSError, address: str, port: int, section: str) -> str:
    """Return why an address cannot be listened on, and which setting of a section (`http`) to change."""
    where = f"{address}:{port}" if ":" not in address else f"[{address}]:{port}"
    port_key, address_key = (
        (f"{section}.port", f"{section}.address") if "." not in section else (f"{section}Port", f"{section}Address")
    )
    if error.errno == errno.EADDRINUSE:
        return (
            f"Another program listens on {where} already: stop it, or choose another port with {port_key} (0: any "
            "free one)."
        )
    if error.errno == errno.EACCES:
        return f"This user may not listen on {where}: choose a port from 1024 with {port_key}."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where} is not an address of this machine: choose another with {address_key}."
    return f"{where} cannot be listened on: {error.strerror or error}."
