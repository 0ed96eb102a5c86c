"""What `audit.placements` and `audit.as_of` have to say, computed as in `tests.audit.computed`.

In: the events of one log in order; for a time also the phases and the absences. Out: rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from tests.audit.computed import Row, Told

BEGINS = ("NominationDecided", "AttemptBegun")
OF_PLACEMENTS = (
    *BEGINS, "WorkloadObserved", "WorkloadGone", "WinnerChosen", "WinnerReleased", "ClusterRefused", "CheckStateDecided",
)  # fmt: skip


def is_true(one: Told, kind: str) -> str | None:
    """Return the reason of a condition that is true, None if it is not."""
    found = (c for c in one.data.get("conditions", ()) if c["type"] == kind and c["status"] == "True")
    return next((str(condition["reason"]) for condition in found), None)


def lives(events: Sequence[Told]) -> Iterator[tuple[list[Told], Told | None]]:
    """Yield the events of each Workload of a name, and what showed the next one in its place, if that did: one ends
    when it is seen to be gone, or another one of its name is seen."""
    uid: str | None = None
    life: list[Told] = []
    for one in events:
        if one.type == "WorkloadGone":
            if uid is not None and one.data["uid"] != uid:
                continue  # another one of its name was seen since
            yield [*life, one], None
            life = []
            continue
        if one.type == "WorkloadObserved":
            if (
                life
                and uid is not None
                and any(seen.type == "WorkloadObserved" for seen in life)
                and one.data["uid"] != uid
            ):
                yield life, one
                life = []
            uid = one.data["uid"]
        life.append(one)
    yield life, None


def placements(events: Iterable[Told]) -> list[Row]:
    """Each attempt to find a cluster for a Workload: those of one Workload are told apart by their numbers."""
    streams: defaultdict[str, list[Told]] = defaultdict(list)
    for one in events:
        if one.stream.startswith("workload/") and one.type in OF_PLACEMENTS:
            streams[one.stream].append(one)
    return [row for stream in streams.values() for life, replaced in lives(stream) for row in _attempts(life, replaced)]


class Attempt:
    """What is seen of one attempt; it may be told of before it is over."""

    def __init__(self, number: int, first: Told, before: dict[str, Any]) -> None:
        namespace, name = first.object
        self.own: dict[str, Any] = {"queue": None, "owner": None}
        self.before = dict(before)
        self.offered: set[str] = set()
        self.refused: set[str] = set()
        self.row: Row = {
            "namespace": namespace, "workload": name, "name": name, "attempt": number, "cluster": None, "reason": None,
            "position": None, "offered_at": first.at, "chosen_at": None, "ready_at": None, "finished_at": None,
            "finish_reason": None, "released_reason": None, "retry_reason": None, "evicted_reason": None,
            "submitted_at": before["submitted_at"], "reserved_at": before["reserved_at"], "until": None,
        }  # fmt: skip

    def decided(self, one: Told) -> None:
        row = self.row
        if one.type in BEGINS:
            self.offered |= set(one.data["clusters"])
        elif one.type == "WinnerChosen":
            row |= {"cluster": one.cluster, "reason": one.reason, "chosen_at": one.at, "position": one.position}
        elif one.type == "WinnerReleased":
            row["released_reason"] = one.reason
        elif one.type == "ClusterRefused":
            self.refused.add(one.cluster)
            if one.reason in ("JobNameTaken", "JobRefused"):
                row["released_reason"] = one.reason
        elif one.type == "CheckStateDecided" and one.data["state"] in ("Retry", "Rejected"):
            row["retry_reason"] = one.reason

    def seen(self, one: Told) -> None:
        row, finished, evicted = self.row, is_true(one, "Finished"), is_true(one, "Evicted")
        for name, value in _whose(one).items():
            self.own[name] = value if self.own[name] is None else self.own[name]
        if one.data.get("cluster_name"):
            row["ready_at"] = row["ready_at"] or one.at
        if finished is not None and row["finished_at"] is None:
            row |= {"finished_at": one.at, "finish_reason": finished}
        if evicted is not None and row["evicted_reason"] is None:
            row["evicted_reason"] = evicted
        if finished is not None or evicted is not None or is_true(one, "QuotaReserved") is None:
            self.end(one)

    def end(self, one: Told) -> None:
        self.row["until"] = self.row["until"] or one.at

    def told(self) -> Row:
        whose = {name: self.before[name] if value is None else value for name, value in self.own.items()}
        since = self.row["reserved_at"] or self.row["offered_at"]
        return {
            **self.row, **whose, "clusters_offered": sorted(self.offered), "clusters_refused": sorted(self.refused),
            "since": since,
        }  # fmt: skip


def _whose(one: Told) -> dict[str, str | None]:
    owner = one.data.get("owner")
    return {"queue": one.data.get("queue_name", ""), "owner": owner and f"{owner['kind']}/{owner['name']}"}


def _attempts(life: Sequence[Told], replaced: Told | None) -> list[Row]:
    before: dict[str, Any] = {"submitted_at": None, "reserved_at": None, "queue": None, "owner": None}
    found: list[Attempt] = []
    reserved = False
    first = next((one.at for one in life if one.type == "WorkloadObserved"), None)
    before["submitted_at"] = first
    for one in life:
        if one.type == "WorkloadObserved":
            has = is_true(one, "QuotaReserved") is not None
            before["reserved_at"] = one.at if has and not reserved else before["reserved_at"]
            reserved = has
        if one.type in BEGINS and one.data["attempt"] > (found[-1].row["attempt"] if found else -1):
            for earlier in found:
                earlier.end(one)  # the next one has begun
            found.append(Attempt(one.data["attempt"], one, before))
        if found and one.type == "WorkloadObserved":
            found[-1].seen(one)
        elif found and one.type == "WorkloadGone":
            found[-1].end(one)
        elif found:
            found[-1].decided(one)
        if one.type == "WorkloadObserved":
            before |= {name: value for name, value in _whose(one).items() if value is not None}
    if replaced is not None:
        for attempt in found:
            attempt.end(replaced)
    return [attempt.told() for attempt in found]


def as_of(phases: Iterable[Row], absences: Sequence[Row], at: datetime) -> list[Row]:
    """The Workloads at a time, by what is told of their phases and of the absences of clusters."""

    def lasts(row: Row) -> bool:
        return bool(row["since"] <= at and (row["until"] is None or row["until"] > at))

    away = {row["cluster"]: row for row in absences if lasts(row)}
    rows = []
    for row in phases:
        if lasts(row) and row["phase"] != "Deleted":
            lost = away.get(row["cluster"]) if row["phase"] in ("Admitted", "Running") else None
            found = {name: row[name] for name in ("namespace", "name", "queue", "owner", "phase", "cluster", "attempt")}
            found |= {name: row[name] for name in ("since", "reason", "message")}
            if lost is not None:
                found |= {"phase": "Lost", "since": max(row["since"], lost["since"])}
                found |= {
                    "reason": lost["reason"],
                    "message": lost["message"] if lost["message"] is not None else row["message"],
                }
            rows.append(found)
    return rows
