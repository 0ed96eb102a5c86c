"""`controlplane workloads`: how far each Workload is, where, and what it waits for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import age
from controlplane.cli import times
from controlplane.cli.archived_workloads import show_archived
from controlplane.cli.errors import Exit
from controlplane.cli.following import ChangedRows, follow, refuse_order, watch_option
from controlplane.cli.frame import Verb
from controlplane.cli.history import (
    is_empty,
    is_in,
    log_option,
    nearest_namespaces,
    open_reader,
    policy_in_force,
    stamp,
)
from controlplane.cli.options import Options, in_queue, listing, namespaced, on_cluster, selected
from controlplane.cli.output import aside, emit
from controlplane.cli.workload_query import Listed, WorkloadQuery, has_state

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader
    from controlplane.controllers.multikueue.context import MultiKueuePolicy

RESULTS = ("Succeeded", "Failed")
COLUMNS = ("namespace", "name", "job", "state", "cluster", "attempt", "age", "waits for")
WIDE = ("queue", "kind", "since (UTC)", "nominated", "copies")
# The words of controlplane.audit.standing, here so that the help of the program loads nothing of it; a test compares
# them.
STATES = (
    "Pending",
    "Inactive",
    "Reserved",
    "Nominated",
    "Chosen",
    "Admitted",
    "Running",
    "Lost",
    "Retry",
    "Rejected",
    "Evicted",
    "Deleting",
    "Finished",
    "Deleted",
)


@click.command(cls=Verb)
@namespaced
@on_cluster
@in_queue
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice((*STATES, *RESULTS), case_sensitive=False),
    metavar="STATE",
    help=f"Only those in a state; may be repeated. {', '.join(STATES)}; of those that have finished,"
    f" {' or '.join(RESULTS)}.",
)
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that have finished.")
@times.interval_options("Only those first seen from this time on", "Only those first seen before this time")
@click.option(
    "-l", "--selector", metavar="SELECTOR", help="Only those whose job has these labels: team=a,tier in (x,y)."
)
@click.option("--archived", is_flag=True, help="Only those whose events have left the database for an archive.")
@log_option
@watch_option("Then print each row that changes, until Ctrl-C.")
@listing("name", "csv")
@click.pass_obj
def workloads(
    options: Options,
    namespace: str | None,
    cluster: str | None,
    queue: str | None,
    states: tuple[str, ...],
    everything: bool,
    since: str | None,
    until: str | None,
    selector: str | None,
    archived: bool,
    watch: bool,
) -> int:
    """Show the Workloads: state, cluster, attempt, and what each waits for.

    Those that have finished are left out, unless asked for.

    With --watch each row is printed again when it changes, and one that no
    longer belongs to the list a last time, as it is then.

    --selector is about the labels of jobs, as long as the log has the
    templates that they are in.

    Of what is archived the database has the end, and which archive has the
    rest; --since and --until of --archived are about that end.

    \b
    With -o json or yaml, a list of objects (with --watch one object a line,
    or one YAML document each):
      namespace, name, job, kind, state, result (Succeeded, Failed or
      what else ended it; "" before), cluster, attempt, since (when it was first
      seen), queue, waits_for, nominated, copies (clusters), position
    With --archived, in place of the last four: ended_at, archive (a folder)
    """
    if archived and (everything or selector or watch):
        raise click.UsageError("--archived goes without --all, --selector and --watch: leave them out")
    begin, end = times.interval(since, until)
    asked = WorkloadQuery(
        namespace=namespace,
        cluster=cluster,
        queue=queue,
        states=states,
        finished=everything or archived or bool({"Finished", *RESULTS}.intersection(states)),
        begin=begin,
        end=end,
        labels=selected(selector) if selector is not None else None,
    )
    if archived:
        return show_archived(options, asked)
    return _watch(options, asked) if watch else _show(options, asked, everything=everything)


def _show(options: Options, asked: WorkloadQuery, *, everything: bool) -> int:
    """Print the Workloads once; of `everything`, say also that some are in archives alone."""
    from controlplane.audit.archived_workloads import there_are

    with open_reader(options) as reader:
        every, clusters = _load(reader, policy_in_force(options, reader), asked)
        found = [listed.one for listed in every if asked.fits(listed)]
        nothing = "" if found else _why_nothing(reader, asked, every, clusters)
        left_out = everything and there_are(reader, asked.namespace)
    now = _now()
    columns = (*COLUMNS, *WIDE) if options.wide else COLUMNS
    emit(options.output, found, columns, [_row(options, one, now) for one in found], kind="workload")
    if nothing:
        aside(nothing)
    if left_out:
        aside("Others are in an archive alone: --archived shows them.")
    return Exit.OK


_UNLABELLED = "the log has no labels of these jobs: it has not seen them, or their templates were removed"


def _load(
    reader: LogReader, policy: MultiKueuePolicy, asked: WorkloadQuery, streams: Sequence[str] | None = None
) -> tuple[list[Listed], list[str]]:
    """Return the Workloads of the log that may be asked for, or those of some streams; and the names of its
    clusters."""
    from controlplane.audit.fleet import folded
    from controlplane.audit.labels import labels_of
    from controlplane.audit.workloads_now import one_of

    if streams is None:
        streams = reader.live_workloads(asked.namespace, finished=asked.finished)
    index = folded(reader, policy, streams)
    now, every = _now(), []
    seen = reader.first_seen(list(index.workloads))
    jobs = {stream: index.stream_of_job(state) for stream, state in index.workloads.items()}
    labels = labels_of(reader, set(jobs.values())) if asked.labels is not None else {}
    for stream, state in sorted(index.workloads.items()):
        # A log that scored clusters by labels has them beside the template.
        own = labels.get(jobs[stream]) or index.context(state).subject.labels
        every.append(Listed(one_of(index, state, seen.get(stream, now), now), own))
    return every, sorted(index.connections)


def _watch(options: Options, asked: WorkloadQuery) -> int:
    """Print the Workloads, and each one that changes, until Ctrl-C."""
    refuse_order(options)
    first = open_reader(options)
    policy = policy_in_force(options, first)
    shown = ChangedRows(options, (*COLUMNS, *WIDE) if options.wide else COLUMNS, "workload")
    last: dict[str, dict[str, Any]] = {}

    def look(reader: LogReader) -> None:
        every = {_stream(listed.one): listed for listed in _load(reader, policy, asked)[0]}
        found = {stream: listed.one for stream, listed in every.items() if asked.fits(listed)}
        gone = last.keys() - found.keys()
        if missing := [stream for stream in last if stream in gone and stream not in every]:
            every |= {_stream(listed.one): listed for listed in _load(reader, policy, asked, missing)[0]}
        left = {}
        for stream in (stream for stream in last if stream in gone):
            deleted = {**last[stream], "state": "Deleted", "result": ""}
            left[stream] = every[stream].one if stream in every else deleted
        now = _now()
        rows = [(key, _state(one, options), one, _row(options, one, now)) for key, one in {**found, **left}.items()]
        shown.show(rows)
        for stream in gone:
            shown.forget(stream)
        last.clear()
        last.update(found)

    return follow(options, first, look)


def _state(one: dict[str, Any], options: Options) -> tuple[object, ...]:
    """Return what tells that a row says something else than before; what only grows older does not."""
    shown = (one["state"], one["result"], one["cluster"], one["attempt"], one["waits_for"])
    return shown if options.output == "table" and not options.wide else (*shown, one["nominated"], one["copies"])


def _stream(one: dict[str, Any]) -> str:
    return f"workload/{one['namespace']}/{one['name']}"


def _now() -> datetime:
    from controlplane.clock import SystemClock

    return SystemClock().now()


def _row(options: Options, one: dict[str, Any], now: datetime) -> Sequence[object]:
    cells = (
        one["namespace"],
        one["name"],
        one["job"],
        one["result"] or one["state"],
        one["cluster"],
        one["attempt"] or "",
        age(one["since"], now),
        one["waits_for"],
    )
    return (*cells, *_more(one)) if options.wide else cells


def _more(one: dict[str, Any]) -> Sequence[object]:
    """Return the cells that `wide` adds."""
    return one["queue"], one["kind"], stamp(one["since"]), ", ".join(one["nominated"]), ", ".join(one["copies"])


def _elsewhere(every: list[dict[str, Any]], clusters: list[str], cluster: str | None, queue: str | None) -> str:
    """Return that none is on that cluster or in that queue, and what may have been meant."""
    near = ""
    if cluster is not None and cluster not in clusters:
        near = _nearest(cluster, clusters)
    elif queue is not None and not any(is_in(one, queue) for one in every):
        near = _nearest(
            queue, sorted({one["queue"] for one in every} | {f"{o['namespace']}/{o['queue']}" for o in every})
        )
    on = f" on cluster {cluster}" if cluster is not None else ""
    return f"No workloads found{on}{f' in queue {queue}' if queue is not None else ''}.{near}"


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""


def _why_nothing(reader: LogReader, asked: WorkloadQuery, every: Sequence[Listed], clusters: list[str]) -> str:
    """Return that nothing was found, by which condition nothing was left."""
    if asked.labels is not None and every and not any(listed.labels for listed in every):
        return f"No workloads found: {_UNLABELLED}."
    others = [listed.one for listed in every if has_state(listed.one, asked.states, asked.finished)]
    unknown = asked.cluster is not None and bool(clusters) and asked.cluster not in clusters
    if unknown or (others and (asked.cluster is not None or asked.queue is not None)):
        return _elsewhere(others, clusters, asked.cluster, asked.queue)
    return _nothing(reader, asked)


def _nothing(reader: LogReader, asked: WorkloadQuery) -> str:
    """Return that nothing was found, by what was asked for, and what may have been meant."""
    empty = is_empty(reader)
    if empty:
        return f"No workloads found: {empty}."
    where = f" in namespace {asked.namespace}" if asked.namespace else ""
    which = f" in state {' or '.join(asked.states)}" if asked.states else ""
    when = " that were first seen in that time" if asked.begin or asked.end else ""
    text = f"No workloads found{where}{which}{when}."
    if near := nearest_namespaces(reader, asked.namespace):
        return f"{text}{near}"
    streams = reader.streams("workload", namespace=asked.namespace)
    shown = asked.finished or asked.states or not streams
    return text if shown else f"{text} Those that have finished are shown with --all."
