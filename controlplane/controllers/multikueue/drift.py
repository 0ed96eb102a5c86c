"""Updates a clone in place whose priority differs from the Workload's, as Kueue does; any other difference replaces
the copy.
"""

from __future__ import annotations

from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.events import CloneUpdateDecided
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.told import next_try, spelled


def mend(pass_: WorkloadPass, local: WorkloadObserved, cluster: str) -> None:
    """Bring one clone's priority in line; a class of another sort cannot be set in place, and replaces the copy."""
    clone = pass_.state.remote(cluster).clone
    if clone is None or clone.priority == local.priority:
        return
    sort = (local.priority.class_group, local.priority.class_kind, bool(local.priority.class_name))
    if sort != (clone.priority.class_group, clone.priority.class_kind, bool(clone.priority.class_name)):
        pass_.remove(cluster, WorkloadReason.SPEC_DIFFERS)
        return
    until = next_try(pass_.state.remote(cluster).mended, spelled(local.priority))
    if until is not None and pass_.now < until:
        pass_.wake_at(until)
        return
    pass_.write(
        CloneUpdateDecided(
            cluster=cluster,
            resource_version=clone.resource_version,
            priority=local.priority,
            reason=WorkloadReason.PRIORITY_CHANGED,
        )
    )
