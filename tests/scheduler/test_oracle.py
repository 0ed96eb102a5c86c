"""PodTopologySpread and InterPodAffinity say what the rules say when they are followed pod by pod."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from controlplane.kube import Json
from controlplane.scheduler.evaluate.answer import answer
from controlplane.scheduler.evaluate.question import read
from tests.scheduler import oracle
from tests.scheduler.scenarios import scenarios

GENERATED = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def codes(found: Json) -> dict[str, str]:
    return {node: status["code"] for node, status in found["filter"].items()}


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


@GENERATED
@given(scenarios())
def test_what_is_simulated_is_what_would_be_counted(scenario: Json) -> None:
    """A pod that is there from the start counts as much as one that comes later.

    Not so, as in kube-scheduler: one that terminates, and any pod for an empty selector. Both are counted only when they come late.
    """
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
