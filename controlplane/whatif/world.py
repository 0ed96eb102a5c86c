"""Holds the simulated objects of one Workload: itself, its job, and its copies on the clusters.

In: what Kueue and the job controllers would do to them. Out: the observations that MultiKueue would make. An object's
versions come from one counter; its times are whole seconds, as Kubernetes writes them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from controlplane.controllers.multikueue.events import EffectUnneeded, WorkloadWrite
from controlplane.controllers.multikueue.observations import (
    CheckState,
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.kube.conditions import Condition
from controlplane.whatif.past import PastCopy, PastWorkload
from controlplane.whatif.quota_history import QuotaRequest

RUNS, ENDED, STOPPED = "what-if: runs", "what-if: ended", "what-if: stopped"
"""The statuses of simulated jobs, in the place of the hashes of real ones."""
_replace = msgspec.structs.replace


class SimulatedCopy:
    """A copy on a cluster, and its job there. `holds`: it has quota. `waits`: it is in the cluster's queue, `entries`:
    how often it came there. `ends` and `stops`: how often its job was begun or stopped, and it was evicted."""

    __slots__ = (
        "clone",
        "cluster",
        "ends",
        "entries",
        "holds",
        "job",
        "left",
        "past",
        "remaining",
        "since",
        "stops",
        "waits",
        "wanted",
    )  # fmt: skip

    def __init__(self, cluster: str, past: PastCopy | None) -> None:
        self.cluster, self.past = cluster, past
        self.clone: CloneObserved | None = None
        self.job: RemoteJobObserved | None = None
        self.holds = self.waits = self.left = self.wanted = False
        self.since: datetime | None = None
        self.remaining: float | None = None
        self.ends = self.entries = self.stops = 0

    def has(self, of: str) -> bool:
        """Whether there is a clone (of a `Workload`), or a job."""
        return (self.clone if of == "Workload" else self.job) is not None


class QuotaClaim:
    """What the engine is told of a Workload: what the log knows of it (`past`), and what it asks for now (`wanted`). It
    queues from `queued_at` on, or from its creation if that is 0, before those that had run for fewer than `lost_after`
    seconds when their cluster was lost.

    `grants`: how often it got quota, the last time that of a ClusterQueue with checks which was `given`; `evictions`:
    how often it was evicted, the last time with its quota free from `drained_at` on; `ran`: for how many seconds it was
    admitted before `admitted_at`."""

    __slots__ = (
        "admitted_at", "drained_at", "evictions", "given", "grants", "lost_after", "past", "queued_at", "ran", "wanted",
    )  # fmt: skip

    def __init__(self, past: QuotaRequest) -> None:
        self.past, self.wanted = past, past.first
        self.admitted_at: datetime | None = None
        self.drained_at: datetime | None = None
        self.given: tuple[str, list[str]] = "", []
        self.queued_at = self.lost_after = 0.0
        self.grants = self.evictions = self.ran = 0


class SimulatedWorkload:
    """A Workload, its job, its copies by cluster, and those `coming`. `holds`: it has quota on the management cluster;
    `claim`: where the engine decides about that, what it is told. Elsewhere it has had some `stays` times, is in the
    queue there for the how manieth time (`entries`) since `queued_at`, or its creation if that is None, and the quota
    of which it was evicted is free from `drained_at` on."""

    __slots__ = (
        "claim", "coming", "copies", "created", "drained_at", "entries", "evictions", "finished", "holds", "job", "local",
        "nominations", "past", "place", "placed", "queued_at", "request", "stays", "stream", "waits",
    )  # fmt: skip

    def __init__(self, past: PastWorkload, request: dict[str, float], asked: QuotaRequest | None = None) -> None:
        self.past, self.stream, self.request = past, past.stream, request
        self.claim = QuotaClaim(asked) if asked is not None else None
        self.local: WorkloadObserved | None = None
        self.job: JobObserved | None = None
        self.place = ""
        self.holds = self.waits = self.finished = False
        self.copies: dict[str, SimulatedCopy] = {}
        self.coming: dict[str, SimulatedCopy] = {}
        self.created: dict[str, int] = {}
        self.placed: list[str] = []
        self.nominations = self.entries = self.stays = self.evictions = 0
        self.queued_at: datetime | None = None
        self.drained_at: datetime | None = None

    @property
    def priority(self) -> int:
        """Its priority, by which queues are ordered."""
        return (self.local or self.past.first).priority.value

    @property
    def key(self) -> str:
        """Its namespace and name."""
        return self.stream.partition("/")[2]

    def recorded_copy(self, cluster: str) -> PastCopy | None:
        """Return the recorded copy that the next one on a cluster is like: the first one is like the first, and so
        on."""
        known = self.past.copies.get(cluster)
        number = self.created.get(cluster, 0)
        self.created[cluster] = number + 1
        return known[min(number, len(known) - 1)] if known else None


def stamp(at: datetime) -> str:
    """Return a time as an API server writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime | None:
    """Return the time that an API server wrote; None if it is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def with_conditions(
    conditions: Sequence[Condition], at: datetime | str, **values: bool | tuple[bool, str]
) -> list[Condition]:
    """Return conditions with some set: to a value, or to a value for a reason."""
    found = {one.type: one for one in conditions}
    when = at if isinstance(at, str) else stamp(at)
    for name, said in values.items():
        value, reason = said if isinstance(said, tuple) else (said, name)
        status = "True" if value else "False"
        if name not in found or found[name].status != status:
            found[name] = Condition(type=name, status=status, reason=reason, last_transition_time=when)
    return list(found.values())


def reserved(
    local: WorkloadObserved,
    like: WorkloadObserved,
    at: datetime,
    version: str,
    given: tuple[str, list[str]] | None = None,
) -> WorkloadObserved:
    """Return a Workload as it is with quota: its checks pending. ClusterQueue and checks are those that are `given`, or
    those of one like it."""
    known = {check.name: check for check in local.checks}
    cluster_queue, names = given or (like.cluster_queue, [one.name for one in like.checks])
    checks = [CheckState(name=name, retry_count=known[name].retry_count if name in known else 0) for name in names]
    evicted: dict[str, Any] = {"Evicted": (False, "QuotaReserved")} if local.is_true("Evicted") else {}
    return _replace(
        local,
        conditions=with_conditions(local.conditions, at, QuotaReserved=True, **evicted),
        checks=checks,
        cluster_queue=cluster_queue,
        template=like.template,
        spec_key=like.spec_key,
        requests=like.requests or local.requests,
        resource_version=version,
    )


def evicted(local: WorkloadObserved, check: str, at: datetime, version: str, reason: str) -> WorkloadObserved:
    """Return a Workload as it is once Kueue has evicted it: its checks begin anew."""
    checks = [CheckState(name=one.name, retry_count=one.retry_count + (one.name == check)) for one in local.checks]
    return _replace(
        local,
        conditions=with_conditions(local.conditions, at, Evicted=(True, reason)),
        checks=checks,
        cluster_name="",
        nominated=[],
        resource_version=version,
    )


def queued(local: WorkloadObserved, at: datetime, version: str) -> WorkloadObserved:
    """Return an evicted Workload as it is once it gave its quota back."""
    admitted: dict[str, Any] = {"Admitted": (False, "NoReservation")} if local.condition("Admitted") else {}
    found = with_conditions(local.conditions, at, QuotaReserved=(False, "Pending"), **admitted)
    return _replace(local, conditions=found, cluster_queue="", resource_version=version)


def new_clone(local: WorkloadObserved, version: str, *, gated: bool) -> CloneObserved:
    """Return the copy of a Workload as it is when it was made."""
    return CloneObserved(
        namespace=local.namespace,
        name=local.name,
        uid=f"what-if-{version}",
        resource_version=version,
        generation=1,
        spec_key=local.spec_key,
        priority=local.priority,
        size=local.size,
        gated=gated,
    )


def new_job(live: SimulatedWorkload, job: JobObserved, version: str) -> RemoteJobObserved:
    """Return the copy of a job as it is when it was made: its worker's Kueue starts it."""
    return RemoteJobObserved(
        namespace=job.namespace,
        name=job.name,
        uid=f"what-if-{version}",
        resource_version=version,
        generation=1,
        kind=job.kind,
        prebuilt=live.stream.rpartition("/")[2],
        suspended=True,
        inactive=True,
        synced=job.synced,
        size=job.size,
        status=STOPPED,
    )


def unneeded(event: WorkloadWrite, version: str) -> EffectUnneeded:
    """Return that a write, which means nothing here, changed nothing."""
    found = event.resource_version or version
    return EffectUnneeded(target=event.target, action=type(event).__name__, resource_version=found)
