"""A database with the stories in it, made once for all tests that only read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.log.event import NewEvent, Recorded, Unknown
from controlplane.log.sealing import seal
from tests.audit.script import write
from tests.audit.stories import everything
from tests.support import postgres

VIEWS = (
    "actors",
    "archives",
    "candidates",
    "cluster_absences",
    "cluster_connectivity",
    "config_changes",
    "effects",
    "events",
    "job_labels",
    "outage_workloads",
    "outages",
    "pending_reasons",
    "placements",
    "policy_in_force",
    "quota_ledger",
    "quota_usage",
    "reservations",
    "runs",
    "streams",
    "usage",
    "workload_phases",
    "workload_timeline",
)
"""The views of the schema `audit`."""


def with_stories(server: postgres.Server, template: str) -> Iterator[str]:
    """Yield the URL of a database whose log `main` holds the five stories."""
    name = postgres.new_name("stories")
    url = server.create(name, template)
    try:
        asyncio.run(write(url, everything().appended))
        yield url
    finally:
        server.drop(name)


async def keep(
    url: str, recorded: Sequence[Recorded], log: str = "main", types: Any = MultiKueueController.types
) -> None:
    """Append events to a log of a database, and give them the times at which they were recorded."""
    new = [
        NewEvent(stream=one.stream, event=one.event, cluster=one.cluster, caused_by=one.caused_by)
        for one in recorded
        if not isinstance(one.event, Unknown)
    ]
    assert len(new) == len(recorded)
    await write(url, new, log, types)
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE controlplane.events e SET recorded_at = n.at FROM unnest(%s::bigint[], %s::timestamptz[]) AS n "
            "(position, at) WHERE e.log = %s AND e.position = n.position",
            ([one.position for one in recorded], [one.recorded_at for one in recorded], log),
        )
        chain_anew(connection, log)


def chain_anew(connection: psycopg.Connection[Any], log: str = "main") -> None:
    """Make the hashes of a log anew, as an owner can."""
    connection.execute("UPDATE controlplane.batches SET hash = NULL WHERE log = %s", (log,))
    connection.execute("UPDATE controlplane.log_head SET chained_from = position + 1 WHERE log = %s", (log,))
    seal(connection, log)
    connection.execute(
        "UPDATE controlplane.log_head h SET chained_from = 1, hash = b.hash FROM controlplane.batches b"
        " WHERE h.log = %s AND b.log = h.log AND b.last = h.position",
        (log,),
    )
