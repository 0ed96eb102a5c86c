"""`controlplane candidates list`: the pods that are placed on other clusters, where each is, and what it waits for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import age
from controlplane.cli.errors import Exit
from controlplane.cli.following import ChangedRows, follow, refuse_order, watch_option
from controlplane.cli.frame import Verb
from controlplane.cli.history import is_empty, log_option, nearest_namespaces, open_reader, stamp
from controlplane.cli.options import Options, listing, names_of, namespaced
from controlplane.cli.output import aside, emit

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader

COLUMNS = ("namespace", "pod", "state", "cluster", "node", "waits for", "age")
WIDE = ("since (UTC)", "epoch", "candidate", "podgroup", "targets")


@click.command("list", cls=Verb)
@namespaced
@click.option("--cluster", metavar="NAME", shell_complete=names_of("clusters"), help="Only those offered to a cluster.")
@log_option
@watch_option("Then print each row that changes, until Ctrl-C.")
@listing("name", "csv")
@click.pass_obj
def listed(options: Options, namespace: str | None, cluster: str | None, watch: bool) -> int:
    """Show the pods that are placed on other clusters.

    Those that are gone are left out, unless something of them is left in a
    target. STATE is that of `why`: Pending, Running (its delegate does),
    Finished or Deleted. NODE is the node in that cluster that a pod is bound
    to, or that is held under its permit.

    With --watch each row is printed again when it changes, and that of a pod
    of which nothing is left a last time.

    \b
    With -o json or yaml, a list of objects (with --watch one object a line,
    or one YAML document each):
      namespace, name, state, cluster, node, since (when it was first seen),
      waits_for, epoch (which attempt to place it), candidate (the name of the
      one that is bound), group (its PodGroup), targets (cluster: what it last
      said), position
    """
    from controlplane.audit.pods_now import load
    from controlplane.clock import SystemClock

    if watch:
        return _watch(options, namespace, cluster)
    with open_reader(options) as reader:
        every = load(reader, namespace)
        found = [one for one in every if cluster is None or cluster in one["targets"]]
        nothing = "" if found else _nothing(reader, every, namespace, cluster)
    now = SystemClock().now()
    columns = (*COLUMNS, *WIDE) if options.wide else COLUMNS
    emit(options.output, found, columns, [_row(options, one, now) for one in found], kind="pod")
    if nothing:
        aside(nothing)
    return Exit.OK


def _watch(options: Options, namespace: str | None, cluster: str | None) -> int:
    """Print the pods, and each row that changes, until Ctrl-C."""
    from controlplane.audit.pods_now import load
    from controlplane.clock import SystemClock

    refuse_order(options)
    shown = ChangedRows(options, (*COLUMNS, *WIDE) if options.wide else COLUMNS, "pod")

    last: dict[tuple[str, str], dict[str, Any]] = {}

    def look(reader: LogReader) -> None:
        now = SystemClock().now()
        every = [one for one in load(reader, namespace) if cluster is None or cluster in one["targets"]]
        found = {(one["namespace"], one["name"]): one for one in every}
        gone = {key: {**last[key], "state": "Deleted", "waits_for": ""} for key in last.keys() - found.keys()}
        rows = [(key, _told(one), one, _row(options, one, now)) for key, one in {**found, **gone}.items()]
        shown.show(rows)
        for key in gone:
            shown.forget(key)
        last.clear()
        last.update(found)

    return follow(options, open_reader(options), look)


def _told(one: dict[str, Any]) -> dict[str, Any]:
    """Return what tells that a row says something else than before."""
    return {name: value for name, value in one.items() if name != "position"}


def _row(options: Options, one: dict[str, Any], now: datetime) -> Sequence[object]:
    cells = (
        one["namespace"],
        one["name"],
        one["state"],
        one["cluster"],
        one["node"],
        one["waits_for"],
        age(one["since"], now),
    )
    return (*cells, *_more(one)) if options.wide else cells


def _more(one: dict[str, Any]) -> Sequence[object]:
    """Return the cells that `wide` adds."""
    return stamp(one["since"]), one["epoch"] or "", one["candidate"], one["group"], ", ".join(one["targets"])


def _nothing(reader: LogReader, every: list[dict[str, Any]], namespace: str | None, cluster: str | None) -> str:
    """Return that nothing was found, by what was asked for, and what may have been meant."""
    if empty := is_empty(reader):
        return f"No candidates found: {empty}."
    where = f" in namespace {namespace}" if namespace else ""
    on = f" on cluster {cluster}" if cluster is not None else ""
    near = nearest_namespaces(reader, namespace, "sourcepod")
    if not near and cluster is not None:
        known = sorted({name for one in every for name in one["targets"]})
        close = difflib.get_close_matches(cluster, known, n=3, cutoff=0.5) if cluster not in known else []
        near = f" Did you mean {' or '.join(close)}?" if close else ""
    return f"No candidates found{where}{on}.{near}"
