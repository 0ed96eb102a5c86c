"""The list of Workloads, now or at a time.

In: an `Asked`. Out: a page of it. Now: from the directory, whatever their number; at a time: from the directory too, as
far as nothing has changed since, and the rest from what is folded up to there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime

import psycopg
from msgspec.structs import replace

from controlplane.audit.archived_workloads import ARCHIVED, ArchivedWorkload
from controlplane.audit.archived_workloads import page as archived_page
from controlplane.audit.reads import Filter
from controlplane.audit.timeline import why
from controlplane.controllers.multikueue.events import WinnerChosen
from controlplane.pages.asking import Asked, BadQuestion, Parameter
from controlplane.pages.directory import SORTS, CursorError, Row, Wanted
from controlplane.runtime.explanation import WORDS
from controlplane.values import Value

RESULTS = ("Succeeded", "Failed")
STATES = ("active", *WORDS, *RESULTS, ARCHIVED)
MOST = 500

PARAMETERS = (
    Parameter("namespace", "only those of a namespace"),
    Parameter("queue", "only those of a LocalQueue"),
    Parameter("cluster", "only those that a cluster has, or had last"),
    Parameter(
        "state",
        "only those in a state, or with a result; active: not over; Archived: in archives alone, by name",
        ("", *STATES),
    ),
    Parameter("text", "only those with this in their name, or in that of their job"),
    Parameter("sort", "by what they are sorted", SORTS, default="changed"),
    Parameter("after", "the cursor of the page before"),
    Parameter("limit", "how many at most", number=MOST, default="50"),
)


class WorkloadItem(Value):
    """A Workload in a list. `state` is Kueue's word, `result` how it finished, `owner` the job. `since`: first seen;
    `changed`: when it was last seen to change. `attempt` is 0 where it is not known without reading its history.
    `because`: why it is, or was last, on that cluster."""

    namespace: str
    name: str
    state: str
    result: str = ""
    queue: str = ""
    kind: str = ""
    owner: str = ""
    cluster: str = ""
    attempt: int = 0
    waits_for: str = ""
    since: datetime | None = None
    changed: datetime | None = None
    because: str = ""

    @property
    def shown(self) -> str:
        """The state, or how it finished."""
        return self.result or self.state


class WorkloadList(Value):
    """Workloads. `total` is how many fit in all, null if that is not known; `after` is the cursor of the next page, ""
    if this is the last one."""

    items: list[WorkloadItem]
    total: int | None
    after: str
    namespaces: list[str] = []


def workloads(asked: Asked) -> WorkloadList:
    """Return a page of Workloads, with why each is where it is."""
    found = listed(asked)
    return replace(found, items=explained(asked, found.items))


def explained(asked: Asked, items: Sequence[WorkloadItem]) -> list[WorkloadItem]:
    """Return Workloads with why each is where it is; without it while the database is away."""
    streams = [f"workload/{one.namespace}/{one.name}" for one in items if one.cluster]
    because = dict[tuple[str, str], str]()
    with contextlib.suppress(psycopg.OperationalError):
        for one in asked.reader.events(Filter(streams=streams, types=(WinnerChosen.__name__,))) if streams else ():
            if isinstance(one.event, WinnerChosen):  # the last one on each cluster; without when others had admitted it
                said = why(one.event).partition(" (")[0].removeprefix(f"{one.event.cluster} was ")
                because[one.stream, one.event.cluster] = said
    return [
        replace(one, because=because.get((f"workload/{one.namespace}/{one.name}", one.cluster), "")) for one in items
    ]


def listed(asked: Asked) -> WorkloadList:
    """Return a page of Workloads."""
    given, limit = asked.given, int(asked.given["limit"])
    if given.get("state") == ARCHIVED:
        return _archived(asked, limit)
    if asked.at is not None:
        return _at(asked, limit)
    names = asked.namespaces
    wanted = Wanted(
        names, given.get("queue", ""), given.get("cluster", ""), given.get("state", ""), given.get("text", "")
    )
    follower = asked.follower
    with follower.lock:
        try:
            page = follower.directory.page(wanted, given["sort"], after=given.get("after", ""), limit=limit)
        except CursorError as error:
            raise BadQuestion(str(error)) from None
        total, known = follower.directory.total(wanted), follower.directory.namespaces()
    seen = [name for name in known if asked.sees(name)]
    return WorkloadList(items=[_item(row) for row in page.rows], total=total, after=page.after, namespaces=seen)


_SAME = tuple(
    name for name in Row._fields if name in WorkloadItem.__struct_fields__ and name not in ("since", "changed")
)


def _item(row: Row) -> WorkloadItem:
    same = {name: getattr(row, name) for name in _SAME}
    since, changed = (datetime.fromtimestamp(at, UTC) for at in (row.since, row.changed))
    return WorkloadItem(**same, since=since, changed=changed)


def _archived(asked: Asked, limit: int) -> WorkloadList:
    """Return the Workloads that are in archives alone; their cursor is the stream of the last one."""
    given, follower = asked.given, asked.follower
    if asked.at is not None:
        raise BadQuestion('"state=Archived" is what is in archives now: leave "at" out')
    wanted = {name: given.get(name, "") for name in ("text", "queue", "cluster", "after")}
    found = archived_page(asked.reader, asked.namespaces, **wanted, limit=limit + 1)
    with follower.lock:
        known = follower.directory.namespaces()
    return WorkloadList(
        items=[_archived_item(one) for one in found[:limit]],
        total=None,
        after=found[limit - 1].stream if len(found) > limit else "",
        namespaces=[name for name in known if asked.sees(name)],
    )


def _archived_item(one: ArchivedWorkload) -> WorkloadItem:
    kind, _, owner = one.owner.partition("/")
    return WorkloadItem(
        namespace=one.namespace,
        name=one.name,
        state=ARCHIVED,
        result=one.result,
        queue=one.queue,
        kind=kind,
        owner=owner,
        cluster=one.cluster,
        attempt=one.attempt,
        since=one.since,
        changed=one.ended_at,
    )


def _at(asked: Asked, limit: int) -> WorkloadList:
    """Return the Workloads as they were at a time; their cursor is how many were before."""
    given, names, at = asked.given, asked.namespaces, asked.moment.timestamp()
    first, state = _first(given.get("after", "") or "0"), given.get("state", "")
    count, follower = first + limit + 1, asked.follower
    wanted = Wanted(
        names,
        given.get("queue", ""),
        given.get("cluster", ""),
        "" if state == "Finished" else state,
        given.get("text", ""),
    )
    past = asked.past()
    with follower.lock:
        finished = state in ("", "Finished", *RESULTS)
        over, total = follower.directory.over_at(at, wanted, given["sort"], count) if finished else ([], 0)
        known = follower.directory.namespaces()
    changed = [row for row in past.directory.rows(wanted) if state != "Finished" or row.state == "Finished"]
    found = _sorted(asked, [_item(row) for row in (*changed, *over)])
    return WorkloadList(
        items=found[first : first + limit],
        total=None if total is None else len(changed) + total,
        after=str(first + limit) if len(found) > first + limit else "",
        namespaces=[name for name in known if asked.sees(name) and (names is None or name in names)],
    )


def _first(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > 12:
        raise BadQuestion('"after" is no cursor that this page gave out: leave it out to begin anew')
    return int(cursor)


def _sorted(asked: Asked, items: list[WorkloadItem]) -> list[WorkloadItem]:
    if asked.given["sort"] == "name":
        return sorted(items, key=lambda one: (one.namespace, one.name))
    by = asked.given["sort"]
    return sorted(items, key=lambda one: (getattr(one, by), one.namespace, one.name), reverse=True)
