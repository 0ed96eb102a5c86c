"""What a built-in kind's fields may hold: an object whose fields are of another type is refused before anybody sees it.

In: a body that somebody sent. Out: nothing, or the answer with which kube-apiserver refuses it: it decodes into Go
structs before anything else (`k8s.io/api/batch/v1`, `core/v1`). Listed are the fields that the simulated controllers
read; others may hold anything."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from controlplane.kube.kinds import JOBS, PODS, Json, Kind
from controlplane.simulation.apiserver import errors

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Quantity = Annotated[str, msgspec.Meta(pattern=r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")] | int | float
_Texts = dict[str, str | None] | None


class _Struct(msgspec.Struct, rename="camel"):
    pass


class _DecodedOwner(_Struct):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(_Struct):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: _Texts = None
    annotations: _Texts = None
    finalizers: list[str] | None = None
    owner_references: list[_DecodedOwner] | None = None


class _DecodedResources(_Struct):
    requests: dict[str, _Quantity | None] | None = None
    limits: dict[str, _Quantity | None] | None = None


class _Container(_Struct):
    name: str | None = None
    image: str | None = None
    restart_policy: str | None = None
    resources: _DecodedResources | None = None


class _DecodedGate(_Struct):
    name: str | None = None


class _DecodedToleration(_Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: _Int64 | None = None


class _DecodedPodSpec(_Struct):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, _Quantity | None] | None = None
    resources: _DecodedResources | None = None
    scheduling_gates: list[_DecodedGate] | None = None
    tolerations: list[_DecodedToleration] | None = None
    node_selector: _Texts = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    priority: _Int32 | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: _Int64 | None = None
    active_deadline_seconds: _Int64 | None = None
    volumes: list[dict[str, Any]] | None = None
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None


class _Template(_Struct):
    metadata: _Metadata | None = None
    spec: _DecodedPodSpec | None = None


class _JobSpec(_Struct):
    parallelism: _Int32 | None = None
    completions: _Int32 | None = None
    backoff_limit: _Int32 | None = None
    backoff_limit_per_index: _Int32 | None = None
    max_failed_indexes: _Int32 | None = None
    active_deadline_seconds: _Int64 | None = None
    ttl_seconds_after_finished: _Int32 | None = None
    suspend: bool | None = None
    manual_selector: bool | None = None
    completion_mode: str | None = None
    managed_by: str | None = None
    selector: dict[str, Any] | None = None
    template: _Template | None = None


class _JobStatus(_Struct):
    active: _Int32 | None = None
    succeeded: _Int32 | None = None
    failed: _Int32 | None = None
    ready: _Int32 | None = None
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[dict[str, Any]] | None = None


class _DecodedObject(_Struct):
    metadata: _Metadata | None = None


class _Job(_DecodedObject):
    spec: _JobSpec | None = None
    status: _JobStatus | None = None


class _DecodedPod(_DecodedObject):
    spec: _DecodedPodSpec | None = None
    status: dict[str, Any] | None = None


_TYPES: Final[dict[Kind, type[_DecodedObject]]] = {JOBS: _Job, PODS: _DecodedPod}


def misfit(kind: Kind, body: Any) -> str:
    """Return the first field of a body of a built-in kind that is of another type, in words; "" if all fit."""
    try:
        msgspec.convert(body, _TYPES.get(kind, _DecodedObject))
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def check_body(kind: Kind, body: Json) -> None:
    """Refuse a body that does not decode: 400, as for a POST or PUT."""
    if wrong := misfit(kind, body):
        raise errors.bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {wrong}')


def check_patched(kind: Kind, name: str, body: Any) -> None:
    """Refuse a patch after which the object does not decode: 422."""
    if wrong := misfit(kind, body):
        raise errors.invalid(kind, name, [errors.Cause("patch", "FieldValueInvalid", f"Invalid value: {wrong}")])


def check_applied(kind: Kind, namespace: str, name: str, body: Json) -> None:
    """Refuse a configuration that is no typed object: 500 without a reason, as a real server has it."""
    if wrong := misfit(kind, body):
        of = f"{namespace}/{name}; {kind.api_version}, Kind={kind.kind}"
        raise errors.Refusal(500, "", f"failed to create typed patch object ({of}): {wrong}")
