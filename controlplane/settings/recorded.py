"""The settings of quota as the log has them (`PolicyInForce`), so that whoever reads a log decides by the service's and
not by his own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.settings.model import LEAVES, Settings
from controlplane.settings.plain import plain, put, replace

_SECTION = "quota"
_OF_THE_PROCESS = ("metrics", "visibility")  # what they say is no matter of decisions


def recorded_quota(settings: Settings) -> dict[str, Any]:
    """Return what decides about quota, as a settings file would have it below `quota`; nothing where Kueue decides."""
    if not settings.quota.builtin:
        return {}
    return {name: value for name, value in plain(settings)[_SECTION].items() if name not in _OF_THE_PROCESS}


def with_recorded_quota(
    settings: Settings, recorded: Mapping[str, Any], *, orchestrated_preemption: bool = False
) -> Settings:
    """Return settings with what a log has, of whatever version: what this one does not know or cannot read of it stays
    as the settings have it. Nothing recorded, as before versions that did so, leaves all as it is. Whether preemption
    is orchestrated is a setting of the dispatch, by which the engine keeps to gates as well."""
    if not recorded:
        return settings
    tree: dict[str, Any] = {}
    for leaf in LEAVES:
        section, *path = leaf.key.split(".")
        value = _at(recorded, path) if section == _SECTION else None
        if value is not None:
            with contextlib.suppress(ValueError):
                put(tree, leaf.path, leaf.setting.rule.read(value))
    return replace(settings, tree).orchestrating(preemption=orchestrated_preemption)


def _at(tree: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the value at a path; None where the tree has none."""
    value: Any = tree
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
