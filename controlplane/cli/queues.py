"""`controlplane queues`: the LocalQueues, or the ClusterQueues, with how many Workloads of each are how far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.past import GROUPS
from controlplane.cli.errors import Exit
from controlplane.cli.following import ChangedRows, follow, refuse_order, watch_option
from controlplane.cli.frame import Verb
from controlplane.cli.history import is_empty, log_option, nearest_namespaces, open_reader
from controlplane.cli.options import Options, listing, namespaced
from controlplane.cli.output import aside, emit

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader

_SHORT = ("pending", "reserved", "offered", "admitted", "running", "lost")
_MORE = tuple(name for name in GROUPS if name not in _SHORT)
LOCAL = ("namespace", "queue", "cluster_queue", *_SHORT)
CLUSTER = ("queue", "cohort", "active", *_SHORT)
_OF_CLUSTER = ("strategy", "stop_policy", "local_queues")


@click.command(cls=Verb)
@namespaced
@click.option("--cluster-queues", is_flag=True, help="The ClusterQueues, instead of the LocalQueues.")
@log_option
@watch_option("Then print each row that changes, until Ctrl-C.")
@listing("name", "csv")
@click.pass_obj
def queues(options: Options, namespace: str | None, cluster_queues: bool, watch: bool) -> int:
    """Show the LocalQueues, or the ClusterQueues: how many Workloads of each are how far.

    Of one queue more is in `controlplane describe queue NAME`: its quota, and
    who leads to it; and on its page.

    \b
    With -o json or yaml, a list of objects (with --watch one object a line,
    or one YAML document each):
      namespace, queue, cluster_queue, and how many Workloads are pending,
        reserved, offered, admitted, running, lost, other, finished
      with --cluster-queues: queue, the same counts, local_queues, and where
        quota.mode is builtin cohort, strategy, stop_policy, active, quota
        (flavor, resource, nominal, reserved, used, borrowed), else "" and []
    """
    if cluster_queues and namespace:
        raise click.UsageError("ClusterQueues have no namespace: leave -n out")
    columns = _columns(options, cluster_queues)
    if watch:
        return _watch(options, namespace, cluster_queues)
    with open_reader(options) as reader:
        found = _load(reader, namespace, cluster_queues)
        nothing = "" if found else _nothing(reader, namespace, "ClusterQueues" if cluster_queues else "LocalQueues")
    titles = _titles(columns, cluster_queues)
    emit(options.output, found, titles, [_row(one, columns) for one in found], kind="queue")
    if nothing:
        aside(nothing)
    return Exit.OK


def _watch(options: Options, namespace: str | None, cluster_queues: bool) -> int:
    """Print the queues, and each row that changes, until Ctrl-C."""
    refuse_order(options)
    columns = _columns(options, cluster_queues)
    shown = ChangedRows(options, _titles(columns, cluster_queues), "queue")

    def look(reader: LogReader) -> None:
        found = [(_key(one), one, one, _row(one, columns)) for one in _load(reader, namespace, cluster_queues)]
        for gone in shown.known - {key for key, *_ in found}:
            shown.forget(gone)
        shown.show(found)

    return follow(options, open_reader(options), look)


def _columns(options: Options, cluster_queues: bool) -> tuple[str, ...]:
    short, more = (CLUSTER, _OF_CLUSTER) if cluster_queues else (LOCAL, ())
    return (*short, *_MORE, *more) if options.wide else short


def _titles(columns: Sequence[str], cluster_queues: bool) -> tuple[str, ...]:
    words = {"cluster_queue": "clusterqueue", "queue": "clusterqueue" if cluster_queues else "queue"}
    return tuple(words.get(column, column.replace("_", " ")) for column in columns)


def _load(reader: LogReader, namespace: str | None, cluster_queues: bool) -> list[dict[str, Any]]:
    from controlplane.audit.past import queues_at
    from controlplane.audit.queues_seen import cluster_queues_of

    found = queues_at(reader, reader.clock(), namespace)
    return cluster_queues_of(reader, found) if cluster_queues else found


def _key(one: dict[str, Any]) -> tuple[str, str]:
    return one.get("namespace", ""), one["queue"]


def _row(one: dict[str, Any], columns: Sequence[str]) -> list[object]:
    return [_cell(one[column]) for column in columns]


def _cell(value: Any) -> object:
    return ", ".join(value) if isinstance(value, list) else value


def _nothing(reader: LogReader, namespace: str | None, what: str) -> str:
    if empty := is_empty(reader):
        return f"No {what} found: {empty}."
    where = f" in namespace {namespace}" if namespace else ""
    return f"No {what} found{where}.{nearest_namespaces(reader, namespace)}"
