"""The names that a shell offers at a tab: those of Workloads, clusters and namespaces in the log.

In: the options so far, and how the word begins. Out: the names that begin so, or none: a prompt is not kept waiting for
a database that is away, and nothing is printed into it."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from controlplane.cli.options import Options

_PATIENCE = 1  # seconds for a connection to the database
_MOST = 200
_STREAMS = {
    "workloads": ("workload", "job"),
    "namespaces": ("workload", "sourcepod"),
    "queues": ("clusterqueue", "localqueue"),
    "pods": ("pod", "sourcepod"),
    "sourcepods": ("sourcepod",),
}
"""The streams whose names are those of a kind of thing; of others those of its singular."""


def streams_of(what: str) -> tuple[str, ...]:
    """Return the first words of the streams whose names are those of a kind of thing."""
    return _STREAMS.get(what, (what.removesuffix("s"),))


def offered(what: str, context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the names of a kind of thing (NAMESPACE/NAME, or NAME) that begin so, 200 at most."""
    try:
        found = _names(what, context.find_object(Options) or Options())
    except Exception:  # the verb itself will say what is wrong
        return []
    return [CompletionItem(one) for one in sorted(found) if one.startswith(incomplete)][:_MOST]


def _names(what: str, options: Options) -> set[str]:
    from controlplane.audit.places import known
    from controlplane.audit.reads import LogReader

    settings = options.settings()
    url, role = options.database_url(), settings.database.role
    with LogReader.connect(url, log=settings.database.log, role=role, timeout=_PATIENCE) as reader:
        streams = reader.streams(*streams_of(what))
        # Queues are known of their Workloads where they have no history of their own.
        queues = known(reader, "queue") if what in ("localqueues", "queues") else []
    if what == "workloads":  # of a job the stream names the kind too
        return {"/".join(stream.split("/")[-2:]) for stream in streams}
    names = {stream.partition("/")[2] for stream in streams} | set(queues)
    if what == "localqueues":  # as --queue takes them
        return {name for one in names if "/" in one for name in (one, one.partition("/")[2])}
    return {name.partition("/")[0] for name in names} if what == "namespaces" else names
