"""The pods that wait: for another cluster, and what each cluster said to them; or for a node, in a scheduler's own log.

In: an `Asked`. Out: candidates that are neither bound nor gone, as `audit.candidates` has them, of pods that are there
and have no place; and the pods that a scheduler found no node for; both grouped by what was said, by why each node was
none, and by why clusters refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

import msgspec

from controlplane.controllers.scheduling.events import SchedulingFailed
from controlplane.controllers.scheduling.refusals import refusal
from controlplane.pages.asking import Asked, Parameter
from controlplane.pages.pending_pods import read
from controlplane.runtime.writes import NO
from controlplane.values import Value

PARAMETERS = (
    Parameter("namespace", "only those of a namespace"),
    Parameter("cluster", "only what a cluster said"),
    Parameter("reason", "only pods of which a node was none for this reason, such as Insufficient cpu"),
)
_MOST = 2000
_NO = sorted(NO)
_OPEN: LiteralString = """
SELECT c.namespace, c.name, c.cluster, c.candidate, c.offered_at, c.position, n.node,
       CASE a.type WHEN 'CandidateWriteFailed' THEN 'Refused' ELSE coalesce(substring(a.type FROM '^Candidate(.+)$'), 'Offered')
       END AS outcome, a.why AS reason, a.message
FROM (
    SELECT k.*, bool_or(k.bound_at <= %(at)s AND (k.gone_at IS NULL OR k.gone_at > %(at)s)) OVER (PARTITION BY k.namespace, k.name)
               AS placed
    FROM audit.candidates k
    WHERE k.log = %(log)s AND k.position <= %(until)s
      AND (%(namespaces)s::text[] IS NULL OR k.namespace = ANY(%(namespaces)s))
) c
LEFT JOIN LATERAL (
    SELECT e.type, coalesce(e.data ->> 'why', e.data ->> 'error') AS why, e.data ->> 'message' AS message FROM audit.events e
    WHERE e.log = c.log AND e.stream = 'sourcepod/' || c.namespace || '/' || c.name AND e.position <= %(until)s
      AND (e.type IN ('CandidateWaiting', 'CandidateReserved', 'CandidateUnschedulable', 'CandidateRefused', 'CandidateUnreserved')
           AND coalesce(e.data ->> 'candidate', e.data ->> 'name') = c.candidate
           OR e.type = 'CandidateWriteFailed' AND e.data ->> 'target' = c.cluster || '/' || c.candidate
           AND e.data ->> 'action' = 'CandidateRequested' AND (e.data ->> 'code')::int = ANY(%(no)s))
    ORDER BY e.position DESC LIMIT 1
) a ON true
LEFT JOIN LATERAL (
    SELECT e.data ->> 'node' AS node FROM audit.events e
    WHERE e.log = c.log AND e.stream = 'sourcepod/' || c.namespace || '/' || c.name AND e.position <= %(until)s
      AND coalesce(e.data ->> 'candidate', e.data ->> 'name') = c.candidate AND e.data ->> 'node' <> '' ORDER BY e.position DESC LIMIT 1
) n ON true
WHERE c.placed IS NOT TRUE AND (c.bound_at IS NULL OR c.bound_at > %(at)s) AND (c.gone_at IS NULL OR c.gone_at > %(at)s)
  AND NOT EXISTS (
      SELECT FROM audit.events e
      WHERE e.log = c.log AND e.stream = 'sourcepod/' || c.namespace || '/' || c.name AND e.type = 'SourceDeleted'
        AND e.position > c.position AND e.position <= %(until)s)
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


class ReasonGroup(Value):
    """For how many pods nodes of a cluster ("": of the log's own) were none for a reason, and for the newest of them
    how many nodes of how many; `names` are some of those, where the log has them."""

    cluster: str
    reason: str
    pods: int
    nodes: int
    of_nodes: int
    names: list[str] = []


class ClusterReason(Value):
    """Which clusters refuse pods for a reason, and how many pods; `message` is what the newest of them was told, where
    the reason is but a word."""

    reason: str
    message: str
    clusters: list[str]
    pods: int


class PendingPod(Value):
    """A pod that a scheduler found no node for; `nominated` is the node on which room is being made, `nodes` are some
    of those that gave each reason."""

    namespace: str
    pod: str
    reason: str
    message: str
    nominated: str
    attempt: int
    since: datetime
    position: int
    nodes: dict[str, list[str]] = {}


class PodList(Value):
    """The pods that wait: how many, what they were told, and the newest answers; why nodes were none, and which
    clusters refuse for what reason; and in a scheduler's own log the pods that wait for a node."""

    pods: int
    groups: list[Group]
    answers: list[Answer]
    reasons: list[ReasonGroup] = []
    pending: list[PendingPod] = []
    refusals: list[ClusterReason] = []


def pods(asked: Asked) -> PodList:
    """Return the pods that wait for another cluster, or for a node."""
    wanted = asked.given.get("reason", "")
    answers = [one for one in _answers(asked) if _says(one.message, wanted)]
    pending = [] if asked.given.get("cluster") else [one for one in _pending(asked) if _says(one.message, wanted)]
    counts = Counter((one.cluster, one.outcome, one.reason, one.message) for one in answers)
    groups = [
        Group(cluster=cluster, outcome=outcome, reason=reason, message=message, count=count)
        for (cluster, outcome, reason, message), count in counts.most_common()
    ]
    return PodList(
        pods=len({*((one.namespace, one.pod) for one in answers), *((one.namespace, one.pod) for one in pending)}),
        groups=groups,
        answers=answers,
        reasons=_reasons(
            [*((one.cluster, one.message, {}) for one in answers), *(("", one.message, one.nodes) for one in pending)]
        ),
        pending=pending[:_MOST],
        refusals=_refusals(answers),
    )


def _answers(asked: Asked) -> list[Answer]:
    reader = asked.reader
    until, at = (reader.until, asked.at) if asked.at is not None else (2**62, reader.clock())
    cluster = asked.given.get("cluster", "")
    rows = reader.rows(_OPEN, until=until, at=at, namespaces=asked.namespaces, cluster=cluster, no=_NO, limit=_MOST)
    return [
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


def _pending(asked: Asked) -> list[PendingPod]:
    """Return the pods that a scheduler found no node for, the newest first."""
    names = asked.namespaces
    if asked.at is not None:
        known = list(read(asked.reader).failed())
    else:
        with asked.follower.lock:
            known = list(asked.follower.pending_pods.failed())
    found = [
        PendingPod(
            namespace=state.namespace,
            pod=state.name,
            reason=state.told.reason,
            message=state.told.message,
            nominated=state.told.nominated,
            attempt=state.told.attempt,
            since=recorded.recorded_at,
            position=recorded.position,
            nodes=recorded.event.nodes if isinstance(recorded.event, SchedulingFailed) else {},
        )
        for state, recorded in known
        if state.told is not None and (names is None or state.namespace in names)
    ]
    return sorted(found, key=lambda one: one.position, reverse=True)


def _says(message: str, reason: str) -> bool:
    found = refusal(message) if reason else None
    return not reason or (found is not None and any(one.reason == reason for one in found.reasons))


def _refusals(answers: Sequence[Answer]) -> list[ClusterReason]:
    """Return which clusters refuse pods and why: by what their nodes say, or by what they say themselves."""
    found: dict[str, list[Answer]] = {}
    for one in answers:
        for reason in _refused_for(one):
            found.setdefault(reason, []).append(one)
    groups = [
        ClusterReason(
            reason=reason,
            message=said[0].message if reason == said[0].reason else "",
            clusters=sorted({one.cluster for one in said}),
            pods=len({(one.namespace, one.pod) for one in said}),
        )
        for reason, said in found.items()
    ]
    return sorted(groups, key=lambda one: (-one.pods, one.reason))


def _refused_for(answer: Answer) -> set[str]:
    match answer.outcome:
        case "Refused":
            return {answer.reason or answer.message}
        case "Unschedulable":
            said = refusal(answer.message)
            nodes = {one.reason for one in said.reasons} if said is not None else set[str]()
            return nodes or {answer.message or answer.reason}
        case _:
            return set()


def _reasons(said: Sequence[tuple[str, str, dict[str, list[str]]]]) -> list[ReasonGroup]:
    """Return why nodes were none; of the clusters and messages the newest come first."""
    found: dict[tuple[str, str], ReasonGroup] = {}
    for cluster, message, nodes in said:
        told = refusal(message)
        for one in told.reasons if told is not None else ():
            before = found.get((cluster, one.reason))
            newest = before or ReasonGroup(
                cluster=cluster,
                reason=one.reason,
                pods=0,
                nodes=one.nodes,
                of_nodes=told.nodes if told else 0,
                names=nodes.get(one.reason, []),
            )
            found[cluster, one.reason] = msgspec.structs.replace(newest, pods=newest.pods + 1)
    return sorted(found.values(), key=lambda one: (-one.pods, one.cluster, one.reason))
