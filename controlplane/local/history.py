"""What the log says about a run, asked in SQL over the schema `audit` as anybody could.

In: a database and the name of a log. Out: placements, starts of the service, and the answer to the query that the demo
shows."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from controlplane.local.check import RecordedPlacement
from controlplane.log.connect import Database
from controlplane.log.schema import libpq_url

SHOWN: LiteralString = """\
SELECT cluster, count(*) AS jobs,
       count(*) FILTER (WHERE finish_reason = 'Failed') AS failed,
       round(avg(extract(epoch FROM chosen_at - offered_at)), 2) AS seconds_to_choose,
       round(avg(extract(epoch FROM finished_at - chosen_at)), 2) AS seconds_to_finish
FROM audit.placements
WHERE log = {log}
GROUP BY cluster ORDER BY cluster"""
COLUMNS = ("cluster", "jobs", "failed", "seconds_to_choose", "seconds_to_finish")

_PLACEMENTS: LiteralString = """
SELECT workload, attempt, coalesce(cluster, ''), finished_at IS NOT NULL FROM audit.placements
WHERE log = %s ORDER BY workload, attempt"""
_SERVICES: LiteralString = """
SELECT data ->> 'holder' FROM audit.events WHERE log = %s AND type = 'ServiceStarted' ORDER BY position"""


class LogHistory:
    """One log of a database, for reading. Its methods block, and raise psycopg's errors."""

    def __init__(self, database: Database, log: str) -> None:
        self._url, self.log = libpq_url(database.url), log

    def empty(self) -> bool:
        """Return whether nothing has happened in the log yet."""
        return not self._rows("SELECT FROM audit.events WHERE log = %s LIMIT 1", self.log)

    def placements(self) -> list[RecordedPlacement]:
        """Return every placement: one row for each attempt of each Workload."""
        return [RecordedPlacement(*row) for row in self._rows(_PLACEMENTS, self.log)]

    def services(self) -> list[str]:
        """Return who has led the log, in order."""
        return [holder for (holder,) in self._rows(_SERVICES, self.log)]

    @property
    def query(self) -> str:
        """The query that the demo shows, as one would type it."""
        return SHOWN.replace("{log}", f"'{self.log}'")  # a log's name holds neither quotes nor backslashes

    def answer(self) -> list[tuple[Any, ...]]:
        """Return the rows of that query, in the order of `COLUMNS`."""
        return self._rows(SHOWN.replace("{log}", "%s"), self.log)

    def _rows(self, query: LiteralString, *parameters: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
            connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
            return connection.execute(query, parameters).fetchall()
