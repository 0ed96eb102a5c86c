"""Sees to it that a process leads a log only beside the cluster that the log belongs to, and rather one that reaches
it.

In: a way to the management cluster, and what the log says of the connection to it. Out: why it cannot be asked, or
`WrongCluster`; of a follower that is answered where the leader is not, `LeadRequested` in the log; of a leader, whether
it lets the lead go for that. Nobody resigns unasked: where no process reaches the cluster, the one that leads goes on
watching the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from controlplane.clock import Clock
from controlplane.clusters.incarnation import incarnation_of
from controlplane.clusters.management_connection import ManagementConnection
from controlplane.clusters.protocol import ClusterError
from controlplane.controllers.connectivity.events import EVENTS, LeadRequested
from controlplane.controllers.connectivity.identity import unbound
from controlplane.controllers.connectivity.local_connection import lead_requested
from controlplane.controllers.connectivity.state import Connection
from controlplane.log.codec import Codec
from controlplane.log.event import Append, LogError, Recorded
from controlplane.log.port import Log
from controlplane.runtime.lifecycle import OpenManagement, ProcessContext
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

# Seconds in which a cluster is to say who it is, before the lead is asked for; and until one is asked again that did
# not.
_ASKED, _AGAIN = 5.0, 5.0
# Seconds for which a follower sees that the leader is away from the cluster, before it asks for the lead.
_SEEN_AWAY = 5.0
# Seconds that a leader waits for an answer of the cluster before it lets the lead go, and a follower before it asks
# again. A leader writes nothing for want of Leases by then, and a connection that is kept has been answered within
# them.
_PATIENCE = 18.0
_APPEND = 5.0  # seconds that the request may take


class WrongCluster(Exception):  # noqa: N818 - what an operator is told
    """The log belongs to another cluster than the one that this process stands beside; the message says which, and what
    to do.
    """


async def check_cluster(open_management: OpenManagement, known: Connection | None) -> str:
    """Raise `WrongCluster` if the cluster that we stand beside is not the one that the log belongs to; return why it
    could not be asked, "" if it could.

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

    Whoever replaces the processes of a service one by one has to see that the next ones are of no use. `known` is the
    cluster that the log belongs to."""

    def __init__(
        self, open_management: OpenManagement, known: Callable[[], Connection | None], clock: Clock, health: Health
    ) -> None:
        self._open, self._known, self._clock, self._health = open_management, known, clock, health
        self._unreached = self._said = ""
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Ask once, and go on beside if it does not answer. Raises `WrongCluster`."""
        if not await self.asked():
            self.tasks.append(asyncio.create_task(self._repeat(), name="reach"))

    def tell(self, refused: str) -> None:
        """Have readiness say why this process could not lead: why the log gives it no lead (`refused`), or its cluster
        no answer. Raises `WrongCluster`.
        """
        for task in self.tasks:
            if task.done():
                task.result()
        before, self._said = self._said, _why_not(refused, self._unreached)
        if self._said or before:
            self._health.set("leader", not self._said, self._said or "follows")

    @property
    def unreached(self) -> bool:
        """Whether the cluster did not answer when it was last asked."""
        return bool(self._unreached)

    async def asked(self) -> bool:
        """Ask the cluster; return whether it answered. Raises `WrongCluster`."""
        unreached = await check_cluster(self._open, self._known())
        if unreached and not self._unreached:
            _log.warning("the management cluster does not answer", error=unreached)
        self._unreached = unreached
        return not unreached

    async def _repeat(self) -> None:
        while True:
            await self._clock.sleep(_AGAIN)
            if await self.asked():
                return


def _why_not(refused: str, unreached: str) -> str:
    if refused:
        return f"cannot lead: {refused}"
    return f"follows, and the management cluster does not answer this process: {unreached}" if unreached else ""


class LeadRequests:
    """A follower that asks for the lead. `open_log` opens the log once more, since the one that is followed appends for
    its own epoch alone; `known` is the connection of the leader, as the log says it; `reaches` asks the cluster itself
    whether it answers this process."""

    def __init__(
        self,
        open_log: Callable[[], Log],
        identity: str,
        known: Callable[[], Connection | None],
        reaches: Callable[[], Awaitable[bool]],
        clock: Clock,
    ) -> None:
        self._open, self._identity, self._known, self._reaches, self._clock = open_log, identity, known, reaches, clock
        self._away_since: float | None = None
        self._again = float("-inf")
        self.tasks: list[asyncio.Task[None]] = []

    def look(self) -> None:
        """Ask for the lead, if the leader has been away from the cluster for a while; to be called again and again.
        Raises what asking the cluster raised.
        """
        if self.tasks and self.tasks[0].done():
            self.tasks.pop().result()
        connection, now = self._known(), self._clock.monotonic()
        if connection is None or connection.phase not in ("Lost", "Failed"):
            self._away_since = None
            return
        if self._away_since is None:
            self._away_since = now
        if not self.tasks and now >= max(self._away_since + _SEEN_AWAY, self._again):
            self.tasks = [asyncio.create_task(self._ask(), name="lead-request")]

    async def _ask(self) -> None:
        if not await self._reaches():
            self._again = self._clock.monotonic() + _SEEN_AWAY
            return
        self._again = self._clock.monotonic() + _PATIENCE
        log = self._open()
        try:
            async with asyncio.timeout(_APPEND):
                head = await log.assist()
                await log.append(Append([lead_requested(head.epoch, self._identity)]))
            _log.info("asked for the lead: the leader does not reach the management cluster", epoch=head.epoch)
        except (LogError, TimeoutError) as error:  # another process leads by now, or the database is away
            _log.debug("the lead could not be asked for", error=str(error))
        finally:
            await log.close()


def ways_to_lead(
    context: ProcessContext, known: Callable[[], Connection | None]
) -> tuple[ManagementReach, LeadRequests]:
    """Return what tells a follower whether it reaches the management cluster, and what asks for the lead if the leader
    does not; `known` is the connection as the log says it."""
    settings, clock = context.settings, context.clock

    def beside() -> Log:
        return context.ports.open_log(settings.database.log, Codec(EVENTS), lambda *_: None, lambda *_: None)

    reach = ManagementReach(context.open_management, known, clock, context.health)
    return reach, LeadRequests(beside, settings.leader.identity, known, reach.asked, clock)


class LettingGo:
    """Whether a leader lets the lead go. `since` is the position at which it got it: what others asked before was not
    for it; `done` is the future that ends the lead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.since = 0
        self.done: asyncio.Future[None] | None = None

    def heard(self, events: Sequence[Recorded], home: ManagementConnection) -> None:
        """Hear what the log says, beside the connection to the management cluster."""
        if self.done is None or self.done.done() or home.executor is not None:
            return
        other = let_go_for(events, self.since, self._clock.monotonic() - home.answered_at)
        if other:
            _log.warning("the management cluster does not answer this process, the lead is let go", asked_by=other)
            self.done.set_result(None)


def let_go_for(events: Sequence[Recorded], since: int, silent: float) -> str:
    """Return for whom a leader lets the lead go that it got at position `since`, by what it has just read of the log;
    "" if it keeps it. `silent`: for how many seconds the management cluster has not answered it."""
    if silent < _PATIENCE:
        return ""
    asked = (one.event for one in events if one.position > since)
    return next((event.holder for event in asked if isinstance(event, LeadRequested)), "")
