"""What an API server does with a Pod on its way in and out: defaults, conditions, graceful deletion.

In: objects. Out: objects and times. Rules: `pkg/registry/core/pod/strategy.go`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.kube.kinds import PODS, Json, meta
from controlplane.kube.well_known import ENDED_PHASES, GATED_MESSAGE
from controlplane.simulation.apiserver.history import Record


def defaults(pod: Json, now: str) -> None:
    """Fill in what matters here of a pod's defaults, and its first status."""
    spec = pod.setdefault("spec", {})
    for key, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(key, value)
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
    status = pod["status"] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        set_condition(status, "PodScheduled", "False", now, "SchedulingGated", GATED_MESSAGE)


def grace_of(record: Record, asked: int | None) -> int:
    """Return how many seconds a deletion waits for the kubelet: none unless a pod is on a node and has not ended."""
    if record.kind != PODS:
        return 0
    spec, status = record.obj.get("spec") or {}, record.obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ENDED_PHASES:
        return 0
    found = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return 1 if found < 0 else int(found)


def waits(obj: Json) -> bool:
    """Whether an object that is being deleted waits for somebody who will say that it has stopped."""
    return bool(meta(obj).get("deletionGracePeriodSeconds"))


def set_condition(
    status: Json, kind: str, value: str, at: str, reason: str | None = None, message: str | None = None
) -> None:
    """Set a condition as the API server's own code does: the transition time changes with the status only."""
    conditions = status.setdefault("conditions", [])
    known = next((condition for condition in conditions if condition["type"] == kind), None)
    since = known["lastTransitionTime"] if known is not None and known["status"] == value else at
    said = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    said |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    if known is not None:
        conditions[conditions.index(known)] = said
    else:
        conditions.append(said)


def stamp(now: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
