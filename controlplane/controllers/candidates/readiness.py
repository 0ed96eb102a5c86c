"""What users ask of a pod's readiness beside its containers' (`spec.readinessGates`), on both sides.

In: PodSpecs and statuses. Out: which conditions a pod waits for, and how they stand. Somebody in the source sets them
on the source pod; the delegate's kubelet looks for them on the delegate. They go with the Candidate (`spec.conditions`)
to the target, whose scheduler sets them there. What a cluster itself says of a pod is never taken from another one."""

from __future__ import annotations

from collections.abc import Collection

from controlplane.kube.conditions import Condition, conditions_of
from controlplane.kube.fields import items, text
from controlplane.kube.kinds import Json

APPLIED = "ReadinessGates"
"""The condition by which a Candidate's status says that its scheduler sets the others on the Pod: an older one knows
nothing of them."""

# Kubernetes' own (kubernetes, staging/src/k8s.io/api/core/v1/types.go, PodConditionType, 1.36).
_OF_THE_CLUSTER = frozenset(
    {
        "ContainersReady",
        "DisruptionTarget",
        "Initialized",
        "PodReadyToStartContainers",
        "PodResizeInProgress",
        "PodResizePending",
        "PodScheduled",
        "Ready",
    }
)


def gates_of(spec: Json, where: str = "spec") -> list[str]:
    """Return the types of the conditions that a pod waits for, sorted; `Misfit` for what is none."""
    listed = items(spec, "readinessGates", where)
    return sorted({text(one, "conditionType", f"{where}.readinessGates[]") for one in listed} - _OF_THE_CLUSTER - {""})


def said_of(gates: Collection[str], conditions: Collection[Condition]) -> list[Condition]:
    """Return those conditions that are waited for, by type."""
    return sorted((one for one in conditions if one.type in gates), key=lambda one: one.type)


def gates_said(spec: Json, status: Json) -> list[Condition]:
    """Return how the conditions stand that a pod waits for; `Misfit` for what is none."""
    gates = gates_of(spec)
    return said_of(gates, conditions_of(status)) if gates else []


def are_applied(status: Json) -> bool:
    """Whether the status of a Candidate says that its scheduler sets these conditions on the Pod; `Misfit` for what is
    none."""
    return any(one.type == APPLIED and one.status == "True" for one in conditions_of(status))


def as_said(condition: Condition) -> Json:
    """Return a condition as it is written to a Candidate, and to a Pod."""
    found = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {field: value for field, value in found.items() if value}
