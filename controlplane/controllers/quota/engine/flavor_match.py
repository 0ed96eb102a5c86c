"""Whether a pod may run on a flavor's nodes.

In: a pod set's constraints, and a flavor with its labels, taints and tolerations. Out: what stands in the way, in
Kueue's words. Only labels that the flavor has are asked for: nodes may have others, which are not known here."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.quota.engine.model import NodeConstraints, PodSet, ResourceFlavor
from controlplane.kube.selectors import int64
from controlplane.kube.tolerations import Taint, Toleration, untolerated


class Unmatchable(ValueError):  # noqa: N818 - it says what is wrong with the user's object
    """A pod's node affinity does not parse."""


def mismatch(pod_set: PodSet, flavor: ResourceFlavor) -> str:
    """Return what keeps a pod set from a flavor, "" if nothing; `Unmatchable` if its affinity does not parse."""
    tolerated = (*pod_set.nodes.tolerations, *flavor.tolerations)
    taint = untolerated((taint for taint in flavor.taints if not tolerated_by_number(taint, tolerated)), tolerated)
    if taint is not None:
        return f"untolerated taint {_spelled(taint)} in flavor {flavor.name}"
    return "" if _selects(pod_set.nodes, flavor) else f"flavor {flavor.name} doesn't match node affinity"


def _selects(nodes: NodeConstraints, flavor: ResourceFlavor) -> bool:
    labels = flavor.labels
    if any(labels[key] != value for key, value in nodes.selector if key in labels):
        return False
    errors = []
    for term in nodes.terms:
        if term.error:
            errors.append(term.error)
            continue
        asked = [requirement for requirement in term.labels if requirement.key in labels]
        if not asked:
            return True
        if all(requirement.matches(labels) for requirement in asked):
            return True
    if errors:
        raise Unmatchable(", ".join(errors))
    return not nodes.terms


def tolerated_by_number(taint: Taint, tolerated: Iterable[Toleration]) -> bool:
    """Return whether a toleration covers a taint by its number: Kueue has the operators Lt and Gt switched on."""
    return any(_covers(found, taint) for found in tolerated if found.operator in ("Lt", "Gt"))


def _covers(found: Toleration, taint: Taint) -> bool:
    if (found.effect and found.effect != taint.effect) or (found.key and found.key != taint.key):
        return False
    asked, has = int64(found.value), int64(taint.value)
    if asked is None or has is None:
        return False
    return has < asked if found.operator == "Lt" else has > asked


def _spelled(taint: Taint) -> str:
    return f"{{{taint.key} {taint.value} {taint.effect} <nil>}}"
