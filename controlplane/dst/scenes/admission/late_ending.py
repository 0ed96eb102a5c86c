"""Is anything left behind? What plans of the tenth edition and later look for beside what all look for, an hour after
the last trouble.

In: the management cluster. Out: the first thing that is left, in words: a finalizer of Kueue's on what is over,
something that is still being deleted, a ClusterQueue or LocalQueue that counts other Workloads than there are; "" when
nothing is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.dst.scenes.workloads.oddities import planted
from controlplane.job_kinds.pod import MANAGED
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Json,
)
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.kueue.common import holds_quota

_QUEUES: Final = (CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS, RESOURCE_FLAVORS, ADMISSION_CHECKS)


def left_behind(place: ClusterEnvironment) -> str:
    """Return what is left behind."""
    return next((found for look in (_going, _finalized, _counts) for found in look(place)), "")


def _going(place: ClusterEnvironment) -> Iterator[str]:
    """Yield what is still being deleted."""
    for kind in (*_QUEUES, WORKLOADS, PODS):
        for record in place.store.records(kind) if kind in place.store.served else ():
            if not planted(record) and "deletionTimestamp" in record.obj["metadata"]:
                yield f"{kind.kind} {record.name} is still being deleted"


def _finalized(place: ClusterEnvironment) -> Iterator[str]:
    """Yield what is over and has a finalizer of Kueue's."""
    for record in _mine(place):
        if is_true(record.obj, "Finished") and RESOURCE_IN_USE in _finalizers(record):
            yield f"Workload {record.name} is finished and has its finalizer"
    for record in place.store.records(PODS) if PODS in place.store.served else ():
        if (record.obj.get("status") or {}).get("phase") in ENDED_PHASES and MANAGED in _finalizers(record):
            yield f"Pod {record.name} is over and has its finalizer"


def _mine(place: ClusterEnvironment) -> list[Record]:
    return [record for record in place.store.records(WORKLOADS) if not planted(record)]


def _finalizers(record: Record) -> list[str]:
    return record.obj["metadata"].get("finalizers") or []


def _counts(place: ClusterEnvironment) -> Iterator[str]:
    """Yield which queue counts other Workloads with quota than hold some of it."""
    holders = [record.obj for record in _mine(place) if holds_quota(record.obj)]
    by_queue: Mapping[str, Callable[[Json], object]] = {
        CLUSTER_QUEUES.name: lambda obj: obj["status"]["admission"]["clusterQueue"],
        LOCAL_QUEUES.name: lambda obj: obj["spec"].get("queueName"),
    }
    for kind in (CLUSTER_QUEUES, LOCAL_QUEUES):
        for record in place.store.records(kind):
            status = record.obj.get("status") or {}
            mine = [obj for obj in holders if by_queue[kind.name](obj) == record.name]
            there = (len(mine), sum(is_true(obj, "Admitted") for obj in mine))
            said = (status.get("reservingWorkloads") or 0, status.get("admittedWorkloads") or 0)
            if said != there:
                yield f"{kind.kind} {record.name} counts {said} with quota and admitted, there are {there}"
