"""Makes the event that is recorded of a pod which the API server showed, if it says anything new that decides.

In: the change, and what was recorded of the pod last. Out: `PendingPodObserved` and `PendingPodGone`. A running pod's
status changes many times; none of that is recorded here, since with its node the scheduler's work on it ends."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from controlplane.controllers.scheduling.events import PendingPodObserved, Scheduled
from controlplane.controllers.scheduling.snapshot.objects import FINISHED, read_pod
from controlplane.kube.candidate_pods import SCALE_UP, is_candidates
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import Json, meta
from controlplane.kube.pod_fields import items, number, section, text


def pending_pod(
    obj: Json, resource_version: str, profiles: Collection[str], *, readable: bool = False
) -> PendingPodObserved | None:
    """Return the event of a pod that names one of the profiles, None for any other. `readable`: it was read already."""
    metadata, spec = meta(obj), obj.get("spec")
    if not isinstance(spec, dict) or str(spec.get("schedulerName")) not in profiles:
        return None
    uid, notes = str(metadata.get("uid", "")), metadata.get("annotations")
    found = PendingPodObserved(
        uid=uid,
        resource_version=resource_version,
        scheduler=str(spec["schedulerName"]),
        node=str(spec.get("nodeName") or ""),
        deleting=bool(metadata.get("deletionTimestamp")),
        candidate=is_candidates(metadata),
        scale_up=not (isinstance(notes, dict) and notes.get(SCALE_UP) == "false"),
    )
    try:
        if not readable:
            read_pod(obj)
        status = section(obj, "status", "pod")
        return msgspec.structs.replace(
            found,
            priority=number(spec, "priority", "pod.spec"),
            nominated=text(status, "nominatedNodeName", "pod.status"),
            over=text(status, "phase", "pod.status") in FINISHED,
            gates=[text(gate, "name", "pod.spec") for gate in items(spec, "schedulingGates", "pod.spec")],
            generation=number(metadata, "generation", "pod.metadata"),
            scheduled=_scheduled(items(status, "conditions", "pod.status")),
        )
    except UNFIT as problem:
        return msgspec.structs.replace(found, problem=f"the scheduler cannot read this pod: {problem}")


def _scheduled(conditions: list[Json]) -> Scheduled | None:
    for condition in conditions:
        if condition.get("type") == "PodScheduled":
            return Scheduled(
                status=text(condition, "status", "pod.status.conditions[]"),
                reason=text(condition, "reason", "pod.status.conditions[]"),
                message=text(condition, "message", "pod.status.conditions[]"),
            )
    return None


def news(before: PendingPodObserved | None, now: PendingPodObserved) -> bool:
    """Whether a pod says anything that was not recorded: its version alone is none."""
    if before is None:
        return not now.node and not now.over
    return msgspec.structs.replace(now, resource_version="") != msgspec.structs.replace(before, resource_version="")
