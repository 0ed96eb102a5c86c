"""Decides for how long a Workload is not tried that was preempted again and again.

In: when it was preempted, as the log has it. Out: until when it is not tried, and the event that ends that. Pure.
ClusterQueues that preempt and reclaim from each other can take the same quota from one another in a circle: each step
follows from Kueue's rules, which know no pause either, and takes as long as its writes. Here each is in the log as
well, and gives a worker a copy."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.state import WorkloadState

_OFTEN = 8
KEPT = 16
"""How many times of a Workload are looked at."""
_WITHIN = timedelta(minutes=10)
_FIRST, _LONGEST = timedelta(seconds=1), timedelta(minutes=1)


def preempted(state: WorkloadState, at: datetime) -> WorkloadState:
    """Return the state of a Workload that is preempted: it is paused if that was too often of late."""
    times = (*(one for one in state.preempted if at - one < _WITHIN), at)[-KEPT:]
    return msgspec.structs.replace(state, preempted=times, paused=tried_from(times) is not None)


def tried_from(times: tuple[datetime, ...]) -> datetime | None:
    """Return from when a Workload is tried again that was preempted at these times, None if at once: with the eighth
    time within ten minutes it waits a second, and with each further one twice as long, up to a minute."""
    more = len(times) - _OFTEN
    return times[-1] + min(_FIRST * 2**more, _LONGEST) if more >= 0 else None


def end_of_pause(
    times: tuple[datetime, ...], now: datetime, wake: datetime | None
) -> tuple[list[events.ReservationRetried], datetime | None]:
    """Return what ends the pause of a Workload that was preempted at these times, and when to look again: at `wake` at
    the latest."""
    until = tried_from(times)
    if until is None or until <= now:
        return [events.ReservationRetried(reason=R.PREEMPTION_PAUSE_OVER)], wake
    return [], min(until, wake or until)
