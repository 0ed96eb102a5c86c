"""Whether a Workload is what it is because the management cluster was put back to a backup.

In: the events of a Workload and around it. Out: the restore, and what was seen of the Workload after it. Pure. What the lists
after a restore show of a Workload is recorded where it differs from what was known, between the event of the restore and the one
that says that Workloads are listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controlplane.audit.case import STAMP, Answer, Case
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterRestored, KindSynced, cluster_stream
from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Statement

_MANAGEMENT = cluster_stream(MANAGEMENT)


def restores(events: Iterable[Recorded], stream: str) -> Iterator[tuple[Recorded, Recorded]]:
    """Yield each restore of the management cluster that showed the Workload of a stream otherwise than it was known, with the
    last observation that says so."""
    restore: Recorded | None = None
    shown: Recorded | None = None
    for recorded in events:
        event = recorded.event
        if recorded.stream == _MANAGEMENT and isinstance(event, ClusterRestored):
            restore = restore or recorded
        elif recorded.stream == _MANAGEMENT and isinstance(event, KindSynced) and event.kind == WORKLOADS.name:
            if restore is not None and shown is not None:
                yield restore, shown
            restore = shown = None
        elif restore is not None and recorded.stream == stream and isinstance(event, WorkloadObserved | WorkloadGone):
            shown = recorded
    if restore is not None and shown is not None:
        yield restore, shown


def _restored(case: Case) -> tuple[Recorded, Recorded] | None:
    """Return the last restore that concerned the Workload; of another one that had its name before, nothing counts."""
    last = case.last(WorkloadObserved, WorkloadGone, test=lambda e: e.stream == case.stream)
    found = [(restore, shown) for restore, shown in restores(case.events, case.stream) if _same(shown, last)]
    return found[-1] if found else None


def _same(one: Recorded, other: Recorded | None) -> bool:
    return other is not None and getattr(one.event, "uid", "") == getattr(other.event, "uid", None)


def went_with_restore(case: Case) -> bool:
    """Whether the Workload is gone since the management cluster was put back to a backup which did not have it."""
    found = _restored(case)
    return found is not None and isinstance(found[1].event, WorkloadGone)


def after_restore(case: Case) -> Answer:
    """Return what a sentence is to add about a restore of the management cluster, "" if it changed nothing for the Workload."""
    found = _restored(case)
    if found is None or case.standing.word == "Finished":
        return "", []
    restore, shown = found
    return f"{_said(restore, shown)}.", [restore, shown]


def statements_of_restore(case: Case) -> list[Statement]:
    """Return the same of a Workload that has ended."""
    found = _restored(case)
    if found is None:
        return []
    restore, shown = found
    return [
        Statement(about="Restored", text=f"t{_said(restore, shown)[1:]}", events=[restore, shown], cluster=MANAGEMENT)
    ]


def _said(restore: Recorded, shown: Recorded) -> str:
    assert isinstance(restore.event, ClusterRestored)
    when = (
        f"The management cluster was restored from a backup at {restore.recorded_at:{STAMP}} ({restore.event.message})"
    )
    if isinstance(shown.event, WorkloadGone):
        return f"{when}, which did not have the Workload"
    return f"{when}, which had the Workload as it was before"
