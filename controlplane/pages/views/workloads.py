"""The list of Workloads, now or at a time.

In: an `Asked`. Out: a page of it. Now: from the directory, whatever their number; at a time: from the directory too, as far as
nothing has changed since, and the rest as `audit.as_of` has it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from controlplane.audit.past import those_at, workloads_at
from controlplane.audit.standing import WORDS
from controlplane.pages.asking import Asked, BadQuestion, Parameter
from controlplane.pages.directory import ACTIVE, SORTS, CursorError, Row, Wanted
from controlplane.values import Value

RESULTS = ("Succeeded", "Failed")
STATES = ("active", *WORDS, *RESULTS)
MOST = 500
_CHANGED = 1000  # Workloads whose history is read for a list of the past; PostgreSQL takes a millisecond for each

PARAMETERS = (
    Parameter("namespace", "only those of a namespace"),
    Parameter("queue", "only those of a LocalQueue"),
    Parameter("cluster", "only those that a cluster has, or had last"),
    Parameter("state", "only those in a state, or with a result; active: all that are not over", ("", *STATES)),
    Parameter("text", "only those with this in their name, or in that of their job"),
    Parameter("sort", "by what they are sorted", SORTS, default="changed"),
    Parameter("after", "the cursor of the page before"),
    Parameter("limit", "how many at most", number=MOST, default="50"),
)


class WorkloadItem(Value):
    """A Workload in a list. `state` is Kueue's word, `result` how it finished, `owner` the job. `since`: first seen;
    `changed`: when it was last seen to change. `attempt` is 0 where it is not known without reading its history."""

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
    """Return a page of Workloads."""
    given, limit = asked.given, int(asked.given["limit"])
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


def _at(asked: Asked, limit: int) -> WorkloadList:
    """Return the Workloads as they were at a time; their cursor is how many were before."""
    given = asked.given
    after = given.get("after", "") or "0"
    if not after.isdigit() or len(after) > 12:
        raise BadQuestion('"after" is no cursor that this page gave out: leave it out to begin anew')
    first = int(after)
    found = _of_directory(asked, first + limit + 1) or _of_view(asked)
    more = str(first + limit) if len(found.items) > first + limit else ""
    items = found.exact(asked, found.items[first : first + limit])
    return WorkloadList(items=items, total=found.total, after=more, namespaces=found.namespaces)


class _Then(NamedTuple):
    """Workloads at a time, the first ones in the order that was asked for. `over`: of those of the directory less is known
    than the log knows."""

    items: list[WorkloadItem]
    total: int | None
    namespaces: list[str]
    over: frozenset[tuple[str, str]] = frozenset()

    def exact(self, asked: Asked, shown: Sequence[WorkloadItem]) -> list[WorkloadItem]:
        """Return items that are shown, with all that the log knows of them."""
        names = [(one.namespace, one.name) for one in shown if (one.namespace, one.name) in self.over]
        known = {(row["namespace"], row["name"]): _past(row) for row in those_at(asked.reader, asked.moment, names)}
        return [known.get((one.namespace, one.name), one) for one in shown]


def _of_view(asked: Asked) -> _Then:
    """Return all of them, by the view: it reads the history of each."""
    names = asked.namespaces
    rows = workloads_at(asked.reader, asked.moment, names[0] if names is not None and len(names) == 1 else None)
    found = [_past(row) for row in rows if asked.sees(row["namespace"])]
    kept = _sorted(asked, [one for one in found if _fits(one, asked.given)])
    return _Then(kept, len(kept), sorted({one.namespace for one in found}))


def _of_directory(asked: Asked, count: int) -> _Then | None:
    """Return the first of them, by the directory: only the history of those that changed since then is read. None if these
    are too many, or the log is still being read."""
    given, names, at = asked.given, asked.namespaces, asked.moment.timestamp()
    follower, state = asked.follower, given.get("state", "")
    if not follower.ready:
        return None
    wanted = Wanted(
        names,
        given.get("queue", ""),
        given.get("cluster", ""),
        "" if state == "Finished" else state,
        given.get("text", ""),
    )
    with follower.lock:
        open_then = follower.directory.open_at(at, names, _CHANGED + 1)
        if len(open_then) > _CHANGED:
            return None
        finished = state in ("", "Finished", *RESULTS)
        over, total = follower.directory.over_at(at, wanted, given["sort"], count) if finished else ([], 0)
        known = follower.directory.namespaces()
    rows = [_past(row) for row in those_at(asked.reader, asked.moment, open_then)]
    kept = [one for one in rows if _fits(one, given)]
    found = _sorted(asked, [*kept, *map(_item, over)])
    seen = [name for name in known if asked.sees(name) and (names is None or name in names)]
    whole = None if total is None else len(kept) + total
    return _Then(found[:count], whole, seen, frozenset((row.namespace, row.name) for row in over))


def _sorted(asked: Asked, items: list[WorkloadItem]) -> list[WorkloadItem]:
    if asked.given["sort"] == "name":
        return sorted(items, key=lambda one: (one.namespace, one.name))
    return sorted(items, key=lambda one: (one.changed or asked.moment, one.namespace, one.name), reverse=True)


def _past(row: dict[str, Any]) -> WorkloadItem:
    kind, _, owner = (row["owner"] or "").partition("/")
    over = row["phase"] == "Finished"
    return WorkloadItem(
        namespace=row["namespace"],
        name=row["name"],
        state=row["phase"],
        result=(row["reason"] or "") if over else "",
        queue=row["queue"] or "",
        kind=kind,
        owner=owner,
        cluster=row["cluster"] or "",
        attempt=row["attempt"] or 0,
        waits_for="" if over else row["message"] or "",
        changed=row["since"],
    )


def _fits(one: WorkloadItem, given: Any) -> bool:
    state, text = given.get("state", ""), given.get("text", "")
    return (
        given.get("queue", "") in ("", one.queue)
        and given.get("cluster", "") in ("", one.cluster)
        and (state in ("", one.state, one.result) or (state == "active" and one.state in ACTIVE))
        and (text in one.name or text in one.owner)
    )
