"""Kueue's words and small pure rules: names, labels, conditions, what a Workload's state means.

In: Workload and job objects as plain dicts. Out: answers and changed copies; nothing here reads a clock or a store. A
`status` that is passed to a function which changes it is a shallow copy whose values are replaced, never mutated,
because the originals are shared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from controlplane.kube.kinds import Json, Kind, meta

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
JOB_UID = "kueue.x-k8s.io/job-uid"
ORIGIN = "kueue.x-k8s.io/multikueue-origin"
WORKER_POD = "kueue.x-k8s.io/multikueue-worker-workload-pod"
POD_SET = "kueue.x-k8s.io/podset"
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING_REQUEST = "kueue.x-k8s.io/provisioning-request"
ADMISSION_MANAGER = "kueue-admission"

MESSAGE_LIMIT = 32 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Kueue's switches that change what the other side sees.

    `multikueue`: managedBy defaulting (the feature gate MultiKueue). `finish_orphans`: FinishOrphanedWorkloads.
    `identifier_annotations`: WorkloadIdentifierAnnotations, the prebuilt name is read from the annotation first.
    `short_names`: ShortWorkloadNames. `granular_reasons`: UnadmittedWorkloadsObservability (`Misconfigured`,
    `Suspended`, … in place of `Inadmissible` and `Pending`). `ssa`: status by server-side apply; False is the gate
    WorkloadRequestUseMergePatch. `bind_finalizer` is no gate: a job that binds a clone puts the finalizer
    `resource-in-use` on it, which a remover of clones has to be ready for.
    """

    multikueue: bool = False
    finish_orphans: bool = True
    identifier_annotations: bool = True
    short_names: bool = False
    granular_reasons: bool = False
    ssa: bool = True
    bind_finalizer: bool = True

    def reason(self, granular: str, plain: str) -> str:
        """Return the reason that this Kueue gives for a missing reservation."""
        return granular if self.granular_reasons else plain


def timestamp(now: datetime) -> str:
    """Return a time as Kubernetes writes it: UTC, whole seconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    """Return the time that Kubernetes wrote. ValueError if it did not."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def workload_name(kind: Kind, owner_name: str, owner_uid: str, *, short: bool = False) -> str:
    """Return the name of the Workload of a job: `lower(kind)-name`, cut, and five hex digits over kind, group, name and
    uid.
    """
    room = (63 if short else 253) - 6
    digest = hashlib.sha1(f"{kind.kind}\n{kind.group}\n{owner_name}\n{owner_uid}".encode(), usedforsecurity=False)
    return f"{kind.kind.lower()}-{owner_name}"[:room] + "-" + digest.hexdigest()[:5]


def prebuilt_name(job: Mapping[str, Any], gates: Gates) -> str:
    """Return the name of the Workload that a job is bound to in advance, or ""."""
    metadata = meta(job)
    sources = [metadata.get("annotations") or {}, metadata.get("labels") or {}]
    if not gates.identifier_annotations:
        sources.reverse()
    return str(sources[0].get(PREBUILT_WORKLOAD) or sources[1].get(PREBUILT_WORKLOAD) or "")


def condition(obj: Mapping[str, Any], type_: str) -> Json | None:
    """Return a condition of an object, or None."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found["type"] == type_:
            return found  # type: ignore[no-any-return]
    return None


def is_true(obj: Mapping[str, Any], type_: str) -> bool:
    """Return whether an object has a condition with status True."""
    found = condition(obj, type_)
    return found is not None and found["status"] == "True"


def set_condition(
    status: Json, type_: str, value: bool, reason: str, message: str, *, at: str, generation: int = 0
) -> bool:
    """Set a condition in a status; `lastTransitionTime` moves only with the value. Return whether anything changed."""
    message = message[:MESSAGE_LIMIT]
    conditions: list[Json] = list(status.get("conditions") or ())
    made: Json = {"type": type_, "status": "True" if value else "False", "reason": reason, "message": message}
    if generation:
        made["observedGeneration"] = generation
    for index, old in enumerate(conditions):
        if old["type"] != type_:
            continue
        same_value = old["status"] == made["status"]
        made["lastTransitionTime"] = old.get("lastTransitionTime", at) if same_value else at
        if made == old:
            return False
        conditions[index] = made
        break
    else:
        made["lastTransitionTime"] = at
        conditions.append(made)
    status["conditions"] = conditions
    return True


def drop_condition(status: Json, type_: str) -> None:
    """Remove a condition from a status."""
    status["conditions"] = [c for c in status.get("conditions") or () if c["type"] != type_]


def is_active(workload: Mapping[str, Any]) -> bool:
    """Return `spec.active`, which is true unless it says otherwise."""
    return workload["spec"].get("active") is not False


def holds_quota(workload: Mapping[str, Any]) -> bool:
    """Return whether a Workload counts against quota: reserved, active, not finished."""
    return is_true(workload, "QuotaReserved") and is_active(workload) and not is_true(workload, "Finished")


def admissible(workload: Mapping[str, Any]) -> bool:
    """Return whether a Workload may stand in a queue: active, neither finished nor reserved, not held back by
    Requeued=False, and with no check that failed.
    """
    if not is_active(workload) or is_true(workload, "Finished") or is_true(workload, "QuotaReserved"):
        return False
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    if any(check["state"] in ("Rejected", "Retry") for check in checks):
        return False
    requeued = condition(workload, "Requeued")
    return requeued is None or requeued["status"] != "False"


def priority_of(workload: Mapping[str, Any]) -> int:
    """Return the effective priority: `spec.priority` plus the boost annotation."""
    boost = (meta(workload).get("annotations") or {}).get(PRIORITY_BOOST)
    return int(workload["spec"].get("priority") or 0) + int(boost or 0)


def reindex(index: dict[_Key, dict[_Value, None]], value: _Value, before: _Key | None, after: _Key | None) -> None:
    """Move a value of an index from the key that it had to the one that it has; None where it has none."""
    if before == after:
        return
    if before is not None:
        index.get(before, {}).pop(value, None)
    if after is not None:
        index.setdefault(after, {})[value] = None


def controller_of(obj: Mapping[str, Any]) -> Json | None:
    """Return the owner reference of an object's controller, or None."""
    for reference in meta(obj).get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


def owner_reference(kind: Kind, owner: Mapping[str, Any]) -> Json:
    """Return the controller's owner reference to `owner`."""
    metadata = meta(owner)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Return the JSON merge patch that turns `old` into `new`."""
    patch: Json = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if nested := difference(before, value):
                patch[name] = nested
        elif value != before or name not in old:
            patch[name] = value
    return patch
