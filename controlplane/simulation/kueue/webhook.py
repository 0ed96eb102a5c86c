"""The rules that Kueue's API puts on writes of Workloads: the CRD's own (CEL, 422) and the validating webhook's (403).

In: the operation, the stored and the proposed Workload, for `workloads` and `workloads/status` alike. Out: nothing, or
an `ApiError` whose message names the field. Nomination and selection of a cluster are shaped by these rules, hence they
are kept to the letter (messages included). Topology and partial admission are outside of what is
simulated, and so are their rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import WORKLOADS, Json, Kind, meta
from controlplane.kube.slices import REPLACEMENT_FOR
from controlplane.simulation.apiserver.errors import ApiRefusal, Cause, invalid
from controlplane.simulation.apiserver.store import Operation

_IMMUTABLE = "field is immutable"
_POD_PRIORITY = ("scheduling.k8s.io", "PriorityClass")


def validate_workload(operation: Operation, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
    """Refuse a write of a Workload that Kueue's API would refuse; an admission hook of a store.

    Raises `ApiError` 422 `Invalid` for the CRD's rules, 403 `Forbidden` for the webhook's. Other kinds and deletions
    pass.
    """
    if kind != WORKLOADS or new is None or operation == "delete":
        return
    causes = [*_schema(new), *(_transitions(old, new) if old is not None else ())]
    if causes:
        raise invalid(WORKLOADS, meta(new).get("name", ""), causes)
    denials = [*_state(old, new), *(_updates(old, new) if old is not None else ())]
    if denials:
        text = denials[0] if len(denials) == 1 else f"[{', '.join(denials)}]"
        raise ApiRefusal(403, "Forbidden", f'admission webhook "vworkload.kb.io" denied the request: {text}')


def _rule(field: str, message: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f'Invalid value: "object": {message}')


def _status(workload: Json) -> Json:
    return workload.get("status") or {}


def _count(part: Json, field: str) -> int:
    return len(part.get(field) or ())


def _schema(new: Json) -> Iterator[Cause]:
    """Rules on the object alone."""
    status, spec = _status(new), new.get("spec") or {}
    if _count(status, "nominatedClusterNames") > 20:
        yield Cause("status.nominatedClusterNames", "FieldValueTooMany", "Too many: must have at most 20 items")
    if status.get("clusterName") is not None and status.get("nominatedClusterNames"):
        yield _rule("status", "clusterName and nominatedClusterNames are mutually exclusive")
    admission = status.get("admission") if is_true(new, "QuotaReserved") else None
    if admission and _count(admission, "podSetAssignments") != _count(spec, "podSets"):
        yield _rule("<nil>", "podSetAssignments must have the same number of podSets as the spec")
    if spec.get("priorityClassRef") and spec.get("priority") is None:
        yield _rule("spec", "priority should not be nil when priorityClassRef is set")


def _transitions(old: Json, new: Json) -> Iterator[Cause]:
    """Rules of the CRD on the old and the new object together."""
    before, after = _status(old).get("clusterName"), _status(new).get("clusterName")
    if None not in (before, after) and before != after:
        yield _rule("status", "clusterName is immutable once set")
    yield from _fixed_by_quota(old, new, old.get("spec") or {}, new.get("spec") or {})


def _fixed_by_quota(old: Json, new: Json, was: Json, now: Json) -> Iterator[Cause]:
    """What of a spec cannot change while quota is reserved, or used."""
    if is_true(old, "QuotaReserved"):
        yield from _priority_class(was.get("priorityClassRef"), now.get("priorityClassRef"))
        if is_true(new, "QuotaReserved") and was.get("queueName") != now.get("queueName"):
            yield _rule("<nil>", "queueName is immutable while workload quota reserved")
    field = "maximumExecutionTimeSeconds"
    if is_true(old, "Admitted") and is_true(new, "Admitted") and (was.get(field) or 0) != (now.get(field) or 0):
        yield _rule("<nil>", f"{field} is immutable while workload quota reserved")


def _priority_class(was: Json | None, now: Json | None) -> Iterator[Cause]:
    tail = "is immutable while workload quota reserved"
    if (was is None) != (now is None):
        yield _rule("<nil>", f"priorityClassRef {tail}")
    elif was is not None and now is not None:
        for field in ("group", "kind"):
            if was.get(field) != now.get(field):
                yield _rule("<nil>", f"priorityClassRef.{field} {tail}")
        if (now.get("group"), now.get("kind")) == _POD_PRIORITY and was.get("name") != now.get("name"):
            pod_priority = "is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
            yield _rule("<nil>", f"priorityClassRef.name {pod_priority}")


def _state(old: Json | None, new: Json) -> Iterator[str]:
    """Rules of the webhook on what the object is now."""
    names = [pod_set.get("name") for pod_set in (new.get("spec") or {}).get("podSets") or ()]
    if is_true(new, "QuotaReserved"):
        admission = _status(new).get("admission")
        if not admission and not (old is not None and _reserves_without_admission(old)):
            yield "status.admission: Required value: must be set while the QuotaReserved condition is true"
        for index, assignment in enumerate((admission or {}).get("podSetAssignments") or ()):
            if assignment.get("name") not in names:
                yield f'status.admission.podSetAssignments[{index}].name: Not found: "{assignment.get("name")}"'
    yield from _check_updates(new, names)


def _reserves_without_admission(workload: Json) -> bool:
    return is_true(workload, "QuotaReserved") and not _status(workload).get("admission")


def _check_updates(new: Json, names: list[str]) -> Iterator[str]:
    """What an admission check updates is a pod set of the Workload."""
    for index, check in enumerate(_status(new).get("admissionChecks") or ()):
        for position, update in enumerate(check.get("podSetUpdates") or ()):
            if update.get("name") not in names:
                path = f"status.admissionChecks[{index}].podSetUpdates[{position}].name"
                supported = ", ".join(f'"{name}"' for name in sorted(map(str, names)))
                yield f'{path}: Unsupported value: "{update.get("name")}": supported values: {supported}'


def _updates(old: Json, new: Json) -> Iterator[str]:
    """Rules of the webhook on the change."""
    if is_true(old, "QuotaReserved"):
        yield from _pod_sets(old.get("spec") or {}, new.get("spec") or {})
    before, after = _status(old).get("admission"), _status(new).get("admission")
    if before and after and _without_topology(before) != _without_topology(after):
        yield f"status.admission: Invalid value: {_IMMUTABLE}"
    yield from _ready_checks(old, new)
    yield from _cluster_name(old, new)


def _ready_checks(old: Json, new: Json) -> Iterator[str]:
    """What a check that is ready asks of the pod sets stays."""
    checks = {check["name"]: check for check in _status(new).get("admissionChecks") or ()}
    for index, check in enumerate(_status(old).get("admissionChecks") or ()):
        now = checks.get(check["name"])
        if now and check["state"] == now["state"] == "Ready" and _pod_set_updates(check) != _pod_set_updates(now):
            yield f"status.admissionChecks[{index}].podSetUpdates: Invalid value: {_IMMUTABLE}"


def _pod_set_updates(check: Json) -> list[Any]:
    return check.get("podSetUpdates") or []


def _pod_sets(was: Json, now: Json) -> Iterator[str]:
    old_sets, new_sets = was.get("podSets") or [], now.get("podSets") or []
    if len(old_sets) != len(new_sets):
        yield f"spec.podSets: Invalid value: {_IMMUTABLE}"
        return
    for index, (old_set, new_set) in enumerate(zip(old_sets, new_sets, strict=True)):
        shrunk = int(new_set.get("count", 0)) < int(old_set.get("count", 0))
        if ({**new_set, "count": old_set.get("count")} if shrunk else new_set) != old_set:
            yield f"spec.podSets[{index}]: Invalid value: {_IMMUTABLE}"


def _cluster_name(old: Json, new: Json) -> Iterator[str]:
    """Whoever selects must have nominated before, in an earlier write."""
    if (meta(new).get("annotations") or {}).get(REPLACEMENT_FOR):
        return
    chosen = _status(new).get("clusterName")
    if (
        _status(old).get("clusterName") is None
        and chosen is not None
        and chosen not in (_status(old).get("nominatedClusterNames") or ())
    ):
        reason = "when setting clusterName it must be one of the nominatedClusterNames"
        yield f'status.clusterName: Invalid value: "{chosen}": {reason}'


def _without_topology(admission: dict[str, Any]) -> dict[str, Any]:
    assignments = [
        {
            name: value
            for name, value in assignment.items()
            if name not in ("topologyAssignment", "delayedTopologyRequest")
        }
        for assignment in admission.get("podSetAssignments") or ()
    ]
    return {**admission, "podSetAssignments": assignments}
