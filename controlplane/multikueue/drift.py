"""A clone whose priority differs from the Workload's is updated in place (specs 2.5 step 5); any other difference replaces the copy."""

from __future__ import annotations

from controlplane.multikueue.events import CloneUpdateDecided, WorkloadObserved
from controlplane.multikueue.passing import Pass
from controlplane.multikueue.reasons import Reason


def mend(turn: Pass, local: WorkloadObserved, cluster: str) -> None:
    """Bring one clone's priority in line; a class of another sort cannot be set in place, and replaces the copy."""
    clone = turn.state.remote(cluster).clone
    if clone is None or clone.priority == local.priority:
        return
    sort = (local.priority.class_group, local.priority.class_kind, bool(local.priority.class_name))
    if sort != (clone.priority.class_group, clone.priority.class_kind, bool(clone.priority.class_name)):
        turn.remove(cluster, Reason.SPEC_DIFFERS)
        return
    turn.write(
        CloneUpdateDecided(
            cluster=cluster,
            resource_version=clone.resource_version,
            priority=local.priority,
            reason=Reason.PRIORITY_CHANGED,
        )
    )
