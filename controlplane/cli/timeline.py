"""`controlplane timeline [KIND] NAME`: what happened to a Workload and its job, to a pod, or on a cluster, a queue or a
node, as a table, as JSON, or as a picture.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from controlplane.audit.shown import place, span
from controlplane.cli import history, times
from controlplane.cli.errors import Exit
from controlplane.cli.following import ChangedRows, follow, quietly, refuse_order, watch_option
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options, listing, named, names_of, output_forms, words_of
from controlplane.cli.output import aside, emit
from controlplane.cli.stories import KINDS, ToldStory, told

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from controlplane.audit.reads import LogReader
    from controlplane.audit.timeline import TimelineEntry

COLUMNS = ("at (UTC)", "after", "cluster", "what", "why")
# Of a place, a picture has a lane for each Workload or pod.
_LANES_OF_OTHERS = ("cluster/", "clusterqueue/", "localqueue/", "node/")


def _offer(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer kinds and Workloads, and after a kind the names of that kind."""
    from controlplane.cli.offered import offered

    if words := context.params.get("name"):
        return offered(f"{words[0].removesuffix('s')}s", context, incomplete)
    return [*words_of(*KINDS)(context, _parameter, incomplete), *offered("workloads", context, incomplete)]


@click.command(cls=Verb)
@click.argument("name", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=_offer)
@click.option("-a", "--all", "everything", is_flag=True, help="Every event, also what changed nothing.")
@times.interval_options("From this time on", "Up to this time, and without it")
@click.option(
    "--cluster",
    metavar="NAME",
    shell_complete=names_of("clusters"),
    help="Only what happened on a cluster (@management for that one).",
)
@watch_option("Then print what happens, until Ctrl-C.")
@output_forms("text", "svg")
@named
@listing("csv")
@history.log_option
@click.pass_obj
def timeline(
    options: Options,
    name: tuple[str, ...],
    everything: bool,
    since: str | None,
    until: str | None,
    cluster: str | None,
    watch: bool,
) -> int:
    """Tell the story of a Workload: what happened when, where and why.

    NAME is NAMESPACE/NAME of the Workload or of its job. KIND is another
    word for what is meant: workload, pod, candidate, podgroup, pipelinerun
    (which may also be written KIND/NAMESPACE/NAME), cluster, queue (a
    ClusterQueue, or a LocalQueue as NAMESPACE/NAME) or node.

    With -o svg, a picture: a lane for each cluster (of a cluster, queue or
    node: for each Workload or pod), whose bars say why when pointed at.

    \b
    With -o json or yaml, one object (with --watch one of `moments` a line, or
    one YAML document each):
      workload, jobs (streams; "" or a list without a job), others (streams of
      older Workloads of the same job), moments: position, at, seconds (since
      the first moment), cluster, what, why, reason, type, noteworthy
    """
    asked = MomentQuery(everything, *times.interval(since, until), cluster)
    if watch:
        if until is not None:
            raise click.UsageError("--until has an end, and --watch has none: leave one of the two out")
        return _watch(options, name, asked)
    form = options.output
    found = told(options, name, lanes=form == "svg")
    if form == "svg":
        _draw(found, asked)
        return Exit.OK
    start = found.entries[0].at if found.entries else None
    kept = asked.of(found.entries)
    _show(form, found, kept, start, everything=everything)
    if found.entries and not kept:
        _say_nothing_happened(found, asked)
    if found.streams.others and form == "table":
        older = ", ".join(stream.removeprefix("workload/") for stream in found.streams.others)
        aside(f"This is the newest Workload of the job; there were others: {older}")
    return Exit.OK


class MomentQuery(NamedTuple):
    """Which moments are asked for: all, or those that matter; from `begin` to before `end`; on one cluster."""

    everything: bool
    begin: datetime | None
    end: datetime | None
    cluster: str | None

    def of(self, entries: Sequence[TimelineEntry]) -> list[TimelineEntry]:
        """Return the moments that are asked for."""
        return [
            one
            for one in entries
            if (self.everything or one.noteworthy)
            and (self.begin is None or one.at >= self.begin)
            and (self.end is None or one.at < self.end)
            and (self.cluster is None or one.cluster == self.cluster)
        ]


def _watch(options: Options, name: tuple[str, ...], asked: MomentQuery) -> int:
    """Print the moments, and those to come, until Ctrl-C."""
    refuse_order(options)
    everything = asked.everything
    shown, looks = ChangedRows(options, ("position", *COLUMNS, "type") if everything else COLUMNS), itertools.count()

    def look(_reader: LogReader) -> None:
        with quietly(next(looks)):
            found = told(options, name, lanes=False)
        start = found.entries[0].at if found.entries else None
        kept = asked.of(found.entries)
        shown.show(
            (
                (one.position, one.what),
                None,
                _plain(one, start),
                (one.position, *_row(one, start), one.type) if everything else _row(one, start),
            )
            for one in kept
        )

    return follow(options, history.open_reader(options), look)


def _show(
    form: str, found: ToldStory, kept: Sequence[TimelineEntry], start: datetime | None, *, everything: bool
) -> None:
    value = {
        "workload": found.streams.stream,
        "jobs": found.streams.jobs or [f"jobframework/job/{name}" for name in found.streams.job_names],
        "others": found.streams.others,
        "moments": [_plain(moment, start) for moment in kept],
    }
    rows = [_row(moment, start) for moment in kept]
    if everything:
        every = [(m.position, *row, m.type) for m, row in zip(kept, rows, strict=True)]
        emit(form, value, ("position", *COLUMNS, "type"), every, items="moments")
    else:
        emit(form, value, COLUMNS, rows, items="moments")


def _say_nothing_happened(found: ToldStory, asked: MomentQuery) -> None:
    when = " in that time" if asked.begin or asked.end else ""
    if asked.cluster is None:
        aside(f"Nothing happened to {found.title}{when}.")
        return
    others = sorted({one.cluster for one in found.entries if one.cluster} - {asked.cluster})
    where = f"; it has to do with {', '.join(others)}" if others else ""
    aside(f"Nothing happened to {found.title} on cluster {asked.cluster}{when}{where}.")


def _draw(found: ToldStory, asked: MomentQuery) -> None:
    from controlplane.audit.lanes import clipped
    from controlplane.audit.svg import picture

    end = asked.end
    last = found.head if end is None or found.head < end else end
    drawn = clipped(found.lanes, asked.begin, end)
    if asked.cluster is not None:
        if found.streams.stream.startswith(_LANES_OF_OTHERS):
            raise click.UsageError("--cluster: the lanes of this picture are not clusters: leave it out")
        drawn = [lane for lane in drawn if lane.name == asked.cluster]
    click.echo(picture(found.title, drawn, last), nl=False)
    if found.lanes and not drawn:
        _say_nothing_happened(found, asked)


def _plain(moment: TimelineEntry, start: datetime | None) -> dict[str, object]:
    return {
        "position": moment.position,
        "at": moment.at,
        "seconds": (moment.at - start).total_seconds() if start else 0.0,
        "cluster": moment.cluster,
        "what": moment.what,
        "why": moment.why,
        "reason": moment.reason,
        "type": moment.type,
        "noteworthy": moment.noteworthy,
    }


def _row(moment: TimelineEntry, start: datetime | None) -> tuple[str, ...]:
    since = f"+{span(moment.at - start)}" if start else ""
    return history.stamp(moment.at), since, place(moment.cluster), moment.what, moment.why or moment.reason
