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

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import Json, Kind, meta, nested
from controlplane.kube.kueue_names import PREBUILT
from controlplane.kube.quantities import milli

Usage = dict[tuple[str, str], int]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

PROVISIONING_REQUEST = "kueue.x-k8s.io/provisioning-request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Kueue's switches that change what the other side sees.

    `multikueue`: managedBy defaulting (the feature gate MultiKueue). `finish_orphans`: FinishOrphanedWorkloads.
    `identifier_annotations`: WorkloadIdentifierAnnotations, the prebuilt name is read from the annotation first.
    `short_names`: ShortWorkloadNames. `granular_reasons`: UnadmittedWorkloadsObservability (`Misconfigured`,
    `Suspended`, … in place of `Inadmissible` and `Pending`). `ssa`: status by server-side apply; False is the gate
    WorkloadRequestUseMergePatch. `orchestrated_preemption`: MultiKueueOrchestratedPreemption, a Workload with a closed
    gate does not preempt. `bind_finalizer` is no gate: a job that binds a clone puts the finalizer
    `resource-in-use` on it, which a remover of clones has to be ready for.
    """

    multikueue: bool = False
    finish_orphans: bool = True
    identifier_annotations: bool = True
    short_names: bool = False
    granular_reasons: bool = False
    ssa: bool = True
    orchestrated_preemption: bool = False
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


def workload_name(kind: Kind, owner_name: str, owner_uid: str, *, extra: str = "", short: bool = False) -> str:
    """Return the name of the Workload of a job: `lower(kind)-name`, cut, and five hex digits over kind, group, name,
    uid and what else tells it from the job's others.
    """
    room = (63 if short else 253) - 6
    parts = [kind.kind, kind.group, owner_name, owner_uid, *([extra] if extra else [])]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False)
    return f"{kind.kind.lower()}-{owner_name}"[:room] + "-" + digest.hexdigest()[:5]


def prebuilt_name(job: Mapping[str, Any], gates: Gates) -> str:
    """Return the name of the Workload that a job is bound to in advance, or ""."""
    metadata = meta(job)
    sources = [metadata.get("annotations") or {}, metadata.get("labels") or {}]
    if not gates.identifier_annotations:
        sources.reverse()
    return str(sources[0].get(PREBUILT) or sources[1].get(PREBUILT) or "")


def is_active(workload: Mapping[str, Any]) -> bool:
    """Return `spec.active`, which is true unless it says otherwise."""
    return workload["spec"].get("active") is not False


def holds_quota(workload: Mapping[str, Any]) -> bool:
    """Return whether a Workload counts against quota: reserved, active, not finished."""
    return is_true(workload, "QuotaReserved") and is_active(workload) and not is_true(workload, "Finished")


def usage_of(workload: Mapping[str, Any]) -> Usage:
    """Return what the admission of a Workload takes, by (flavor, resource), in thousandths: of a pod set that has fewer
    pods by now than were admitted, what these take.
    """
    usage = Usage()
    reclaimable = {one["name"]: one["count"] for one in nested(workload, "status").get("reclaimablePods") or ()}
    counts = {one["name"]: one.get("count", 1) for one in workload["spec"]["podSets"]}
    for assignment in nested(workload, "status", "admission").get("podSetAssignments") or ():
        flavors, name = nested(assignment, "flavors"), assignment["name"]
        admitted = assignment.get("count") or 0
        left = min(admitted, max(0, counts.get(name, admitted) - reclaimable.get(name, 0)))
        for resource, amount in nested(assignment, "resourceUsage").items():
            if resource in flavors:
                place = (flavors[resource], resource)
                used = milli(amount) if left == admitted else milli(amount) * left // admitted
                usage[place] = usage.get(place, 0) + used
    return usage


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
