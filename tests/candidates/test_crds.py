"""The definitions of our kinds, read as strictly as an API server does: no key twice, no field that a schema does not
know.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "crds"
FILES = sorted(FOLDER.glob("*_*.yaml"))

# JSONSchemaProps of apiextensions.k8s.io/v1, as far as a structural schema may have them (kubernetes/kubernetes, v1.36,
# staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types_jsonschema.go).
SCHEMA = {
    *(
        "type",
        "format",
        "description",
        "title",
        "default",
        "enum",
        "pattern",
        "nullable",
        "required",
        "properties",
        "items",
    ),
    *("additionalProperties", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties"),
    *("maxProperties", "uniqueItems", "x-kubernetes-validations", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
}
NAMES = {"kind", "listKind", "plural", "singular", "shortNames", "categories"}
VERSION = {
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "schema",
    "subresources",
    "additionalPrinterColumns",
}
COLUMN = {"name", "type", "format", "description", "jsonPath", "priority"}
SPEC = {"group", "names", "scope", "versions", "conversion", "preserveUnknownFields"}
TYPES = {"object", "array", "string", "integer", "number", "boolean"}


class Strict(yaml.SafeLoader):
    """Refuses a key that comes twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"twice, {node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


def schemas(at: str, schema: Any) -> Iterator[tuple[str, Any]]:
    """Every schema in a schema, by path."""
    yield at, schema
    for name, one in schema.get("properties", {}).items():
        yield from schemas(f"{at}.{name}", one)
    for field in ("items", "additionalProperties"):
        if isinstance(schema.get(field), dict):
            yield from schemas(f"{at}[]", schema[field])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_definition_is_what_an_api_server_takes(path: Path) -> None:
    (crd,) = yaml.load_all(path.read_text(), Strict)
    assert set(crd) == {"apiVersion", "kind", "metadata", "spec"}
    spec = crd["spec"]
    assert set(spec) <= SPEC
    assert set(spec["names"]) <= NAMES
    assert crd["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert [version["storage"] for version in spec["versions"]].count(True) == 1
    for version in spec["versions"]:
        assert set(version) <= VERSION
        assert all(set(column) <= COLUMN for column in version.get("additionalPrinterColumns", ()))
        assert set(version["schema"]) == {"openAPIV3Schema"}
        for at, schema in schemas("", version["schema"]["openAPIV3Schema"]):
            assert set(schema) <= SCHEMA, at
            assert schema.get("type") in TYPES or schema.get("x-kubernetes-preserve-unknown-fields"), at
            assert set(schema.get("required", ())) <= set(schema.get("properties", ())), at
            assert isinstance(schema.get("description", ""), str), at
            if "default" in schema:
                assert schema["default"] in schema.get("enum", [schema["default"]]), at


def test_all_are_looked_at() -> None:
    listed = yaml.load((FOLDER / "kustomization.yaml").read_text(), Strict)["resources"]
    assert sorted(listed) == [path.name for path in FILES]
