"""Says what becomes of a gang by what the scheduler's log says of a member, and by what it finds out about its members.

In: a gang's progress, values. Out: the same after it. What is decided of a gang is in `controlplane.kube.pod_groups`.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.scheduling.gangs.place import StartProgress
from controlplane.kube.pod_groups import GangProgress

_replace = msgspec.structs.replace


def runs(gang: GangProgress) -> bool:
    """Whether a member is on a node, or was let go."""
    return bool(gang.released) or any(member.stage == "Assigned" for member in gang.members.values())


def waits(gang: GangProgress, uid: str, until: datetime) -> GangProgress:
    """Return the gang after a member's reservation was recorded, which waits for the others."""
    deadline = min(gang.deadline or until, until)
    return _replace(gang, waiting=(*gang.waiting, uid), deadline=deadline, failing=gang.failing - {uid})


def let_go(gang: GangProgress, uid: str) -> GangProgress:
    """Return the gang after a member may be bound."""
    waiting = tuple(one for one in gang.waiting if one != uid)
    return _replace(
        gang,
        waiting=waiting,
        released=gang.released | {uid},
        failing=gang.failing - {uid},
        deadline=gang.deadline if waiting else None,
    )


def freed(gang: GangProgress, uid: str) -> GangProgress:
    """Return the gang after a member that had a place has none any more."""
    waiting = tuple(one for one in gang.waiting if one != uid)
    after = _replace(gang, waiting=waiting, released=gang.released - {uid}, deadline=gang.deadline if waiting else None)
    return _replace(after, started=gang.started and runs(after))


def recalled(gang: GangProgress, start: StartProgress) -> GangProgress:
    """Return the gang with what a process before this one knew of its start; whether it still runs is read off its
    pods.
    """
    return _replace(gang, started=start.together and runs(gang), failures=start.failures, not_before=start.until)


def joined(gang: GangProgress, uid: str, before: GangProgress) -> GangProgress:
    """Return the gang, which has a member, after it was found to be the one that the member was of `before`: the member
    keeps its place, and the gang what it went through.
    """
    waits, released = uid in before.waiting and uid not in gang.waiting, uid in before.released
    deadlines = [one for one in (gang.deadline, before.deadline) if one is not None]
    rests = [one for one in (gang.not_before, before.not_before) if one is not None]
    gang = _replace(
        gang,
        waiting=(*gang.waiting, uid) if waits else gang.waiting,
        deadline=min(deadlines, default=None) if waits else gang.deadline,
        released=gang.released | {uid} if released else gang.released,
        failing=gang.failing | {uid} if uid in before.failing else gang.failing,
    )
    if gang.started:
        return gang
    failures, until = max(gang.failures, before.failures), max(rests, default=None)
    return _replace(gang, started=before.started and runs(gang), failures=failures, not_before=until)
