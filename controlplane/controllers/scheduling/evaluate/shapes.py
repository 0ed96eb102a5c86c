"""Checks the types of those fields that a plugin reads only when it is asked: a wrong one is refused before anything is
evaluated.

In: an object of a line, as it was decoded. Out: nothing, or `PodMisfit` that names the field. In a cluster the API
server holds these types, so the scheduler itself does not look. What has the right type and no meaning (an operator
that does not exist) is the plugins' business: they answer it with a status of the pod, as kube-scheduler's do."""

from __future__ import annotations

from typing import Annotated

import msgspec

from controlplane.kube.pod_fields import Obj, PodMisfit
from controlplane.kube.well_known import PREFERRED_AFFINITY, REQUIRED_AFFINITY

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Amounts = dict[str, str | int | float] | None


class Shape(msgspec.Struct, rename="camel", kw_only=True):
    """Absent and null are the same, and other fields are left alone, as for the API."""


class _Requirement(Shape):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class _Selector(Shape):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _Term(Shape):
    label_selector: _Selector | None = None
    namespace_selector: _Selector | None = None


class _Weighted(Shape):
    weight: _Int32 | None = None
    pod_affinity_term: _Term | None = None


class _Social(Shape):
    required: list[_Term] | None = msgspec.field(default=None, name=REQUIRED_AFFINITY)
    preferred: list[_Weighted] | None = msgspec.field(default=None, name=PREFERRED_AFFINITY)


class _NodeTerm(Shape):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeTerms(Shape):
    node_selector_terms: list[_NodeTerm] | None = None


class _Preference(Shape):
    weight: _Int32 | None = None
    preference: _NodeTerm | None = None


class _Nodes(Shape):
    required: _NodeTerms | None = msgspec.field(default=None, name=REQUIRED_AFFINITY)
    preferred: list[_Preference] | None = msgspec.field(default=None, name=PREFERRED_AFFINITY)


class _Affinity(Shape):
    node_affinity: _Nodes | None = None
    pod_affinity: _Social | None = None
    pod_anti_affinity: _Social | None = None


class ConstraintShape(Shape):
    """A topology spread constraint, of a pod or by default."""

    max_skew: _Int32 | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: _Selector | None = None
    min_domains: _Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class _Toleration(Shape):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _PodSpec(Shape):
    affinity: _Affinity | None = None
    topology_spread_constraints: list[ConstraintShape] | None = None
    tolerations: list[_Toleration] | None = None


class _Resources(Shape):
    requests: _Amounts = None


class _ContainerStatus(Shape):
    name: str | None = None
    resources: _Resources | None = None
    allocated_resources: _Amounts = None


class _Condition(Shape):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class _PodStatus(Shape):
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: _Resources | None = None
    allocated_resources: _Amounts = None


class PodShape(Shape):
    """A pod."""

    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _NodeSpec(Shape):
    taints: list[_Toleration] | None = None


class NodeShape(Shape):
    """A node."""

    spec: _NodeSpec | None = None


class _VolumeNodes(Shape):
    required: _NodeTerms | None = None


class _VolumeSpec(Shape):
    node_affinity: _VolumeNodes | None = None


class VolumeShape(Shape):
    """A PersistentVolume."""

    spec: _VolumeSpec | None = None


class _Selecting(Shape):
    selector: _Selector | None = None


class Selecting(Shape):
    """An object whose spec has a label selector: a claim, a budget, a ReplicaSet, a StatefulSet."""

    spec: _Selecting | None = None


def check(obj: Obj, shape: type[Shape], where: str) -> None:
    """Raise `PodMisfit` for a field of the wrong type; `where` is how the object is called."""
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        raise misfit(error, where) from error


def misfit(error: msgspec.ValidationError, where: str) -> PodMisfit:
    """Return the misfit that a decoder's error speaks of."""
    problem, _, path = str(error).partition(" - at `$")
    return PodMisfit(f"{where}{path.rstrip('`')}", f"{problem[:1].lower()}{problem[1:]}")
