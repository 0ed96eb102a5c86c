"""Says what a log tells of the process that leads it: by which settings, and since when it does not record what
happens.

In: a reader. Out: the newest `PolicyInForce`, None in a log of a version that said nothing; one sentence, "" if what
happens is recorded. Whoever may not read who holds the log is told what its own events say of that: a process that was
killed has recorded nothing of its end."""

from __future__ import annotations

from datetime import datetime, timedelta

import psycopg

from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.shown import clock
from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterLost,
    PolicyInForce,
    ServiceStarted,
    ServiceStopped,
    cluster_stream,
)
from controlplane.log.archive.manifest import RESTORED
from controlplane.log.event import Recorded
from controlplane.settings import Settings
from controlplane.settings.recorded import with_recorded_quota

SILENT = timedelta(seconds=10)
"""Time without a heartbeat from the leader that is too long: another replica takes over after three seconds."""

# The last word has who gave the lead back.
_HEAD = """
SELECT holder, CASE WHEN isfinite(renewed_at) THEN renewed_at END, clock_timestamp()
FROM controlplane.log_head WHERE log = %s"""
_STARTS = (ServiceStarted.__name__, ServiceStopped.__name__)
_CONNECTS = (ClusterConnected.__name__, ClusterConnectFailed.__name__, ClusterLost.__name__)
_START = "start the service (`controlplane run`), or see why it does not lead (`controlplane doctor`)"


def in_force(reader: LogReader) -> PolicyInForce | None:
    """Return what the process that led last said of its settings."""
    found = reader.events(Filter(streams=["service"], types=[PolicyInForce.__name__]), limit=1, newest=True)
    return next((recorded.event for recorded in found if isinstance(recorded.event, PolicyInForce)), None)


def with_quota_in_force(settings: Settings, reader: LogReader) -> Settings:
    """Return a reader's settings with what that process said of how it decides about quota; as they are where Kueue
    decides, or the log does not say."""
    said = in_force(reader)
    if said is None:
        return settings
    return with_recorded_quota(settings, said.quota, orchestrated_preemption=said.orchestrated_preemption)


def not_recorded(reader: LogReader) -> str:
    """Return since when the log does not follow what happens, and what to do; "" if it does, if it is empty, or if it
    is read as it was.
    """
    if reader.at is not None or not (end := _newest(reader)):
        return ""
    last = end[0]
    until = f"what is told is what was recorded until then, up to position {last.position}"
    if _holder(reader) == RESTORED:
        text = f"The log {reader.log} was restored from archives, and is for reading: nothing is recorded in it"
        return f"{text}; {until.replace(' until then', '')}."
    if (nobody := _without_leader(reader, last)) is not None:
        return f"Nobody records what happens: {nobody}; {until}. To go on, {_START}."
    if (away := _without_cluster(reader)) is not None:
        since = f"the management cluster does not answer the process that leads, since {clock(away.recorded_at)} UTC"
        return (
            f"What changed on the management cluster is not recorded: {since} ({getattr(away.event, 'message', '')})."
        )
    return ""


def known_until(reader: LogReader) -> str:
    """Return, as the end of a sentence about what a log does not know, up to when it knows anything, and why no
    further; "" if it is empty, or is read as it was.
    """
    if reader.at is not None or not (end := _newest(reader)):
        return ""
    gap = not_recorded(reader)
    return (
        f". {gap}"
        if gap
        else f". Its last event is that of {clock(end[0].recorded_at)} UTC, at position {end[0].position}"
    )


def _head(reader: LogReader) -> tuple[str, datetime | None, datetime] | None:
    """Return who holds a log, its last heartbeat and the time of the database; None for who may not read that."""
    try:
        return reader.connection.execute(_HEAD, [reader.log]).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None


def _holder(reader: LogReader) -> str:
    row = _head(reader)
    return row[0] if row is not None else ""


def _without_leader(reader: LogReader, last: Recorded) -> str | None:
    """Return that no process leads the log, and since when; None if one does, or if that cannot be told."""
    row = _head(reader)
    started = _newest(reader, types=_STARTS)
    event = started[0].event if started else None
    since = started[0].recorded_at if isinstance(event, ServiceStopped) else None
    if row is None:
        return _let_go(reader, event.holder, since) if isinstance(event, ServiceStopped) and since else None
    holder, renewed, now = row
    if renewed is None:
        return _let_go(reader, holder, since or last.recorded_at)
    if now - renewed <= SILENT:
        return None
    return f"{holder} led the log {reader.log}, and has sent no heartbeat since {clock(renewed)} UTC"


def _let_go(reader: LogReader, holder: str, since: datetime) -> str:
    when = f", when {holder} let it go" if holder else ""
    return f"no process leads the log {reader.log} since {clock(since)} UTC{when}"


def _without_cluster(reader: LogReader) -> Recorded | None:
    """Return the loss of the management cluster, None if it is connected; that of a leader which has just begun is that
    of the one before.
    """
    found = list(reader.events(Filter(streams=[cluster_stream(MANAGEMENT)], types=_CONNECTS), limit=1, newest=True))
    if not found or isinstance(found[0].event, ClusterConnected):
        return None
    connected = Filter(streams=[cluster_stream(MANAGEMENT)], types=[ClusterConnected.__name__])
    before = [one.position for one in reader.events(connected, limit=1, newest=True)]
    trouble = Filter(streams=[cluster_stream(MANAGEMENT)], types=_CONNECTS[1:], after=before[0] if before else 0)
    return next(iter(reader.events(trouble, limit=1)), found[0])


def _newest(reader: LogReader, types: tuple[str, ...] | None = None) -> list[Recorded]:
    streams = ["service"] if types is not None else None
    return list(reader.events(Filter(streams=streams, types=types), limit=1, newest=True))
