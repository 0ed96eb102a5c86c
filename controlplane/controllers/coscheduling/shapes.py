"""The types of those fields that are read of objects that are there already: StatefulSets, Pods, Nodes, claims,
TaskRuns.

In: an object from a file. Out: nothing, or the problem with the first field of another type. An API server holds these
types by itself; a file holds what somebody wrote."""

from __future__ import annotations

import msgspec

from controlplane.kube.kinds import Json
from controlplane.kube.well_known import REQUIRED_AFFINITY

_Texts = dict[str, str | None] | None


class _Shape(msgspec.Struct, rename="camel", kw_only=True):
    """Absent and null are the same, and other fields are left alone."""


class _ShownOwner(_Shape):
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
    owner_references: list[_ShownOwner] | None = None
    deletion_timestamp: str | None = None


class _ShownObject(_Shape):
    metadata: _Meta | None = None


class _ShownSelector(_Shape):
    match_labels: _Texts = None


class _ShownTerm(_Shape):
    label_selector: _ShownSelector | None = None


class _Terms(_Shape):
    required: list[_ShownTerm] | None = msgspec.field(default=None, name=REQUIRED_AFFINITY)


class _ShownAffinity(_Shape):
    pod_affinity: _Terms | None = None
    pod_anti_affinity: _Terms | None = None


class _Taint(_Shape):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _ShownPodSpec(_Shape):
    node_name: str | None = None
    tolerations: list[_Taint] | None = None
    affinity: _ShownAffinity | None = None


class _ShownCondition(_Shape):
    type: str | None = None
    status: str | None = None
    message: str | None = None


class _ShownPodStatus(_Shape):
    phase: str | None = None
    conditions: list[_ShownCondition] | None = None


class _ShownPod(_ShownObject):
    spec: _ShownPodSpec | None = None
    status: _ShownPodStatus | None = None


class _PodTemplate(_Shape):
    spec: _ShownPodSpec | None = None


class _SetSpec(_Shape):
    template: _PodTemplate | None = None


class _SetStatus(_Shape):
    ready_replicas: int | None = None


class _StatefulSet(_ShownObject):
    spec: _SetSpec | None = None
    status: _SetStatus | None = None


class _ShownNodeSpec(_Shape):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Node(_ShownObject):
    spec: _ShownNodeSpec | None = None


_KINDS: dict[str, type[_ShownObject]] = {
    "StatefulSet": _StatefulSet,
    "Pod": _ShownPod,
    "Node": _Node,
    "PersistentVolumeClaim": _ShownObject,
    "TaskRun": _ShownObject,
    "Pipeline": _ShownObject,
    "Task": _ShownObject,
    "ConfigMap": _ShownObject,
}


def misfit(obj: Json) -> tuple[str, str] | None:
    """Return the field of an object that has another type than its API promises, and what was found there; None if all
    fit.
    """
    shape = _KINDS.get(str(obj.get("kind")))
    if shape is None:
        return None
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        return path.rstrip("`").lstrip("."), f"{problem[:1].lower()}{problem[1:]}"
    return None
