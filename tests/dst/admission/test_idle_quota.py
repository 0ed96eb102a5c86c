"""Whether a Workload waits for quota that is free, by the objects of a management cluster: what the first of a
StrictFIFO queue keeps from those after it is not free, and anything else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.admission.idle_quota import PATIENCE, RULE, IdleQuotaRules
from controlplane.dst.invariants.admission.live_quota import ArrangementHistory, LiveQuota
from controlplane.dst.scenes.admission.queues import SHAPES, set_up
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.kube.kinds import CLUSTER_QUEUES, WORKLOADS, Json
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.own_cluster import WHOLE_KINDS
from tests.simulation.store_kit import Clock, new_store
from tests.support.rows import each

SHAPE = SHAPES[5]  # cluster-queue: 3 CPUs, StrictFIFO; queue-b and queue-c: 1 each
MINUTES = "2026-01-01T00:0{}:00Z"


def said(kind: str, status: str, reason: str, minute: int) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": MINUTES.format(minute),
    }


def put(store: Store, clock: Clock, queue: str, cpus: int, *, priority: int, minute: int, status: Json) -> None:
    clock.time = clock.time.replace(minute=minute)
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpus)}}}]}}
    spec = {"queueName": queue, "priority": priority, "podSets": [{"name": "main", "count": 1, "template": template}]}
    name = f"{queue}-{cpus}"
    store.create(WORKLOADS, {"metadata": {"namespace": "default", "name": name}, "spec": spec}, field_manager="user")
    store.patch(WORKLOADS, "default", name, {"status": status}, subresource="status", field_manager="kueue")


def broken(*, cpus: int = 3, priority: int = 50, minute: int = 1, evicted: Json | None = None, **spec: object) -> str:
    """Return which rule is broken where a Workload of queue-b waits for its own CPU, and queue-c has borrowed two of
    the three of cluster-queue, for which the first of it waits."""
    clock = Clock()
    store = new_store(clock, kinds=WHOLE_KINDS)
    set_up(store, SHAPE)
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": spec}, field_manager="user")
    taken = [{"name": "main", "count": 1, "flavors": {"cpu": "default-flavor"}, "resourceUsage": {"cpu": "3"}}]
    admission = {"clusterQueue": "queue-c", "podSetAssignments": taken}
    reserved = {"admission": admission, "conditions": [said("QuotaReserved", "True", "QuotaReserved", 0)]}
    put(store, clock, "user-c", 3, priority=100, minute=0, status=reserved)
    put(store, clock, "user-queue", cpus, priority=priority, minute=minute, status={})
    put(store, clock, "user-b", 1, priority=50, minute=5, status={"conditions": [evicted] if evicted else []})
    place = cast("ClusterEnvironment", SimpleNamespace(store=store))
    trace = Trace(VirtualLoop("idle"))  # type: ignore[abstract]
    quota = LiveQuota(trace, place, ArrangementHistory(lambda: 0.0))
    rules = IdleQuotaRules(trace)
    for now in (0.0, PATIENCE + 1):
        rules.look(place, quota, now)
    return trace.violation.rule if trace.violation else ""


def test_what_the_first_of_a_strict_queue_keeps_is_not_free() -> None:
    assert broken() == ""
    assert broken(priority=100, minute=9) == ""
    assert broken(minute=5) == "", "of two that came in the same second either may be tried first"
    assert broken(minute=6, evicted=said("Evicted", "True", "AdmissionCheck", 7)) == ""


@each(
    ("what", "change"),
    [
        ("its priority is lower", {"priority": 0}),
        ("it came later", {"minute": 9}),
        ("it fits", {"cpus": 2}),
        ("it has to borrow", {"cpus": 4}),
        ("it waits aside once it was tried", {"queueingStrategy": "BestEffortFIFO"}),
        ("it may always reclaim its own", {"preemption": {"reclaimWithinCohort": "Any"}}),
        ("nothing of it is tried", {"stopPolicy": "Hold"}),
        ("an eviction by preemption does not count", {"minute": 6, "evicted": said("Evicted", "True", "Preempted", 7)}),
    ],
)
def test_what_it_does_not_keep_is_free(what: str, change: dict[str, object]) -> None:
    assert broken(**change) == RULE, what  # type: ignore[arg-type]
