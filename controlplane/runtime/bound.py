"""Sees to it that a process leads a log only beside the cluster that the log belongs to.

In: a way to the management cluster, and what the log says of it. Out: why it cannot be asked, or `WrongCluster`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from controlplane.clock import Clock
from controlplane.clusters.connection import incarnation_of
from controlplane.clusters.protocol import ClusterError
from controlplane.controllers.connectivity.identity import unbound
from controlplane.controllers.connectivity.state import Connection
from controlplane.runtime.lifecycle import OpenManagement
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

# Seconds in which a cluster is to say who it is, before the lead is asked for; and until one is asked again that did not.
_ASKED, _AGAIN = 5.0, 5.0


class WrongCluster(Exception):  # noqa: N818 - what an operator is told
    """The log belongs to another cluster than the one that this process stands beside; the message says which, and what
    to do.
    """


async def check_cluster(open_management: OpenManagement, known: Connection | None) -> str:
    """Raise `WrongCluster` if the cluster that we stand beside is not the one that the log belongs to; return why it could not be
    asked, "" if it could.

    One that does not answer, or does not know us, says nothing: the connection goes on asking once we lead.
    """
    try:
        server = await open_management()
    except Exception as error:  # whatever is wrong with the way there, the connection reports it
        return str(error) or type(error).__name__
    try:
        async with asyncio.timeout(_ASKED):
            identity = await incarnation_of(server)
    except (ClusterError, TimeoutError) as error:
        return str(error) or type(error).__name__
    finally:
        await server.close()
    if (objection := unbound(identity, known)) is not None:
        raise WrongCluster(objection[1])
    return ""


class ManagementReach:
    """Whether the management cluster answers this process, which follows: asked until it did.

    Whoever replaces the processes of a service one by one has to see that the next ones are of no use. `known` is the cluster
    that the log belongs to."""

    def __init__(
        self, open_management: OpenManagement, known: Callable[[], Connection | None], clock: Clock, health: Health
    ) -> None:
        self._open, self._known, self._clock, self._health = open_management, known, clock, health
        self._unreached = self._said = ""
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Ask once, and go on beside if it does not answer. Raises `WrongCluster`."""
        if not await self._asked():
            self.tasks.append(asyncio.create_task(self._repeat(), name="reach"))

    def tell(self, refused: str) -> None:
        """Have readiness say why this process could not lead: why the log gives it no lead (`refused`), or its cluster no answer.
        Raises `WrongCluster`.
        """
        for task in self.tasks:
            if task.done():
                task.result()
        before, self._said = self._said, _why_not(refused, self._unreached)
        if self._said or before:
            self._health.set("leader", not self._said, self._said or "follows")

    async def _asked(self) -> bool:
        unreached = await check_cluster(self._open, self._known())
        if unreached and not self._unreached:
            _log.warning("the management cluster does not answer", error=unreached)
        self._unreached = unreached
        return not unreached

    async def _repeat(self) -> None:
        while True:
            await self._clock.sleep(_AGAIN)
            if await self._asked():
                return


def _why_not(refused: str, unreached: str) -> str:
    if refused:
        return f"cannot lead: {refused}"
    return f"follows, and the management cluster does not answer this process: {unreached}" if unreached else ""
