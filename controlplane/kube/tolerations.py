"""Taints of nodes, and the tolerations of pods.

In: `spec.taints` and `spec.tolerations` as dicts. Out: which taint a pod does not tolerate. The rules are those of
kubernetes/kubernetes staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go, v1.36. The numeric operators Lt
and Gt need an alpha gate that is off by default: they tolerate nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
BLOCKING = frozenset({NO_SCHEDULE, NO_EXECUTE})
UNSCHEDULABLE_KEY = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True)
class Taint:
    """What a node repels pods with."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod puts up with; empty fields are wildcards as the API says."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether a taint does not repel a pod with this toleration."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


UNSCHEDULABLE = Taint(UNSCHEDULABLE_KEY, "", NO_SCHEDULE)


def taints(listed: Iterable[Mapping[str, Any]] | None) -> tuple[Taint, ...]:
    """Return the taints of a node's spec."""
    return tuple(Taint(_text(t, "key"), _text(t, "value"), _text(t, "effect")) for t in listed or ())


def tolerations(listed: Iterable[Mapping[str, Any]] | None) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod's spec."""
    return tuple(
        Toleration(_text(t, "key"), _text(t, "operator"), _text(t, "value"), _text(t, "effect")) for t in listed or ()
    )


def untolerated(
    found: Iterable[Taint], tolerated: Collection[Toleration], effects: Collection[str] = BLOCKING
) -> Taint | None:
    """Return the first taint with one of the effects that no toleration covers."""
    for taint in found:
        if taint.effect in effects and not any(toleration.tolerates(taint) for toleration in tolerated):
            return taint
    return None


def _text(obj: Mapping[str, Any], field: str) -> str:
    return str(obj.get(field) or "")
