"""Who fits is admitted: once all trouble has ended, no Workload waits for long for quota that is free.

In: looks at the management cluster's objects, every few seconds. Out: a violation when a Workload that nothing stands
in the way of fits into what its ClusterQueue has left of its own, of the usual flavor, at each look for some
minutes."""

from __future__ import annotations

from collections.abc import Iterator

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
    nodes = arrangement(place)
    ledger = ResourceTree(nodes, quota.used().get(_CPU, {}), _CPU)
    local = {record.name: record.obj["spec"] for record in place.store.records(LOCAL_QUEUES) if _open(record)}
    queues = {record.name: record.obj["spec"] for record in place.store.records(CLUSTER_QUEUES) if _open(record)}
    for record in place.store.records(WORKLOADS):
        name = str(local.get(record.obj["spec"].get("queueName"), {}).get("clusterQueue"))
        spec = queues.get(name, {})
        if spec.get("queueingStrategy") == "BestEffortFIFO" and not planted(record) and _waits(record):
            node, asks = f"queue/{name}", _asks(record.obj)
            # What it would have to borrow may be kept for others that wait, by the rules of their queues.
            own = ledger.quota(node).nominal - ledger.usage(node)
            if min(own, ledger.available(node)) >= asks:
                yield record


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
