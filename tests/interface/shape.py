"""The interface of this version as plain values: what users, their logs and their scripts rely on.

Event types with their fields, the first words of streams with the identities of observations, metrics, commands with
their options, settings."""

from __future__ import annotations

import inspect
from typing import Any

import click
import msgspec

from controlplane.app.hosted import TYPES, HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.cli import cli
from controlplane.log.event import Event
from controlplane.runtime.router import ControllerRouter
from controlplane.settings import Settings
from controlplane.settings.model import LEAVES
from controlplane.telemetry import Metrics

CONTROLLERS = ["multikueue", "candidates", "podgroups", "coscheduling"]


def everything() -> Settings:
    """Settings under which a service hosts every controller."""
    settings = Settings()
    return msgspec.structs.replace(
        settings,
        run=msgspec.structs.replace(settings.run, controllers=CONTROLLERS),
        quota=msgspec.structs.replace(settings.quota, mode="builtin"),
        candidates=msgspec.structs.replace(
            settings.candidates, virtual_nodes=msgspec.structs.replace(settings.candidates.virtual_nodes, enabled="yes")
        ),
    )


def service() -> ControllerRouter:
    return HostedControllers(everything()).router


def scheduler() -> ControllerRouter:
    return SchedulerControllers(Settings(), ["default-scheduler"], gangs=True).router


def picture() -> dict[str, Any]:
    types = {event.__name__: event for event in (*TYPES, *scheduler().types)}
    return {
        "events": {name: fields(types[name]) for name in sorted(types)},
        "streams": {name: streams(hosted) for name, hosted in (("service", service()), ("scheduler", scheduler()))},
        "metrics": {name: [kind, list(labels)] for name, kind, labels, _ in Metrics().table},
        "commands": commands(cli, "controlplane"),
        "settings": {leaf.key: leaf.variable for leaf in LEAVES},
    }


def fields(event: type[Event]) -> dict[str, Any]:
    """The schema of an event, and of each field whether it has a default."""
    found = msgspec.structs.fields(event)
    return {
        "schema": event.SCHEMA,
        "fields": {
            field.encode_name: "required" if field.required else "optional"
            for field in sorted(found, key=lambda field: field.encode_name)
        },
    }


def streams(hosted: ControllerRouter) -> dict[str, str]:
    """Of each first word of a stream what the identities of its owner's observations begin with."""
    return {word: room.identities for room in hosted.registrations for word in sorted(room.owns)}


def commands(command: click.Command, path: str) -> dict[str, list[str]]:
    """Every command with its options and arguments."""
    context = click.Context(command, info_name=path)
    shown = sorted({name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)})
    found = {path: shown}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, inspect.cleandoc(f"{path} lists {name}, and has none")
            found |= commands(below, f"{path} {name}")
    return found
