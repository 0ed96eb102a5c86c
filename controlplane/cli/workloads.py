"""`controlplane workloads`: how far each Workload is, where, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.frame import Verb
from controlplane.cli.history import is_empty, nearest_namespaces, open_reader, policy_in_force, span
from controlplane.cli.options import Options
from controlplane.cli.output import emit

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader

RESULTS = ("Succeeded", "Failed")
COLUMNS = ("namespace", "name", "job", "state", "cluster", "attempt", "age", "waits for")
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
@click.option("-n", "--namespace", metavar="NS", help="Only those of a namespace.")
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
@click.pass_obj
def workloads(options: Options, namespace: str | None, states: tuple[str, ...], everything: bool) -> None:
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
        found = [one for one in describe(index, seen, now) if _asked(one, states, finished)]
        nothing = "" if found else _nothing(reader, namespace, states, finished=finished)
    rows = [
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
    emit(options.output, found, COLUMNS, rows)
    if nothing:
        click.echo(nothing, err=True)


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
