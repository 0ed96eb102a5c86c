"""`controlplane export` and `verify-export`: all that the log has of a Workload in one file, and whether such a file is
as it was written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import find_story, full_name, log_option, open_reader
from controlplane.cli.options import FORMATS, LISTED, Options, named, names_of
from controlplane.cli.output import dump, line

if TYPE_CHECKING:
    from controlplane.audit.evidence import EvidenceCheck

_MOST = 20  # wrong lines that are told


@click.command(cls=Verb)
@click.argument("workload", metavar="NAMESPACE/NAME", shell_complete=names_of("workloads"))
@click.option(
    "-o", "--output", "file", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE",
    help="The file to write, which must not be there yet; - is standard output.",
)  # fmt: skip
@named
@log_option
@click.pass_obj
def export(options: Options, workload: str, file: Path) -> None:
    """Write all that the log has of a Workload into one file that can be checked without it.

    The name may be that of the Workload or of its job. In the file are the
    events of both, those that they rest on, and the bodies that they name: a
    JSON object in each line, with its SHA-256. `controlplane verify-export`
    checks it. Bodies and ids of batches take more than a reader's rights.
    """
    from importlib import metadata

    from controlplane.audit.evidence import lines_of
    from controlplane.audit.export import INCLUDED, Export

    with open_reader(options) as reader:
        made = Export(reader, find_story(reader, full_name(options, workload)), metadata.version("controlplane"))
        with _opened(file) as out:
            count = _write(out, lines_of(made.header, made.rows()))
    left_out = [what for what in ("bodies", "batches") if made.header[what] != INCLUDED]
    said = f"; {' and '.join(left_out)} are left out, because the role may not read them" if left_out else ""
    click.echo(f"{count} lines{said}.", err=True)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """Open the file that is to be written; one that could not be finished is removed."""
    if str(file) == "-":
        yield sys.stdout.buffer
        return
    if str(file) in (*FORMATS, *LISTED):  # what -o means elsewhere
        said = (
            "-o names the file to write here, which is always JSON lines: such as -o train.jsonl, or - for "
            "standard output"
        )
        raise CommandFailure(said, Exit.USAGE)
    try:
        out = file.open("xb")
    except FileExistsError:
        raise CommandFailure(f"{file} is there already: choose another name, or remove it", Exit.USAGE) from None
    try:
        with out:
            yield out
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _write(out: BinaryIO, lines: Iterable[bytes]) -> int:
    count = 0
    for text in lines:
        out.write(text)
        count += 1
    out.flush()
    return count


@click.command(name="verify-export", cls=Verb)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.pass_obj
def verify_export(options: Options, file: Path) -> int:
    """Check a file of `controlplane export`, without a database: that every line is as it was written.

    Checked are the hash of each line and of all, that no event of the
    Workload's streams is missing in between, that causes are in the file, and
    that bodies have the hashes by which events name them. Where the file has
    proofs, the hashes of the batches that the log has follow from its events.
    Which line is wrong is said, and the exit code is 1.

    \b
    With -o json or yaml, one object:
      log, workload, events, bodies, redacted (bodies that lost values, which
      cannot be checked), first, last (positions), batches (the hashes that
      follow from the events, by the ids of batches), problems: line, text
    """
    from controlplane.audit.evidence import EvidenceCheck, NotEvidence

    check, number = EvidenceCheck(), 0
    try:
        with file.open("rb") as lines:
            for number, text in enumerate(lines, 1):
                check.add(number, text)
        if not number:
            raise NotEvidence("it is empty")
    except OSError as error:
        raise CommandFailure(f"{file} cannot be read: {error.strerror}", Exit.USAGE) from None
    except NotEvidence as error:
        raise CommandFailure(f"{file} is no file of `controlplane export`: {error}", Exit.USAGE) from None
    check.close()
    if options.output != "table":
        problems = [{"line": at, "text": text} for at, text in check.problems]
        dump(options.output, {**_counts(check), "problems": problems})
        return Exit.FAILED if problems else Exit.OK
    if check.problems:
        told = [f"line {at}: {text}" for at, text in check.problems[:_MOST]]
        more = [f"and {len(check.problems) - _MOST} more"] if len(check.problems) > _MOST else []
        raise CommandFailure("\n  ".join([f"{file} is not as it was written:", *told, *more]))
    line(_summary(check))
    return Exit.OK


def _counts(check: EvidenceCheck) -> dict[str, object]:
    return {
        "log": check.header.get("log"),
        "workload": check.header.get("workload"),
        "events": check.events,
        "bodies": check.bodies,
        "redacted": check.redacted,
        "first": check.first,
        "last": check.last,
        "batches": check.batches,
    }


def _summary(check: EvidenceCheck) -> str:
    name = check.header["workload"] or ", ".join(check.streams)
    many = len(check.batches)
    proven = f" The hashes of {many} batch{'es' if many != 1 else ''} of the log follow from them." if many else ""
    redacted = f" ({check.redacted} of them redacted, and not checked)" if check.redacted else ""
    return (
        f"{name} of the log {check.header['log']}: {check.events} events of the positions {check.first} to "
        f"{check.last}, {check.bodies} bodies{redacted}. Every line is as it was written.{proven}"
    )
