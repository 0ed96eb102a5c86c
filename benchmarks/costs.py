"""What processes and the database have used, out of `/proc` and PostgreSQL's own counts.

In: the id of a process, and the URL of a database whose server runs on this machine. Out: a `Cost`; what a series of
work has cost is the difference of two."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psycopg

from controlplane.log.schema import libpq_url

_TICK = os.sysconf("SC_CLK_TCK")
COUNTED = 12.0
"""Seconds until PostgreSQL's statistics have what idle sessions did before."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What processes and the database have used up until now: processor seconds, and counts.

    `appends` has the heartbeats among them, `batches` has not."""

    service: float
    postgres: float
    appends: int
    transactions: int
    events: int
    batches: int

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.service - other.service,
            self.postgres - other.postgres,
            self.appends - other.appends,
            self.transactions - other.transactions,
            self.events - other.events,
            self.batches - other.batches,
        )


def cost_of(url: str, pid: int) -> Cost:
    """Return what was used up until now by a process, and by the log's database and its server."""
    with psycopg.connect(libpq_url(url)) as connection:
        row = connection.execute(
            "SELECT (regexp_match(pg_read_file('postmaster.pid'), '^[0-9]+'))[1]::int,"
            " (SELECT coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables WHERE relname = 'log_head'),"
            " (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),"
            " (SELECT coalesce(max(position), 0) FROM controlplane.log_head),"
            " (SELECT count(*) FROM controlplane.batches)"
        ).fetchone()
    assert row is not None
    return Cost(cpu(pid), _family(row[0]), int(row[1]), int(row[2]), int(row[3]), int(row[4]))


def cpu(pid: int, *, reaped: bool = False) -> float:
    """Return the processor seconds of a process, and of its children that have ended if wanted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11 : 15 if reaped else 13]) / _TICK


def _family(pid: int) -> float:
    """Return the processor seconds of a process and of all its children."""
    total = cpu(pid, reaped=True)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                total += cpu(int(path.parent.name))
        except OSError:  # it has just ended
            continue
    return total
