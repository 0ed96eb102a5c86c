"""`controlplane events`: the log as it is, and as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import place
from controlplane.cli import times
from controlplane.cli.archived import refuse_archived_stream
from controlplane.cli.errors import Exit
from controlplane.cli.following import document, refuse_order
from controlplane.cli.following import follow as follow_log
from controlplane.cli.frame import Verb
from controlplane.cli.history import is_empty, log_option, open_reader, stamp
from controlplane.cli.options import LARGEST, Options, Whole, listing, names_of
from controlplane.cli.output import aside, emit, line, zoned

if TYPE_CHECKING:
    from controlplane.audit.reads import Filter, LogReader
    from controlplane.log.event import Recorded

COLUMNS = ("position", "at (UTC)", "stream", "type", "reason", "cluster", "what")
_LINE = "{:>8}  {:19}  {:40}  {:24}  {:20}  {:12}  {}"


@click.command(cls=Verb)
@click.option("-f", "--follow", "-w", "--watch", "follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of a type; may be repeated.")
@click.option("--stream", "streams", multiple=True, metavar="STREAM", help="Only those of a stream; may be repeated.")
@click.option(
    "--cluster",
    default="",
    metavar="NAME",
    shell_complete=names_of("clusters"),
    help="Only those on a cluster (@management for that one).",
)
@click.option("--after", type=Whole(0, LARGEST), metavar="POSITION", help="Begin after a position.")
@click.option("--limit", type=Whole(1, LARGEST), default=100, show_default=True, metavar="N", help="At most so many.")
@times.interval_options("Only those recorded from this time on", "Only those recorded before this time")
@listing("csv")
@log_option
@click.pass_obj
def events(
    options: Options,
    since: str | None,
    until: str | None,
    follow: bool,
    types: tuple[str, ...],
    streams: tuple[str, ...],
    cluster: str,
    after: int | None,
    limit: int,
) -> int:
    """Show events of the log: the newest ones, or those after a position.

    With --follow, --limit bounds what is shown of the past, and nothing if --after says where to begin.

    \b
    With -o json or yaml, a list of objects; with --follow one object a line,
    or one YAML document each:
      position, at, stream, version, type, schema, reason, cluster, what,
      data, caused_by, trace, observed_at
    """
    from controlplane.audit.reads import Filter

    begin, end = times.interval(since, until)
    wanted = Filter(
        after=after or 0,
        types=list(types) or None,
        streams=list(streams) or None,
        cluster=cluster,
        begin=begin,
        end=end,
    )
    if follow:
        if until is not None:
            raise click.UsageError("--until has an end, and --follow has none: leave one of the two out")
        refuse_order(options, "--follow")
        return _show_on(options, wanted, limit, newest=after is None)
    with open_reader(options) as reader:
        found = list(reader.events(wanted, limit=limit, newest=after is None))
        empty = "" if found else is_empty(reader) or _unknown(reader, wanted)
    emit(options.output, [plain(one) for one in found], COLUMNS, [_row(one) for one in found])
    if empty:
        aside(f"{empty[0].upper()}{empty[1:]}{'' if empty.endswith('?') else '.'}")
    return Exit.OK


def _unknown(reader: LogReader, wanted: Filter) -> str:
    """Return what of a filter the log does not have, and what may have been meant; "" if it only fits nothing."""
    from controlplane.audit.reads import READ, Filter

    known = [one.__name__ for one in READ]
    for kind in wanted.types or ():
        if kind not in known and not list(reader.events(Filter(types=[kind]), limit=1)):
            return f'there is no type of event "{kind}"{_nearest(kind, known, "docs/reference/events.md has them")}'
    if unknown := _unknown_place(reader, wanted):
        return unknown
    head = reader.head()
    return f"the log {reader.log} ends at {head}" if wanted.after > head else ""


def _unknown_place(reader: LogReader, wanted: Filter) -> str:
    """Return which cluster or stream of a filter the log does not have; "" if it has all."""
    from controlplane.controllers.connectivity.events import MANAGEMENT

    clusters = [MANAGEMENT, *(stream.partition("/")[2] for stream in reader.streams("cluster"))]
    if wanted.cluster and wanted.cluster not in clusters:
        there = f"there are {', '.join(dict.fromkeys(clusters))}"
        return f"the log {reader.log} has no cluster {wanted.cluster}{_nearest(wanted.cluster, clusters, there)}"
    for stream in wanted.streams or ():
        if not reader.first_seen([stream]):
            refuse_archived_stream(reader, f"the stream {stream}", [stream])
            near = reader.streams(stream.partition("/")[0])
            return f"the log {reader.log} has no stream {stream}{_nearest(stream, near, '')}"
    return ""


def _nearest(name: str, known: Sequence[str], otherwise: str) -> str:
    """Return which names may have been meant, as the end of a sentence without its full stop."""
    import difflib

    lower = {one.lower(): one for one in known}
    near = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)]
    if near:
        return f"; did you mean {near[0]}?"
    return f": {otherwise}" if otherwise else ""


def _show_on(options: Options, wanted: Filter, limit: int, *, newest: bool) -> int:
    """Show events, and those that come, until Ctrl-C."""
    import msgspec

    first = open_reader(options)
    first.head()  # what is wrong from the start is a failure, and nothing to wait for
    if options.output == "table" and not options.no_headers:
        line(_LINE.format(*(column.upper() for column in zoned(COLUMNS))))
    past = newest

    def look(reader: LogReader) -> None:
        nonlocal wanted, past
        until = reader.head()
        asked = msgspec.structs.replace(wanted, until=until)
        for recorded in reader.events(asked, limit=limit if past else None, newest=past):
            _print(options.output, recorded)
            # Not only at the end: what was shown is not shown again after a lost connection.
            wanted = msgspec.structs.replace(wanted, after=recorded.position)
            past = False
        wanted, past = msgspec.structs.replace(wanted, after=max(until, wanted.after)), False

    return follow_log(options, first, look, rest=0)


def plain(recorded: Recorded) -> dict[str, Any]:
    """Return an event as plain values, also one of an unknown type."""
    from controlplane.audit.words import fields_of, reason_of, type_of, what
    from controlplane.log.event import Unknown

    event = recorded.event
    return {
        "position": recorded.position,
        "at": recorded.recorded_at,
        "stream": recorded.stream,
        "version": recorded.version,
        "type": type_of(recorded),
        "schema": event.schema if isinstance(event, Unknown) else type(event).SCHEMA,
        "reason": reason_of(recorded),
        "cluster": recorded.cluster,
        "what": what(event),
        "data": fields_of(event),
        "caused_by": recorded.caused_by or None,
        "trace": recorded.trace,
        "observed_at": recorded.observed_at,
    }


def _row(recorded: Recorded) -> Sequence[object]:
    one = plain(recorded)
    return (
        one["position"],
        stamp(recorded.recorded_at),
        one["stream"],
        one["type"],
        one["reason"],
        place(recorded.cluster),
        one["what"],
    )


def _print(form: str, recorded: Recorded) -> None:
    if form == "table":
        line(_LINE.format(*(str(cell) for cell in _row(recorded))).rstrip())
    else:
        document(form, plain(recorded))
