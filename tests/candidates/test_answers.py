"""A target that refuses, or is silent, is a no with its reason: it is waited for no longer, and comes back when it
answers.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import CandidateRequested, CandidateWriteFailed, PermitGranted
from controlplane.controllers.candidates.source.pod_status import silence
from controlplane.controllers.candidates.source.policy import NEVER_TWICE, PlacementPolicy
from controlplane.controllers.candidates.target.decide import target_decide
from controlplane.controllers.candidates.target.events import HERE, PodMade, TargetWriteFailed
from tests.candidates.stage import NS, Stage

ANSWER = 30  # seconds: the default


def refuses_pods(stage: Stage, name: str, code: int, message: str) -> None:
    """Have a target's API server say no to the candidate's Pod."""
    stage.look()
    stage.send()
    stage.target_look(name)
    key = stage.only(name)
    failed = TargetWriteFailed(
        target=f"{HERE}/Pod",
        action=PodMade.__name__,
        code=code,
        error="Forbidden",
        message=message,
        failures=1,
        retry_at=stage.now.replace(year=2030),
    )
    stage.target_fold(name, key, failed)
    stage.target_turn(name)
    stage.look()


def permits(stage: Stage) -> list[tuple[str, str]]:
    return [(said.cluster, said.kind) for said in stage.decided if isinstance(said, PermitGranted)]


def shown(stage: Stage) -> str:
    for _ in range(2):
        stage.look()
        stage.send()
    return stage.said()


REFUSED = {
    "no ServiceAccount": (403, 'pods "web" is forbidden: error looking up service account team/runner'),
    "PodSecurity": (403, 'pods "web" is forbidden: violates PodSecurity "restricted:latest"'),
    "quota": (403, 'pods "web" is forbidden: exceeded quota: small'),
    "no namespace": (404, 'namespaces "team" not found'),
}


@pytest.mark.parametrize(("code", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_target_whose_api_server_refuses_the_pod_says_so(code: int, message: str) -> None:
    stage = Stage("a", "b")
    refuses_pods(stage, "a", code, message)
    stage.target_turn("b")
    stage.full("b")
    assert message in shown(stage)
    key = stage.only("a")
    assert stage.stores["a"]["candidates"][key]["status"]["reason"] == TargetReason.POD_NOT_CREATED


def test_it_is_taken_again_once_its_pod_can_be_made() -> None:
    stage = Stage("a")
    refuses_pods(stage, "a", 403, "exceeded quota")
    stage.now = stage.now.replace(year=2030)  # what was refused is tried again then
    stage.target_turn("a")
    stage.reserve("a")
    stage.look()
    assert permits(stage) == [("a", "Bind")]


def test_a_refused_pod_is_tried_no_sooner_than_its_time() -> None:
    stage = Stage("a")
    refuses_pods(stage, "a", 403, "exceeded quota")
    state = stage.sides["a"][stage.only("a")]
    plan = target_decide(state, stage.target_context("a"), stage.now)
    assert plan.decisions == []
    assert plan.wake == stage.now.replace(year=2030)


def test_room_is_made_elsewhere_while_one_target_is_silent() -> None:
    stage = Stage("a", "b")
    stage.look()
    stage.send()
    stage.target_turn("b")
    stage.full("b", preemptable=True)
    stage.look()
    assert permits(stage) == []  # "a" may still have room
    assert stage.wake is not None
    assert (stage.wake - stage.now).total_seconds() == ANSWER
    stage.tick(ANSWER).look()
    assert permits(stage) == [("b", "Preempt")]


def test_a_silent_target_is_named_on_the_pod_and_comes_back_when_it_answers() -> None:
    stage = Stage("a", "b")
    stage.look()
    stage.send()
    stage.target_turn("b")
    stage.full("b")
    stage.look()
    assert shown(stage) == ""
    stage.tick(ANSWER)
    said = shown(stage)
    assert "a: no answer within 30 s: is its scheduler running? If it is, its profile may be in waitForGroup of" in said
    assert "b: 0/1 nodes: no room" in said
    stage.target_turn("a")
    stage.reserve("a")
    stage.look()
    assert permits(stage) == [("a", "Bind")]


def test_what_is_said_of_silence_about_a_pod_that_names_its_group() -> None:
    stage = Stage("a")
    stage.home["pods"]["web"]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    stage.look()
    assert silence(PodPass(stage.state, stage.context, stage.now)) == "no answer within 30 s: is its scheduler running?"


def test_one_that_gave_up_its_node_and_then_says_nothing_is_silent_too() -> None:
    stage = Stage("a", "b").ask()
    stage.full("b", preemptable=True)
    stage.reserve("a")
    stage.give_up("a")
    stage.target_turn("a")
    stage.look()
    assert permits(stage) == []
    stage.tick(ANSWER).look()
    assert permits(stage) == [("b", "Preempt")]


def test_a_reservation_that_lapsed_long_ago_is_no_offer() -> None:
    """Its scheduler is down, its API server still shows what was reserved: a permit for that would be answered by
    nobody.
    """
    stage = Stage("a", "b", execution_policy=NEVER_TWICE).ask()
    stage.reserve("a")
    stage.tick(60).look()
    assert permits(stage) == []
    stage.full("b")
    assert "a: no answer within 30 s" in shown(stage)
    stage.target_turn("a")  # it is back, and gives up what nobody permitted
    stage.reserve("a")
    stage.look()
    assert permits(stage) == [("a", "Bind")]


def failed(stage: Stage, name: str, code: int, message: str) -> None:
    """Have a target's API server say no to the Candidate itself."""
    stage.look()
    (requested,) = [
        e.decision
        for e in stage.state.effects.values()
        if isinstance(e.decision, CandidateRequested) and e.decision.cluster == name
    ]
    no = CandidateWriteFailed(
        target=requested.target,
        action=CandidateRequested.__name__,
        code=code,
        error="NotFound",
        message=message,
        failures=1,
        retry_at=stage.now.replace(year=2030),
    )
    stage.fold(no, name)


def test_a_target_that_does_not_take_the_candidate_is_a_no_at_once() -> None:
    stage = Stage("a", "b")
    failed(stage, "a", 404, 'namespaces "team" not found')
    stage.send()
    stage.target_turn("b")
    stage.full("b", preemptable=True)
    stage.look()
    assert permits(stage) == [("b", "Preempt")]


def test_a_refused_candidate_says_why() -> None:
    stage = Stage("a", "b")
    failed(stage, "a", 403, "candidates is forbidden")
    stage.send()
    stage.target_turn("b")
    stage.full("b")
    assert "a: candidates is forbidden" in shown(stage)


def test_an_accident_is_no_answer_before_its_time() -> None:
    stage = Stage("a", "b")
    failed(stage, "a", 500, "etcd is away")
    stage.send()
    stage.target_turn("b")
    stage.full("b", preemptable=True)
    stage.look()
    assert permits(stage) == []
    stage.tick(ANSWER).look()
    assert permits(stage) == [("b", "Preempt")]


SPREAD: dict[str, Any] = {"placement": PlacementPolicy(max_skew=1)}


def test_a_target_that_refuses_for_good_is_no_place_to_spread_to() -> None:
    stage = Stage("a", "b", **SPREAD)
    stage.counts = {"a": 1}
    refuses_pods(stage, "b", 403, "violates PodSecurity")
    stage.target_turn("a")
    stage.reserve("a")
    stage.look()
    assert permits(stage) == [("a", "Bind")]


def test_nor_is_one_that_is_silent_for_too_long() -> None:
    stage = Stage("a", "b", **SPREAD)
    stage.counts = {"a": 1}
    stage.look()
    stage.send()
    stage.target_turn("a")
    stage.reserve("a")
    stage.look()
    assert permits(stage) == []  # "b" may still take it
    assert stage.wake is not None
    stage.tick(ANSWER - 1)
    stage.target_turn("a")
    stage.tick(1).look()
    assert permits(stage) == [("a", "Bind")]


def test_one_that_is_only_full_stays_one() -> None:
    stage = Stage("a", "b", **SPREAD)
    stage.counts = {"a": 1}
    stage.ask()
    stage.reserve("a")
    stage.full("b")
    stage.look()
    assert permits(stage) == []
    assert stage.state.permit is None


def test_a_silent_permit_frees_nobody_and_is_said_under_never_twice() -> None:
    stage = Stage("a", "b", execution_policy=NEVER_TWICE).permitted("a")
    stage.reserve("b")
    stage.tick(70)
    said = shown(stage)
    assert "a was permitted to run it and does not say whether it does" in said
    assert permits(stage) == [("a", "Bind")]
    shows = [event for event in stage.decided if getattr(event, "reason", None) == CandidateReason.AWAITS_ANSWER]
    assert len(shows) == 1


def test_the_first_request_begins_the_wait_and_no_later_one() -> None:
    stage = Stage("a", "b")
    failed(stage, "a", 500, "etcd is away")
    stage.tick(20)
    (name,) = [name for name, known in stage.state.candidates.items() if known.cluster == "a"]
    stage.fold(stage.decided[1], "a")
    known = stage.state.candidates[name]
    assert known.waits_since is not None
    assert (stage.now - known.waits_since).total_seconds() == 20
    assert stage.state.namespace == NS
