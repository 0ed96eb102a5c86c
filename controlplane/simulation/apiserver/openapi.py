"""The OpenAPI documents of a simulated API server: what `kubectl explain` shows, and what kubectl checks and patches
by.

In: the served kinds, and the tables of their fields. Out: version 2 (JSON, or the protobuf that kubectl asks for) and
version 3 (one document for each group and version). A kind whose fields are in no table is an open object: it is not
validated, and explained by its name only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import orjson

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.protobuf import encode
from controlplane.simulation.kinds.base import ServedKind
from controlplane.simulation.schemas.messages import SPECIAL, Field, Message, descriptions, kubernetes, openapi

V2_ASKED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_ANSWERED: Final = V2_ASKED.replace("@", ".")
"""What kubectl asks for, and how a real server calls it: an `@` is in no media type."""
GIT_VERSION: Final = "v1.36.0-simulated"
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation", "force")
_SCALARS: Final[dict[str, Json]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "object": {"type": "object"},
}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SPECIAL: Final[dict[str, tuple[str, Json]]] = {
    "Quantity": ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"type": "string"}),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"type": "string", "format": "int-or-string"},
    ),
    "Time": (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    "FieldsV1": (f"{_META}.FieldsV1", {"type": "object"}),
    "RawExtension": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
}


class Schemas:
    """The schemas of one version of OpenAPI. In a custom kind's everything of its own stands in place, as its
    definition has it.
    """

    def __init__(self, version: int) -> None:
        self._root = "#/definitions/" if version == 2 else "#/components/schemas/"
        self._beside = version == 2
        self._known, self._said = kubernetes(), descriptions()

    def of(self, kinds: Iterable[ServedKind]) -> Json:
        """Return the schemas of some kinds and of all that they are made of, by name."""
        found: Json = {}
        for served in kinds:
            message = self._known.of(served.kind)
            if message is None:
                found[_open_name(served.kind)] = {**_open(served.kind), "x-kubernetes-preserve-unknown-fields": True}
                continue
            for one in self._known.reachable(message):
                if one == message or not _custom(one):
                    found.setdefault(one.definition, self._schema(one))
            found[message.definition] = self._kind(message, served.kind)
        if any(schema.get("properties") for schema in found.values()):
            found |= {name: dict(schema) for name, schema in _SPECIAL.values()}
        return found

    def _kind(self, message: Message, kind: Kind) -> Json:
        """Return the schema of a whole object."""
        schema = self._schema(message)
        types = {name: self._described(_SCALARS["string"], f"TypeMeta.{name}") for name in ("apiVersion", "kind")}
        return {**schema, "properties": {**types, **schema["properties"]}, **_open(kind)}

    def _schema(self, message: Message) -> Json:
        fields = list(self._known.fields(message))
        schema: Json = {
            "type": "object",
            "properties": {field.name: self._field(message, field) for field in fields},
        }
        if required := [field.name for field in fields if field.required]:
            schema["required"] = required
        return self._described(schema, message.name)

    def _field(self, message: Message, field: Field) -> Json:
        one = self._type(message, field)
        if field.repeated:
            one = {"type": "array", "items": one}
        elif field.mapped:
            one = {"type": "object", "additionalProperties": one}
        if field.merge_key:
            one["x-kubernetes-patch-strategy"] = "merge"
            if field.merge_key != "value":
                one["x-kubernetes-patch-merge-key"] = field.merge_key
        elif field.retain_keys:
            one["x-kubernetes-patch-strategy"] = "retainKeys"
        if field.merge_key and field.retain_keys:
            one["x-kubernetes-patch-strategy"] = "merge,retainKeys"
        return self._described(one, f"{message.name}.{field.name}")

    def _type(self, message: Message, field: Field) -> Json:
        if field.type in SPECIAL:
            name, schema = _SPECIAL[field.type]
            if not _custom(message):
                return {"$ref": self._root + name}
            any_of: Json = {"x-kubernetes-int-or-string": True}
            return any_of if field.type in ("Quantity", "IntOrString") else dict(schema)
        if not field.is_message:
            return dict(_SCALARS[field.type])
        target = self._known[field.type]
        return self._schema(target) if _custom(target) else {"$ref": self._root + target.definition}

    def _described(self, schema: Json, what: str) -> Json:
        """Return a schema with its sentence; version 3 allows nothing beside a reference."""
        said = self._said.get(what)
        if "$ref" in schema and not self._beside and (said or len(schema) > 1):
            reference = {"$ref": schema.pop("$ref")}
            schema = {"allOf": [reference], **schema}
        return {**schema, "description": said} if said else schema


def _custom(message: Message) -> bool:
    return message.name.startswith("kueue.")


def gvk(kind: Kind) -> Json:
    """Return group, version and kind as documents have them."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _open(kind: Kind) -> Json:
    return {"type": "object", "x-kubernetes-group-version-kind": [gvk(kind)]}


def _open_name(kind: Kind) -> str:
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _info() -> Json:
    return {"title": "Kubernetes", "version": GIT_VERSION}


def v3(kinds: list[ServedKind]) -> Json:
    """Return the document of one group and version."""
    paths: Json = {}
    for served in kinds:
        kind = served.kind
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in _QUERY
        ]
        answered = {"responses": {"200": {"description": "OK"}}, "x-kubernetes-group-version-kind": gvk(kind)}
        patch = {
            "operationId": f"patch{kind.kind}",
            "parameters": parameters,
            "x-kubernetes-action": "patch",
            **answered,
        }
        read = {"operationId": f"read{kind.kind}", "x-kubernetes-action": "get", **answered}
        paths[kind.path("{namespace}", "{name}")] = {"get": read, "patch": patch}
        listed = {"operationId": f"list{kind.kind}", "x-kubernetes-action": "list", **answered}
        paths[kind.path("{namespace}")] = {"get": listed}
    return {"openapi": "3.0.0", "info": _info(), "paths": paths, "components": {"schemas": Schemas(3).of(kinds)}}


def v2(kinds: list[ServedKind]) -> Json:
    """Return the document of all groups."""
    paths: Json = {}
    for served in kinds:
        parameters = [{"name": name, "in": "query", "type": "string"} for name in _QUERY]
        kind = served.kind
        patch = {"operationId": f"patch{kind.kind}", "parameters": parameters}
        paths[kind.path("{namespace}", "{name}")] = {"patch": {**patch, "x-kubernetes-group-version-kind": gvk(kind)}}
    return {"swagger": "2.0", "info": _info(), "paths": paths, "definitions": Schemas(2).of(kinds)}


def digest(document: Json) -> str:
    """Return what names a document's content: clients keep documents by it."""
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest().upper()


def in_protobuf(document: Json) -> bytes:
    """Return a document of version 2 in the protobuf of gnostic."""
    known = openapi()
    body = {
        "swagger": document["swagger"],
        "info": document["info"],
        "paths": {
            "path": [
                {"name": path, "value": {"patch": _operation(item["patch"])}}
                for path, item in document["paths"].items()
            ]
        },
        "definitions": {"additional_properties": _named(document["definitions"])},
    }
    return encode(known, known["openapi.Document"], body)


def _operation(operation: Json) -> Json:
    parameters = [
        {"parameter": {"non_body_parameter": {"query_parameter_sub_schema": one}}} for one in operation["parameters"]
    ]
    return {
        "operation_id": operation["operationId"],
        "parameters": parameters,
        "vendor_extension": _extensions(operation),
    }


def _named(schemas: Json) -> list[Json]:
    return [{"name": name, "value": _plain(schema)} for name, schema in schemas.items()]


def _plain(schema: Json) -> Json:
    """Return a schema in the fields of the protobuf."""
    found: Json = {name: schema[name] for name in ("format", "description", "required") if name in schema}
    if "$ref" in schema:
        found["_ref"] = schema["$ref"]
    if "type" in schema:
        found["type"] = {"value": [schema["type"]]}
    if "items" in schema:
        found["items"] = {"schema": [_plain(schema["items"])]}
    if "additionalProperties" in schema:
        found["additional_properties"] = {"schema": _plain(schema["additionalProperties"])}
    if "properties" in schema:
        found["properties"] = {"additional_properties": _named(schema["properties"])}
    return {**found, "vendor_extension": _extensions(schema)}


def _extensions(of: Json) -> list[Json]:
    return [{"name": name, "value": {"yaml": _yaml(value)}} for name, value in of.items() if name.startswith("x-")]


def _yaml(value: Any) -> str:
    """Return a value as YAML, of which JSON is a part."""
    return orjson.dumps(value).decode() + "\n"
