"""All that the log has of one Workload, as the rows of an evidence file.

In: a reader and the streams of a Workload. Out: a header, and rows by kind: the events of those streams, and those that
they rest on, across streams, by position; then the bodies that they name, and the proofs that the log has these events.
Bodies, batches and proofs take the rights of the service or of the owner: for whoever lacks them the header says that
they are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, LiteralString

import msgspec
import psycopg

from controlplane.audit.evidence import FORMAT, VERSION, references
from controlplane.audit.find import Found
from controlplane.audit.fleet import judgements
from controlplane.audit.reads import LogReader
from controlplane.log.verify import EVENT_HASH

_EVENTS: LiteralString = (
    "SELECT position, stream, version, type, schema, reason, cluster, data::text AS data, caused_by, trace, "
    "observed_at, recorded_at FROM audit.events WHERE log = %(log)s AND position = ANY(%(positions)s) ORDER BY "
    "position"
)
# As they were written: the view has what jsonb makes of them.
_WRITTEN: LiteralString = _EVENTS.replace("audit.events", "controlplane.events")
# Each step goes from the events that are known to their causes: as many steps as the longest chain has.
_CLOSURE: LiteralString = """
WITH RECURSIVE found (position, caused_by) AS (
    SELECT e.position, e.caused_by FROM audit.events e
    WHERE e.log = %(log)s AND e.stream = ANY(%(streams)s) AND e.position <= %(head)s
    UNION
    SELECT e.position, e.caused_by FROM found f
    JOIN audit.events e ON e.log = %(log)s AND e.position = f.caused_by AND e.position < f.position
) SELECT position FROM found ORDER BY position"""
_BODIES: LiteralString = (
    "SELECT encode(hash, 'hex') AS hash, body::text AS body, coalesce(redacted, false) AS redacted FROM "
    "controlplane.bodies WHERE hash = ANY(SELECT decode(h, 'hex') FROM unnest(%(hashes)s::text[]) h) ORDER BY hash"
)
_BATCH: LiteralString = (
    "SELECT n.position, b.batch::text FROM unnest(%(positions)s::bigint[]) n (position)"
    " CROSS JOIN LATERAL (SELECT first, batch FROM controlplane.batches WHERE log = %(log)s AND last >= n.position"
    " ORDER BY last LIMIT 1) b WHERE b.first <= n.position"
)
_VERSIONS: LiteralString = (
    "SELECT s.stream, e.version FROM unnest(%(streams)s::text[]) s (stream) CROSS JOIN LATERAL (SELECT version FROM "
    "audit.events WHERE log = %(log)s AND stream = s.stream AND position <= %(head)s ORDER BY version DESC LIMIT 1) e "
    "ORDER BY s.stream"
)
# Where the hashes begin: with the log, where the part before the chain was sealed.
_CHAIN: LiteralString = (
    "SELECT h.id::text AS log_id, CASE WHEN EXISTS (SELECT FROM controlplane.batches b WHERE b.log = h.log"
    " AND b.last = h.chained_from - 1 AND b.hash IS NOT NULL) THEN 1 ELSE h.chained_from END AS since"
    " FROM controlplane.log_head h WHERE h.log = %(log)s"
)
_PROOF: LiteralString = """
SELECT b.batch::text, b.first, b.last, b.epoch, b.recorded_at, encode(b.hash, 'hex') AS hash,
       (SELECT encode(o.hash, 'hex') FROM controlplane.batches o, controlplane.log_head h
        WHERE h.log = b.log AND o.log = b.log AND o.last = b.first - 1 AND b.first <> h.chained_from) AS before,
       ARRAY(SELECT encode({hash}, 'hex') FROM controlplane.events e
             WHERE e.log = b.log AND e.position BETWEEN b.first AND b.last ORDER BY e.position) AS rows,
       (SELECT json_object_agg(e.position, e.data::text) FROM controlplane.events e
        WHERE e.log = b.log AND e.position BETWEEN b.first AND b.last AND e.position = ANY(%(positions)s))::text AS texts
FROM controlplane.batches b WHERE b.log = %(log)s AND b.batch = ANY(%(batches)s::uuid[]) AND b.hash IS NOT NULL ORDER BY b.last""".replace(
    "{hash}", EVENT_HASH
)
_PIECE = 500  # events that are read at once
INCLUDED, NO_RIGHT = "included", "left out: the role may not read them"


class Export:
    """The rows of one Workload's evidence, as the log is when this is made."""

    def __init__(self, reader: LogReader, found: Found, program: str) -> None:
        self._reader, self._head = reader, reader.head()
        versions = self._versions([*found.streams, *judgements(found.jobs)])
        self._streams = list(versions)
        self._bodies = self._may("controlplane.bodies")
        self._batches = self._may("controlplane.batches")
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "log": reader.log,
            "workload": found.workload,
            "streams": versions,
            "head": self._head,
            "exported_at": _time(reader.clock()),
            "program": program,
            "bodies": INCLUDED if self._bodies else NO_RIGHT,
            "batches": INCLUDED if self._batches else NO_RIGHT,
            "inclusion_proof": self._chain(),
        }

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events and the bodies, by kind and value."""
        closure = self._reader.rows(_CLOSURE, streams=self._streams, head=self._head)
        positions = [row["position"] for row in closure]
        named: set[str] = set()
        batches: dict[str, list[int]] = {}
        for first in range(0, len(positions), _PIECE):
            for event in self._events(positions[first : first + _PIECE]):
                named.update(references(event["data"]))
                batches.setdefault(event["batch"], []).append(event["position"])
                yield "event", event
        if self._bodies:
            for row in self._reader.rows(_BODIES, hashes=sorted(named)):
                yield "body", {**row, "body": msgspec.json.decode(row["body"])}

        if self.header["inclusion_proof"] is not None:
            for batch, positions in batches.items():
                yield from self._proof(batch, positions)

    def _chain(self) -> dict[str, Any] | None:
        """Return of which log the proofs are, and from which position on there are any; None if the role may read
        none."""
        found = self._reader.rows(_CHAIN) if self._batches else []
        return found[0] if found else None

    def _proof(self, batch: str, positions: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in self._reader.rows(_PROOF, batches=[batch], positions=list(positions)):
            recorded, texts = _time(row["recorded_at"]), msgspec.json.decode(row["texts"])
            yield "proof", {**row, "recorded_at": recorded, "texts": texts}

    def _versions(self, streams: Sequence[str]) -> dict[str, int]:
        """Return how far each of some streams goes; those that there are not are left out."""
        found = self._reader.rows(_VERSIONS, streams=list(streams), head=self._head)
        return {row["stream"]: row["version"] for row in found}

    def _events(self, positions: Sequence[int]) -> Iterator[dict[str, Any]]:
        rows = self._reader.rows(_BATCH, positions=list(positions)) if self._batches else []
        batches = {row["position"]: row["batch"] for row in rows}
        for row in self._reader.rows(_WRITTEN if self._batches else _EVENTS, positions=list(positions)):
            yield {
                **row,
                "data": msgspec.json.decode(row["data"]),
                "caused_by": row["caused_by"] or None,
                "observed_at": _time(row["observed_at"]),
                "recorded_at": _time(row["recorded_at"]),
                "batch": batches.get(row["position"]),
            }

    def _may(self, table: str) -> bool:
        """Whether the role may read a table; no if it may not even see its schema."""
        try:
            row = self._reader.connection.execute("SELECT has_table_privilege(%s, 'SELECT')", [table]).fetchone()
        except psycopg.errors.InsufficientPrivilege:
            return False
        return bool(row and row[0])


def _time(at: datetime | None) -> str | None:
    found: str | None = msgspec.to_builtins(at)
    return found
