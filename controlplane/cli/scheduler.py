"""`controlplane scheduler`: the scheduler beside a target cluster. `run` is the process, `evaluate` asks its rules
without any cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from controlplane.cli.errors import Exit
from controlplane.cli.frame import CommandEntry, CommandGroup
from controlplane.cli.options import Options
from controlplane.cli.output import line

VERBS = {
    "run": CommandEntry(
        "controlplane.cli.scheduler_run:run",
        "Schedule pods of one cluster: those that name a profile, and candidates.",
    )
}


@click.group(cls=CommandGroup, verbs=VERBS)
def scheduler() -> None:
    """Schedule pods by kube-scheduler's rules, or explain what they say."""


@scheduler.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--for-people", is_flag=True, help="Say why each node was refused, as kubectl describe does; as -o table."
)
@click.option(
    "--scheduler-config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="A KubeSchedulerConfiguration whose profiles are asked; the default profile otherwise.",
)
@click.pass_obj
def evaluate(options: Options, files: tuple[Path, ...], for_people: bool, scheduler_config: str | None) -> int:
    """Explain where pods would go, and why not elsewhere, without touching a cluster.

    Reads JSON lines from FILES or stdin, one pod with its cluster on each:

    \b
      {id, pod, nodes, pods, namespaces, services, replicaSets, statefulSets, ...}

    and writes one line for each: what every plugin says of every node, what they decide together, and whom preemption
    would evict. A line that cannot be read gets {id, error} that names the field, and the others go on; the exit code
    is then 1. A configuration that cannot be used ends with code 3 and names the field.

    Without -o it is JSON lines; -o yaml prints a document for each, and -o table says it in sentences."""
    from controlplane.controllers.scheduling.evaluate.lines import explained, said

    profiles = None
    if scheduler_config is not None:
        from controlplane.cli.scheduler_run import usable_profiles

        profiles = usable_profiles(scheduler_config).frameworks
    failed = False
    for number, text in enumerate(_lines(files), start=1):
        if not text.strip():
            continue
        if for_people or (options.output_said and options.output == "table"):
            ok, lines = explained(text, number, profiles)
            for one in lines:
                line(one)
        else:
            ok, encoded = said(text, number, profiles)
            _print(encoded, options.output)
        failed |= not ok
    return Exit.FAILED if failed else Exit.OK


def _print(encoded: bytes, form: str) -> None:
    """Print an answer: a line as it is, or in another form for programs."""
    if form in ("table", "json"):
        click.echo(encoded)
        return
    import msgspec

    from controlplane.cli.following import document

    document(form, msgspec.json.decode(encoded))


def _lines(files: tuple[Path, ...]) -> Iterator[bytes]:
    for path in files or (Path("-"),):
        if str(path) == "-":
            yield from _binary(sys.stdin)
        else:
            with path.open("rb") as opened:
                yield from opened


def _binary(stream: Any) -> Iterator[bytes]:
    yield from stream.buffer
