"""`controlplane timeline [pod/]NAMESPACE/NAME`: the history of a Workload and its job, or of a source pod and its
candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from controlplane.cli import history
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options
from controlplane.cli.output import emit

if TYPE_CHECKING:
    from datetime import datetime

    from controlplane.audit.find import Found
    from controlplane.audit.timeline import TimelineEntry

COLUMNS = ("at (UTC)", "after", "cluster", "what", "why")


@click.command(cls=Verb)
@click.argument("name", metavar="[KIND/]NAMESPACE/NAME")
@click.option("-a", "--all", "everything", is_flag=True, help="Every event, also what changed nothing.")
@history.log_option
@click.pass_obj
def timeline(options: Options, name: str, everything: bool) -> None:
    """Tell the story of a Workload: what happened when, where and why.

    NAME may be that of the Workload or of its job. With podgroup/ or
    pipelinerun/ before it the story of that object is told, with pod/ that of
    a pod that is placed on another cluster, or of a member of a PodGroup.

    \b
    With -o json or yaml, one object:
      workload, job (streams; "" or a list without a job), others (streams of
      older Workloads of the same job), moments: position, at, seconds (since
      the first moment), cluster, what, why, reason, type, noteworthy
    """
    found, moments = _story(options, name)
    shown = [moment for moment in moments if everything or moment.noteworthy]
    start = moments[0].at if moments else None
    value = {
        "workload": found.workload,
        "jobs": found.jobs,
        "others": found.others,
        "moments": [_plain(moment, start) for moment in shown],
    }
    rows = [_row(moment, start) for moment in shown]
    if everything:
        every = [(m.position, *row, m.type) for m, row in zip(shown, rows, strict=True)]
        emit(options.output, value, ("position", *COLUMNS, "type"), every)
    else:
        emit(options.output, value, COLUMNS, rows)
    if found.others and options.output == "table":
        older = ", ".join(stream.removeprefix("workload/") for stream in found.others)
        click.echo(f"This is the newest Workload of the job; there were others: {older}", err=True)


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
    since = f"+{history.span(moment.at - start)}" if start else ""
    return history.clock(moment.at), since, history.place(moment.cluster), moment.what, moment.why or moment.reason


def _story(options: Options, name: str) -> tuple[Found, list[TimelineEntry]]:
    """Return the streams that a name means and their moments."""
    from controlplane.audit.answer import timeline_of
    from controlplane.audit.find import Found
    from controlplane.audit.pods import pod_moments
    from controlplane.cli.own_cluster_history import narrated

    if (local := narrated(options, name)) is not None:
        return local
    pod = history.pod_name(name)
    with history.open_reader(options) as reader:
        if pod is not None:
            events = history.find_pod(reader, *pod)
            return Found(events[0].stream, []), pod_moments(events)
        found = history.find_story(reader, name)
        return found, timeline_of(reader, history.policy_in_force(options, reader), found)
