"""The pods that wait for another cluster, and what each cluster said to them, grouped by reason.

In: an `Asked`. Out: groups of candidates that are neither bound nor gone, as `audit.candidates` has them, and the pods."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import LiteralString

from controlplane.pages.asking import Asked, Parameter
from controlplane.values import Value

PARAMETERS = (
    Parameter("namespace", "only those of a namespace"),
    Parameter("cluster", "only what a cluster said"),
)
_MOST = 2000
_OPEN: LiteralString = """
SELECT c.namespace, c.name, c.cluster, c.candidate, c.offered_at, c.position, n.node,
       coalesce(substring(a.type FROM '^Candidate(.+)$'), 'Offered') AS outcome, a.why AS reason, a.message
FROM audit.candidates c
LEFT JOIN LATERAL (
    SELECT e.type, e.data ->> 'why' AS why, e.data ->> 'message' AS message FROM audit.events e
    WHERE e.log = c.log AND e.stream = 'sourcepod/' || c.namespace || '/' || c.name AND e.position <= %(until)s
      AND e.type IN ('CandidateWaiting', 'CandidateReserved', 'CandidateUnschedulable', 'CandidateRefused', 'CandidateUnreserved')
      AND e.data ->> 'candidate' = c.candidate ORDER BY e.position DESC LIMIT 1
) a ON true
LEFT JOIN LATERAL (
    SELECT e.data ->> 'node' AS node FROM audit.events e
    WHERE e.log = c.log AND e.stream = 'sourcepod/' || c.namespace || '/' || c.name AND e.position <= %(until)s
      AND e.data ->> 'candidate' = c.candidate AND e.data ->> 'node' <> '' ORDER BY e.position DESC LIMIT 1
) n ON true
WHERE c.log = %(log)s AND c.position <= %(until)s AND (c.bound_at IS NULL OR c.bound_at > %(at)s)
  AND (c.gone_at IS NULL OR c.gone_at > %(at)s)
  AND (%(namespaces)s::text[] IS NULL OR c.namespace = ANY(%(namespaces)s))
  AND (%(cluster)s::text = '' OR c.cluster = %(cluster)s) ORDER BY c.position DESC LIMIT %(limit)s"""


class Answer(Value):
    """What a cluster said to a pod, or that it said nothing yet (Offered)."""

    namespace: str
    pod: str
    cluster: str
    outcome: str
    reason: str
    message: str
    node: str
    since: datetime | None
    position: int


class Group(Value):
    """How many pods got the same answer of a cluster."""

    cluster: str
    outcome: str
    reason: str
    message: str
    count: int


class PodList(Value):
    """The pods that wait: how many, what they were told, and the newest answers."""

    pods: int
    groups: list[Group]
    answers: list[Answer]


def pods(asked: Asked) -> PodList:
    """Return the pods that wait for another cluster."""
    reader = asked.reader
    until, at = (reader.until, asked.at) if asked.at is not None else (2**62, reader.clock())
    cluster = asked.given.get("cluster", "")
    rows = reader.rows(_OPEN, until=until, at=at, namespaces=asked.namespaces, cluster=cluster, limit=_MOST)
    answers = [
        Answer(
            namespace=row["namespace"],
            pod=row["name"],
            cluster=row["cluster"],
            outcome=row["outcome"],
            reason=row["reason"] or "",
            message=row["message"] or "",
            node=row["node"] or "",
            since=row["offered_at"],
            position=row["position"],
        )
        for row in rows
    ]
    counts = Counter((one.cluster, one.outcome, one.reason, one.message) for one in answers)
    groups = [
        Group(cluster=cluster, outcome=outcome, reason=reason, message=message, count=count)
        for (cluster, outcome, reason, message), count in counts.most_common()
    ]
    return PodList(pods=len({(one.namespace, one.pod) for one in answers}), groups=groups, answers=answers)
