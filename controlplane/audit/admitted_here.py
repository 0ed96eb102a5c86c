"""When a Workload was admitted without being dispatched, so that its job runs on the management cluster.

In: the events of a Workload. Out: the times in which it was admitted, and what is to be said of them. Whether pods ran
meanwhile is not recorded. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.audit.runs_seen import JobRun
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.events import NominationDecided
from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.log.event import Event, Recorded, Unknown


def admitted_here(events: Iterable[Recorded], stream: str, since: int) -> list[JobRun]:
    """Return the times in which the Workload of a stream was admitted, from a position on; none if it was ever offered to
    a worker.
    """
    found: list[JobRun] = []
    for recorded in events:
        event = recorded.event
        if recorded.stream != stream or recorded.position < since:
            continue
        if isinstance(event, NominationDecided):
            return []
        if not isinstance(event, WorkloadObserved | WorkloadGone):
            continue
        if _admitted(event):
            if not found or found[-1].ended is not None:
                found.append(JobRun(cluster=MANAGEMENT, uid="", seen=True, began=recorded))
        elif found and found[-1].ended is None:
            found[-1] = JobRun(cluster=MANAGEMENT, uid="", seen=True, began=found[-1].began, ended=recorded)
    return found


def _admitted(event: Event | Unknown) -> bool:
    if not isinstance(event, WorkloadObserved) or event.cluster_name or event.is_true("Finished"):
        return False
    return event.is_true("Admitted") and not event.is_true("Evicted")


def proof(times: Sequence[JobRun]) -> list[Recorded]:
    """Return the events that began and ended these times, in order, each once."""
    unique = {one.position: one for time in times for one in (time.began, time.ended) if one is not None}
    return [unique[at] for at in sorted(unique)]
