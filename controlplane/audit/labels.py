"""Reads the labels of jobs.

In: a reader, and the streams of jobs. Out: the labels of each, from the view `audit.job_labels`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import LiteralString

from controlplane.audit.reads import LogReader

_PIECE = 1000  # jobs that are asked for at once
# OFFSET 0: each is looked up alone, from the index.
_LABELS: LiteralString = """
SELECT 'job/' || l.kind || '/' || l.namespace || '/' || l.name AS stream, l.labels
FROM unnest(%(kinds)s::text[], %(namespaces)s::text[], %(names)s::text[]) AS j (kind, namespace, name)
CROSS JOIN LATERAL (
    SELECT * FROM audit.job_labels l
    WHERE l.log = %(log)s AND l.namespace = j.namespace AND l.name = j.name AND l.kind = j.kind OFFSET 0
) l
WHERE l.labels IS NOT NULL"""


def labels_of(reader: LogReader, streams: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Return the labels of jobs by stream (`job/KIND/NAMESPACE/NAME`), as they were last seen; those of which the log
    has no template are left out."""
    jobs = sorted(tuple(stream.split("/")[1:]) for stream in streams if stream.startswith("job/"))
    found: dict[str, Mapping[str, str]] = {}
    for first in range(0, len(jobs), _PIECE):
        kinds, namespaces, names = (list(part) for part in zip(*jobs[first : first + _PIECE], strict=True))
        rows = reader.rows(_LABELS, kinds=kinds, namespaces=namespaces, names=names)
        found |= {row["stream"]: row["labels"] for row in rows}
    return found
