"""The absences of clusters, and what became of the Workloads that ran there.

In: an `Asked`. Out: the newest absences, from the histories of the clusters alone; of one of them the Workloads that it
concerned. Which ran there then is known of the hours that are kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, LiteralString

from controlplane.audit.outage_runs import AbsenceSpan, LostRun, lost_runs
from controlplane.controllers.connectivity.events import cluster_stream
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
    "SELECT cluster, since, until, reason, message, others, others_connected, forgotten_by, position, last_position"
    " FROM audit.cluster_absences WHERE log = %(log)s AND cluster = %(cluster)s AND position = %(position)s"
)
_FORGOTTEN: LiteralString = (
    "SELECT recorded_at FROM audit.events WHERE log = %(log)s AND stream = %(stream)s AND type = 'ClusterForgotten'"
    " AND position > %(position)s ORDER BY position LIMIT 1"
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
    """A Workload that ran on a cluster when it was lost. `became` is Requeued, Kept, Finished, Stopped or Gone;
    `ran_on`: it still ran there when the cluster was back, null while it is away; `twice` for how many seconds it was
    seen to run on another cluster at the same time."""

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
    seconds. Not `complete` for a while after the pages' start."""

    outage: OutageItem
    became: dict[str, int]
    twice: float
    workloads: list[Affected]
    complete: bool


def outages(asked: Asked) -> OutageList:
    """Return the newest absences."""
    given = asked.given
    rows = asked.reader.rows(_ABSENCES, cluster=given.get("cluster", ""), at=asked.at, limit=int(given["limit"]))
    return OutageList(items=[_item(_as_known(asked, row)) for row in rows])


def outage(asked: Asked) -> OutageStory:
    """Return one absence, by its cluster and the position with which it began."""
    cluster, text = asked.path["cluster"], asked.path["position"]
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadQuestion(f'"{text}" is no position: write a whole number from 1')
    rows = asked.reader.rows(_ABSENCE, cluster=cluster, position=int(text))
    if not rows or (asked.at is not None and rows[0]["since"] > asked.at):
        when = " at that time" if asked.at is not None else ""
        raise NotFound(f"no absence of {cluster} begins at position {text} in the log {asked.reader.log}{when}")
    row = _as_known(asked, rows[0])
    away = AbsenceSpan(row["cluster"], row["since"], row["until"], row["position"], row["last_position"])
    names, complete = asked.follower.usage.running(cluster, away.since, asked.namespaces, _MOST)
    head = asked.reader.until if asked.reader.until is not None else asked.reader.head()
    affected = [_affected(one, away) for one in lost_runs(asked.reader, away, names, head)]
    became: dict[str, int] = {}
    for one in affected:
        became[one.became] = became.get(one.became, 0) + 1
    twice = sum(one.twice for one in affected)
    return OutageStory(outage=_item(row), became=became, twice=twice, workloads=affected, complete=complete)


def _as_known(asked: Asked, row: dict[str, Any]) -> dict[str, Any]:
    """Return an absence without what came after the time of which it is asked."""
    at = asked.at
    if at is None:
        return row
    if row["until"] is not None and row["until"] > at:
        row = {**row, "until": None, "last_position": None}
    if row["forgotten_by"]:
        found = asked.reader.rows(_FORGOTTEN, stream=cluster_stream(row["cluster"]), position=row["position"])
        row = row if found and found[0]["recorded_at"] <= at else {**row, "forgotten_by": ""}
    return row


def _item(row: dict[str, Any]) -> OutageItem:
    return OutageItem(
        **{name: row[name] for name in ("cluster", "since", "until", "others", "others_connected", "position")},
        reason=row["reason"] or "",
        message=row["message"] or "",
        forgotten_by=row["forgotten_by"] or "",
    )


def _affected(one: LostRun, away: AbsenceSpan) -> Affected:
    return Affected(
        namespace=one.namespace,
        name=one.name,
        queue=one.queue,
        owner=one.owner,
        became=one.became,
        ran_on=one.ran_on if away.until is not None else None,
        twice=one.twice / timedelta(seconds=1),
        position=one.position,
    )
