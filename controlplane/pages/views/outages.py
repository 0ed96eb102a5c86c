"""The absences of clusters, and what became of the Workloads that ran there.

In: an `Asked`. Out: the newest absences, from the histories of the clusters alone; of one of them the Workloads that it
concerned, as `audit.outage_workloads` has them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, LiteralString

from controlplane.pages.asking import Asked, BadQuestion, NotFound, Parameter
from controlplane.values import Value

PARAMETERS = (
    Parameter("cluster", "only those of a cluster"),
    Parameter("limit", "how many at most", number=500, default="50"),
)
_MOST = 1000
_ABSENCES: LiteralString = (
    "SELECT cluster, since, until, reason, message, others, others_connected, forgotten_by, position"
    " FROM audit.cluster_absences WHERE log = %(log)s AND (%(cluster)s::text = '' OR cluster = %(cluster)s)"
    " AND (%(at)s::timestamptz IS NULL OR since <= %(at)s) ORDER BY since DESC LIMIT %(limit)s"
)
_ABSENCE: LiteralString = (
    "SELECT cluster, since, until, reason, message, others, others_connected, forgotten_by, position"
    " FROM audit.cluster_absences WHERE log = %(log)s AND cluster = %(cluster)s AND position = %(position)s"
)
_WORKLOADS: LiteralString = (
    "SELECT namespace, name, queue, owner, became, ran_on, run_since, run_until, twice, position"
    " FROM audit.outage_workloads WHERE log = %(log)s AND cluster = %(cluster)s AND since = %(since)s"
    " AND (%(namespaces)s::text[] IS NULL OR namespace = ANY(%(namespaces)s)) ORDER BY namespace, name LIMIT %(limit)s"
)


class OutageItem(Value):
    """An absence of a cluster. `others_connected` of `others` clusters answered when it was lost."""

    cluster: str
    since: datetime
    until: datetime | None
    reason: str
    message: str
    others: int | None
    others_connected: int | None
    forgotten_by: str
    position: int


class OutageList(Value):
    """The newest absences."""

    items: list[OutageItem]


class Affected(Value):
    """A Workload that ran on a cluster when it was lost. `became` is Requeued, Kept, Finished, Stopped or Gone; `twice`
    for how many seconds it was seen to run on another cluster at the same time."""

    namespace: str
    name: str
    queue: str
    owner: str
    became: str
    ran_on: bool | None
    twice: float
    position: int


class OutageStory(Value):
    """An absence with the Workloads that it concerned, the first thousand; `twice` is their time that ran twice, in
    seconds."""

    outage: OutageItem
    became: dict[str, int]
    twice: float
    workloads: list[Affected]


def outages(asked: Asked) -> OutageList:
    """Return the newest absences."""
    given = asked.given
    rows = asked.reader.rows(_ABSENCES, cluster=given.get("cluster", ""), at=asked.at, limit=int(given["limit"]))
    return OutageList(items=[_item(row) for row in rows])


def outage(asked: Asked) -> OutageStory:
    """Return one absence, by its cluster and the position with which it began."""
    cluster, text = asked.path["cluster"], asked.path["position"]
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadQuestion(f'"{text}" is no position: write a whole number from 1')
    rows = asked.reader.rows(_ABSENCE, cluster=cluster, position=int(text))
    if not rows:
        raise NotFound(f"no absence of {cluster} begins at position {text} in the log {asked.reader.log}")
    found = asked.reader.rows(
        _WORKLOADS, cluster=cluster, since=rows[0]["since"], limit=_MOST, namespaces=asked.namespaces
    )
    affected = [_affected(row) for row in found]
    became: dict[str, int] = {}
    for one in affected:
        became[one.became] = became.get(one.became, 0) + 1
    return OutageStory(
        outage=_item(rows[0]), became=became, twice=sum(one.twice for one in affected), workloads=affected
    )


def _item(row: dict[str, Any]) -> OutageItem:
    return OutageItem(
        **{name: row[name] for name in ("cluster", "since", "until", "others", "others_connected", "position")},
        reason=row["reason"] or "",
        message=row["message"] or "",
        forgotten_by=row["forgotten_by"] or "",
    )


def _affected(row: dict[str, Any]) -> Affected:
    twice = row["twice"]
    return Affected(
        namespace=row["namespace"],
        name=row["name"],
        queue=row["queue"] or "",
        owner=row["owner"] or "",
        became=row["became"],
        ran_on=row["ran_on"],
        twice=twice / timedelta(seconds=1) if twice is not None else 0.0,
        position=row["position"],
    )
