"""`controlplane clusters`: the connections to the clusters, as the log says they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.frame import Verb
from controlplane.cli.history import clock, open_reader, place
from controlplane.cli.options import Options
from controlplane.cli.output import emit

if TYPE_CHECKING:
    from controlplane.multikueue.index import Index

COLUMNS = ("name", "state", "since", "reason", "server", "running", "open writes")


@click.command(cls=Verb)
@click.pass_obj
def clusters(options: Options) -> None:
    """Show the clusters: whether each can be reached, and what runs there.

    \b
    With -o json or yaml, a list of objects:
      name, state, since, lost_since, reason, message, server_version,
      incarnation, kinds_off (kind: message), running (Workloads),
      copies (Workloads that have a copy there), open_writes
    """
    from controlplane.app.policy import policy_of
    from controlplane.audit.fleet import load

    with open_reader(options) as reader:
        index = load(reader, policy_of(options.settings()))
    found = describe(index)
    rows = [
        (
            place(one["name"]),
            one["state"],
            clock(one["since"]),
            one["reason"],
            one["server_version"],
            one["running"],
            one["open_writes"],
        )
        for one in found
    ]
    emit(options.output, found, COLUMNS, rows)


def describe(index: Index) -> list[dict[str, Any]]:
    """Return the clusters as plain values, the management cluster first. Those that were removed are left out unless copies are there."""
    from controlplane.connectivity.state import Connection

    copies, running, writes = _counts(index)
    found = []
    for name in sorted({*index.clusters, *index.connections, *copies}):
        connection = index.connections.get(name, Connection(name=name))
        if connection.phase == "Removed" and name not in index.clusters and not copies.get(name):
            continue
        found.append(
            {
                "name": name,
                "state": connection.phase,
                "since": connection.since,
                "lost_since": connection.lost_since,
                "reason": connection.reason,
                "message": connection.message,
                "server_version": connection.server_version,
                "incarnation": connection.incarnation,
                "kinds_off": connection.off,
                "running": running.get(name, 0),
                "copies": copies.get(name, 0),
                "open_writes": writes.get(name, 0),
            }
        )
    return found


def _counts(index: Index) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Return by cluster: Workloads with a copy there, those of them whose job is unsuspended, decided writes without an outcome."""
    from collections import Counter

    copies: Counter[str] = Counter()
    running: Counter[str] = Counter()
    writes: Counter[str] = Counter()
    for state in index.workloads.values():
        copies.update(state.remotes.keys())
        jobs = {cluster: remote.job for cluster, remote in state.remotes.items()}
        running.update(name for name, job in jobs.items() if job is not None and not job.suspended and not job.finished)
        writes.update(effect.decision.cluster for effect in state.effects.values())
    slots = [f"cluster/{name}" for name in index.clusters] + [f"admissioncheck/{name}" for name in index.checks]
    open_slots = [effect for stream in slots if (effect := index.slots.get(stream).effect) is not None]
    writes.update(effect.decision.cluster for effect in open_slots)
    return dict(copies), dict(running), dict(writes)
