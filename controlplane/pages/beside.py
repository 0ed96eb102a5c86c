"""The pages as a process of their own beside a service: what they read takes no time from it.

In: an address, and what the process is to know. Out: a context in which it runs, begun anew if it ends. The address is
listened on here, so that one that is taken is known before anything begins; the process ends when this one does,
however this one does. Nothing here loads the libraries of the pages."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.util import find_spec

import structlog

from controlplane.settings.web import ADDRESS, LOOPBACK
from controlplane.tasks import end
from controlplane.web.ops import ListenError, why_not

_log = structlog.get_logger(__name__)
_LIBRARIES = ("jinja2", "starlette", "uvicorn")
_PAUSE = 5.0  # seconds before it is begun anew
_GRACE = 10.0  # seconds in which it may end


def missing_library() -> str:
    """Return the first of the libraries of the pages that is not installed; "" if all are."""
    return next((name for name in _LIBRARIES if find_spec(name) is None), "")


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; `ListenError` if that cannot be done."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(512)
    except OSError as error:
        listening.close()
        raise ListenError(why_not(error, address, port, "web")) from None
    listening.setblocking(False)
    return listening


def url_of(listening: socket.socket, published: str = ADDRESS) -> str:
    """Return the address of a socket that listens, as people open it: by loopback's name where it is published there
    (`web.published`), since to others the pages do not answer.
    """
    host, port = listening.getsockname()[:2]
    if published == LOOPBACK and ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


@contextlib.asynccontextmanager
async def beside(
    address: str,
    port: int,
    environment: Mapping[str, str],
    options: Sequence[str] = (),
    published: str = ADDRESS,
) -> AsyncIterator[str]:
    """Have the pages served while the block runs; yield their address as people open it. `environment` is added to this
    process's own, `options` stand before the verb. Raises `ListenError`.
    """
    with listen(address, port) as listening:
        keeping = asyncio.create_task(_keep(listening, {**os.environ, **environment}, options))
        try:
            yield url_of(listening, published)
        finally:
            await end(keeping)


async def _keep(listening: socket.socket, environment: Mapping[str, str], options: Sequence[str]) -> None:
    number = listening.fileno()
    command = [sys.executable, "-m", "controlplane", *options, "web", "--listening", str(number)]
    while True:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                env=dict(environment),
                pass_fds=[number],
                start_new_session=True,
            )
        except OSError as error:  # no process more, or no memory for one, just now
            _log.warning("the pages cannot be begun, and are tried again", error=str(error), seconds=_PAUSE)
            await asyncio.sleep(_PAUSE)
            continue
        try:
            code = await process.wait()
        finally:
            await _ended(process)
        _log.warning("the pages have ended, and are begun anew", code=code, seconds=_PAUSE)
        await asyncio.sleep(_PAUSE)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End the process: it hears of it by the end of its input."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), timeout=_GRACE)
    except TimeoutError:
        process.kill()
        await process.wait()
