"""What pods show of the scheduler's work is what kube-scheduler 1.36 would have them show."""

from __future__ import annotations

from tests.scheduling.bench import Bench, ready


def changed(bench: Bench, name: str, generation: int) -> None:
    """Somebody changes the spec of a pod."""
    pod = bench.objects["pods", name]
    bench._store("pods", {**pod, "metadata": pod["metadata"] | {"generation": generation}})


def test_a_condition_says_which_generation_it_is_about() -> None:
    bench = ready("n", cpu="1")
    bench.pod("low")
    changed(bench, "low", 2)
    bench.settle(2)
    bench.pod("high", "2", priority=10)
    changed(bench, "high", 3)
    bench.settle(2)
    assert bench.condition("high")["observedGeneration"] == 3
    bench.pod("next", priority=10)
    bench.once()
    (marked,) = [
        one for one in bench.objects["pods", "low"]["status"]["conditions"] if one["type"] == "DisruptionTarget"
    ]
    assert marked["observedGeneration"] == 2


def test_without_any_node_nothing_is_said_of_nodes() -> None:
    bench = ready()
    bench.pod("p")
    bench.settle(2)
    assert bench.condition("p")["reason"] == "Unschedulable"
    assert bench.condition("p")["message"] == "no nodes available to schedule pods"
    bench.node("n")
    bench.settle(2)
    assert bench.on("p") == "n"


def test_all_nodes_are_looked_at_unless_a_percentage_is_asked_for() -> None:
    bench = ready(*(f"n{number}" for number in range(120)))
    wanted = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n119"]}]}
    preferred = [{"weight": 100, "preference": wanted}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    for number in range(2):
        bench.pod(f"p{number}", "10m", affinity=affinity)
    bench.settle(2)
    assert [bench.on(f"p{number}") for number in range(2)] == ["n119", "n119"]
