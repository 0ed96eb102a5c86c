"""DefaultPreemption: whom it would evict, and where."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling.cycle import schedule
from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.controllers.scheduling.framework.configuration import default_framework
from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST, constraint, node, pod, term


def preempt(incoming: Json, nodes: list[Json], pods: list[Json], **more: Any) -> Json:
    return answer(read({"id": 1, "pod": incoming, "nodes": nodes, "pods": pods, **more}))["preemption"]


def message(incoming: Json, nodes: list[Json], pods: list[Json]) -> str:
    question = read({"pod": incoming, "nodes": nodes, "pods": pods})
    found = schedule(default_framework(), question.snapshot, question.pod)
    assert found.post_filtered is not None
    return " ".join(found.post_filtered.status.reasons)


def running(name: str, on: str, cpu: str = "2", priority: int = 0, started: str = "", **more: Any) -> Json:
    status = {"startTime": started} if started else {}
    return pod(name, more.pop("labels", {}), on=on, requests={"cpu": cpu}, priority=priority, status=status, **more)


URGENT = pod("new", requests={"cpu": "2"}, priority=10)


def test_the_least_important_pods_go() -> None:
    pods = [running("low", "n", priority=1), running("lower", "n", priority=0)]
    assert preempt(URGENT, [node("n")], pods) == {
        "candidates": {"n": {"victims": ["default/lower"], "numPDBViolations": 0}},
        "chosen": ["n"],
    }


def test_of_equal_priority_the_younger_goes() -> None:
    pods = [
        running("young", "n", started="2026-01-02T00:00:00Z"),
        running("old", "n", started="2026-01-01T00:00:00Z"),
    ]
    assert preempt(URGENT, [node("n")], pods)["candidates"]["n"]["victims"] == ["default/young"]


def test_pods_of_the_same_priority_stay() -> None:
    pods = [running("a", "n", priority=10), running("b", "n", priority=10)]
    assert preempt(URGENT, [node("n")], pods) == {"candidates": {}, "chosen": []}
    told = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert message(URGENT, [node("n")], pods) == told


def test_nodes_where_nothing_would_help_are_no_candidates() -> None:
    tainted = node("t", taints=[{"key": "k", "effect": "NoSchedule"}])
    pods = [running("a", "t", cpu="4"), running("b", "n", cpu="4", priority=10)]
    assert preempt(URGENT, [tainted, node("n")], pods)["candidates"] == {}
    assert message(URGENT, [tainted, node("n")], pods) == (
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_never_preempts() -> None:
    polite = pod("new", requests={"cpu": "2"}, priority=10, preemptionPolicy="Never")
    assert preempt(polite, [node("n")], [running("a", "n", cpu="4")]) == {"candidates": {}, "chosen": []}
    told = "preemption: not eligible due to preemptionPolicy=Never."
    assert message(polite, [node("n")], [running("a", "n", cpu="4")]) == told


def test_a_pod_waits_for_the_victims_of_its_last_preemption() -> None:
    nominated = pod("new", requests={"cpu": "2"}, priority=10, status={"nominatedNodeName": "n"})
    going = running("a", "n", cpu="4", meta={"deletionTimestamp": "2026-01-01T00:00:00Z", "uid": "a", "name": "a"})
    going["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    assert "terminating pod on the nominated node" in message(
        nominated, [node("n"), node("m")], [going, running("b", "m", cpu="4")]
    )


def budget(allowed: int, **status: Any) -> Json:
    meta = {"name": "b", "namespace": "default"}
    selector = {"matchLabels": {"app": "a"}}
    return {"metadata": meta, "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed, **status}}


@pytest.mark.parametrize(
    ("budgets", "victims", "violations"),
    [
        ([], ["kept-2", "plain"], 0),  # the sum is 4 of 4 cpu: two have to go, the least important ones
        ([budget(0)], ["kept-2", "plain"], 1),
        ([budget(1)], ["kept-1", "plain"], 0),  # the first one uses the budget up, so the second is spared first
        ([budget(0, disruptedPods={"kept-1": "2026-01-01T00:00:00Z"})], ["kept-1", "plain"], 0),
    ],
)
def test_budgets(budgets: list[Json], victims: list[str], violations: int) -> None:
    pods = [
        running("kept-1", "n", cpu="1", priority=3, labels={"app": "a"}),
        running("kept-2", "n", cpu="1", priority=2, labels={"app": "a"}),
        running("plain", "n", cpu="2", priority=1),
    ]
    wide = pod("new", requests={"cpu": "3"}, priority=10)
    found = preempt(wide, [node("n")], pods, podDisruptionBudgets=budgets)["candidates"]["n"]
    assert (found["victims"], found["numPDBViolations"]) == ([f"default/{name}" for name in victims], violations)


@pytest.mark.parametrize(
    ("on_a", "on_b", "chosen"),
    [
        ([("x", 1, "", {"app": "a"})], [("y", 5, "", {})], ["b"]),  # fewer violations
        ([("x", 1, "", {})], [("y", 5, "", {})], ["a"]),  # lower highest priority
        ([("x", 5, "", {}), ("w", 4, "", {})], [("y", 5, "", {}), ("v", 3, "", {})], ["b"]),  # lower sum
        ([("x", 5, "2026-01-01T00:00:00Z", {})], [("y", 5, "2026-01-02T00:00:00Z", {})], ["b"]),  # started later
        ([("x", 5, "", {})], [("y", 5, "", {})], ["a", "b"]),
    ],
)
def test_which_node(on_a: list[Any], on_b: list[Any], chosen: list[str]) -> None:
    pods = [
        running(name, where, cpu=str(4 // len(listed)), priority=priority, started=started, labels=labels)
        for where, listed in (("a", on_a), ("b", on_b))
        for name, priority, started, labels in listed
    ]
    whole = pod("new", requests={"cpu": "4"}, priority=10)
    assert preempt(whole, [node("a"), node("b")], pods, podDisruptionBudgets=[budget(0)])["chosen"] == chosen


def test_the_state_of_other_plugins_follows_the_dry_run() -> None:
    """Evicting the pod that repels the new one is enough, and so is evicting the one that skews its spread."""
    hostile = pod(
        "h",
        {"app": "h"},
        on="n",
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(HOST)]}},
    )
    other = pod("o", {"app": "o"}, on="n")
    found = preempt(pod("new", {"app": "a"}, priority=10), [node("n")], [hostile, other])
    assert found["candidates"]["n"]["victims"] == ["default/h"]
    skewed = pod("new", {"app": "a"}, priority=10, topologySpreadConstraints=[constraint(HOST)])
    full = node("m", allocatable={"pods": "0"})
    found = preempt(skewed, [node("n"), full], [pod("p", {"app": "a"}, on="n"), other])
    assert found["candidates"] == {"n": {"victims": ["default/p"], "numPDBViolations": 0}}


def test_of_pods_that_have_not_started_the_last_is_the_most_important() -> None:
    pods = [running(name, "n", cpu="1") for name in ("a", "b", "c", "d")]
    assert preempt(URGENT, [node("n")], pods)["candidates"]["n"]["victims"] == ["default/b", "default/a"]
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}}
    guarded = [running("a", "n", cpu="1", labels={"app": "a"}), *pods[1:]]
    found = preempt(pod("new", requests={"cpu": "4"}, priority=10), [node("n")], guarded, podDisruptionBudgets=[budget])
    assert found["candidates"]["n"] == {"victims": [f"default/{name}" for name in "bcda"], "numPDBViolations": 1}


def test_a_victim_is_told_with_its_namespace() -> None:
    pods = [
        running(name, "n", cpu="2", priority=1, meta={"namespace": space, "name": name, "uid": space})
        for name, space in WEBS
    ]
    found = preempt(URGENT, [node("n")], pods)["candidates"]["n"]["victims"]
    assert set(found) <= {"shop/web", "bank/web"}
    assert found


WEBS = (("web", "shop"), ("web", "bank"))
