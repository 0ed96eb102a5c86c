"""The LocalQueues: how many Workloads of each are how far, for what they wait, and who is first; and the hours used.

In: an `Asked`. Out: a `QueueList`, now from what is followed, at a time from what is folded up to there; or
`UsageTable`, of the hours that are kept, as `controlplane usage` adds them up."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

import psycopg

from controlplane.audit.past import BY, GROUPS, added_up, cluster_queues_at
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.pages.asking import Asked, BadQuestion, NotFound, Parameter
from controlplane.pages.directory import ACTIVE, Directory, Row, Wanted
from controlplane.values import Value

PARAMETERS = (Parameter("namespace", "only those of a namespace"),)
_DAYS = 7
USAGE_PARAMETERS = (
    Parameter("namespace", "only those of a namespace"),
    Parameter("by", f"what they are added up by: of {', '.join(BY)}, with commas", default="namespace"),
    Parameter("days", "of how many days, up to now", number=3660, default=str(_DAYS)),
)
_LAST = 50  # Workloads of a queue that are looked at for where it led
_COLUMN = {phase: name for name, phases in GROUPS.items() for phase in phases}


class Head(Value):
    """The Workload that is first in a queue: the highest priority, then the one that waits for longest."""

    name: str
    priority: int
    waits_for: str


class Waiting(Value):
    """How many Workloads wait for the same."""

    state: str
    waits_for: str
    count: int


class Pending(Value):
    """How many Workloads wait for quota for the same reason, in Kueue's words without the amounts; "" where Kueue has
    not said."""

    reason: str
    count: int


class QueueItem(Value):
    """A LocalQueue. `counts` are those of its Workloads by how far they are; `waiting` says for what, and `pending` why
    those that have no quota have none."""

    namespace: str
    queue: str
    cluster_queue: str
    counts: dict[str, int]
    head: Head | None = None
    waiting: list[Waiting] = []
    pending: list[Pending] = []


class QueueList(Value):
    """The LocalQueues, by namespace and name."""

    items: list[QueueItem]


class UsageRow(Value):
    """Hours by the values of `by`. `resource_hours` are in base units (cores, bytes) times hours."""

    by: dict[str, str]
    run_hours: float
    resource_hours: dict[str, float]


class UsageTable(Value):
    """The hours that jobs ran from `since` on, added up by `by`. Not `complete` for a while after the pages' start:
    `looked_at` of `workloads` were looked at so far, the newest first; 0 for who may not see all namespaces, of which
    these are."""

    by: list[str]
    since: date
    until: date
    resources: list[str]
    rows: list[UsageRow]
    complete: bool
    looked_at: int
    workloads: int


def queues(asked: Asked) -> QueueList:
    """Return the LocalQueues."""
    names, follower = asked.namespaces, asked.follower
    if asked.at is None:
        known = _known_now(asked)
        with follower.lock:
            ahead = _heads(follower.index.workloads.values(), follower.directory, names)
            counts = _counts(follower.directory, names)
            _with_empty(asked, counts, known)
            leads = _leading(asked, counts, {**ahead.leads, **known}, follower.directory)
            return _list(counts, follower.directory.pending(names), ahead._replace(leads=leads))
    past = asked.past()
    with follower.lock:
        finished = follower.directory.finished_at(asked.at.timestamp(), names)
    counts = _counts(past.directory, names)
    for place, count in finished.items():
        if place[1]:
            counts.setdefault(place, Counter())["finished"] += count
    ahead = _heads(past.states.values(), past.directory, names)
    known = cluster_queues_at(asked.reader, asked.at, asked.given.get("namespace") or None)
    _with_empty(asked, counts, known)
    with follower.lock:
        leads = _leading(asked, counts, {**ahead.leads, **known}, past.directory)
    return _list(counts, past.directory.pending(names), ahead._replace(leads=leads))


_Place = tuple[str, str]


def _with_empty(asked: Asked, counts: dict[_Place, Counter[str]], known: Mapping[_Place, str]) -> None:
    """Add the LocalQueues that are there and have no Workload."""
    for place in known:
        if asked.sees(place[0]):
            counts.setdefault(place, Counter())


def _leading(
    asked: Asked, places: Iterable[_Place], known: Mapping[_Place, str], directory: Directory
) -> Mapping[_Place, str]:
    """Return the ClusterQueues of LocalQueues: those that are known, and else the one that the last of its Workloads
    had quota of, also if that is over by now. Whoever calls this holds the follower's lock."""
    found = dict(known)
    for place in places:
        if place in known:
            continue
        wanted = Wanted([place[0]], queue=place[1])
        rows = directory.page(wanted, "changed", limit=_LAST).rows
        if asked.at is not None:
            over, _ = asked.follower.directory.over_at(asked.at.timestamp(), wanted, "changed", _LAST)
            rows = sorted([*rows, *over], key=lambda row: -row.changed)
        found[place] = next((row.cluster_queue for row in rows if row.cluster_queue), "")
    return found


def _known_now(asked: Asked) -> Mapping[_Place, str]:
    """Return the ClusterQueues of LocalQueues, none while the database is away: the rest is followed, and shown all the
    same."""
    try:
        return cluster_queues_at(asked.reader, asked.now, asked.given.get("namespace") or None)
    except psycopg.OperationalError:
        return {}


class QueueHeads(NamedTuple):
    """Of each queue: who is first of those without quota, the ClusterQueue that it leads to, and how many have none for
    which reason."""

    heads: Mapping[_Place, Head]
    leads: Mapping[_Place, str]
    reasons: Mapping[_Place, Counter[str]]


@functools.lru_cache(maxsize=10_000)
def reason_without_amounts(message: str) -> str:
    """Return why a Workload has no quota, as Kueue's condition says it, without what differs from one Workload to the
    next: its pod sets and how much is missing. What is more than the ClusterQueue can ever have says so."""
    text = _MORE_THAN_ALL.sub(" (more than there can be)", _AMOUNT.sub("", message))
    return _POD_SET.sub("", text).strip()


_POD_SET = re.compile(r"couldn't assign flavors to pod set [^:]+: ")
_AMOUNT = re.compile(r", \S+ more needed")
_MORE_THAN_ALL = re.compile(
    r", previously considered podsets requests \([^)]*\) \+ current podset request \([^)]*\) > maximum capacity \([^)]*\)"
)


def _list(
    counts: Mapping[_Place, Counter[str]],
    pending: Iterable[tuple[str, str, str, str, int]],
    ahead: QueueHeads,
) -> QueueList:
    waiting: dict[_Place, list[Waiting]] = {}
    for namespace, queue, state, waits_for, count in pending:
        waiting.setdefault((namespace, queue), []).append(Waiting(state=state, waits_for=waits_for, count=count))
    return QueueList(
        items=[
            QueueItem(
                namespace=place[0],
                queue=place[1],
                cluster_queue=ahead.leads.get(place, ""),
                counts={name: found[name] for name in GROUPS},
                head=ahead.heads.get(place),
                waiting=waiting.get(place, []),
                pending=[
                    Pending(reason=reason, count=count)
                    for reason, count in sorted(ahead.reasons.get(place, {}).items(), key=lambda one: (-one[1], one[0]))
                ],
            )
            for place, found in sorted(counts.items())
        ]
    )


def _counts(directory: Directory, names: Sequence[str] | None) -> dict[_Place, Counter[str]]:
    """Return how many Workloads of each queue are how far; those that were deleted are left out."""
    found: dict[_Place, Counter[str]] = {}
    for (namespace, queue, _, shown), count in directory.counts.items():
        if queue and count and shown in ACTIVE and (names is None or namespace in names):
            found.setdefault((namespace, queue), Counter())[_COLUMN[shown]] += count
    for (namespace, queue), count in directory.finished().items():
        if queue and count and (names is None or namespace in names):
            found.setdefault((namespace, queue), Counter())["finished"] += count
    return found


def _heads(states: Iterable[WorkloadState], directory: Directory, names: Sequence[str] | None) -> QueueHeads:
    """Return who is first of those without quota in each queue, and why they have none."""
    first: dict[_Place, tuple[int, float, Head]] = {}
    leads: dict[_Place, str] = {}
    reasons: dict[_Place, Counter[str]] = {}
    for state in states:
        local = state.local
        if local is None or not _is_shown(local, names):
            continue
        place = (state.namespace, local.queue_name)
        if local.cluster_queue:
            leads[place] = local.cluster_queue
        if local.is_true("QuotaReserved") or not local.active:
            continue
        said = local.condition("QuotaReserved")
        why = reason_without_amounts(said.message) if said is not None else ""
        reasons.setdefault(place, Counter())[why] += 1
        row = directory.get(state.namespace, state.name)
        key = (-local.priority.value, row.since if row is not None else 0.0)
        if place not in first or key < first[place][:2]:
            head = Head(name=state.name, priority=local.priority.value, waits_for=_why_waiting(local, row))
            first[place] = (*key, head)
    return QueueHeads({place: found[2] for place, found in first.items()}, leads, reasons)


def _is_shown(local: WorkloadObserved, names: Sequence[str] | None) -> bool:
    """Whether a Workload is live, and in a namespace of which one may know."""
    return not (local.is_true("Finished") or local.deleting) and (names is None or local.namespace in names)


def _why_waiting(local: WorkloadObserved, row: Row | None) -> str:
    said = local.condition("QuotaReserved")
    if said is not None and said.message:
        return said.message
    return row.waits_for if row is not None else ""


def _by(asked: Asked) -> list[str]:
    """Return by what hours are added up: by namespace first where not all namespaces may be seen, and none is asked
    for."""
    by = list(dict.fromkeys(word.strip() for word in asked.given["by"].split(",")))
    if wrong := next((word for word in by if word not in BY), None) if by else "":
        raise BadQuestion(f'by: hours are not added up by "{wrong}": there are {", ".join(BY)}')
    if asked.namespaces is None or asked.given.get("namespace"):
        return by
    if not asked.namespaces:
        raise NotFound(f"there are no hours to be seen in the log {asked.reader.log}")
    return ["namespace", *(word for word in by if word != "namespace")]


def hours(asked: Asked) -> UsageTable:
    """Return the hours that jobs ran."""
    by, names = _by(asked), asked.namespaces
    until = asked.moment.date() + timedelta(days=1)
    since = until - timedelta(days=int(asked.given["days"]))
    found = asked.follower.usage.found(since, until, names)
    kept = added_up(found.rows, by)
    looked_at, workloads = (found.looked_at, found.workloads) if asked.allowed is None else (0, 0)
    return UsageTable(
        by=by,
        since=since,
        until=until,
        resources=sorted({name for row in kept for name in row["resource_hours"]}),
        rows=[
            UsageRow(
                by={name: str(row[name] if row[name] is not None else "") for name in by},
                run_hours=float(row["run_hours"]),
                resource_hours={name: float(amount) for name, amount in row["resource_hours"].items()},
            )
            for row in kept
        ],
        complete=found.complete,
        looked_at=looked_at,
        workloads=workloads,
    )
