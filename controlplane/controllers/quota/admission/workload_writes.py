"""Makes of a decision about a Workload's status what its event says of the write.

In: the Workload as it was seen, and its status as it is to be. Out: fields of events."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.workload_status import WorkloadStatus, differences
from controlplane.kube.conditions import conditions_of
from controlplane.kube.kinds import Json


def write_fields(before: Json, after: Json) -> dict[str, Any]:
    """Return what a decision about a Workload's status says of the change."""
    conditions, dropped, changes = differences(before, after)
    return {
        "conditions": conditions_of({"conditions": conditions}),
        "dropped": dropped,
        "changes": changes,
    }


def status_of(seen: events.AdmissionWorkloadObserved, now: datetime) -> WorkloadStatus:
    """Return a Workload's status, to be changed."""
    return WorkloadStatus(copy.deepcopy(seen.status), seen.generation, now)


def target_of(seen: events.AdmissionWorkloadObserved) -> dict[str, Any]:
    """Return which Workload a write is to, and its version."""
    return {"uid": seen.uid, "resource_version": seen.resource_version}
