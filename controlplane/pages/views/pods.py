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
_OPEN: LiteralString = (
    "SELECT namespace, name, cluster, candidate, outcome, reason, message, node, offered_at, position"
    " FROM audit.candidates WHERE log = %(log)s AND bound_at IS NULL AND gone_at IS NULL"
    " AND (%(namespaces)s::text[] IS NULL OR namespace = ANY(%(namespaces)s))"
    " AND (%(cluster)s::text = '' OR cluster = %(cluster)s) ORDER BY position DESC LIMIT %(limit)s"
)


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
    rows = asked.reader.rows(_OPEN, namespaces=asked.namespaces, cluster=asked.given.get("cluster", ""), limit=_MOST)
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
