"""The settings of the service: validated, printable, and with no secret in their repr.

`load(file, env)` gives the effective `Settings` or a `SettingsError` that names every problem; `resolve` says as well
where each value came from. `model` lists the settings, `rules` what their values may be, `sources` reads files and the
environment."""

from __future__ import annotations

from controlplane.settings.load import DEFAULT, Resolved, SettingsError, load, resolve
from controlplane.settings.model import LEAVES, Budget, Settings
from controlplane.settings.multikueue import KINDS
from controlplane.settings.plain import plain, shown
from controlplane.settings.reference import reference
from controlplane.settings.secret import DatabaseUrl, mask_urls

__all__ = [
    "DEFAULT",
    "KINDS",
    "LEAVES",
    "Budget",
    "DatabaseUrl",
    "Resolved",
    "Settings",
    "SettingsError",
    "load",
    "mask_urls",
    "plain",
    "reference",
    "resolve",
    "shown",
]
