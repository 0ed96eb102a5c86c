"""`controlplane version`: which program this is, and on what it runs."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from controlplane.cli.frame import Verb
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line


@click.command(cls=Verb)
@click.pass_obj
def version(options: Options) -> None:
    """Show the version of this program."""
    facts = {
        "version": metadata.version("controlplane"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    if options.output != "table":
        dump(options.output, facts)
    else:
        line(f"controlplane {facts['version']} (Python {facts['python']}, {facts['platform']})")
