"""The schema of a settings file: every setting is in it, what it takes the program takes, and what it refuses too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.settings.load import load
from controlplane.settings.model import LEAVES, Settings
from controlplane.settings.schema import schema
from tests.support.rows import each

SCHEMA = schema()


def leaf(key: str) -> dict[str, Any]:
    found = SCHEMA
    for name in key.split("."):
        assert found["additionalProperties"] is False
        found = found["properties"][name]
    return found


def fits(value: Any, said: dict[str, Any]) -> bool:
    """Whether a value is of the type and range that a schema says."""
    if "enum" in said:
        return value in said["enum"]
    types = [said["type"]] if isinstance(said["type"], str) else said["type"]
    if isinstance(value, int):
        low, high = said.get("minimum", value), said.get("maximum", value)
        return "integer" in types and bool(low <= value <= high)
    if isinstance(value, list):
        return "array" in types and all(fits(one, said["items"]) for one in value)
    return ("object" if isinstance(value, dict) else "string") in types


@each("one", LEAVES, ids=lambda one: one.key)
def test_every_default_fits(one: Any) -> None:
    shown = one.setting.rule.show(one.of(Settings()))
    said = leaf(one.key)
    assert fits(shown, said) or shown == "", (shown, said)
    assert one.setting.doc.split("`")[0] in said["description"]


def test_there_is_nothing_else() -> None:
    def keys(section: dict[str, Any], prefix: str = "") -> list[str]:
        found = []
        for name, inner in section["properties"].items():
            found += keys(inner, f"{prefix}{name}.") if "properties" in inner else [prefix + name]
        return found

    assert sorted(keys(SCHEMA)) == sorted(one.key for one in LEAVES)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("http.port", 70000),
        ("http.port", "x"),
        ("log.level", "loud"),
        ("multikueue.kinds", ["batch/jobs"]),
        ("run.controllers", 3),
    ],
)
def test_what_it_refuses_the_program_refuses_too(key: str, value: Any, tmp_path: Path) -> None:
    assert not fits(value, leaf(key))
    section, name = key.split(".")
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({section: {name: value}}))
    with pytest.raises(Exception, match=key):
        load(path, {})
