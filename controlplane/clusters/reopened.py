"""Asks one API server now and then, for as long as the process lives: it is opened anew where its credentials may be
others by now.

In: a way to open it, which reads its kubeconfig each time. Out: `ClusterPort`. A connection that is kept has its own
attempts for that (`controlplane.clusters.management_connection`); whoever only asks a question had none, and would be
refused for ever once a kubeconfig was written anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from controlplane.clusters.protocol import ApiError, ClusterPort, Unreachable
from controlplane.clusters.streams import ApiServer
from controlplane.kube.kinds import Json, Kind, Request

_log = structlog.get_logger(__name__)
_AGAIN = 10.0  # seconds between two times that it is opened: an exec plugin runs for it


@dataclass(slots=True)
class _Opened:
    """A server, how many wait for its answers, and whether it refused us or was silent."""

    server: ApiServer
    uses: int = 0
    doubtful: bool = False


class ReopenedServer(ClusterPort):
    """See the module. Who is refused for its credentials asks once more, with those of now."""

    def __init__(
        self,
        open_server: Callable[[], Awaitable[ApiServer]],
        server: ApiServer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = getattr(server, "name", "")
        self._open, self._clock, self._lock = open_server, clock, asyncio.Lock()
        self._now, self._again = _Opened(server), float("-inf")

    async def get(self, kind: Kind, namespace: str, name: str, timeout: float | None = None) -> Json:
        """Return one object."""
        return await self._asked(lambda server: server.get(kind, namespace, name, timeout))

    async def write(self, request: Request) -> Json:
        """Send one write as it is."""
        return await self._asked(lambda server: server.write(request))

    async def create(self, kind: Kind, namespace: str, body: Json, *, field_manager: str = "") -> Json:
        """POST an object."""
        return await self._asked(lambda server: server.create(kind, namespace, body, field_manager=field_manager))

    async def close(self) -> None:
        """Let go of it."""
        await self._now.server.close()

    async def _asked(self, ask: Callable[[ApiServer], Awaitable[Json]]) -> Json:
        one = await self._current()
        try:
            return await self._once(one, ask)
        except ApiError as error:
            anew = await self._current() if error.status == 401 else one
            if anew is one:
                raise
        return await self._once(anew, ask)

    async def _once(self, one: _Opened, ask: Callable[[ApiServer], Awaitable[Json]]) -> Json:
        one.uses += 1
        try:
            return await ask(one.server)
        except ApiError as error:
            one.doubtful = one.doubtful or error.status == 401
            raise
        except (Unreachable, asyncio.CancelledError):  # whoever asks may wait for less long than a request may take
            one.doubtful = True
            raise
        finally:
            one.uses -= 1
            await self._let_go(one)

    async def _current(self) -> _Opened:
        """Return the server to ask: another one than before if that may be of use."""
        async with self._lock:
            if self._now.doubtful and self._clock() >= self._again:
                self._again = self._clock() + _AGAIN
                try:
                    server = await self._open()
                except Exception as error:  # the one before says itself what is wrong
                    _log.warning("the way to an API server cannot be opened anew", cluster=self.name, error=str(error))
                else:
                    before, self._now = self._now, _Opened(server)
                    await self._let_go(before)
            return self._now

    async def _let_go(self, one: _Opened) -> None:
        """Close a server in whose place another one is, once nobody waits for it."""
        if one is not self._now and not one.uses:
            await one.server.close()


async def reopened(open_server: Callable[[], Awaitable[ApiServer]]) -> ReopenedServer:
    """Return a server that was opened for the first time; raises what that raises."""
    return ReopenedServer(open_server, await open_server())
