"""Nobody gets quota that is not there: what reservations sum up to, by the objects on the management API server alone.

In: the commits of Workloads there, and the shape of the queues. Out: a violation as soon as a reservation is written
with which a ClusterQueue uses more than its nominal quota and what it may borrow, or a Cohort more than it has. What
each Workload holds is counted from its `status.admission`, without any of the service's own arithmetic.

A Workload that is set inactive gives its quota back at once, and takes it back without asking when it is made active
again before its job has stopped, as in Kueue's cache: that is the user's doing, and is left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.admission.queues import QueueShape, Shape, cluster_queues
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.dst.scenes.workloads.oddities import planted
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import WORKLOADS, Json, meta
from controlplane.kube.slices import replacement_for
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.kueue.common import Usage, holds_quota, is_active, usage_of

RULE = "reservations are within quota"
_THOUSANDTHS = 1000


class Held(NamedTuple):
    """What a Workload holds: of which ClusterQueue, how much of what, in thousandths; and whose place it takes."""

    queue: str
    usage: Usage
    name: str
    replaces: str


class HeldQuota(ABC):
    """Who holds what on the management cluster, in one incarnation of it. `reservations` counts those that were looked
    at."""

    def __init__(self, trace: Trace, place: ClusterEnvironment) -> None:
        self._trace, self._place = trace, place
        self._held: dict[str, Held] = {}
        self._taken_back: set[str] = set()
        self.reservations = 0
        self._count()

    @abstractmethod
    def _wrong(self, uid: str) -> str:
        """Return what is exceeded by the reservation of a Workload; "" if nothing is."""

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of a Workload."""
        uid, obj = commit.record.uid, commit.record.obj
        before = commit.previous.obj if commit.previous is not None else None
        reserved_before = before is not None and is_true(before, "QuotaReserved")
        self._enter(uid, None if commit.type == "DELETED" else obj)
        if uid not in self._held:
            self._taken_back.discard(uid)
        elif reserved_before and before is not None and not is_active(before):
            self._taken_back.add(uid)
        elif not reserved_before:
            self.reservations += 1
            if wrong := self._wrong(uid):
                self._trace.violate(RULE, f"{commit.record.name} at {commit.record.version}: {wrong}")

    def recount(self) -> None:
        """Look at the whole cluster once more."""
        kept = self._held
        self._count()
        if kept != self._held:
            self._trace.violate(RULE, f"kept {kept}, counted {self._held}")

    def _count(self) -> None:
        self._held = {}
        for record in self._place.store.records(WORKLOADS):
            self._enter(record.uid, record.obj)

    def _enter(self, uid: str, obj: Json | None) -> None:
        self._held.pop(uid, None)
        admission = (obj.get("status") or {}).get("admission") if obj is not None and holds_quota(obj) else None
        if obj is not None and admission is not None:
            name = f"{meta(obj)['namespace']}/{meta(obj)['name']}"
            self._held[uid] = Held(admission["clusterQueue"], usage_of(obj), name, replacement_for(obj))


class ReservedQuota(HeldQuota):
    """What is held of queues that stay as they are, in thousandths of a CPU."""

    def __init__(self, trace: Trace, place: ClusterEnvironment, shape: Shape) -> None:
        self._queues, self._cohort = cluster_queues(shape), shape.cohort
        super().__init__(trace, place)

    def _wrong(self, uid: str) -> str:
        return overdrawn(self._sums(), self._queues, self._cohort)

    def _sums(self) -> dict[str, int]:
        """Return what each ClusterQueue uses. A slice whose place another one has taken is about to end: both count as
        the larger."""
        heirs = {one.replaces: _cpus(one.usage) for one in self._held.values() if one.replaces}
        sums: dict[str, int] = {}
        for uid, one in self._held.items():
            if uid not in self._taken_back:
                sums[one.queue] = sums.get(one.queue, 0) + max(0, _cpus(one.usage) - heirs.get(one.name, 0))
        return sums


def _cpus(usage: Usage) -> int:
    return sum(amount for (_, resource), amount in usage.items() if resource == "cpu")


def overdrawn(used: Mapping[str, int], queues: Mapping[str, QueueShape], cohort: int) -> str:
    """Return which ClusterQueue or Cohort uses more than it may, in words; "" if none does.

    In thousandths of a CPU: `used` by ClusterQueue. A ClusterQueue keeps for itself what its lending limit does not let
    go of, and takes the rest from what the Cohort has: its own, and what all lend.
    """
    shared, taken = cohort * _THOUSANDTHS, 0
    for name, queue in queues.items():
        lends = queue.nominal if queue.lends is None else min(queue.lends, queue.nominal)
        own = (queue.nominal - lends) * _THOUSANDTHS
        mine = used.get(name, 0)
        shared += lends * _THOUSANDTHS
        taken += max(0, mine - own)
        if queue.borrows is not None and mine > (queue.nominal + queue.borrows) * _THOUSANDTHS:
            return f"{name} uses {mine} of {queue.nominal} and {queue.borrows} borrowed (thousandths)"
    unknown = sorted(used.keys() - queues.keys())
    if unknown:
        return f"{unknown[0]} has no quota"
    return f"the Cohort uses {taken} of {shared} (thousandths)" if taken > shared else ""


def holders(place: ClusterEnvironment) -> dict[str, int]:
    """Return which Workloads hold quota, by namespace and name, in thousandths of a CPU."""
    found: dict[str, int] = {}
    for record in place.store.records(WORKLOADS):
        admission = (record.obj.get("status") or {}).get("admission")
        if admission is not None and holds_quota(record.obj) and not planted(record):
            found[f"{record.namespace}/{record.name}"] = _cpus(usage_of(record.obj))
    return found
