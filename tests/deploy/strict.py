"""What an API server refuses with `fieldValidation=Strict`, found without one: duplicate keys, unknown fields, values
of another type.

In: the text of a manifest. Out: what is wrong with it. Kubernetes' own kinds are held against the models of
kubernetes-asyncio, which are made from Kubernetes' OpenAPI schema; other kinds against their CustomResourceDefinition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import kubernetes_asyncio.client.models as models
import yaml

from tests.deploy.manifests import LOADER, Object

# Where the model says no more than "object", and Kubernetes means something (apiextensions-apiserver,
# types_jsonschema.go, v1.36).
SCHEMAS = {"items", "additionalProperties", "additionalItems"}
PLAIN: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "datetime": str,
    "date": str,
    "file": str,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "array": list,
}


class _Loader(LOADER):  # type: ignore[misc]
    """YAML as it stands, except that a key may be there once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f'duplicate field "{name}"', key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


# A timestamp is a string for Kubernetes.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def objects(text: str) -> list[Object]:
    """Return the documents of a file; yaml.YAMLError for a key that is there twice."""
    return [document for document in yaml.load_all(text, _Loader) if document]


def faults(item: Object, definitions: Mapping[tuple[str, str], Object]) -> list[str]:
    """Return what is wrong with an object; `definitions` are the custom kinds' schemas by (apiVersion, kind)."""
    key = (str(item.get("apiVersion")), str(item.get("kind")))
    if key in definitions:
        rest = {name: value for name, value in item.items() if name not in ("apiVersion", "kind", "metadata")}
        schema = definitions[key]
        found = [f".{name}: required" for name in schema.get("required", ()) if name not in rest]
        return found + _model(item.get("metadata"), "V1ObjectMeta", ".metadata") + misfits(rest, schema)
    group, version = key[0].rpartition("/")[::2]
    name = f"{version[0].upper()}{version[1:]}{key[1]}"
    if ("." in group and not group.endswith(".k8s.io")) or not hasattr(models, name):
        return [f"no schema of {key[0]} {key[1]} is known"]
    return _model(item, name, "")


def schemas(definition: Object) -> dict[tuple[str, str], Object]:
    """Return what a CustomResourceDefinition says about its versions."""
    spec = definition["spec"]
    return {
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"]): version["schema"]["openAPIV3Schema"]
        for version in spec["versions"]
    }


def _model(value: Any, kind: str, where: str) -> list[str]:
    """Hold a value against a type of kubernetes-asyncio's models."""
    if value is None or kind == "object":
        return []
    if inner := re.fullmatch(r"list\[(.+)\]", kind):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [text for n, item in enumerate(value) for text in _model(item, inner[1], f"{where}[{n}]")]
    if not isinstance(value, PLAIN.get(kind, dict)) or (kind in ("int", "float") and isinstance(value, bool)):
        return [f"{where}: {value!r} is no {kind}"]
    if inner := re.fullmatch(r"dict\(str, (.+)\)", kind):
        return [text for name, item in value.items() for text in _model(item, inner[1], f"{where}.{name}")]
    return [] if kind in PLAIN else _fields(value, kind, where)


def _fields(value: Object, kind: str, where: str) -> list[str]:
    model = getattr(models, kind)
    types = {name: model.openapi_types[attribute] for attribute, name in model.attribute_map.items()}
    found: list[str] = []
    for name, inner in value.items():
        if name not in types:
            found.append(f"{where}.{name}: unknown field")
        elif kind == "V1JSONSchemaProps" and name in SCHEMAS and not isinstance(inner, bool):
            found += _model(inner, kind, f"{where}.{name}")
        else:
            found += _model(inner, types[name], f"{where}.{name}")
    return found


def misfits(value: Any, schema: Object, where: str = "") -> list[str]:
    """Hold a value against a structural schema, as far as unknown fields, types, required fields and enumerations
    go.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, int | str) else [f"{where}: {value!r} is neither a number nor a string"]
    wanted = schema.get("type")
    if wanted and (not isinstance(value, PLAIN[wanted]) or (wanted != "boolean" and isinstance(value, bool))):
        return [f"{where}: {value!r} is no {wanted}"]
    if isinstance(value, list):
        return [
            text for n, item in enumerate(value) for text in misfits(item, schema.get("items", {}), f"{where}[{n}]")
        ]
    if isinstance(value, dict):
        return _members(value, schema, where)
    allowed = schema.get("enum", (value,))
    return [] if value in allowed else [f"{where}: {value!r} is none of {allowed}"]


def _members(value: Object, schema: Object, where: str) -> list[str]:
    found = [f"{where}.{name}: required" for name in schema.get("required", ()) if name not in value]
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return found
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, inner in value.items():
        if name not in known and others is None:
            found.append(f"{where}.{name}: unknown field")
        else:
            found += misfits(inner, known.get(name, others), f"{where}.{name}")
    return found
