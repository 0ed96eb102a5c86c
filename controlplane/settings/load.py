"""Defaults ← file ← environment ← options: the effective settings, and where each value came from.

In: a file, the environment, options of the command line. Out: `Settings`, or `SettingsError` with every problem at
once. The environment is an argument, so that nothing here reads the process's own."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.settings.model import LEAVES, Settings, contradictions
from controlplane.settings.plain import put, replace
from controlplane.settings.sources import Found, Raw, from_environment, from_file

DEFAULT = "default"


class SettingsError(Exception):
    """The settings cannot be used. `problems` are sentences, each naming the setting, its place and the reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The effective settings, and for each key the place its value came from (`default`, `file:line`, a variable or an
    option).
    """

    settings: Settings
    origins: Mapping[str, str]


def load(file: Path | None, env: Mapping[str, str]) -> Settings:
    """Return the effective settings; `SettingsError` with all problems, one a line."""
    return resolve(file, env).settings


def resolve(
    file: Path | None, env: Mapping[str, str], options: Mapping[str, tuple[str, str]] | None = None
) -> Resolved:
    """Return the effective settings and their origins; `SettingsError` with all problems, one a line.

    `file` wins over CONTROLPLANE_CONFIG of `env`; with neither there is no file. `options` are values of the command
    line by key, each with the option's name (`{"database.url": ("postgresql://…", "--database-url")}`)."""
    path = file or (Path(env["CONTROLPLANE_CONFIG"]) if env.get("CONTROLPLANE_CONFIG") else None)
    in_file, problems = from_file(path) if path else ({}, [])
    in_env, more = from_environment(env)
    given: Found = {key: Raw(value, option) for key, (value, option) in (options or {}).items()}
    raw = in_file | in_env | given
    problems += more
    tree = _read(raw, problems)
    if "leader.identity" not in raw:
        put(tree, ("leader", "identity"), identity())
    settings = replace(Settings(), tree)
    origins = {leaf.key: raw[leaf.key].place if leaf.key in raw else DEFAULT for leaf in LEAVES}
    problems += [f"{_place(origins[key])}{key} {why}." for key, why in contradictions(settings)]
    if problems:
        raise SettingsError(problems)
    return Resolved(settings, origins)


def _read(raw: Found, problems: list[str]) -> dict[str, Any]:
    """Return the values by path; what is none is said in `problems`."""
    tree: dict[str, Any] = {}
    for leaf in LEAVES:
        if leaf.key not in raw:
            continue
        try:
            value = leaf.setting.rule.read(raw[leaf.key].value)
        except ValueError as error:
            problems.append(f"{raw[leaf.key].place}: {leaf.key} {error}.")
        else:
            put(tree, leaf.path, value)
    return tree


def identity() -> str:
    """Return a name for this process that no other running one has: the host's name (a pod's is its own) and the
    process id.
    """
    return f"{socket.gethostname()}_{os.getpid()}"


def _place(origin: str) -> str:
    return "" if origin == DEFAULT else f"{origin}: "
