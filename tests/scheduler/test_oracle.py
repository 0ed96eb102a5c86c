"""PodTopologySpread and InterPodAffinity say what the rules say when they are followed pod by pod."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.kube.kinds import Json
from tests.scheduler import oracle
from tests.scheduler.objects import HOST, ZONE, constraint, node, pod, term
from tests.scheduler.scenarios import scenarios
from tests.support.deep import examples

GENERATED = settings(
    max_examples=examples(20, 120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def codes(found: Json) -> dict[str, str]:
    return {node: status["code"] for node, status in found["filter"].items()}


@pytest.mark.generated
@GENERATED
@given(scenarios())
def test_spread(scenario: Json) -> None:
    question = read(scenario | {"only": ["PodTopologySpread"]})
    assume(question.pod.spread)
    found = answer(question)["perPlugin"]["PodTopologySpread"]
    expected = oracle.spread_filter(question)
    assert found["preFilter"]["code"] == ("Skip" if expected is None else "Success")
    assert codes(found) == (expected or {})
    scores = oracle.spread_scores(question)
    assert found["preScore"]["code"] == ("Skip" if scores is None else "Success")
    assert found["score"] == {node: list(pair) for node, pair in (scores or {}).items()}


def crowded(seed: int) -> Json:
    """Return a cluster with many pods of few kinds on nodes of few zones, where skews are common."""
    chance = random.Random(seed)
    nodes = [
        node(f"n{at}", {ZONE: f"z{chance.randrange(3)}"} if chance.random() < 0.9 else {})
        for at in range(chance.randint(2, 7))
    ]
    for one in nodes:
        if chance.random() < 0.2:
            one["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    pods = []
    for at in range(chance.randint(5, 25)):
        made = pod(
            f"p{at}",
            {"app": chance.choice("aab"), "rev": chance.choice("12")},
            on=chance.choice(nodes)["metadata"]["name"],
        )
        if chance.random() < 0.1:
            made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if chance.random() < 0.3:
            terms = [term(chance.choice([HOST, ZONE]), {"app": chance.choice("ab")})]
            weighted = [{"weight": chance.randint(1, 100), "podAffinityTerm": terms[0]}]
            kind = chance.choice(["podAffinity", "podAntiAffinity"])
            required, preferred = (
                f"{when}DuringSchedulingIgnoredDuringExecution" for when in ("required", "preferred")
            )
            made["spec"]["affinity"] = {kind: chance.choice([{required: terms}, {preferred: weighted}])}
        pods.append(made)
    constraints = []
    for _ in range(chance.randint(1, 3)):
        more = {"matchLabelKeys": ["rev"]} if chance.random() < 0.3 else {}
        more |= {"minDomains": chance.randint(1, 4)} if chance.random() < 0.3 else {}
        more |= {"nodeTaintsPolicy": "Honor"} if chance.random() < 0.3 else {}
        when = chance.choice(["DoNotSchedule", "ScheduleAnyway"])
        constraints.append(constraint(chance.choice([HOST, ZONE]), chance.randint(1, 4), when, **more))
    incoming = pod(
        "new", {"app": chance.choice("ab"), "rev": chance.choice("12")}, topologySpreadConstraints=constraints
    )
    return {"id": seed, "pod": incoming, "nodes": nodes, "pods": pods}


@pytest.mark.generated
def test_crowded_clusters() -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(50, 300)):
        question = read(crowded(seed))
        found = answer(question)["perPlugin"]
        spread = found["PodTopologySpread"]
        assert codes(spread) == (oracle.spread_filter(question) or {}), seed
        assert spread["score"] == {name: list(pair) for name, pair in (oracle.spread_scores(question) or {}).items()}, (
            seed
        )
        affinity, expected = found["InterPodAffinity"], oracle.affinity_filter(question)
        assert codes(affinity) == (expected if affinity["preFilter"]["code"] == "Success" else {}), seed
        if affinity["score"]:
            assert {name: pair[0] for name, pair in affinity["score"].items()} == oracle.affinity_scores(question), seed
        for plugin in (spread, affinity):
            seen.update(status["code"] for status in plugin["filter"].values())
    assert min(seen["Success"], seen["Unschedulable"], seen["UnschedulableAndUnresolvable"]) > examples(
        4, 40
    )  # none of it is rare here


@pytest.mark.generated
@GENERATED
@given(scenarios())
def test_affinity(scenario: Json) -> None:
    question = read(scenario | {"only": ["InterPodAffinity"]})
    found = answer(question)["perPlugin"]["InterPodAffinity"]
    expected = oracle.affinity_filter(question)
    if found["preFilter"]["code"] == "Skip":
        assert set(expected.values()) <= {"Success"}
    else:
        assert codes(found) == expected
    scores = oracle.affinity_scores(question)
    if found["preScore"]["code"] == "Skip":
        assert not any(scores.values())
    else:
        assert {node: pair[0] for node, pair in found["score"].items()} == scores


@pytest.mark.generated
@GENERATED
@given(scenarios())
def test_what_is_simulated_is_what_would_be_counted(scenario: Json) -> None:
    """A pod that is there from the start counts as much as one that comes later.

    Not so, as in kube-scheduler: one that terminates, and any pod for an empty selector. Both are counted only when
    they come late."""
    question = read(scenario)
    assume(not any(oracle.selector_of(constraint, question.pod).everything for constraint in question.pod.spread))
    live = [pod for pod in scenario["pods"] if "deletionTimestamp" not in pod["metadata"]]
    names = {node["metadata"]["name"] for node in scenario["nodes"]}
    moved = next((pod for pod in live if pod["spec"]["nodeName"] in names), None)
    assume(moved is not None)
    assert moved is not None
    rest = [pod for pod in scenario["pods"] if pod is not moved]
    change = {"op": "add", "pod": moved, "node": moved["spec"]["nodeName"]}
    only = {"only": ["PodTopologySpread", "InterPodAffinity"]}
    there = answer(read(scenario | only))["perPlugin"]
    later = answer(read(scenario | only | {"pods": rest, "simulate": [change]}))["perPlugin"]
    gone = answer(read(scenario | only | {"simulate": [change | {"op": "remove"}]}))["perPlugin"]
    never = answer(read(scenario | only | {"pods": rest}))["perPlugin"]
    for one, other in ((there, later), (never, gone)):
        for name in ("PodTopologySpread", "InterPodAffinity"):
            if (
                one[name]["preFilter"]["code"] == other[name]["preFilter"]["code"]
            ):  # a skipped plugin is not told of changes
                assert codes(one[name]) == codes(other[name])
