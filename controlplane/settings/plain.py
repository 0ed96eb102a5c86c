"""Settings as plain values: nested as in a settings file, and back.

In: settings, values by path. Out: a tree, or settings with other values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from controlplane.settings.model import LEAVES, Settings

S = TypeVar("S", bound=msgspec.Struct)


def plain(settings: Settings) -> dict[str, Any]:
    """Return the settings as a settings file would hold them, nested and with secrets masked."""
    tree: dict[str, Any] = {}
    for leaf in LEAVES:
        put(tree, tuple(leaf.key.split(".")), leaf.setting.rule.show(leaf.of(settings)))
    return tree


def shown(value: Any) -> str:
    """Return one plain value as one would type it: text as it is, lists separated by commas."""
    if isinstance(value, list) and not any(isinstance(one, dict) for one in value):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value of a tree, at a path of names."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def replace(struct: S, tree: Mapping[str, Any]) -> S:
    """Return a section with other values, a tree by fields."""
    changes = {
        name: replace(getattr(struct, name), value) if isinstance(value, dict) else value
        for name, value in tree.items()
    }
    return msgspec.structs.replace(struct, **changes)
