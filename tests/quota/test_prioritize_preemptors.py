"""What victims leave is kept for whom they were preempted for, where that is asked for; as with Kueue's gate of that
name.

The fleet is that of Kueue's own integration test of the gate (kubernetes-sigs/kueue
test/integration/singlecluster/scheduler/fairsharing, ff69552e): two victims of one preemptor, which leave one after the
other."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Preempt
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.state import State
from controlplane.kube.kinds import Json


def fleet(settings: EngineSettings, strategy: str) -> State:
    """One queue that owns the CPUs and one that owns the memory, of a Cohort, which reclaim from each other."""
    state = State(settings)
    state.put_namespace("ns", {}, 0)
    state.put_flavor(parse_queues.resource_flavor({"metadata": {"name": "f"}, "spec": {}}), 0)
    for name, cpu, memory in (("owner", "10", "0"), ("other", "0", "10")):
        quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": memory}]
        spec = {
            "cohortName": "all",
            "namespaceSelector": {},
            "queueingStrategy": strategy,
            "preemption": {"reclaimWithinCohort": "Any"},
            "resourceGroups": [
                {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "f", "resources": quotas}]}
            ],
        }
        state.put_cluster_queue(parse_queues.cluster_queue({"metadata": {"name": name}, "spec": spec}), 0)
        local = {"metadata": {"namespace": "ns", "name": name}, "spec": {"clusterQueue": name}}
        state.put_local_queue(parse_queues.local_queue(local))
    return state


def workload(name: str, queue: str, cpu: str, memory: str, priority: int) -> Json:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def cycles(state: State, count: int) -> list[str]:
    """Return who is admitted in some cycles."""
    admitted = []
    for _ in range(count):
        decided = decide(state, 1)
        admitted += [one.workload for one in decided if isinstance(one, Admit)]
        state.apply(decided, 1)
    return admitted


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_victim_does_not_come_back_while_another_is_on_its_way(strategy: str, prioritized: bool) -> None:
    state = fleet(EngineSettings(fair_sharing=True, prioritize_preemptors=prioritized), strategy)
    victims = {name: workload(name, "other", "1", "0", 100) for name in ("a", "b")}
    for one in victims.values():
        state.put_workload(parse_workloads.workload(one), 0)
    assert sorted(cycles(state, 3)) == ["ns/a", "ns/b"]

    state.put_workload(parse_workloads.workload(workload("preemptor", "owner", "10", "10", 0)), 1)
    (preempting,) = decide(state, 1)
    assert isinstance(preempting, Preempt)
    assert sorted(one.workload for one in preempting.victims) == ["ns/a", "ns/b"]
    state.apply([preempting], 1)

    state.put_workload(parse_workloads.workload(victims["a"]), 2)  # it has left, and waits again
    assert cycles(state, 3) == ([] if prioritized else ["ns/a"])
    if prioritized:
        state.put_workload(parse_workloads.workload(victims["b"]), 3)
        assert cycles(state, 3) == ["ns/preemptor"]


def test_who_goes_does_not_keep_anything() -> None:
    state = fleet(EngineSettings(fair_sharing=True, prioritize_preemptors=True), "BestEffortFIFO")
    for name in ("a", "b"):
        state.put_workload(parse_workloads.workload(workload(name, "other", "1", "0", 100)), 0)
    cycles(state, 3)
    state.put_workload(parse_workloads.workload(workload("preemptor", "owner", "10", "10", 0)), 1)
    state.apply(decide(state, 1), 1)
    state.put_workload(parse_workloads.workload(workload("a", "other", "1", "0", 100)), 2)
    state.drop_workload("ns/preemptor", 2)
    assert cycles(state, 2) == ["ns/a"]
