"""Defaults ← file ← environment ← options: the effective settings, and where each value came from.

In: a file, the environment, options of the command line. Out: `Settings`, or `SettingsError` with every problem at
once. The environment is an argument, so that nothing here reads the process's own."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from controlplane.settings.model import LEAVES, Settings, contradictions
from controlplane.settings.sources import Found, Raw, from_environment, from_file

DEFAULT = "default"
S = TypeVar("S", bound=msgspec.Struct)


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
        _put(tree, ("leader", "identity"), identity())
    settings = _replace(Settings(), tree)
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
            _put(tree, leaf.path, value)
    return tree


def identity() -> str:
    """Return a name for this process that no other running one has: the host's name (a pod's is its own) and the
    process id.
    """
    return f"{socket.gethostname()}_{os.getpid()}"


def plain(settings: Settings) -> dict[str, Any]:
    """Return the settings as a settings file would hold them, nested and with secrets masked."""
    tree: dict[str, Any] = {}
    for leaf in LEAVES:
        _put(tree, tuple(leaf.key.split(".")), leaf.setting.rule.show(leaf.of(settings)))
    return tree


def shown(value: Any) -> str:
    """Return one plain value as one would type it: text as it is, lists separated by commas."""
    if isinstance(value, list) and not any(isinstance(one, dict) for one in value):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _place(origin: str) -> str:
    return "" if origin == DEFAULT else f"{origin}: "


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _replace(struct: S, tree: Mapping[str, Any]) -> S:
    changes = {
        name: _replace(getattr(struct, name), value) if isinstance(value, dict) else value
        for name, value in tree.items()
    }
    return msgspec.structs.replace(struct, **changes)
