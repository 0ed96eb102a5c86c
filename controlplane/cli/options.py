"""What was said on the command line for every verb: which settings file, which database, which form of output.

The three options may stand before the verb or after it; the later wins. Settings are read when a verb asks for them,
not before, so that `version` works with broken ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.errors import CommandFailure, Exit

if TYPE_CHECKING:
    from controlplane.settings import Resolved, Settings

LARGEST = 2**63 - 1
"""The largest number that the log and PostgreSQL count with."""
FORMATS = ("table", "json", "yaml")


class Whole(click.IntRange):
    """A whole number between two; click calls it an "integer range" where something else is given."""

    name = "whole number"


@dataclass(slots=True)
class Options:
    """The global options. `controllers` is what `run` was told to host; `output` is one of `FORMATS`.

    `more` are settings that a verb's own options give: key → (value, option).
    """

    config: Path | None = None
    database: str | None = None
    controllers: str | None = None
    output: str = "table"
    more: dict[str, tuple[str, str]] = field(default_factory=dict)

    def resolve(self) -> Resolved:
        """Return the effective settings with their origins; `SettingsError` with every problem."""
        from controlplane.settings import resolve

        given = {} if self.database is None else {"database.url": (self.database, "--database-url")}
        if self.controllers is not None:
            given["run.controllers"] = (self.controllers, "--controllers")
        return resolve(self.config, os.environ, given | self.more)

    def settings(self) -> Settings:
        """Return the effective settings; `SettingsError` with every problem."""
        return self.resolve().settings

    def database_url(self) -> str:
        """Return the database's URL with its secret; `CommandFailure` if none was set."""
        url = self.settings().database.url
        if not url:
            raise CommandFailure(
                "no database is set: give --database-url, CONTROLPLANE_DATABASE_URL, or database.url in the"
                " settings file",
                Exit.CONFIGURATION,
            )
        return url.reveal()


def parameters() -> list[click.Parameter]:
    """Return the global options, for the group and for each verb."""
    return [
        _option(
            "config",
            "--config",
            "The settings file (YAML).",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
        ),
        _option(
            "database",
            "--database-url",
            "The database of the log: postgresql://USER:PASSWORD@HOST:PORT/NAME.",
            metavar="URL",
        ),
        _option(
            "output", "-o", "The form of the output: table, json or yaml.", type=click.Choice(FORMATS), metavar="FORM"
        ),
    ]


def _option(field: str, flag: str, text: str, **more: Any) -> click.Option:
    flags = [flag, "--output"] if flag == "-o" else [flag]
    return click.Option([*flags, field], help=text, expose_value=False, callback=_remember(field), **more)


def _remember(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def remember(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        options = context.ensure_object(Options)
        if value is not None:
            setattr(options, field, value)

    return remember
