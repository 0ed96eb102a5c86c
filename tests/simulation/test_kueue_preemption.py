"""What a simulated Kueue does where a ClusterQueue preempts, and for Workloads with a preemption gate."""

from __future__ import annotations

from typing import Any

from controlplane.simulation.kueue.common import Gates
from tests.simulation.kueue_cluster import WORKLOADS, Cluster, clone, is_true, says

GATE = "kueue.x-k8s.io/multikueue"
GATED: Any = {"preemptionGates": [{"name": GATE}]}


def full(*, orchestrated: bool = True, preempts: bool = True) -> Cluster:
    """A ClusterQueue that one running job of priority 0 fills."""
    worker = Cluster(gates=Gates(orchestrated_preemption=orchestrated))
    worker.queues(**({"preemption": {"withinClusterQueue": "LowerPriority"}} if preempts else {}))
    worker.store.create(WORKLOADS, clone("low", cpu="4"))
    worker.submit("low", prebuilt="low", cpu="4")
    worker.settle()
    assert is_true(worker.workload("low"), "Admitted")
    return worker


def arrives(worker: Cluster, name: str = "high", priority: int = 10, **spec: Any) -> None:
    worker.store.create(WORKLOADS, clone(name, cpu="4", priority=priority, **spec))
    worker.settle()


def set_gate(worker: Cluster, name: str, position: str) -> None:
    worker.clock.move(7)
    gate = {"name": GATE, "position": position, "lastTransitionTime": worker.stamp()}
    worker.status(name, {"preemptionGates": [gate]})
    worker.settle()


def test_a_workload_preempts_one_of_lower_priority() -> None:
    worker = full()
    arrives(worker)
    assert is_true(worker.workload("high"), "Admitted")
    assert says(worker.workload("low"), "Preempted")[:2] == ("True", "InClusterQueue")
    assert not is_true(worker.workload("low"), "QuotaReserved")
    assert worker.job("low")["spec"]["suspend"] is True


def test_nobody_of_the_same_priority_is_preempted_and_nobody_in_a_queue_that_does_not() -> None:
    worker = full()
    arrives(worker, priority=0)
    assert is_true(worker.workload("low"), "Admitted")
    worker = full(preempts=False)
    arrives(worker)
    assert is_true(worker.workload("low"), "Admitted")


def test_a_closed_gate_blocks_and_says_so() -> None:
    worker = full()
    arrives(worker, **GATED)
    high = worker.workload("high")
    gate = {"name": GATE, "position": "Closed", "lastTransitionTime": worker.stamp()}
    assert high["status"]["preemptionGates"] == [gate]
    text = "Workload requires preemption, but it's gated"
    assert says(high, "BlockedOnPreemptionGates") == ("True", "PreemptionGated", text)
    assert is_true(worker.workload("low"), "Admitted")


def test_an_open_gate_lets_it_preempt_and_an_eviction_closes_it() -> None:
    worker = full()
    arrives(worker, **GATED)
    set_gate(worker, "high", "Open")
    high = worker.workload("high")
    assert is_true(high, "Admitted")
    assert says(high, "BlockedOnPreemptionGates")[:2] == ("False", "QuotaReserved")
    worker.kueue.evict("default", "high", "Test", "away")
    worker.settle()
    (gate,) = worker.workload("high")["status"]["preemptionGates"]
    assert gate["position"] == "Closed"


def test_a_gate_closes_nothing_where_there_is_room() -> None:
    worker = full()
    arrives(worker, name="low-2", priority=5, **GATED)
    assert not is_true(worker.workload("low-2"), "Admitted")
    worker.move(20)
    assert is_true(worker.workload("low-2"), "Admitted"), "the first has finished"


def test_without_kueues_feature_gate_the_field_means_nothing() -> None:
    worker = full(orchestrated=False)
    arrives(worker, **GATED)
    assert is_true(worker.workload("high"), "Admitted")
    assert "preemptionGates" not in worker.workload("high")["status"]
