"""The types of those fields that are read of objects that are there already: StatefulSets, Pods, Nodes, claims, TaskRuns.

In: an object from a file. Out: nothing, or the problem with the first field of another type. An API server holds these types by itself; a
file holds what somebody wrote.
"""

from __future__ import annotations

import msgspec

from controlplane.kube import Json

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_Texts = dict[str, str | None] | None


class _Shape(msgspec.Struct, rename="camel", kw_only=True):
    """Absent and null are the same, and other fields are left alone."""


class _Owner(_Shape):
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class _Meta(_Shape):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: _Texts = None
    annotations: _Texts = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Object(_Shape):
    metadata: _Meta | None = None


class _Selector(_Shape):
    match_labels: _Texts = None


class _Term(_Shape):
    label_selector: _Selector | None = None


class _Terms(_Shape):
    required: list[_Term] | None = msgspec.field(default=None, name=_REQUIRED)


class _Affinity(_Shape):
    pod_affinity: _Terms | None = None
    pod_anti_affinity: _Terms | None = None


class _Taint(_Shape):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _PodSpec(_Shape):
    node_name: str | None = None
    tolerations: list[_Taint] | None = None
    affinity: _Affinity | None = None


class _Condition(_Shape):
    type: str | None = None
    status: str | None = None
    message: str | None = None


class _PodStatus(_Shape):
    phase: str | None = None
    conditions: list[_Condition] | None = None


class _Pod(_Object):
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _PodTemplate(_Shape):
    spec: _PodSpec | None = None


class _SetSpec(_Shape):
    template: _PodTemplate | None = None


class _SetStatus(_Shape):
    ready_replicas: int | None = None


class _StatefulSet(_Object):
    spec: _SetSpec | None = None
    status: _SetStatus | None = None


class _NodeSpec(_Shape):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Node(_Object):
    spec: _NodeSpec | None = None


_KINDS: dict[str, type[_Object]] = {
    "StatefulSet": _StatefulSet,
    "Pod": _Pod,
    "Node": _Node,
    "PersistentVolumeClaim": _Object,
    "TaskRun": _Object,
    "Pipeline": _Object,
    "Task": _Object,
    "ConfigMap": _Object,
}


def misfit(obj: Json) -> tuple[str, str] | None:
    """Return the field of an object that has another type than its API promises, and what was found there; None if all fit."""
    shape = _KINDS.get(str(obj.get("kind")))
    if shape is None:
        return None
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        return path.rstrip("`").lstrip("."), f"{problem[:1].lower()}{problem[1:]}"
    return None
