"""`controlplane completion SHELL`: the script by which a shell completes what is typed, and the names that it offers.

In: a shell's name. Out: its script, on stdout. The script asks this program at each tab; names come from the log
(`controlplane.cli.offered`)."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from controlplane.cli.frame import Verb

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Verb)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options and names.

    \b
    bash: source <(controlplane completion bash)           in ~/.bashrc
    zsh:  source <(controlplane completion zsh)            in ~/.zshrc, after compinit
    fish: controlplane completion fish | source            in ~/.config/fish/config.fish

    Names of Workloads, clusters and namespaces are those of the log, if its
    database is set and answers at once.
    """
    found = get_completion_class(shell)
    assert found is not None, shell  # click has the three
    from controlplane.cli import cli

    maker = found(cli, {}, "controlplane", "_CONTROLPLANE_COMPLETE")
    # Not `source()`: of bash it starts one to see its version, and the script may be made where there is none.
    click.echo(maker.source_template % maker.source_vars())
