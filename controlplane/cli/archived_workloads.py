"""`controlplane workloads --archived`: the Workloads that are in archives alone, as far as the database still has
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import Exit
from controlplane.cli.history import is_in, is_on, nearest_namespaces, nearest_places, open_reader, stamp
from controlplane.cli.options import Options
from controlplane.cli.output import aside, emit
from controlplane.cli.workload_query import WorkloadQuery

if TYPE_CHECKING:
    from controlplane.audit.archived_workloads import ArchivedWorkload

COLUMNS = ("namespace", "name", "job", "state", "cluster", "ended (UTC)", "archive")
WIDE = ("queue", "kind", "attempt", "since (UTC)")


def show_archived(options: Options, asked: WorkloadQuery) -> int:
    """Print the Workloads that are in archives alone."""
    from controlplane.audit.archived_workloads import every as archived_workloads

    with open_reader(options) as reader:
        found = [one for each in archived_workloads(reader, asked.namespace) if _fits(one := _plain(each), asked)]
        near = nearest_namespaces(reader, asked.namespace) or nearest_places(reader, asked.cluster, asked.queue)
    columns = (*COLUMNS, *WIDE) if options.wide else COLUMNS
    emit(options.output, found, columns, [_row(one, wide=options.wide) for one in found], kind="workload")
    if not found:
        aside(f"No archived workloads found{_conditions(asked)}.{near}")
    return Exit.OK


def _plain(one: ArchivedWorkload) -> dict[str, Any]:
    """Return an archived Workload as JSON has it."""
    from controlplane.audit.archived_workloads import ARCHIVED

    kind, _, job = one.owner.partition("/")
    return {
        "namespace": one.namespace,
        "name": one.name,
        "job": job,
        "kind": kind,
        "state": ARCHIVED,
        "result": one.result,
        "cluster": one.cluster,
        "attempt": one.attempt,
        "since": one.since,
        "queue": one.queue,
        "ended_at": one.ended_at,
        "archive": one.directory,
    }


def _row(one: dict[str, Any], *, wide: bool) -> tuple[object, ...]:
    ended = stamp(one["ended_at"]) if one["ended_at"] else ""
    cells = (
        one["namespace"], one["name"], one["job"], one["result"] or one["state"], one["cluster"], ended, one["archive"],
    )  # fmt: skip
    if not wide:
        return cells
    return (*cells, one["queue"], one["kind"], one["attempt"] or "", stamp(one["since"]) if one["since"] else "")


def _fits(one: dict[str, Any], asked: WorkloadQuery) -> bool:
    """Whether an archived Workload is asked for. What no view has of it fits no condition about it."""
    return (
        is_on(one, asked.cluster)
        and is_in(one, asked.queue)
        and (not asked.states or "Finished" in asked.states or one["result"] in asked.states)
        and (asked.begin is None or (one["ended_at"] is not None and one["ended_at"] >= asked.begin))
        and (asked.end is None or (one["ended_at"] is not None and one["ended_at"] < asked.end))
    )


def _conditions(asked: WorkloadQuery) -> str:
    """Return what was asked for, as it goes on after "No archived workloads found"."""
    told = (
        (asked.namespace, f" in namespace {asked.namespace}"),
        (asked.cluster, f" on cluster {asked.cluster}"),
        (asked.queue, f" in queue {asked.queue}"),
        (asked.states, f" in state {' or '.join(asked.states)}"),
        (asked.begin or asked.end, " that ended in that time"),
    )
    return "".join(text for given, text in told if given)
