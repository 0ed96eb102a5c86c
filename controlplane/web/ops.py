"""The endpoints for operators: /metrics, /healthz and /readyz, on one small server.

In: a `Health` and a metrics registry. Out: HTTP. Liveness and readiness differ on purpose: /healthz answers as long as the event loop
turns, so that nobody restarts a process because its database is away; /readyz says what is missing.
"""

from __future__ import annotations

import errno

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from controlplane.web.health import Health

HEALTH = web.AppKey("health", Health)
REGISTRY = web.AppKey("registry", CollectorRegistry)
_UNCACHED = {"Cache-Control": "no-store"}


class ListenError(Exception):
    """The address cannot be listened on; the message is one sentence that says why and what to change."""


def create_app(health: Health, registry: CollectorRegistry) -> web.Application:
    """Return the application; the dashboard may add routes of its own to it."""
    app = web.Application()
    app[HEALTH], app[REGISTRY] = health, registry
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", _readyz)
    return app


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n", headers=_UNCACHED)


async def _readyz(request: web.Request) -> web.Response:
    health = request.app[HEALTH]
    body = msgspec.json.encode({"ready": health.ready, "checks": health.checks})
    return web.Response(
        body=body, status=200 if health.ready else 503, content_type="application/json", headers=_UNCACHED
    )


async def _metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(request.app[REGISTRY]), headers={"Content-Type": content_type, **_UNCACHED})


class Server:
    """A running web server; `port` is the one it got, which matters if any free one was asked for."""

    def __init__(self, runner: web.AppRunner, address: str, port: int) -> None:
        self._runner, self.address, self.port = runner, address, port

    async def stop(self) -> None:
        """Stop listening, and wait a moment for the requests under way."""
        await self._runner.cleanup()


async def serve(app: web.Application, address: str, port: int) -> Server:
    """Listen on the address (port 0: any free one) and return the running server; `ListenError` if that cannot be done."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as error:
        await runner.cleanup()
        raise ListenError(why_not(error, address, port, "http")) from None
    return Server(runner, address, runner.addresses[0][1])


def why_not(error: OSError, address: str, port: int, section: str) -> str:
    """Return why an address cannot be listened on, and which setting of a section (`http`) to change."""
    where = f"{address}:{port}" if ":" not in address else f"[{address}]:{port}"
    port_key, address_key = (
        (f"{section}.port", f"{section}.address") if "." not in section else (f"{section}Port", f"{section}Address")
    )
    if error.errno == errno.EADDRINUSE:
        return f"Another program listens on {where} already: stop it, or choose another port with {port_key} (0: any free one)."
    if error.errno == errno.EACCES:
        return f"This user may not listen on {where}: choose a port from 1024 with {port_key}."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where} is not an address of this machine: choose another with {address_key}."
    return f"{where} cannot be listened on: {error.strerror or error}."
