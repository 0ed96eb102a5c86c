"""Makes of a decision the request that carries it out.

In: the decision, and the object as it was seen. Out: a request, for the version that was seen. What Kueue applies with
the admission is applied as Kueue does (docs/decisions/0026); where something has to go, which an apply takes away only
from its own manager, a merge patch with null takes it away from all."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.topology_events import TopologyAssignmentDecided
from controlplane.kube import kinds
from controlplane.kube.conditions import condition_json
from controlplane.kube.kinds import APPLY_PATCH, MERGE_PATCH, Json, Kind, ObjectRef, Request
from controlplane.kube.kueue_names import ADMISSION_MANAGER
from controlplane.kube.requests import merge_diff

# What others write of a Workload's status, under names of their own.
_OTHERS = frozenset({"reclaimablePods"})
_OTHERS_CONDITIONS = frozenset({"WaitingForReplacementPods"})


def request(kind: Kind, seen: Any, decision: events.AdmissionWrite) -> Request | None:
    """Return the request of a decision; None if the object is not the one that it was taken on."""
    if decision.resource_version != seen.resource_version or decision.uid != seen.uid:
        return None
    ref = ObjectRef(kind, seen.namespace, seen.name)
    match decision:
        case events.WorkloadAdmissionWrite():
            return _workload_status(ref, seen, decision)
        case events.WorkloadSpecDecided():
            return _patch(ref, decision, {"spec": decision.changes}, "")
        case events.WorkloadDeletionDecided():
            return Request("delete", ref, uid=decision.uid, resource_version=decision.resource_version)
        case events.FinalizersDecided():
            return _patch(ref, decision, {"metadata": {"finalizers": decision.finalizers}}, "")
        case events.QueueStatusDecided():
            return _patch(ref, decision, {"status": decision.changes}, "status")
    return None


def _patch(ref: ObjectRef, decision: events.AdmissionWrite, body: Json, subresource: str) -> Request:
    return Request(
        "patch", ref, body, subresource=subresource, uid=decision.uid, resource_version=decision.resource_version
    )


def _workload_status(
    ref: ObjectRef, seen: events.AdmissionWorkloadObserved, decision: events.WorkloadAdmissionWrite
) -> Request:
    changes = dict(decision.changes)
    if isinstance(decision, events.QuotaReservationDecided | TopologyAssignmentDecided):
        changes["admission"] = decision.admission
    conditions = _conditions(seen, decision)
    changed = {key: _in_place_of(seen.status.get(key), value) for key, value in changes.items()}
    if decision.dropped or _takes_away(changed) or _fewer_checks(seen.status, changes):
        status, how = {**changed, "conditions": conditions}, MERGE_PATCH
    else:
        status, how = _applied({**seen.status, **changes, "conditions": conditions}), APPLY_PATCH
    return Request(
        "patch",
        ref,
        {"status": status},
        subresource="status",
        content_type=how,
        uid=decision.uid,
        resource_version=decision.resource_version,
        field_manager=ADMISSION_MANAGER,
    )


def _in_place_of(before: Any, value: Any) -> Any:
    """Return what a merge patch says to have a value where another one is."""
    return merge_diff(before, value) if isinstance(before, dict) and isinstance(value, dict) else value


def _takes_away(patch: Any) -> bool:
    return patch is None or (isinstance(patch, dict) and any(map(_takes_away, patch.values())))


def _fewer_checks(before: Json, changes: Json) -> bool:
    """Whether an admission check is to go."""
    kept = {check["name"] for check in changes.get("admissionChecks") or ()}
    return "admissionChecks" in changes and any(one["name"] not in kept for one in before.get("admissionChecks") or ())


def _conditions(seen: events.AdmissionWorkloadObserved, decision: events.WorkloadAdmissionWrite) -> list[Json]:
    made = {one.type: condition_json(one) for one in decision.conditions}
    before = [one for one in seen.status.get("conditions") or () if one["type"] not in decision.dropped]
    return [*(made.pop(one["type"], one) for one in before), *made.values()]


def _applied(status: Json) -> Json:
    """Return what of a status is applied with the admission; what this version does not know goes along as it is."""
    found = {key: value for key, value in status.items() if key not in _OTHERS and value not in (None, [], {})}
    found["conditions"] = [one for one in status["conditions"] if one["type"] not in _OTHERS_CONDITIONS]
    if found.get("admission"):
        found.pop("resourceRequests", None)
    return found


KIND_OF: dict[str, Kind] = {
    "workload": kinds.WORKLOADS,
    "clusterqueue": kinds.CLUSTER_QUEUES,
    "cohort": kinds.COHORTS,
    "localqueue": kinds.LOCAL_QUEUES,
    "flavor": kinds.RESOURCE_FLAVORS,
    "check": kinds.ADMISSION_CHECKS,
    "topology": kinds.TOPOLOGIES,
}
