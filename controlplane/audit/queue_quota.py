"""One ClusterQueue as admission knows it, where this service decides on quota: its quota, who has it, and who waits, in
order.

In: the index of admission, as `quota_load` reads it of the log. Out: plain values; amounts are quantities. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.quota.admission import pending_workloads
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.amounts import UNLIMITED, FlavorResource, spelled, sub
from controlplane.controllers.quota.engine.model import DELETING, NO_STOP
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.kube.kinds import Json
from controlplane.values import Value


class QuotaLine(Value):
    """Quota of a flavor's resource. `reserved` by Workloads of the ClusterQueue; `borrowed`: how much of that exceeds
    `nominal`; `lent`: how much of what is left of `nominal` its Cohort's others have; `free`: what could be reserved
    now, borrowed or its own. Limits are "" where there is none; everything but `reserved` is "" where nobody here
    decides on quota."""

    flavor: str
    resource: str
    reserved: str
    nominal: str = ""
    borrowed: str = ""
    lent: str = ""
    free: str = ""
    borrowing_limit: str = ""
    lending_limit: str = ""


class HeldQuota(Value):
    """A Workload that has quota: how much by flavor and resource, empty if the log does not say, and since when, as its
    condition says."""

    namespace: str
    name: str
    queue: str
    priority: int
    admitted: bool
    amounts: dict[str, dict[str, str]]
    since: str


class QueueMember(Value):
    """A Workload that waits for quota. `position` of those that wait in the ClusterQueue, 1 for the first, and
    `in_queue` of those in its LocalQueue; 0 where nobody here keeps the order. `reason` and `message`: of its
    condition."""

    namespace: str
    name: str
    queue: str
    priority: int
    position: int
    in_queue: int
    since: str
    reason: str
    message: str


class QueueQuota(Value):
    """How a ClusterQueue admits: the Cohorts above it, from the root, its strategy and stop policy, and why it is not
    active."""

    cohorts: list[str] = []
    strategy: str = ""
    stop_policy: str = ""
    inactive: str = ""


def shape_of(index: AdmissionIndex, name: str) -> QueueQuota:
    """Return how a ClusterQueue admits; the index has it."""
    snapshot = index.engine.snapshot
    node, stop = snapshot.queues[name], snapshot.queues[name].spec.stop_policy
    cycle = ["its Cohorts are in a cycle, by their spec.parentName"] if snapshot.has_cycle(node) else []
    return QueueQuota(
        cohorts=[cohort.name for cohort in node.ancestors()][::-1],
        strategy=node.spec.queueing_strategy,
        stop_policy="" if stop in (NO_STOP, DELETING) else stop,
        inactive=", ".join([*snapshot.inactive_reasons(node), *cycle]),
    )


def lines_of(index: AdmissionIndex, name: str) -> list[QuotaLine]:
    """Return the quota of a ClusterQueue, in the order of its spec; what is used of more is last."""
    node = index.engine.snapshot.queues[name]
    places = dict.fromkeys([*node.spec.quotas, *(place for place, used in node.usage.items() if used)])
    return [_line(node, place) for place in places]


def _line(node: QueueNode, place: FlavorResource) -> QuotaLine:
    flavor, resource = place
    quota, used = node.quota(place), node.usage.get(place, 0)
    free = max(0, node.available(place))
    limits = {"borrowing_limit": quota.borrowing_limit, "lending_limit": quota.lending_limit}
    own = max(0, sub(quota.nominal, used))
    return QuotaLine(
        flavor=flavor,
        resource=resource,
        reserved=spelled(resource, used),
        nominal=spelled(resource, quota.nominal),
        borrowed=spelled(resource, max(0, sub(used, quota.nominal))),
        lent=spelled(resource, max(0, sub(own, free)) if own < UNLIMITED else 0),
        free=spelled(resource, free),
        **{word: "" if limit is None else spelled(resource, limit) for word, limit in limits.items()},
    )


def holders_of(index: AdmissionIndex, name: str) -> list[HeldQuota]:
    """Return the Workloads that have quota of a ClusterQueue, by when they got it, the longest first."""
    found = []
    for key, info in index.engine.snapshot.queues[name].workloads.items():
        state = index.workloads.get(key)
        seen = state.observed if state is not None else None
        status = seen.status if seen is not None else {}
        namespace, _, plain = key.partition("/")
        amounts: dict[str, dict[str, str]] = {}
        for (flavor, resource), amount in sorted(info.usage.items()):
            amounts.setdefault(flavor, {})[resource] = spelled(resource, amount)
        found.append(
            HeldQuota(
                namespace=namespace,
                name=plain,
                queue=info.workload.local_queue.partition("/")[2],
                priority=info.workload.priority,
                admitted=_condition(status, "Admitted").get("status") == "True",
                amounts=amounts,
                since=str(_condition(status, "QuotaReserved").get("lastTransitionTime") or ""),
            )
        )
    return sorted(found, key=lambda one: (one.since, one.namespace, one.name))


def waiting_in(index: AdmissionIndex, name: str) -> list[QueueMember]:
    """Return the Workloads that wait in a ClusterQueue, in the order in which they are tried."""
    line = pending_workloads.of_cluster_queue(index, name)
    found = []
    for one in line.of_cluster_queue(0, len(index.workloads)) if line is not None else ():
        seen = one.observed
        said = _condition(seen.status, "QuotaReserved")
        found.append(
            QueueMember(
                namespace=seen.namespace,
                name=seen.name,
                queue=seen.queue,
                priority=seen.priority,
                position=one.in_cluster_queue + 1,
                in_queue=one.in_local_queue + 1,
                since=seen.created,
                reason=str(said.get("reason") or ""),
                message=str(said.get("message") or ""),
            )
        )
    return found


def _condition(status: Json, kind: str) -> Json:
    conditions: Sequence[Json] = status.get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})
