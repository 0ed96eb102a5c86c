"""What an operator may tell the log: that a lost cluster is given up, that a mass outage is real.

In: a log, a name, who says so. Out: one event, appended beside the leader with its epoch and only if the stream is
still as it was judged; the leader's loop does the rest. Refused with the reason if it does not fit what the log knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from controlplane.app.hosted import TYPES
from controlplane.controllers.connectivity.events import (
    FLEET_STREAM,
    MANAGEMENT,
    ClusterForgotten,
    LogRebound,
    MassOutageAccepted,
    cluster_stream,
)
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Event, Fenced, LogUnavailable, NewEvent, VersionConflict
from controlplane.log.folding import Folding
from controlplane.log.port import Assisted
from controlplane.log.postgres import PostgresLog

_TRIES = 20  # a cluster that cannot be reached has an event for each attempt; a try reads only what came since
_PATIENCE = 15.0  # seconds
_Judge = Callable[[WorkloadIndex], tuple[str, int, Event, int]]


class NotAllowed(Exception):  # noqa: N818 - what the operator is told
    """The request does not fit what the log knows; the message says why and what to do."""


class NoSuchCluster(NotAllowed):
    """The log knows no cluster of that name."""


async def forget(database: Database, log: str, policy: MultiKueuePolicy, name: str, by: str) -> int:
    """End the grace of a lost cluster: its workloads may be queued again, under `never-twice` too. Return how many it
    has.
    """
    return await _told(database, log, lambda opened: forget_in(opened, policy, name, by))


async def forget_in(log: Assisted, policy: MultiKueuePolicy, name: str, by: str) -> int:
    """As `forget`, in an open log."""

    def judge(index: WorkloadIndex) -> tuple[str, int, Event, int]:
        connection = forgettable(index, name)
        copies = sum(name in state.remotes for state in index.workloads.values())
        return cluster_stream(name), connection.version, ClusterForgotten(by=by), copies

    return await _append(log, policy, judge)


def forgettable(index: WorkloadIndex, name: str) -> Connection:
    """Return the connection of a cluster that may be forgotten; raises `NotAllowed` with the reason why not."""
    connection = index.connections.get(name)
    if connection is None or name.startswith("@"):
        known = ", ".join(sorted(other for other in index.connections if not other.startswith("@"))) or "none"
        raise NoSuchCluster(f'the log knows no cluster "{name}": it knows {known}')
    if connection.connected or connection.phase in ("Unknown", "Standby"):
        raise NotAllowed(
            f'cluster "{name}" is {connection.phase.lower()}, not lost: only a cluster that cannot be reached can be '
            "forgotten"
        )
    if connection.forgotten:
        raise NotAllowed(f'cluster "{name}" is forgotten already, until it connects again')
    return connection


async def accept_outage(database: Database, log: str, policy: MultiKueuePolicy, by: str) -> int:
    """Say that the clusters of a mass outage are really gone. Return how many are away."""
    return await _told(database, log, lambda opened: accept_outage_in(opened, policy, by))


async def accept_outage_in(log: Assisted, policy: MultiKueuePolicy, by: str) -> int:
    """As `accept_outage`, in an open log."""

    def judge(index: WorkloadIndex) -> tuple[str, int, Event, int]:
        acceptable(index)
        return FLEET_STREAM, index.outage.version, MassOutageAccepted(by=by), len(index.away()[0])

    return await _append(log, policy, judge)


def acceptable(index: WorkloadIndex) -> None:
    """Raise `NotAllowed` with the reason if there is no mass outage that may be accepted."""
    if index.outage.since is None:
        raise NotAllowed("there is no mass outage to accept")
    if not index.outage.holds:
        raise NotAllowed(f"the mass outage was accepted by {index.outage.accepted_by} already")


async def rebind(database: Database, log: str, policy: MultiKueuePolicy, by: str) -> int:
    """Let a log follow another management cluster. Return how many Workloads it knows of the one before."""
    return await _told(database, log, lambda opened: rebind_in(opened, policy, by))


async def rebind_in(log: Assisted, policy: MultiKueuePolicy, by: str) -> int:
    """As `rebind`, in an open log."""

    def judge(index: WorkloadIndex) -> tuple[str, int, Event, int]:
        connection = rebindable(index)
        return cluster_stream(MANAGEMENT), connection.version, LogRebound(by=by), len(index.workloads)

    return await _append(log, policy, judge)


def rebindable(index: WorkloadIndex) -> Connection:
    """Return the connection to the cluster that a log belongs to; raises `NotAllowed` if it belongs to none, or may
    move already.
    """
    connection = index.connections.get(MANAGEMENT)
    if connection is None or not connection.incarnation:
        raise NotAllowed("the log belongs to no cluster yet: the first one that a service connects to will be its own")
    if connection.rebound:
        raise NotAllowed("the log follows the next cluster that a service connects to already")
    return connection


async def _told(database: Database, log: str, tell: Callable[[Assisted], Awaitable[int]]) -> int:
    """Tell a log something, and return how many that is about. A service waits for its database as long as it takes; a
    person is told: raises `LogUnavailable` once the database has taken nothing for `_PATIENCE`.
    """
    limit, said = asyncio.timeout(None), ""

    def heard(ok: bool, detail: str) -> None:
        nonlocal said
        said = detail
        with contextlib.suppress(RuntimeError):  # it is over already
            if ok:
                limit.reschedule(None)
            elif limit.when() is None:
                limit.reschedule(asyncio.get_running_loop().time() + _PATIENCE)

    async with PostgresLog(database, Codec(TYPES), log=log, on_state=heard) as opened:
        try:
            async with limit:
                return await tell(opened)
        except TimeoutError:
            raise LogUnavailable(
                f"the database took nothing for {_PATIENCE:g} s ({said}): see that database.url names the primary, and"
                " say it again, which is refused if it was recorded after all"
            ) from None


async def _append(log: Assisted, policy: MultiKueuePolicy, judge: _Judge) -> int:
    index = WorkloadIndex(policy)
    fold, position = Folding(index.fold), 0
    for last in range(_TRIES):
        await log.assist()
        while events := await log.read(position):
            for recorded in events:
                fold(recorded)
            position = events[-1].position
        stream, version, event, count = judge(index)
        # A stream of a cluster has more than connectivity on it: its version is what the log says it is now.
        expected = {stream: max(version, index.slots.get(stream).version)}
        try:
            await log.append(Append([NewEvent(stream=stream, event=event)], expected))
        except (VersionConflict, Fenced):
            if last == _TRIES - 1:
                raise
            continue
        return count
    raise AssertionError("unreachable")
