"""Reads the access providers of ClusterProfiles: commands that log in to clusters, as Kueue's configuration has them
(`multiKueue.clusterProfile.accessProviders`, kubernetes-sigs/kueue apis/config/v1beta2/configuration_types.go,
ff69552e).

In: a list out of a settings file, or JSON out of a variable. Out: values that connections are made with. A command
comes from here and never from an object of the API."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
_EXEC = frozenset({"command", "args", "env", "apiVersion", "installHint", "provideClusterInfo", "interactiveMode"})


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """An exec plugin, as in a kubeconfig: https://kubernetes.io/docs/reference/access-authn-authz/authentication/.

    It is never given a terminal, whatever `interactive_mode` says. The repr shows neither arguments nor variables."""

    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    provide_cluster_info: bool = False
    interactive_mode: str = "Never"


@dataclass(frozen=True, slots=True)
class AccessProvider:
    """The name of an access provider of ClusterProfiles, and its command."""

    name: str
    exec_config: ExecConfig


@dataclass(frozen=True, slots=True)
class AccessProviders:
    """A list of access providers with different names."""

    def read(self, raw: object) -> tuple[AccessProvider, ...]:
        """Return the providers in the order given; messages name the field, and never what an argument or variable
        holds."""
        if isinstance(raw, str):
            try:
                raw = json.loads(raw)
            except ValueError:
                raise ValueError("must be a list of access providers, in a variable as JSON") from None
        if not isinstance(raw, list):
            raise ValueError("must be a list of access providers, each with name and execConfig")
        found = tuple(_provider(one, f"[{n}]") for n, one in enumerate(raw))
        names = [one.name for one in found]
        if double := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f'names the access provider "{double}" twice')
        return found

    def show(self, value: tuple[AccessProvider, ...]) -> list[dict[str, Any]]:
        """Return the providers as a settings file would hold them; arguments and variables may be secret, and are
        masked."""
        return [{"name": one.name, "execConfig": _shown(one.exec_config)} for one in value]

    def describe(self) -> str:
        """Say the shape."""
        return "list of access providers, each with `name` and `execConfig`, in a variable as JSON, or empty"


def _shown(config: ExecConfig) -> dict[str, Any]:
    return {
        "apiVersion": config.api_version,
        "command": config.command,
        "args": ["***" for _ in config.args],
        "env": [{"name": name, "value": "***"} for name, _ in config.env],
        "provideClusterInfo": config.provide_cluster_info,
        "interactiveMode": config.interactive_mode,
    }


def _provider(raw: object, at: str) -> AccessProvider:
    if not isinstance(raw, dict):
        raise ValueError(f"{at} must have name and execConfig")
    if unknown := sorted(str(key) for key in raw if key not in ("name", "execConfig")):
        raise ValueError(f"{at} has no field {unknown[0]}")
    exec_config = raw.get("execConfig")
    if not isinstance(exec_config, dict):
        raise ValueError(f"{at}.execConfig must be specified")
    return AccessProvider(_text(raw, "name", at), _exec_config(exec_config, f"{at}.execConfig"))


def _exec_config(raw: dict[Any, Any], at: str) -> ExecConfig:
    # Kueue's own spelling of this one field, where it writes its configuration as JSON, begins with a capital.
    given = {"interactiveMode" if key == "InteractiveMode" else key: value for key, value in raw.items()}
    if unknown := sorted(str(key) for key, value in given.items() if key not in _EXEC and value is not None):
        raise ValueError(f"{at} has no field {unknown[0]}")
    version, mode = _text(given, "apiVersion", at), _text(given, "interactiveMode", at)
    if version not in EXEC_VERSIONS:
        raise ValueError(f'{at}.apiVersion must be {" or ".join(EXEC_VERSIONS)}, not "{version}"')
    if mode not in INTERACTIVE_MODES:
        raise ValueError(f'{at}.interactiveMode must be {", ".join(INTERACTIVE_MODES)}, not "{mode}"')
    args, env, told = _args(given, at), _env(given, at), given.get("provideClusterInfo") or False
    if not isinstance(told, bool):
        raise ValueError(f"{at}.provideClusterInfo must be true or false")
    variables = tuple(_variable(one, f"{at}.env[{n}]") for n, one in enumerate(env))
    return ExecConfig(_text(given, "command", at), version, args, variables, told, mode)


def _args(raw: dict[Any, Any], at: str) -> tuple[str, ...]:
    args = raw.get("args") or []
    if not isinstance(args, list) or not all(isinstance(one, str) and "\0" not in one for one in args):
        raise ValueError(f"{at}.args must be a list of texts")
    return tuple(args)


def _env(raw: dict[Any, Any], at: str) -> list[object]:
    env = raw.get("env") or []
    if not isinstance(env, list):
        raise ValueError(f"{at}.env must be a list of name and value")
    return env


def _variable(raw: object, at: str) -> tuple[str, str]:
    if not isinstance(raw, dict):
        raise ValueError(f"{at} must have name and value")
    name, value = _text(raw, "name", at), raw.get("value") or ""
    if "=" in name or not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{at} must have a name without = and a value that is text")
    return name, value


def _text(raw: dict[Any, Any], key: str, at: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{at}.{key} must be specified")
    return value
