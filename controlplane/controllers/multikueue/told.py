"""Remembers how often the same was written to an object that did not keep it: another controller writes it too, such as
the status of the user's job or the priority of a copy, or its API server drops what it does not know.

In: the writes that were carried out. Out: when it may be written again, and whether there is any use in it. Pure. The
first time it is written again at once, since the management cluster may have been put back to before; then after a
second, two, four and so on: two that never rest would fill the log."""

from __future__ import annotations

from datetime import datetime, timedelta
from zlib import crc32

import msgspec

from controlplane.controllers.multikueue.events import CloneDecided, StatusRelayDecided, WorkloadWrite
from controlplane.controllers.multikueue.observations import Priority
from controlplane.log.event import canonical

_TRIES = 3
_FIRST, _LONGEST, _FORGOTTEN = timedelta(seconds=1), timedelta(minutes=5), timedelta(minutes=15)
_DOUBLINGS = 10
# Whatever it is: so often because of conflicts, or since a cluster was put back; then it is somebody who takes it back.
_FREE, _LONGEST_OF_ALL = 6, timedelta(seconds=8)


class Told(msgspec.Struct, frozen=True):
    """What was written last: a copy's status, "" that nothing runs, a priority, of what a copy was made, or a
    fingerprint of any write; how often in a row; and when."""

    what: str
    times: int
    at: datetime


def told_after(before: Told | None, relay: StatusRelayDecided, at: datetime, *, unneeded: bool = False) -> Told | None:
    """Return what was written to the user's job after one more write that was decided at a time. One that is `unneeded`
    changed nothing, and will not when it comes again."""
    if relay.mark_suspended or relay.outcome or relay.member:
        return before
    told = told_again(before, "" if relay.drain else relay.status, at)
    return msgspec.structs.replace(told, times=max(told.times, _TRIES)) if unneeded else told


def told_again(before: Told | None, what: str, at: datetime) -> Told:
    """Return what was written after one more write."""
    again = before is not None and before.what == what and at - before.at < _FORGOTTEN
    return Told(what, before.times + 1 if before is not None and again else 1, at)


def next_try(told: Told | None, what: str) -> datetime | None:
    """Return when something may be written that was written before; None for at once."""
    if told is None or told.what != what or told.times < 2:
        return None
    return told.at + min(_FIRST * (1 << min(told.times - 2, _DOUBLINGS)), _LONGEST)


def repeated(before: Told | None, decision: WorkloadWrite, at: datetime) -> Told:
    """Return what was decided to be written to an object, and how often in a row, after one more decision."""
    return told_again(before, _fingerprint(decision), at)


def next_repeat(told: Told | None, decision: WorkloadWrite) -> datetime | None:
    """Return when a write may be decided that was decided again and again; None for at once."""
    if told is None or told.times < _FREE or told.what != _fingerprint(decision):
        return None
    return told.at + min(_FIRST * (1 << min(told.times - _FREE, _DOUBLINGS)), _LONGEST_OF_ALL)


def _fingerprint(decision: WorkloadWrite) -> str:
    """Return the same text for writes of the same to one object, whatever version it has."""
    content = canonical(msgspec.structs.replace(decision, resource_version=""))
    return f"{type(decision).__name__} {crc32(content):08x}"


def is_not_kept(told: Told | None, status: str) -> bool:
    """Whether a last status was written often enough to a job that does not show it."""
    return told is not None and told.what == status and told.times >= _TRIES


def spelled(priority: Priority) -> str:
    """Return a priority as JSON."""
    return canonical(priority).decode()


def made_for(decision: CloneDecided) -> str:
    """Return of what, and in which attempt, a copy is created."""
    return f"{decision.attempt} {decision.template}"
