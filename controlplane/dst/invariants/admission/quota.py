"""Nobody gets quota that is not there: what reservations sum up to, by the objects on the management API server alone.

In: the commits of Workloads there, and the shape of the queues. Out: a violation as soon as a reservation is written with
which a ClusterQueue uses more than its nominal quota and what it may borrow, or a Cohort more than it has. What each
Workload holds is counted from its `status.admission`, without any of the service's own arithmetic.

A Workload that is set inactive gives its quota back at once, and takes it back without asking when it is made active again
before its job has stopped, as in Kueue's cache: that is the user's doing, and is left out."""

from __future__ import annotations

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


class ReservedAmount(NamedTuple):
    """What a Workload holds: of which ClusterQueue, how many thousandths of a CPU; and whose place it takes."""

    queue: str
    amount: int
    name: str
    replaces: str


class ReservedQuota:
    """Who holds what on the management cluster, in one incarnation of it. `reservations` counts those that were looked at."""

    def __init__(self, trace: Trace, place: ClusterEnvironment, shape: Shape) -> None:
        self._trace, self._queues, self._cohort = trace, cluster_queues(shape), shape.cohort
        self._place = place
        self._held: dict[str, ReservedAmount] = {}
        self._taken_back: set[str] = set()
        self.reservations = 0
        for record in place.store.records(WORKLOADS):
            self._enter(record.uid, record.obj)

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
            if wrong := overdrawn(self._sums(), self._queues, self._cohort):
                self._trace.violate(RULE, f"{commit.record.name} at {commit.record.version}: {wrong}")

    def recount(self) -> None:
        """Look at the whole cluster once more."""
        kept = self._held
        self._held = {}
        for record in self._place.store.records(WORKLOADS):
            self._enter(record.uid, record.obj)
        if kept != self._held:
            self._trace.violate(RULE, f"kept {kept}, counted {self._held}")

    def _enter(self, uid: str, obj: Json | None) -> None:
        self._held.pop(uid, None)
        admission = (obj.get("status") or {}).get("admission") if obj is not None and holds_quota(obj) else None
        if obj is not None and admission is not None:
            name = f"{meta(obj)['namespace']}/{meta(obj)['name']}"
            amount = _cpus(usage_of(obj))
            self._held[uid] = ReservedAmount(admission["clusterQueue"], amount, name, replacement_for(obj))

    def _sums(self) -> dict[str, int]:
        """Return what each ClusterQueue uses. A slice whose place another one has taken is about to end: both count as the larger."""
        heirs = {one.replaces: one.amount for one in self._held.values() if one.replaces}
        sums: dict[str, int] = {}
        for uid, one in self._held.items():
            if uid not in self._taken_back:
                sums[one.queue] = sums.get(one.queue, 0) + max(0, one.amount - heirs.get(one.name, 0))
        return sums


def _cpus(usage: Usage) -> int:
    return sum(amount for (_, resource), amount in usage.items() if resource == "cpu")


def overdrawn(used: Mapping[str, int], queues: Mapping[str, QueueShape], cohort: int) -> str:
    """Return which ClusterQueue or Cohort uses more than it may, in words; "" if none does.

    In thousandths of a CPU: `used` by ClusterQueue. A ClusterQueue keeps for itself what its lending limit does not let go
    of, and takes the rest from what the Cohort has: its own, and what all lend.
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
