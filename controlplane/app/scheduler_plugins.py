"""Finds the scheduler plugins that are installed: those of the scheduler itself, and those that others registered by
entry point.

In: the entry points of the group `controlplane.scheduler.plugins`, each naming a `Plugin` class. Out: a registry.
Discovery is done here, at the root, so that the scheduler's core gets its plugins as an argument. The scheduler's own
stand in the group like others, and are there also where it runs from a tree that was not installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from controlplane.controllers.scheduling.framework.plugin import Plugin
from controlplane.controllers.scheduling.framework.registry import GROUP, IN_TREE, Registry


class PluginError(ValueError):
    """An installed plugin cannot be used: its entry point, and what is wrong."""


def registry(found: Iterable[metadata.EntryPoint] | None = None) -> Registry:
    """Return all installed plugins by name; `PluginError` names the entry point that cannot be used."""
    known: dict[str, type[Plugin]] = dict(IN_TREE)
    for entry in metadata.entry_points(group=GROUP) if found is None else found:
        where = f"entry point {entry.name!r} of {GROUP} ({entry.value})"
        try:
            plugin = entry.load()
        except (ImportError, AttributeError) as error:
            raise PluginError(f"{where} cannot be imported: {error}") from error
        if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
            raise PluginError(f"{where} is not a Plugin class")
        if plugin.name != entry.name:
            raise PluginError(f"{where} names its class {plugin.name!r}: the two must be the same")
        if known.get(entry.name, plugin) is not plugin:
            raise PluginError(f"{where}: there is a plugin of that name already")
        known[entry.name] = plugin
    return known
