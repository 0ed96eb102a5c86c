"""What a built-in kind's fields may hold: an object whose fields are of another type is refused before anybody sees it.

In: a body that somebody sent. Out: nothing, or the answer with which kube-apiserver refuses it: it decodes into Go
structs before anything else (`k8s.io/api/batch/v1`, `core/v1`). The types are those of the tables in `schemas`; a kind
that is in none has an ordinary object's metadata."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final

import msgspec

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver import errors
from controlplane.simulation.schemas.messages import Field, Message, kubernetes

_TYPES: Final[dict[str, Any]] = {
    "string": str,
    "bytes": str,
    "bool": bool,
    "int32": Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)],
    "int64": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "double": float,
    "Quantity": Annotated[str, msgspec.Meta(pattern=r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")] | int | float,
    "IntOrString": int | str,
    "Time": str,
    "MicroTime": str,
    "FieldsV1": Any,
    "RawExtension": Any,
    "object": dict[str, Any],
}


@cache
def _struct(message: Message) -> type[msgspec.Struct]:
    """Return the struct of a message, all of whose fields may be left out or null."""
    fields = [
        (f"field_{index}", _optional(field), msgspec.field(default=None, name=field.name))
        for index, field in enumerate(kubernetes().fields(message))
    ]
    return msgspec.defstruct(message.name.replace(".", "_"), fields)


def _optional(field: Field) -> Any:
    one: Any = _struct(kubernetes()[field.type]) if field.is_message else _TYPES[field.type]
    if field.mapped:
        return dict[str, one | None] | None
    return list[one] | None if field.repeated else one | None


_ANY: Final = Message("any.Object", "", "", (Field("metadata", "meta.ObjectMeta"),))


def misfit(kind: Kind, body: Any) -> str:
    """Return the first field of a body of a built-in kind that is of another type, in words; "" if all fit."""
    try:
        msgspec.convert(body, _struct(kubernetes().of(kind) or _ANY))
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
        raise errors.ApiRefusal(500, "", f"failed to create typed patch object ({of}): {wrong}")
