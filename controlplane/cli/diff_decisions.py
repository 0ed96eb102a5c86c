"""`controlplane diff-decisions`: what the recorded leader decided, beside what is decided now on the same state.

With other settings, or by the code of another version, which is run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option, open_reader, stamp
from controlplane.cli.log_range import LogRange, log_range, progressing, range_options
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line, table

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader
    from controlplane.log.event import Event
    from controlplane.settings import Settings
    from controlplane.whatif.compare import Comparison, Difference
    from controlplane.whatif.deciders import DecisionSettings

COLUMNS = ("position", "at (UTC)", "stream", "verdict", "recorded", "why", "now", "why now")
MOST = 100
"""How many differences the table shows."""
_VERB = Path("controlplane/cli/diff_decisions.py")


@click.command("diff-decisions", cls=Verb)
@range_options
@click.option(
    "--with",
    "other",
    metavar="FILE|FOLDER|VERSION",
    help="Decide by another settings file, or by the code in the checkout of another version.",
)
@log_option
@click.pass_obj
def diff_decisions(options: Options, begin: str | None, end: str | None, other: str | None) -> int:
    """Decide again what was decided, and show where the answers differ.

    The log is folded from its beginning, and the decide functions are asked
    at the points at which the recorded leader decided. Without --with they
    decide by the settings that were in force then: what differs is due to
    this version.

    \b
    Exit code 0 if nothing differs, 1 if something does.
    With -o json or yaml, one object:
      log, from, to (positions), by, decisions, agree, not_asked, left_alone
      differences: position, at, stream, verdict ("changed", "not decided now",
        "decided now only", "decided earlier now"), recorded and now: type,
        reason, what, data, or null
    """
    checkout = _checkout(other)
    settings = _settings(options, other) if checkout is None else None
    with open_reader(options) as reader:
        part = log_range(reader, begin, end)
        if checkout is not None:
            return _elsewhere(options, reader, checkout, part)
        found = _compared(reader, options.settings(), settings, part)
    by = "the settings that were in force" if settings is None else f"the settings of {other}"
    if options.output == "table":
        _print(reader.log, part, by, found)
    else:
        dump(options.output, _plain(reader.log, part, by, found))
    return Exit.FAILED if found.differences else Exit.OK


# --- what decides -----------------------------------------------------------------------------------------------------


def _checkout(other: str | None) -> Path | None:
    """Return the folder of another version's code, None if something else was named."""
    if other is None or not Path(other).is_dir():
        return None
    if not (Path(other) / _VERB).is_file():
        raise CommandFailure(
            f"--with {other}: this folder has no {_VERB}: name the checkout of a version that has diff-decisions",
            Exit.USAGE,
        )
    return Path(other).resolve()


def _settings(options: Options, other: str | None) -> Settings | None:
    """Return the settings of another file; None for those that were in force."""
    from importlib import metadata

    from controlplane.settings import resolve

    version = metadata.version("controlplane")
    if other is None or other == version:
        return None
    if not Path(other).exists():
        raise CommandFailure(
            f'--with "{other}": there is no such file or folder, and this program is version {version} and decides '
            "as that alone: name a settings file, or the folder of a checkout of another version",
            Exit.USAGE,
        )
    return resolve(Path(other), {}, {}).settings


def _elsewhere(options: Options, reader: LogReader, checkout: Path, part: LogRange) -> int:
    """Have the code of a checkout decide and print; `CommandFailure` if it cannot."""
    own = checkout / ".venv/bin/python"
    python = str(own) if own.is_file() else sys.executable
    asked = ["diff-decisions", "--from", str(part.begin + 1), "--to", str(part.end), "--log", reader.log]
    config = [] if options.config is None else ["--config", str(options.config.resolve())]
    ended = subprocess.run(  # noqa: S603 - the folder that the user named
        [python, "-m", "controlplane", *asked, "-o", options.output, *config],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "CONTROLPLANE_DATABASE_URL": options.database_url()},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode not in (Exit.OK, Exit.FAILED) or not ended.stdout:
        said = ended.stderr.strip().splitlines()
        raise CommandFailure(f"--with {checkout}: its code failed: {said[-1] if said else 'it said nothing'}")
    click.echo(ended.stdout, nl=False)
    return ended.returncode


def _compared(reader: LogReader, own: Settings, other: Settings | None, part: LogRange) -> Comparison:
    from controlplane.whatif.compare import together

    return together(
        [_compare(reader, by, within) for within, by in _parts(reader, own, other, part) if within.begin < within.end]
    )


def _compare(reader: LogReader, by: DecisionSettings, part: LogRange) -> Comparison:
    from controlplane.audit.reads import Filter
    from controlplane.whatif.compare import AFTER, DecisionComparison
    from controlplane.whatif.deciders import Deciders

    comparison = DecisionComparison(Deciders(by), part.begin, part.end)
    for recorded in progressing(reader.events(Filter()), part.end, "deciding"):
        # A while longer: what is decided and not recorded may be recorded then.
        if recorded.position > part.end and comparison.ended_before(recorded.recorded_at - AFTER):
            break
        comparison.take(recorded)
    return comparison.finish()


def _parts(
    reader: LogReader, own: Settings, other: Settings | None, part: LogRange
) -> list[tuple[LogRange, DecisionSettings]]:
    """Return which settings to decide by, and within which positions: a process that begins to lead says so, if they
    are others. Each part is folded from the log's beginning by its own settings, as by a process that starts with
    them."""
    from controlplane.audit.reads import Filter
    from controlplane.controllers.connectivity.events import PolicyInForce
    from controlplane.whatif.deciders import chosen, then

    if other is not None:
        return [(part, chosen(other))]
    said = [one for one in reader.events(Filter(types=[PolicyInForce.__name__])) if one.position <= part.end]
    found = [(0, chosen(own))]
    for one in said:
        if isinstance(one.event, PolicyInForce) and (by := then(own, one.event)) != found[-1][1]:
            found.append((one.position, by))
    ends = [*(position for position, _ in found[1:]), part.end]
    return [
        (LogRange(max(position, part.begin), min(end, part.end)), by)
        for (position, by), end in zip(found, ends, strict=True)
    ]


# --- what is shown ----------------------------------------------------------------------------------------------------


def _plain(log: str, part: LogRange, by: str, found: Comparison) -> dict[str, Any]:
    return {
        "log": log,
        "from": part.begin + 1,
        "to": part.end,
        "by": by,
        "decisions": found.decisions,
        "agree": found.agree,
        "not_asked": found.not_asked,
        "left_alone": found.left_alone,
        "differences": [
            {
                "position": one.position,
                "at": one.at,
                "stream": one.stream,
                "verdict": one.verdict,
                "recorded": _event(one.recorded),
                "now": _event(one.now),
            }
            for one in found.differences
        ],
    }


def _event(event: Event | None) -> dict[str, Any] | None:
    from controlplane.audit.words import fields_of, what

    if event is None:
        return None
    said = {"type": type(event).__name__, "reason": str(getattr(event, "reason", "")), "what": what(event)}
    return {**said, "data": fields_of(event)}


def _print(log: str, part: LogRange, by: str, found: Comparison) -> None:
    line(f"Positions {part.begin + 1} to {part.end} of the log {log}, decided again by {by}:")
    line(f"{found.decisions} decisions, {found.agree} agree, {len(found.differences)} differences.")
    if found.not_asked:
        line(f"{found.not_asked} decisions of controllers that do not dispatch Workloads are not asked for again.")
    for stream, why in sorted(found.left_alone.items()):
        line(f"{stream} cannot be folded: {why}")
    if found.differences:
        click.echo()
        table(COLUMNS, [_row(one) for one in found.differences[:MOST]])
    if len(found.differences) > MOST:
        line(f"… and {len(found.differences) - MOST} more, which -o json has")


def _row(one: Difference) -> tuple[object, ...]:
    recorded, now = _event(one.recorded), _event(one.now)
    nothing = {"what": "", "reason": ""}
    shown = [side[key] for side in (recorded or nothing, now or nothing) for key in ("what", "reason")]
    return (one.position, stamp(one.at), one.stream, one.verdict, *shown)
