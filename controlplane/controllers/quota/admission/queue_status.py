"""Says what the status of a ClusterQueue, LocalQueue or Cohort is to be, and which finalizers objects are to have.

In: what is known. Out: the status as JSON, as Kueue's core controllers write it (kubernetes-sigs/kueue
pkg/controller/core, pkg/cache/scheduler/clusterqueue.go, main after v0.19.2)."""

from __future__ import annotations

import copy
import math
from datetime import datetime
from typing import TYPE_CHECKING

from controlplane.controllers.quota.admission import events, topology_events
from controlplane.controllers.quota.admission.workload_status import MESSAGE_LIMIT, WorkloadStatus, as_read
from controlplane.controllers.quota.engine.info import Info, total_usage
from controlplane.controllers.quota.engine.model import NO_STOP
from controlplane.controllers.quota.engine.rendering import cluster_queue_usage, local_queue_usage, readiness
from controlplane.controllers.quota.engine.shares import dominant_resource_share
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.kube.requests import truncated

if TYPE_CHECKING:
    from controlplane.controllers.quota.admission.index import AdmissionIndex

ACTIVE = "Active"
_LARGEST = 2**63 - 1
_FLAVORS = 64  # an API server takes no more of them in a status, and more in a spec


def cluster_queue(index: AdmissionIndex, seen: events.AdmissionClusterQueueObserved, now: datetime) -> Json:
    """Return the status of a ClusterQueue."""
    node = index.engine.snapshot.queues[seen.name]
    pending = index.engine.queues.pending.get(seen.name)
    admitted = [info for info in node.workloads.values() if is_admitted(index, info)]
    status, in_bytes = copy.deepcopy(seen.status), index.engine.settings.devices.in_bytes
    status["flavorsReservation"] = cluster_queue_usage(node, node.usage, in_bytes)[:_FLAVORS]
    status["flavorsUsage"] = cluster_queue_usage(node, total_usage(admitted), in_bytes)[:_FLAVORS]
    status["reservingWorkloads"] = len(node.workloads)
    status["admittedWorkloads"] = len(admitted)
    status["pendingWorkloads"] = len(pending) if pending is not None else 0
    WorkloadStatus(status, seen.generation, now).set(ACTIVE, *_readiness(index, node, seen))
    if index.engine.settings.fair_sharing:
        status["fairSharing"] = {"weightedShare": _weighted(dominant_resource_share(node).weighted)}
    else:
        status.pop("fairSharing", None)
    return status


def _readiness(
    index: AdmissionIndex, node: QueueNode, seen: events.AdmissionClusterQueueObserved
) -> tuple[str, str, str]:
    if seen.deleting:
        return "False", "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    active, reason, message = readiness(index.engine.snapshot, node)
    return str(active), reason, truncated(message, MESSAGE_LIMIT)


def stands_otherwise(index: AdmissionIndex, seen: events.AdmissionObjectObserved, now: datetime) -> bool:
    """Whether the condition Active of a queue is to be another one than it is."""
    match seen:
        case events.AdmissionClusterQueueObserved():
            said = _readiness(index, index.engine.snapshot.queues[seen.name], seen)
        case events.AdmissionLocalQueueObserved():
            said = local_readiness(index, stopped=_is_stopped(seen), name=str(seen.spec.get("clusterQueue") or ""))
        case _:
            return False
    status: Json = {"conditions": seen.status.get("conditions")}
    return WorkloadStatus(status, seen.generation, now).set(ACTIVE, *said)


def _is_stopped(seen: events.AdmissionLocalQueueObserved) -> bool:
    return bool((seen.spec.get("stopPolicy") or NO_STOP) != NO_STOP)


def is_admitted(index: AdmissionIndex, info: Info) -> bool:
    """Whether a Workload that has quota is admitted, or is going to be by a reservation that is not seen yet."""
    state = index.workloads.get(info.key)
    given = state.reservation if state is not None else None
    return given.admitted if given is not None else info.workload.admitted


def with_quota(index: AdmissionIndex, namespace: str, name: str, node: QueueNode | None) -> list[Info]:
    """Return the Workloads of a LocalQueue that have quota of a ClusterQueue."""
    known = node.workloads if node is not None else {}
    return [known[key] for key in index.in_queue(namespace, name) if key in known]


def local_queue(index: AdmissionIndex, seen: events.AdmissionLocalQueueObserved, now: datetime) -> Json:
    """Return the status of a LocalQueue."""
    key, name = f"{seen.namespace}/{seen.name}", str(seen.spec.get("clusterQueue") or "")
    stopped = _is_stopped(seen)
    node = index.engine.snapshot.queues.get(name)
    own = with_quota(index, seen.namespace, seen.name, node)
    admitted = [info for info in own if is_admitted(index, info)]
    status = copy.deepcopy(seen.status)
    status["pendingWorkloads"] = 0 if stopped else index.engine.queues.waiting_in(key)
    status["reservingWorkloads"], status["admittedWorkloads"] = len(own), len(admitted)
    reserved = total_usage(own)
    used = reserved if len(admitted) == len(own) else total_usage(admitted)
    for field, usage in (("flavorsReservation", reserved), ("flavorsUsage", used)):
        if node is not None:
            status[field] = local_queue_usage(node, usage, index.engine.settings.devices.in_bytes)[:_FLAVORS]
        else:
            status.pop(field, None)
    WorkloadStatus(status, seen.generation, now).set(ACTIVE, *local_readiness(index, stopped=stopped, name=name))
    return status


def local_readiness(index: AdmissionIndex, *, stopped: bool, name: str) -> tuple[str, str, str]:
    """Return status, reason and message of a LocalQueue's condition Active; `name` is its ClusterQueue's."""
    cluster: events.AdmissionClusterQueueObserved | None = index.seen(kinds.CLUSTER_QUEUES, "", name)
    if stopped:
        return "False", "Stopped", "LocalQueue is stopped"
    if cluster is None:
        return "False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if as_read(cluster.status).is_true(ACTIVE):
        return "True", "Ready", "Can submit new workloads to localQueue"
    return "False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"


def cohort(index: AdmissionIndex, seen: events.AdmissionCohortObserved) -> Json:
    """Return the status of a Cohort: its share, where shares decide."""
    status = {key: value for key, value in seen.status.items() if key != "fairSharing"}
    node = next((one for one in index.engine.snapshot.cohorts() if one.name == seen.name), None)
    if index.engine.settings.fair_sharing and node is not None:
        status["fairSharing"] = {"weightedShare": _weighted(dominant_resource_share(node).weighted)}
    return status


def _weighted(share: float) -> int:
    return _LARGEST if share >= _LARGEST else math.ceil(share)


def finalizers(index: AdmissionIndex, seen: events.AdmissionObjectObserved) -> list[str] | None:
    """Return the finalizers that an object is to have; None if it has them."""
    used = _is_used(index, seen)
    if used is None:
        return None
    has = RESOURCE_IN_USE in seen.finalizers
    if not seen.deleting and not has:
        return [*seen.finalizers, RESOURCE_IN_USE]
    if seen.deleting and has and not used:
        return [one for one in seen.finalizers if one != RESOURCE_IN_USE]
    return None


def _is_used(index: AdmissionIndex, seen: events.AdmissionObjectObserved) -> bool | None:
    """Whether a queue has Workloads, a queue names a flavor or check, or a flavor names a Topology; None of what is
    never held in use."""
    queues = index.engine.snapshot.queues
    match seen:
        case events.AdmissionClusterQueueObserved():
            node = queues.get(seen.name)
            return node is not None and bool(node.workloads)
        case events.AdmissionFlavorObserved():
            return any(seen.name in group.flavors for node in queues.values() for group in node.spec.groups)
        case events.AdmissionCheckSeen():
            return any(seen.name in dict(node.spec.admission_checks) for node in queues.values())
        case topology_events.AdmissionTopologyObserved():
            return any(seen.name == flavor.topology for flavor in index.engine.snapshot.flavors.values())
    return None
