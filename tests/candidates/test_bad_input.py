"""What cannot be placed is told why, on the pod and in the log; the others go on."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.candidates.constraints import problem
from controlplane.controllers.candidates.objects import CANDIDATE_LABEL, SOURCE_LABEL
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source.events import ElectionRefused
from tests.candidates.stage import Stage, pod
from tests.support.rows import each

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
BAD: list[tuple[dict[str, Any], CandidateReason, str]] = [
    (
        {"metadata": {"annotations": {"candidates.controlplane.dev/allowed": "1"}}},
        CandidateReason.FORGED_ANNOTATION,
        "/allowed",
    ),
    ({"metadata": {"labels": {CANDIDATE_LABEL: "x"}}}, CandidateReason.FORGED_ANNOTATION, CANDIDATE_LABEL),
    (
        {"metadata": {"annotations": {"candidates.controlplane.dev/max-wait": "1h"}}},
        CandidateReason.INVALID_OPTION,
        '"1h"',
    ),
    (
        {"metadata": {"annotations": {"candidates.controlplane.dev/targets": "z"}}},
        CandidateReason.UNKNOWN_TARGET,
        '"z"',
    ),
    (
        {"spec": {"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]}},
        CandidateReason.INVALID_CONSTRAINT,
        "spec.topologySpreadConstraints[0].maxSkew",
    ),
    ({"spec": {"schedulingGates": [{"name": "g"}]}}, CandidateReason.GATED, "scheduling gates"),
    ({"spec": {"nodeName": "n"}}, CandidateReason.BOUND_ELSEWHERE, "spec.nodeName"),
]


@each(("more", "reason", "named"), BAD, ids=[f"{r}-{n}" for _, r, n in BAD])
def test_a_source_pod_that_cannot_be_elected_says_why(
    more: dict[str, Any], reason: CandidateReason, named: str
) -> None:
    stage = Stage("a")
    stage.home["pods"]["web"] = pod(**more)
    stage.settle()
    refused = [event for event in stage.decided if isinstance(event, ElectionRefused)]
    assert [event.reason for event in refused] == [reason]
    assert named in refused[0].message
    assert stage.said() == refused[0].message
    assert stage.there("a") == []
    assert stage.look() == [], "said once"


def test_a_pod_that_was_mended_is_elected() -> None:
    stage = Stage("a")
    stage.home["pods"]["web"] = pod(spec={"schedulingGates": [{"name": "g"}]})
    stage.settle()
    stage.home["pods"]["web"] = {**stage.home["pods"]["web"], "spec": pod()["spec"]}
    stage.settle()
    assert stage.there("a")


def test_a_namespace_that_is_not_allowed_is_said() -> None:
    stage = Stage("a")
    stage.policy = type(stage.policy)(cluster="home", namespaces=frozenset({"other"}))
    stage.settle()
    assert 'namespace "team" may not send candidates' in stage.said()


def test_a_target_that_does_not_invite_the_namespace_is_named_and_the_others_go_on() -> None:
    stage = Stage("a", "b")
    stage.uninvited.add("a")
    stage.ask().full("b")
    stage.settle()
    assert 'a: cluster "home" is not invited into namespace "team"' in stage.said()
    assert "b: 0/1 nodes: no room" in stage.said()
    stage.reserve("b")
    stage.settle()
    assert stage.bind("b")
    stage.settle()
    assert stage.state.delegate == stage.only("b")


def test_an_unknown_priority_class_is_refused_by_the_target_by_name() -> None:
    stage = Stage("a")
    stage.home["pods"]["web"] = pod(spec={"priorityClassName": "highest"})
    stage.settle()
    assert '"highest" does not exist in this cluster' in stage.said()
    assert stage.stores["a"]["pods"] == {}


def forged(stage: Stage, change: Any) -> str:
    """Put a Candidate there that no source of ours would make; return the reason of its refusal."""
    stage.look()
    (request,) = stage.requests().values()
    change(request.body)
    stage.carry_out("a", request)
    stage.target_turn("a")
    (obj,) = stage.stores["a"]["candidates"].values()
    assert obj["status"]["phase"] == "Refused"
    assert stage.stores["a"]["pods"] == {}
    return str(obj["status"]["reason"])


def test_a_forged_mark_in_a_template_is_refused_by_the_target() -> None:
    def forge(body: Any) -> None:
        body["spec"]["template"]["metadata"]["labels"][CANDIDATE_LABEL] = "other"

    assert forged(Stage("a"), forge) == TargetReason.FORGED_ANNOTATION


def test_a_claim_to_be_another_cluster_is_refused_by_the_target() -> None:
    def forge(body: Any) -> None:
        body["metadata"]["labels"][SOURCE_LABEL] = "another"

    assert forged(Stage("a"), forge) == TargetReason.FORGED_ANNOTATION


def test_an_invalid_pod_in_a_candidate_is_refused_by_the_target() -> None:
    def forge(body: Any) -> None:
        body["spec"]["template"]["spec"]["containers"] = []

    assert forged(Stage("a"), forge) == TargetReason.INVALID_POD


SELECTOR = {"matchExpressions": [{"key": "k", "operator": "Is", "values": ["v"]}]}
NODE = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}


@each(
    ("more", "field"),
    [
        ({"topologySpreadConstraints": [{**SPREAD, "maxSkew": True}]}, "[0].maxSkew"),
        ({"topologySpreadConstraints": [{**SPREAD, "topologyKey": ""}]}, "[0].topologyKey"),
        ({"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "Never"}]}, "[0].whenUnsatisfiable"),
        (
            {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]},
            "minDomains",
        ),
        ({"topologySpreadConstraints": [SPREAD, SPREAD]}, "there twice"),
        ({"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["k"]}]}, "matchLabelKeys"),
        ({"topologySpreadConstraints": [{**SPREAD, "labelSelector": SELECTOR}]}, "[0].operator"),
        ({"affinity": {"nodeAffinity": NODE}}, "nodeSelectorTerms"),
        ({"containers": []}, "spec.containers"),
    ],
)
def test_a_constraint_that_cannot_be_is_named(more: dict[str, Any], field: str) -> None:
    assert field in problem({"containers": [{"name": "c"}], **more})


def test_a_good_spec_has_no_problem() -> None:
    assert problem({"containers": [{"name": "c"}], "topologySpreadConstraints": [SPREAD]}) == ""
