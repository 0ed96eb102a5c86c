"""`controlplane as-of TIME clusters|workloads|queues`: the fleet as it was at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import age, clock, place
from controlplane.cli import times
from controlplane.cli.frame import Verb
from controlplane.cli.history import is_in, is_on, log_option, nearest_namespaces, nearest_places, open_reader, stamp
from controlplane.cli.options import Options, in_queue, listing, namespaced, on_cluster
from controlplane.cli.output import aside, emit

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader

# Of each kind the columns of the table, and those that `wide` adds.
COLUMNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "workloads": (
        ("namespace", "name", "phase", "cluster", "attempt", "for", "reason"),
        ("queue", "owner", "since (UTC)", "message"),
    ),
    "clusters": (("cluster", "phase", "for", "reason"), ("since (UTC)", "location", "configs", "labels", "message")),
    "queues": (
        ("namespace", "queue", "pending", "reserved", "offered", "admitted", "running", "lost"),
        ("other", "finished", "cluster_queue"),
    ),
}


@click.command(name="as-of", cls=Verb)
@click.argument("moment", metavar="TIME")
@click.argument("kind", type=click.Choice(tuple(COLUMNS)), metavar="clusters|workloads|queues")
@namespaced
@on_cluster
@in_queue
@listing("name", "csv")
@log_option
@click.pass_obj
def as_of(
    options: Options, moment: str, kind: str, namespace: str | None, cluster: str | None, queue: str | None
) -> None:
    """Show the clusters, Workloads or LocalQueues as they were at a time.

    TIME is 2026-01-31T13:00:00Z, 2026-01-31 13:00 (UTC), or how long ago: 6h,
    7d. What was deleted by then is left out.

    \b
    With -o json, yaml or csv, a list of objects:
      workloads: namespace, name, queue, owner, phase, cluster, attempt, since,
        reason, message
      clusters: cluster, phase, since, reason, message, incarnation, location,
        labels, configs
      queues: namespace, queue, cluster_queue, and how many Workloads were
        pending, reserved, offered, admitted, running, lost, other, finished
    """
    _check(kind, namespace, cluster, queue)
    at = times.moment(moment, "TIME")
    with open_reader(options, at=at) as reader:
        found = [one for one in _ask(kind)(reader, at, namespace) if is_on(one, cluster) and is_in(one, queue)]
        known = nearest_namespaces(reader, namespace) or nearest_places(reader, cluster, queue) if not found else ""
    short, more = COLUMNS[kind]
    columns = (*short, *more) if options.wide else short
    rows = [[_cell(one, column, at) for column in columns] for one in found]
    emit(options.output, found, columns, rows, kind=kind.removesuffix("s"))
    if not found:
        asked = (("in namespace", namespace), ("on cluster", cluster), ("in queue", queue))
        where = "".join(f" {words} {name}" for words, name in asked if name)
        aside(f"There were no {kind}{where} at {clock(at)} UTC.{known}")


def _check(kind: str, namespace: str | None, cluster: str | None, queue: str | None) -> None:
    """Refuse flags that say nothing of what is asked for."""
    if kind == "clusters" and namespace:
        raise click.UsageError("clusters have no namespace: leave -n out")
    if kind != "workloads" and (cluster or queue):
        raise click.UsageError(f"--cluster and --queue are about workloads, not about {kind}: leave them out")


def _ask(kind: str) -> Callable[[LogReader, datetime, str | None], list[dict[str, Any]]]:
    from controlplane.audit import past

    return {
        "workloads": past.workloads_at,
        "queues": past.queues_at,
        "clusters": lambda reader, at, namespace: past.clusters_at(reader, at),
    }[kind]


def _cell(one: dict[str, Any], column: str, at: datetime) -> object:
    """Return what a table shows in a column."""
    if column == "for":
        return age(one["since"], at)
    value = one[column.removesuffix(" (UTC)")]
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in sorted(value.items()))
    return place(value) if column == "cluster" and value else value
