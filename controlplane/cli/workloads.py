"""`controlplane workloads`: how far each Workload is, where, and what it waits for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.frame import Verb
from controlplane.cli.history import is_empty, nearest_namespaces, open_reader, policy_in_force, span, stamp
from controlplane.cli.options import Options, listing, names_of, namespaced
from controlplane.cli.output import emit

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader

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
@click.option("--cluster", metavar="NAME", shell_complete=names_of("clusters"), help="Only those on a cluster.")
@click.option("--queue", metavar="QUEUE", help="Only those of a LocalQueue: its name, or NAMESPACE/NAME.")
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
@listing("name", "csv")
@click.pass_obj
def workloads(
    options: Options,
    namespace: str | None,
    cluster: str | None,
    queue: str | None,
    states: tuple[str, ...],
    everything: bool,
) -> None:
    """Show the Workloads: state, cluster, attempt, and what each waits for.

    Those that have finished are left out, unless asked for.

    \b
    With -o json or yaml, a list of objects:
      namespace, name, job, kind, state, result (Succeeded, Failed or
      what else ended it; "" before), cluster, attempt, since (when it was first
      seen), waits_for, queue, nominated, copies (clusters), position
    """
    from controlplane.audit.fleet import load
    from controlplane.audit.workloads_now import describe
    from controlplane.clock import SystemClock

    now = SystemClock().now()
    finished = everything or bool({"Finished", *RESULTS}.intersection(states))
    with open_reader(options) as reader:
        index = load(reader, policy_in_force(options, reader), namespace, finished=finished)
        seen = reader.first_seen(list(index.workloads))
        every = [one for one in describe(index, seen, now) if _asked(one, states, finished)]
        found = [one for one in every if _is_on(one, cluster) and _is_in(one, queue)]
        nothing = "" if found else _nothing(reader, namespace, states, finished=finished)
        if every and not found:
            nothing = _elsewhere(every, sorted(index.connections), cluster, queue)
    rows: list[Sequence[object]] = [
        (
            one["namespace"],
            one["name"],
            one["job"],
            one["result"] or one["state"],
            one["cluster"],
            one["attempt"] or "",
            span(now - one["since"]),
            one["waits_for"],
        )
        for one in found
    ]
    columns: tuple[str, ...] = COLUMNS
    if options.wide:
        columns = (*COLUMNS, *WIDE)
        rows = [(*row, *_more(one)) for row, one in zip(rows, found, strict=True)]
    emit(options.output, found, columns, rows, kind="workload")
    if nothing:
        click.echo(nothing, err=True)


def _more(one: dict[str, Any]) -> Sequence[object]:
    """Return the cells that `wide` adds."""
    return one["queue"], one["kind"], stamp(one["since"]), ", ".join(one["nominated"]), ", ".join(one["copies"])


def _is_on(one: dict[str, Any], cluster: str | None) -> bool:
    return cluster is None or one["cluster"] == cluster


def _is_in(one: dict[str, Any], queue: str | None) -> bool:
    return queue is None or queue in (one["queue"], f"{one['namespace']}/{one['queue']}")


def _elsewhere(every: list[dict[str, Any]], clusters: list[str], cluster: str | None, queue: str | None) -> str:
    """Return that none is on that cluster or in that queue, and what may have been meant."""
    near = ""
    if cluster is not None and cluster not in clusters:
        near = _nearest(cluster, clusters)
    elif queue is not None and not any(_is_in(one, queue) for one in every):
        near = _nearest(
            queue, sorted({one["queue"] for one in every} | {f"{o['namespace']}/{o['queue']}" for o in every})
        )
    on = f" on cluster {cluster}" if cluster is not None else ""
    return f"No workloads found{on}{f' in queue {queue}' if queue is not None else ''}.{near}"


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""


def _asked(one: dict[str, Any], states: tuple[str, ...], finished: bool) -> bool:
    if states:
        return one["state"] in states or one["result"] in states
    return finished or one["state"] != "Finished"


def _nothing(reader: LogReader, namespace: str | None, states: tuple[str, ...], *, finished: bool) -> str:
    """Return that nothing was found, by what was asked for, and what may have been meant."""
    empty = is_empty(reader)
    if empty:
        return f"No workloads found: {empty}."
    where = f" in namespace {namespace}" if namespace else ""
    which = f" in state {' or '.join(states)}" if states else ""
    text = f"No workloads found{where}{which}."
    if near := nearest_namespaces(reader, namespace):
        return f"{text}{near}"
    streams = reader.streams("workload", namespace=namespace)
    return text if finished or states or not streams else f"{text} Those that have finished are shown with --all."
