"""The program `controlplane`: runs the command line and turns whatever happens into an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import shell_complete

from controlplane.cli import cli
from controlplane.cli.errors import Exit, report

NAME = "controlplane"
_COMPLETE = "_CONTROLPLANE_COMPLETE"  # set by the shell's completion script


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (default: the process's own) and return the exit code."""
    if instruction := os.environ.get(_COMPLETE):
        return shell_complete(cli, {}, NAME, _COMPLETE, instruction)
    try:
        # Not `cli.main`: it ends the process by itself when the reader of a pipe has gone, with the code of a failure.
        with cli.make_context(NAME, list(sys.argv[1:] if arguments is None else arguments)) as context:
            result = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as left:
        return left.exit_code
    except (Exception, KeyboardInterrupt) as error:  # the edge of the program: everything becomes a sentence here
        return report(error)
    return result if isinstance(result, int) else Exit.OK


def main() -> NoReturn:
    """Run the program and leave it."""
    if os.getpid() == 1:  # of a container: the kernel drops a signal for which process 1 has no handler
        signal.signal(signal.SIGTERM, _end)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started it has closed that: nobody reads what is said there
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    sys.exit(run())


def _end(number: int, _frame: object) -> NoReturn:
    """Do what the signal does to any other process, with the exit code that a shell gives it."""
    os._exit(128 + number)


if __name__ == "__main__":
    main()
