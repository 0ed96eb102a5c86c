"""What the views of `audit` have to say of a log, computed from its events one after the other, in the simplest way
that follows from docs/reference/sql.md: a second opinion, made without SQL and without what the service folds.

In: the events of one log, in order. Out: rows, as dicts with the columns of the view."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from controlplane.audit.reads import READ
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded

Row = dict[str, Any]
CODEC = Codec(READ)
ENTRIES = ("QuotaReservationDecided", "QuotaPosted")
CONFIGURED = {
    "MultiKueueConfig": "MultiKueueConfig",
    "MultiKueueCluster": "MultiKueueCluster",
    "AdmissionCheck": "AdmissionCheck",
    "ClusterQueue": "ClusterQueue",
    "LocalQueue": "LocalQueue",
    "QuotaQueue": "ClusterQueue",
    "AdmissionClusterQueue": "ClusterQueue",
    "AdmissionCohort": "Cohort",
    "AdmissionLocalQueue": "LocalQueue",
    "AdmissionFlavor": "ResourceFlavor",
}
"""The kind of the object, by what its events are called."""
NOT_CONFIGURATION = {
    "uid", "namespace", "name", "resource_version", "generation", "conditions", "kept", "manager",
}  # fmt: skip


class Told(msgspec.Struct, frozen=True):
    """An event as the database has it."""

    position: int
    at: datetime
    stream: str
    type: str
    cluster: str
    cause: int
    data: dict[str, Any]

    @property
    def object(self) -> tuple[str | None, str | None]:
        """The namespace and the name that the stream's name ends with."""
        parts = self.stream.split("/")
        return (parts[-2] or None if len(parts) > 2 else None, parts[-1] if len(parts) > 1 else None)

    @property
    def reason(self) -> str:
        found = self.data.get("reason", "")
        return found if isinstance(found, str) else ""


def told(events: Iterable[Recorded]) -> list[Told]:
    """Return the events of a log with their fields; NUL, which `jsonb` cannot hold, is the replacement character."""
    found = []
    for one in events:
        kind, _, data = CODEC.encode(one.event)  # type: ignore[arg-type]
        fields = json.loads(data.decode().replace("\\u0000", "\\ufffd"))
        found.append(Told(one.position, one.recorded_at, one.stream, kind, one.cluster, one.caused_by, fields))
    return found


def until_the_next(rows: Sequence[Row], *same: str) -> list[Row]:
    """Give each row the time of the next one that has the same in some columns."""
    following: dict[tuple[Any, ...], datetime | None] = {}
    for row in reversed(rows):
        key = tuple(row[column] for column in same)
        row["until"] = following.get(key)
        following[key] = row["since"]
    return list(rows)


# --- quota ------------------------------------------------------------------------------------------------------------


def quota_ledger(events: Iterable[Told]) -> list[Row]:
    """Each entry by flavor and resource, and what the Workload has after it."""
    has: defaultdict[tuple[Any, ...], int] = defaultdict(int)
    rows = []
    for one in events:
        if one.type in ENTRIES and one.stream.startswith("admission/workload/"):
            namespace, name = one.object
            queue = one.data["cluster_queue"]
            for flavor, of in one.data.get("amounts", {}).items():
                for resource, amount in of.items():
                    place = (namespace, name, queue, flavor, resource)
                    has[place] += amount
                    rows.append(
                        {
                            "namespace": namespace, "name": name, "position": one.position, "at": one.at,
                            "entry": one.type, "reason": one.reason, "cluster_queue": queue, "flavor": flavor,
                            "resource": resource, "amount": amount, "balance": has[place],
                            "borrowed": one.data.get("borrowed", {}).get(flavor, {}).get(resource, 0),
                            "caused_by": one.cause or None,
                        }
                    )  # fmt: skip
    return rows


Held = tuple[Any, ...]
"""What a Workload holds of a resource: its UID, or "ledger"; its LocalQueue; ClusterQueue, flavor, resource, amount."""


class Holder:
    """One Workload by name: what it showed last, and what the ledger says of it since it says anything."""

    def __init__(self) -> None:
        self.shown: set[Held] = set()
        self.uid = ""
        self.queue: str | None = None
        self.ledger: dict[tuple[str, str, str], tuple[int, str | None]] | None = None
        self.balance: defaultdict[tuple[str, str, str], int] = defaultdict(int)

    def holds(self) -> set[Held]:
        """The ledger is believed before the Workload, as long as somebody keeps it."""
        if self.ledger is None:
            return self.shown
        return {
            ("ledger", queue, *place, amount / 1000 if place[2] == "cpu" else amount)
            for place, (amount, queue) in self.ledger.items()
            if amount > 0
        }

    def entry(self, one: Told) -> None:
        """Take an entry of the ledger. After a time without one all that it says counts anew."""
        changed = set()
        for flavor, of in one.data.get("amounts", {}).items():
            for resource, amount in of.items():
                place = (one.data["cluster_queue"], flavor, resource)
                self.balance[place] += amount
                changed.add(place)
        again = self.balance if self.ledger is None else changed
        self.ledger = (self.ledger or {}) | {place: (self.balance[place], self.queue) for place in again}


def quota_usage(events: Iterable[Told], bodies: Mapping[str, Any]) -> list[Row]:
    """Who held what, from one event to the other. `bodies`: what the database has of specs, by their hashes."""
    holders: defaultdict[tuple[Any, ...], Holder] = defaultdict(Holder)
    since: dict[tuple[Any, ...], Told] = {}
    rows, ours = [], False
    for one in events:
        key = one.object
        touched = [key]
        if one.stream.startswith("workload/") and one.type == "WorkloadObserved":
            holders[key].uid, holders[key].shown = one.data["uid"], shown(one.data, bodies)
        elif one.stream.startswith("workload/") and one.type == "WorkloadGone":
            if one.data["uid"] == holders[key].uid:
                holders[key].shown = set()
        elif one.stream.startswith("admission/workload/") and one.type == "AdmissionWorkloadObserved":
            holders[key].queue = one.data.get("queue")
        elif one.stream.startswith("admission/workload/") and one.type in ENTRIES:
            holders[key].entry(one)
        elif one.stream == "service" and one.type == "PolicyInForce":
            before, ours = ours, bool(one.data.get("quota"))
            touched = [*holders] if before and not ours else []
            for other in touched:
                holders[other].ledger = None
        else:
            continue
        for other in touched:
            now, had = holders[other].holds(), {held for whose, held in since if whose == other}
            for held in had - now:
                rows.append(row_of(other, held, since.pop((other, held)), one))
            since |= {(other, held): one for held in now - had}
    return [*rows, *(row_of(key, held, began, None) for (key, held), began in since.items())]


def row_of(key: tuple[Any, ...], held: Held, began: Told, ended: Told | None) -> Row:
    _, queue, cluster_queue, flavor, resource, amount = held
    return {
        "namespace": key[0], "name": key[1], "queue": queue, "cluster_queue": cluster_queue, "flavor": flavor,
        "resource": resource, "amount": amount, "since": began.at, "until": ended and ended.at,
        "position": began.position, "last_position": ended and ended.position,
    }  # fmt: skip


def shown(data: dict[str, Any], bodies: Mapping[str, Any]) -> set[Held]:
    """What a Workload says that it holds: its admission, what that takes, or its spec if the log has neither."""
    true = {one["type"] for one in data.get("conditions", ()) if one["status"] == "True"}
    if "QuotaReserved" not in true or "Finished" in true:
        return set()
    amounts: defaultdict[tuple[str | None, str | None], float] = defaultdict(float)
    for pod_set in data.get("assignments", ()):
        for resource, quantity in pod_set.get("resourceUsage", {}).items():
            amounts[pod_set.get("flavors", {}).get(resource), resource] += number(quantity)
    if not data.get("assignments"):
        for asked in data.get("requests", {}).values():
            for resource, quantity in asked.items():
                amounts[None, resource] += number(quantity)
    if not data.get("assignments") and not data.get("requests"):
        spec = bodies.get(data.get("kept", {}).get("template") or data["template"], {}).get("spec", {})
        for pod_set in spec.get("podSets", ()):
            for container in pod_set["template"]["spec"]["containers"]:
                wants = container.get("resources", {})
                for resource, quantity in {**wants.get("limits", {}), **wants.get("requests", {})}.items():
                    amounts[None, resource] += number(quantity) * pod_set.get("count", 1)
    found: dict[Any, float | None] = dict(amounts) or {(None, None): None}
    place = (data.get("queue_name"), data.get("cluster_queue"))
    return {(data["uid"], *place, flavor, resource, amount) for (flavor, resource), amount in found.items()}


UNITS = {"": 1, "m": 0.001, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def number(quantity: str) -> float:
    """Return what a quantity is, of those that the tests write."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", quantity)
    assert found is not None, quantity
    return float(found[1]) * UNITS[found[2]]


# --- configuration ----------------------------------------------------------------------------------------------------


def config_changes(events: Sequence[Told]) -> list[Row]:
    """Each field that differs from what the object had before; what is gone is so by its UID."""
    before: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    elsewhere = {
        (one.object[1], field)
        for one in events
        if one.type == "ClusterQueueObserved" and one.stream.startswith("clusterqueue/")
        for field in ("deleting", *({"checks"} & one.data.keys()))
    }
    seen = {one.stream for one in events if one.type in ("ClusterQueueObserved", "LocalQueueObserved")}
    rows = []
    for one in events:
        match = re.fullmatch("(.*)(Observed|Gone)", one.type)
        if match is None or match[1] not in CONFIGURED:
            continue
        key = (one.stream, CONFIGURED[match[1]])
        uid, old = before.get(key, ("", None))
        new = None
        if match[2] == "Observed":
            new = _configured(one)
            before[key] = (one.data["uid"], new)
        elif old is None or uid != one.data["uid"]:
            continue
        else:
            del before[key]
        for field in sorted((old or {}).keys() | (new or {}).keys()):
            values = ((old or {}).get(field), (new or {}).get(field))
            double = one.stream.startswith("quota/queue/") and (one.object[1], field) in elsewhere
            double |= one.stream.startswith("admission/") and field == "deleting" and one.stream[10:] in seen
            if values[0] == values[1] or double:
                continue
            rows.append(
                {
                    "kind": key[1], "namespace": one.object[0] if key[1] == "LocalQueue" else None,
                    "name": one.object[1], "field": field, "old": values[0], "new": values[1],
                    "change": "Deleted" if new is None else "Created" if old is None else "Changed",
                    "since": one.at, "position": one.position, "changed_by": one.data.get("manager") or None,
                    "stream": one.stream,
                }
            )  # fmt: skip
    found = until_the_next(rows, "kind", "stream", "field")
    return [{column: value for column, value in row.items() if column != "stream"} for row in found]


def _configured(one: Told) -> dict[str, Any]:
    """The fields of an object that are configured: of what admission rests on, those of its spec."""
    found = {name: value for name, value in one.data.items() if name not in NOT_CONFIGURATION}
    if one.stream.startswith("admission/"):
        spec = found.pop("spec", {})
        found = {name: value for name, value in found.items() if name not in ("status", "finalizers")}
        found |= {f"spec.{name}": value for name, value in spec.items()}
    return found


def policy_in_force(events: Iterable[Told]) -> list[Row]:
    """What was said of the settings, until something else was; what is left out has its default."""
    rows = []
    for one in events:
        if one.type == "PolicyInForce" and one.stream == "service":
            said: Any = CODEC.decode(one.type, 1, json.dumps(one.data))
            fields = {name.removesuffix("_seconds"): getattr(said, name) for name in said.__struct_fields__}
            rows.append({**fields, "since": one.at, "position": one.position})
    return until_the_next(rows)


# --- who, why, where --------------------------------------------------------------------------------------------------

OPERATORS = ("ClusterForgotten", "MassOutageAccepted", "LogRebound")
REPLICAS = ("ServiceStarted", "ServiceStopped", "LeadRequested", "LogWentBack", "ClusterSuspected", "ClusterLost")
MANAGED = {"JobObserved": ("job", "managed_by"), "AdmissionCheckObserved": ("admissioncheck", "controller_name")}


def actors(events: Iterable[Told]) -> list[Row]:
    """Who is named: by each event of an operator or a replica; by an object when it first names its manager, or
    another one."""
    named: dict[str, tuple[str, str]] = {}
    rows = []
    for one in events:
        word, namespace, name, actor, role = one.stream.partition("/")[0], None, None, "", ""
        cluster = one.object[1] if word == "cluster" else None
        if one.type in OPERATORS and word in ("cluster", "fleet", "service"):
            role, actor = "operator", one.data["by"]
        elif one.type in REPLICAS and word in ("cluster", "fleet", "service"):
            role, actor = "replica", one.data.get("seen_by") or one.data.get("holder", "")
        elif one.type in MANAGED and word == MANAGED[one.type][0]:
            now = (one.data["uid"], one.data.get(MANAGED[one.type][1], ""))
            before, named[one.stream] = named.get(one.stream), now
            role, actor = "controller", now[1] if now != before else ""
            (namespace, name), cluster = one.object, one.cluster or None
        if actor:
            rows.append(
                {
                    "role": role, "actor": actor, "action": one.type, "cluster": cluster, "namespace": namespace,
                    "name": name, "since": one.at, "stream": one.stream, "position": one.position,
                }
            )  # fmt: skip
    return rows


def causes(events: Sequence[Told], position: int) -> list[tuple[int, int]]:
    """Return the depth and the position of an event and of what it rests on, as far as that is in the log."""
    by = {one.position: one for one in events}
    found: list[tuple[int, int]] = []
    while position in by:
        found.append((len(found), position))
        position = by[position].cause
    return found


def job_labels(events: Iterable[Told], bodies: Mapping[str, Any]) -> list[Row]:
    """The labels of the template that each job was last seen with."""
    found: dict[str, Row] = {}
    for one in events:
        if one.type == "JobObserved" and one.stream.startswith("job/"):
            template = one.data.get("kept", {}).get("template") or one.data["template"]
            found[one.stream] = {
                "namespace": one.object[0], "name": one.object[1], "kind": one.stream.split("/")[1],
                "labels": bodies.get(template, {}).get("labels"), "since": one.at, "position": one.position,
            }  # fmt: skip
    return [*found.values()]
