"""`controlplane podgroups`: whose group a pod would be in, and why, from files alone.

In: the rules (the ConfigMap or the bare document) and objects. Out: a line for each pod. Nothing is read from or
written to a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import CommandGroup
from controlplane.cli.options import Options
from controlplane.cli.output import emit
from controlplane.cli.settings_file import formerly_config

if TYPE_CHECKING:
    from controlplane.controllers.podgroups.documents import DocumentProblem, Piece
    from controlplane.controllers.podgroups.dry_run import ObjectSelector, Pretended
    from controlplane.controllers.podgroups.rules import Rules

COLUMNS = ("pod", "action", "reason", "podgroup", "owner", "level", "minmember", "reads", "warnings")
_STDIN = "-"


@click.group(cls=CommandGroup)
def podgroups() -> None:
    """Say whose PodGroup a pod would be in, and why."""


@podgroups.command()
@formerly_config("rules", "--rules", click.STRING)
@click.option(
    "--rules",
    metavar="RULES",
    help="The rules: the ConfigMap volcano-controller-configmap, or the text of its key volcano-controller.conf; - for"
    " standard input. Without it there are no rules.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="OBJECTS",
    help="Pods and their owners, in YAML or JSON, as `kubectl get -o yaml` prints them; - for standard input."
    " Repeatable.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    metavar="NAME",
    help="A scheduler whose pods are ours; repeatable. Without it: volcano and controlplane.",
)
@click.option(
    "--forbidden", multiple=True, metavar="KIND.GROUP[/NAME]", help="Take reads of these objects for forbidden."
)
@click.option(
    "--not-served", multiple=True, metavar="KIND.GROUP[/NAME]", help="Take this kind for one not served any more."
)
@click.option(
    "--unavailable",
    multiple=True,
    metavar="KIND.GROUP[/NAME]",
    help="Take reads of these objects for failing just now.",
)
@click.pass_obj
def resolve(
    options: Options,
    rules: str | None,
    files: tuple[str, ...],
    schedulers: tuple[str, ...],
    forbidden: tuple[str, ...],
    not_served: tuple[str, ...],
    unavailable: tuple[str, ...],
) -> None:
    """Say what would be done about each pod in some files; nothing is done.

    \b
    An owner that is not in the files does not exist. With -o json or yaml, a
    list with one object for each pod: pod, namespace, action (create, skip or
    retry), reason, podGroupName, owner (apiVersion, kind, name, uid; or
    null), matched (whether a rule did), matchedOwner, level, minMember,
    minResources, queue, walked (the owners, from the pod up), reads (those
    that the walk had to read), annotationReads (those read only for the
    wanted number of members), warnings.
    Exit codes: 1 if an object cannot be used (the others are printed), 3 if
    the rules cannot.
    """
    from controlplane.controllers.podgroups.dry_run import dry_run
    from controlplane.controllers.podgroups.ownership import OUR_SCHEDULERS

    if [*files, rules].count(_STDIN) > 1:
        raise CommandFailure(
            "- is given twice, but standard input can be read only once: put one of them into a file", Exit.USAGE
        )
    pretended = _pretended(forbidden, not_served, unavailable)
    known = _rules(rules)
    pieces, problems = _objects(files)
    lines, more = dry_run(pieces, known, schedulers=schedulers or OUR_SCHEDULERS, pretended=pretended)
    emit(options.output, lines, COLUMNS, _rows(lines))
    if not lines and not problems and not more:
        click.echo(f"No pods found in {', '.join(map(_named, files))}.", err=True)
    problems += more
    if problems:
        message = "object cannot be used" if len(problems) == 1 else "objects cannot be used"
        raise CommandFailure("\n  ".join([f"{len(problems)} {message}:", *map(str, problems)]))


def _text(source: str, code: Exit = Exit.USAGE) -> str:
    """Return the text of a file; `CommandFailure` with the exit code if it cannot be read."""
    try:
        data = sys.stdin.buffer.read() if source == _STDIN else Path(source).read_bytes()
    except OSError as error:
        raise CommandFailure(f"{source}: {error.strerror}", code) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandFailure(f"{_named(source)}: is not UTF-8 at byte {error.start}: save it as UTF-8", code) from None


def _named(source: str) -> str:
    return "standard input" if source == _STDIN else source


def _rules(source: str | None) -> Rules:
    """Return the rules; `CommandFailure` with every complaint if they are refused."""
    from controlplane.controllers.podgroups.documents import find_rules
    from controlplane.controllers.podgroups.rules import Rules, RulesInvalid

    if source is None:
        return Rules()
    try:
        return find_rules(_text(source, Exit.CONFIGURATION))
    except RulesInvalid as error:
        message = [f"{_named(source)}: the rules are refused, and the last good ones would stay in force:"]
        raise CommandFailure("\n  ".join([*message, *map(str, error.complaints)]), Exit.CONFIGURATION) from None


def _objects(files: tuple[str, ...]) -> tuple[list[Piece], list[DocumentProblem]]:
    from controlplane.controllers.podgroups.documents import read_stream

    pieces: list[Piece] = []
    problems: list[DocumentProblem] = []
    for source in files:
        found, wrong = read_stream(_named(source), _text(source))
        pieces += found
        problems += wrong
    return pieces, problems


def _pretended(*kinds: tuple[str, ...]) -> Pretended:
    from controlplane.controllers.podgroups.dry_run import Pretended, selector

    def selectors(texts: tuple[str, ...]) -> tuple[ObjectSelector, ...]:
        try:
            return tuple(map(selector, texts))
        except ValueError as error:
            raise CommandFailure(str(error), Exit.USAGE) from None

    forbidden, not_served, unavailable = map(selectors, kinds)
    return Pretended(forbidden, not_served, unavailable)


def _rows(lines: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    for one in lines:
        owner = one["owner"]
        yield (
            f"{one['namespace']}/{one['pod']}",
            one["action"],
            one["reason"],
            one["podGroupName"],
            f"{owner['kind']}/{owner['name']}" if owner else "",
            one["level"],
            one["minMember"],
            len(one["reads"]) + len(one["annotationReads"]),
            "; ".join(one["warnings"]),
        )
