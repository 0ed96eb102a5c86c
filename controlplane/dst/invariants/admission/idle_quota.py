"""Who fits is admitted: once all trouble has ended, no Workload waits for long for quota that is free.

In: looks at the management cluster's objects, every few seconds. Out: a violation when a Workload that nothing stands
in the way of fits into what its ClusterQueue has left of its own, of the usual flavor, at each look for some minutes.

What the first of a StrictFIFO queue keeps from those after it is not free. It is tried in every cycle, and while it
waits for its own quota, which others have borrowed and it may not always reclaim, what is left of that is used already
when those are looked at (kubernetes-sigs/kueue pkg/scheduler/scheduler.go, ff69552e:
reserveCapacityForUnreclaimablePreempt; Kueue's scheduler, given the objects of such a run, lets them wait with the same
words, cycle after cycle)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.admission.live_quota import LiveQuota, ResourceTree, arrangement
from controlplane.dst.scenes.admission.queues import FLAVOR
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.dst.scenes.workloads.oddities import odd, planted
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, Json
from controlplane.kube.quantities import milli
from controlplane.kube.slices import replacement_for
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.kueue.common import is_active

RULE = "who fits is admitted"
PATIENCE = 300.0
_CPU = (FLAVOR, "cpu")


class IdleQuotaRules:
    """Since when which Workload has waited for what is free."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._since: dict[str, float] = {}

    def look(self, place: ClusterEnvironment, quota: LiveQuota, now: float) -> None:
        """Look who waits."""
        waiting = {record.uid: record for record in _fitting(place, quota)}
        self._since = {uid: self._since.get(uid, now) for uid in waiting}
        for uid, since in self._since.items():
            if now > since + PATIENCE:
                said = condition(waiting[uid].obj, "QuotaReserved") or {}
                text = (
                    f"{waiting[uid].name} fits since {since:.0f} and waits: {said.get('reason')}: {said.get('message')}"
                )
                self._trace.violate(RULE, text)


def _fitting(place: ClusterEnvironment, quota: LiveQuota) -> Iterator[Record]:
    nodes, used = arrangement(place), quota.used().get(_CPU, {})
    ledger = ResourceTree(nodes, used, _CPU)
    queues = {record.name: record.obj["spec"] for record in place.store.records(CLUSTER_QUEUES) if _open(record)}
    waiting = _waiting(place, queues)
    keepers = [one for name in waiting if (one := _keeper(name, queues[name], waiting[name], ledger)) is not None]
    for name, records in waiting.items():
        for record in records if queues[name].get("queueingStrategy") == "BestEffortFIFO" else ():
            node, asks = f"queue/{name}", _asks(record.obj)
            kept = {queue: amount for order, queue, amount in keepers if order <= _order(record.obj)}
            left = ResourceTree(nodes, {one: used.get(one, 0) + kept.get(one, 0) for one in (*used, *kept)}, _CPU)
            # What it would have to borrow may be kept for others that wait, by the rules of their queues.
            if min(ledger.quota(node).nominal - ledger.usage(node), left.available(node)) >= asks:
                yield record


def _waiting(place: ClusterEnvironment, queues: Collection[str]) -> dict[str, list[Record]]:
    """Return the Workloads that wait for nothing but quota, by ClusterQueue."""
    local = {record.name: record.obj["spec"] for record in place.store.records(LOCAL_QUEUES) if _open(record)}
    found: dict[str, list[Record]] = {}
    for record in place.store.records(WORKLOADS):
        name = str(local.get(record.obj["spec"].get("queueName"), {}).get("clusterQueue"))
        if name in queues and not planted(record) and _waits(record):
            found.setdefault(name, []).append(record)
    return found


def _keeper(
    name: str, spec: Json, waiting: list[Record], ledger: ResourceTree
) -> tuple[tuple[int, str], str, int] | None:
    """Return who keeps quota of a ClusterQueue from those after it: its place in the order of a cycle, the queue's
    node, and how much; None if nobody does."""
    reclaims = (spec.get("preemption") or {}).get("reclaimWithinCohort") == "Any"
    if spec.get("queueingStrategy") != "StrictFIFO" or reclaims:
        return None
    node, first = f"queue/{name}", min((record.obj for record in waiting), key=_order)
    own, asks = ledger.quota(node).nominal - ledger.usage(node), _asks(first)
    # One that fits is admitted, and one that has to borrow comes after all that do not.
    return (_order(first), node, asks) if ledger.available(node) < asks <= own else None


def _order(obj: Json) -> tuple[int, str]:
    """Return what Workloads are sorted by: the higher priority first, then who waits for longer, since its eviction
    where that was by a check or for its pods."""
    evicted = condition(obj, "Evicted") or {}
    put_back = evicted.get("status") == "True" and evicted.get("reason") in ("AdmissionCheck", "PodsReadyTimeout")
    since = evicted["lastTransitionTime"] if put_back else obj["metadata"]["creationTimestamp"]
    return -int(obj["spec"].get("priority") or 0), since


def _open(record: Record) -> bool:
    stopped = (record.obj["spec"].get("stopPolicy") or "None") != "None"
    return not stopped and "deletionTimestamp" not in record.obj["metadata"]


def _waits(record: Record) -> bool:
    """Whether nothing is in the way of a Workload but quota."""
    obj = record.obj
    if (
        odd("management", record)
        or not is_active(obj)
        or replacement_for(obj)
        or "deletionTimestamp" in obj["metadata"]
    ):
        return False
    return not (is_true(obj, "Finished") or is_true(obj, "QuotaReserved") or _put_off(obj))


def _put_off(obj: Json) -> bool:
    """Whether a Workload cannot be counted, was rejected by a check, or waits for a moment."""
    status, requeued = obj.get("status") or {}, condition(obj, "Requeued") or {}
    rejected = "Rejected" in [one["state"] for one in status.get("admissionChecks") or ()]
    misfit = (requeued.get("status"), requeued.get("reason")) == ("False", "Inadmissible")
    return misfit or rejected or bool((status.get("requeueState") or {}).get("requeueAt"))


def _asks(obj: Json) -> int:
    """Return how many thousandths of a CPU a Workload needs at least."""
    return sum(
        int(one.get("count", 1)) * milli(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for one in obj["spec"]["podSets"]
        for container in one["template"]["spec"]["containers"]
    )
