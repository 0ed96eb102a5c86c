"""The queues of a run: ClusterQueues in one Cohort, of which some borrow, lend and preempt, and who may use them.

In: the number of a shape, the management cluster. Out: its objects. Any job of a plan fits into any queue of a shape
once nobody else has quota of it, so that nobody waits for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    Json,
    Kind,
)
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.world import CHECK

COHORT: Final = "all"
OTHER_CHECK: Final = "other-check"
FLAVOR: Final = "default-flavor"
PRIORITIES: Final = {"low": 0, "mid": 50, "high": 100}
LETTERS: Final = ("a", "b", "c")
"""By the last but one word of a job's name: the queue that it is submitted to."""
_CLUSTER_QUEUES: Final = {"a": "cluster-queue", "b": "queue-b", "c": "queue-c"}
_LOCAL_QUEUES: Final = {"a": "user-queue", "b": "user-b", "c": "user-c"}
_LOWER: Final[Json] = {"withinClusterQueue": "LowerPriority"}
_RECLAIM: Final[Json] = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
_MORE: Final[Json] = {
    "withinClusterQueue": "LowerOrNewerEqualPriority",
    "reclaimWithinCohort": "LowerPriority",
    "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 50},
}


class QueueShape(NamedTuple):
    """A ClusterQueue: its CPUs, how many it borrows and lends at most (None: as many as there are), whom it
    preempts."""

    nominal: int
    borrows: int | None = None
    lends: int | None = None
    preemption: Json = _LOWER
    strategy: str = "BestEffortFIFO"


class Shape(NamedTuple):
    """The queues of a run, and how many CPUs the Cohort has beside theirs."""

    queues: tuple[QueueShape, ...]
    cohort: int = 0


SHAPES: Final = (
    Shape((QueueShape(3, preemption=_RECLAIM), QueueShape(2, preemption=_RECLAIM))),
    Shape((QueueShape(4, lends=2), QueueShape(2, borrows=2, preemption=_RECLAIM))),
    Shape(
        (QueueShape(2, borrows=1, preemption=_RECLAIM), QueueShape(2, preemption=_RECLAIM), QueueShape(2, borrows=2))
    ),
    Shape((QueueShape(3, lends=0), QueueShape(3, lends=1, borrows=1, strategy="StrictFIFO"))),
    Shape((QueueShape(1, preemption=_MORE), QueueShape(2, preemption=_MORE)), cohort=1),
    Shape((QueueShape(3, strategy="StrictFIFO", preemption=_MORE), QueueShape(1), QueueShape(1, preemption=_RECLAIM))),
)


def queue_of(job: str) -> str:
    """Return the LocalQueue that a job is submitted to, by its name."""
    return _LOCAL_QUEUES[_words(job)[0]]


def priority_of(job: str) -> str:
    """Return the WorkloadPriorityClass of a job, by its name."""
    return _words(job)[1]


def _words(job: str) -> tuple[str, str]:
    parts = job.split("-")
    return parts[-2], parts[-1]


def cluster_queues(shape: Shape) -> dict[str, QueueShape]:
    """Return the ClusterQueues of a shape by name."""
    return {_CLUSTER_QUEUES[letter]: queue for letter, queue in zip(LETTERS, shape.queues, strict=False)}


def set_up(store: Store, shape: Shape, *, checks: Sequence[str] = (CHECK,), usage: bool = False) -> None:
    """Have the objects of a shape on the management cluster, as they are meant, also where somebody has changed
    them."""
    _put(store, COHORTS, COHORT, cohort_of(shape))
    for kind, obj in objects_of(shape, checks=checks, usage=usage):
        _put(store, kind, obj["metadata"]["name"], obj["spec"], obj["metadata"].get("namespace", ""))


def cohort_of(shape: Shape) -> Json:
    """Return the spec of the Cohort of a shape."""
    return {"resourceGroups": [_group(shape.cohort)]} if shape.cohort else {}


def objects_of(shape: Shape, *, checks: Sequence[str], usage: bool) -> list[tuple[Kind, Json]]:
    """Return the queues of a shape. `checks`: the AdmissionChecks of all; `usage`: whether past usage orders who
    waits."""
    found: list[tuple[Kind, Json]] = []
    for letter, queue in zip(LETTERS, shape.queues, strict=False):
        spec: Json = {
            "cohortName": COHORT,
            "namespaceSelector": {},
            "queueingStrategy": queue.strategy,
            "stopPolicy": "None",
            "preemption": queue.preemption,
            "admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in checks]},
            "resourceGroups": [_group(queue.nominal, queue.borrows, queue.lends)],
        }
        if usage:
            spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        led = {"metadata": {"namespace": "default", "name": _LOCAL_QUEUES[letter]}}
        found.append((CLUSTER_QUEUES, {"metadata": {"name": _CLUSTER_QUEUES[letter]}, "spec": spec}))
        found.append((LOCAL_QUEUES, {**led, "spec": {"clusterQueue": _CLUSTER_QUEUES[letter]}}))
    return found


def define_check(store: Store) -> None:
    """Have the check of somebody else's, which works."""
    spec = {"controllerName": "example.com/checker"}
    store.create(ADMISSION_CHECKS, {"metadata": {"name": OTHER_CHECK}, "spec": spec}, field_manager="checker")
    works = {"type": "Active", "status": "True", "reason": "Active", "message": "it works"}
    status = {"conditions": [{**works, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    store.patch(ADMISSION_CHECKS, "", OTHER_CHECK, {"status": status}, subresource="status", field_manager="checker")


def set_up_worker(store: Store) -> None:
    """Have the LocalQueues of a worker; all of them lead to its one ClusterQueue."""
    for name in _LOCAL_QUEUES.values():
        _put(store, LOCAL_QUEUES, name, {"clusterQueue": _CLUSTER_QUEUES["a"]}, "default")


def define_priorities(store: Store) -> None:
    """Have the WorkloadPriorityClasses."""
    for name, value in PRIORITIES.items():
        store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}, field_manager="user")


def _group(nominal: int, borrows: int | None = None, lends: int | None = None) -> Json:
    cpu: Json = {"name": "cpu", "nominalQuota": str(nominal)}
    if borrows is not None:
        cpu["borrowingLimit"] = str(borrows)
    if lends is not None:
        cpu["lendingLimit"] = str(lends)
    return {"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": [cpu]}]}


def _put(store: Store, kind: Kind, name: str, spec: Json, namespace: str = "") -> None:
    head = {"name": name, **({"namespace": namespace} if namespace else {})}
    try:
        found = store.get(kind, namespace, name)
    except ApiError:
        store.create(kind, {"metadata": head, "spec": spec}, field_manager="user")
        return
    if found.get("spec") != spec:
        store.patch(kind, namespace, name, {"spec": spec}, field_manager="user")
