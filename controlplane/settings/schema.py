"""The JSON Schema of a settings file, written from the definitions themselves.

In: every setting with its rule. Out: a schema (draft 7, as Helm 3 and editors read it). It refuses names that do not
exist and values of another type; what only a rule can judge is left to `controlplane config check`."""

from __future__ import annotations

from typing import Any

from controlplane.settings.access_providers import AccessProviders
from controlplane.settings.custom_metric_labels import CustomLabelRules
from controlplane.settings.device_class_mappings import DeviceClassMappings
from controlplane.settings.model import LEAVES, Leaf, Settings
from controlplane.settings.plain import shown
from controlplane.settings.quota import DurationOrNever, WeightOfEach
from controlplane.settings.resource_transformations import Transformations
from controlplane.settings.retention import DurationOfEach
from controlplane.settings.rules import Choice, Duration, Integer, Items, Names, ValueRule

Schema = dict[str, Any]


def schema() -> Schema:
    """Return the schema of a whole settings file."""
    top = _section()
    for leaf in LEAVES:
        *folders, name = leaf.key.split(".")
        section = top
        for folder in folders:
            section = section["properties"].setdefault(folder, _section())
        section["properties"][name] = _leaf(leaf)
    return top


def _section() -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _leaf(leaf: Leaf) -> Schema:
    default = shown(leaf.setting.rule.show(leaf.of(Settings()))) if not leaf.setting.default else leaf.setting.default
    said = f"{leaf.setting.doc} Default: {default or '(empty)'}. Allowed: {leaf.setting.rule.describe()}."
    return {"description": said.replace("`", ""), **_type(leaf.setting.rule)}


def _type(rule: ValueRule) -> Schema:
    match rule:
        case Integer(least=least, most=most):
            return {"type": "integer", "minimum": least, "maximum": most}
        case Duration() | DurationOrNever():
            return {"type": ["string", "integer"]}
        case Choice(words=words, booleans=booleans):
            return {"enum": [*words, *booleans]}
        case Names(known=known, empty=empty):
            least_names = {} if empty else {"minItems": 1}
            return {"type": "array", **least_names, "uniqueItems": True, "items": {"enum": list(known)}}
        case Items() | DurationOfEach():
            return {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
        case WeightOfEach():
            return {"type": ["object", "array"]}
        case AccessProviders() | Transformations() | DeviceClassMappings() | CustomLabelRules():
            return {"type": "array", "items": {"type": "object"}}
    return {"type": "string"}
