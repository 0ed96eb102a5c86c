"""`controlplane config`: what the settings are, where each came from, and what is wrong with them."""

from __future__ import annotations

import click

from controlplane.cli.frame import CommandGroup
from controlplane.cli.options import Options
from controlplane.cli.output import emit, line


@click.group(cls=CommandGroup)
def config() -> None:
    """Show or check the settings."""


@config.command()
@click.pass_obj
def show(options: Options) -> None:
    """Print the effective settings, without secrets.

    As a table with where each value came from; with -o yaml in the form of a settings file.
    """
    from controlplane.settings import LEAVES, plain, shown

    resolved = options.resolve()
    rows = (
        (leaf.key, shown(leaf.setting.rule.show(leaf.of(resolved.settings))), resolved.origins[leaf.key])
        for leaf in LEAVES
    )
    emit(options.output, plain(resolved.settings), ("setting", "value", "from"), rows)


@config.command()
@click.pass_obj
def check(options: Options) -> None:
    """Say whether the settings can be used; name every problem if not (exit code 3)."""
    origins = options.resolve().origins
    given = sum(place != "default" for place in origins.values())
    line(f"The settings can be used: {given} given, {len(origins) - given} at their defaults.")
