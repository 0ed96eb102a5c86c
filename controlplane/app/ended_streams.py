"""Says which streams of the service's log are over, so that no process needs their events to know what it knows now.

In: settings, a log, and the newest snapshot that a process of this version and these settings would start from. Out:
what `controlplane.log.archive.dropping` asks. The controller that owns a stream says so (`leaves_nothing`), if it names
the stream's kind in `ENDING`: then a fold of the log without its events gives the same state."""

from __future__ import annotations

from controlplane.app.hosted import HostedControllers
from controlplane.clock import SystemClock
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.ended import Ended
from controlplane.log.postgres import PostgresLog
from controlplane.log.snapshots import PostgresSnapshots
from controlplane.runtime.ended import ended_of
from controlplane.runtime.fold_version import fold_version
from controlplane.runtime.router import ControllerRouter
from controlplane.runtime.snapshots import Snapshots
from controlplane.settings import Settings


class NoSnapshot(Exception):  # noqa: N818 - what the operator is told
    """There is no snapshot that says which streams are over; the message says why and what to do."""


async def ended_streams(database: Database, log: str, settings: Settings) -> Ended:
    """Return which streams are over by the newest snapshot. Raises `NoSnapshot`, and `LogUnavailable`."""
    router = HostedControllers(settings).router
    position = await _restored(database, log, settings, router)
    if position is None:
        raise NoSnapshot(
            f"the log {log} has no snapshot of this version and these settings, which would say what a process still "
            "needs: run this with the service's version and settings, after the service has kept one "
            "(log.snapshotEvery); a scheduler's log has none, and is not dropped from"
        )
    return ended_of(router, position)


async def _restored(database: Database, log: str, settings: Settings, router: ControllerRouter) -> int | None:
    opened = PostgresLog(database, Codec(router.types), log=log)
    fold = fold_version(settings, [one.name for one in router.registrations])
    snapshots = Snapshots(
        PostgresSnapshots(database, opened), router, opened.traces, fold, SystemClock(), settings.log.snapshot_every
    )
    try:
        start = await snapshots.restore()
        return start.position if start is not None else None
    finally:
        await snapshots.end(orderly=False)
        await opened.close()
