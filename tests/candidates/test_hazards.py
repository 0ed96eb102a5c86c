"""The hazards H1–H12 of the protocol's forerunner, each as a scenario in which it would bite."""

from __future__ import annotations

import pytest

from controlplane.controllers.candidates.objects import candidate_name
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source.events import CandidateDropped, DelegateLost, PermitGranted, RevokeAcked
from controlplane.controllers.candidates.source.observations import DelegateMissing
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE
from controlplane.controllers.candidates.target import calls as calls
from controlplane.controllers.candidates.target.events import BindFailed, FinalizerReleased, PodRemoved, Unreserved
from tests.candidates.model.api import Refused
from tests.candidates.stage import Stage, pod


def bound(stage: Stage) -> list[str]:
    return [
        name for name in stage.names for made in stage.stores[name]["pods"].values() if made["spec"].get("nodeName")
    ]


def permits(stage: Stage) -> list[PermitGranted]:
    return [event for event in stage.decided if isinstance(event, PermitGranted)]


def test_h1_a_late_bind_is_not_made_after_another_was_permitted() -> None:
    stage = Stage("a", "b").permitted("a")
    stage.target_turn("a")
    stage.reserve("b")
    stage.tick(31).look()  # the lease is over: the source takes it back, and gives nobody else one before the answer
    assert stage.state.permit is not None
    assert stage.state.permit.cluster == "a"
    assert not stage.bind("a"), "the lease is over for the target first"
    stage.send()
    stage.target_turn("a")
    stage.look()
    assert [event.cluster for event in permits(stage)] == ["a", "b"]
    assert not stage.bind("a")


def test_h1_a_bind_that_was_not_heard_of_keeps_others_from_being_permitted() -> None:
    """A lease that is over does not say that no binding was made in it."""
    stage = Stage("a", "b", execution_policy=NEVER_TWICE).permitted("a")
    stage.reserve("b")
    stage.away.add("a")
    stage.target_turn("a")
    assert stage.bind("a")
    stage.target_turn("a")
    stage.tick(3600).look()
    assert bound(stage) == ["a"]
    assert len(permits(stage)) == 1
    stage.away.clear()
    stage.settle()
    assert bound(stage) == ["a"]
    assert stage.there("b") == []


def test_h2_an_old_failure_does_not_make_a_new_binding_look_failed() -> None:
    stage = Stage("a", "b").ask()
    stage.full("a")
    stage.look()
    stage.reserve("a")
    stage.look()
    assert stage.state.permit is not None
    stage.send()
    stage.target_turn("a")
    assert stage.bind("a")
    stage.look()
    assert not [event for event in stage.decided if isinstance(event, RevokeAcked)]
    stage.target_turn("a")
    stage.look()
    assert stage.state.delegate == stage.only("a")


def test_h3_an_old_unschedulable_does_not_hide_a_reservation() -> None:
    stage = Stage("a").ask()
    stage.full("a")
    stage.look()
    assert stage.state.permit is None
    stage.reserve("a")
    stage.look()
    assert stage.state.permit is not None, "permitted at the first sight of it, without any wait"


def test_h4_a_permit_for_a_reservation_that_is_no_more_binds_nothing() -> None:
    stage = Stage("a").ask()
    stage.reserve("a")
    stage.look()
    stage.give_up("a", TargetReason.TIMEOUT)  # in its log; the Candidate still says Reserved
    stage.send()
    stage.target_look("a")
    assert not stage.bind("a")
    stage.reserve("a")
    assert not stage.bind("a"), "the permit was for the reservation before"
    stage.look()
    acked = [event for event in stage.decided if isinstance(event, RevokeAcked)]
    assert [event.reason for event in acked] == [CandidateReason.UNRESERVED]
    assert permits(stage)[-1].reservation == 2


def test_h5_a_new_leader_knows_the_permit_and_gives_no_other() -> None:
    stage = Stage("a", "b").ask()
    stage.reserve("a")
    stage.look()
    stage.reserve("b")
    granted = stage.state.permit
    # Nothing of the old leader is left but the log: the state is its fold, and what it decided is sent by whoever
    # leads.
    assert stage.look() == []
    assert stage.state.permit == granted
    (request,) = [r for r in stage.requests().values() if "permit" in r.body.get("spec", {})]
    assert request.body["spec"]["permit"]["number"] == 1


def test_h6_failures_are_a_value_that_nobody_changes() -> None:
    stage = Stage("a", "b").permitted("a")
    before = stage.state
    stage.give_up("a")
    stage.target_turn("a")
    stage.look()
    assert stage.state.failures == {"a": 1}
    assert before.failures == {}
    with pytest.raises(AttributeError):
        before.failures = {"b": 1}  # type: ignore[misc]


def test_h7_a_delegate_that_cannot_be_reached_is_waited_for_or_replaced_by_policy() -> None:
    waits = Stage("a", "b", execution_policy=NEVER_TWICE).delegated("a")
    waits.away.add("a")
    waits.tick(10**6).look()
    assert waits.state.epoch == 1
    waits.forgotten.add("a")
    waits.look()
    assert waits.state.epoch == 2

    replaced = Stage("a", "b").delegated("a")
    replaced.away.add("a")
    replaced.tick(14 * 60).look()
    assert replaced.state.epoch == 1
    replaced.tick(2 * 60).look()
    assert replaced.state.epoch == 2
    replaced.away.clear()
    replaced.settle()
    old = [made for made in replaced.stores["a"]["pods"].values() if made["spec"].get("nodeName")]
    assert all("deletionTimestamp" in made["metadata"] for made in old), "of an old epoch, it is only deleted"


def test_h8_a_candidate_is_made_once_however_often_it_is_asked_for() -> None:
    stage = Stage("a")
    stage.look()
    (request,) = stage.requests().values()
    stage.carry_out("a", request)
    stage.carry_out("a", request)
    assert len(stage.stores["a"]["candidates"]) == 1
    first = candidate_name("web", "home", "u", 1, "a")
    assert first == candidate_name("web", "home", "u", 1, "a")
    others = [("x", "u", 1, "a"), ("home", "v", 1, "a"), ("home", "u", 2, "a"), ("home", "u", 1, "b")]
    assert first not in {candidate_name("web", *other) for other in others}


def test_h9_one_target_at_a_time_is_asked_to_preempt() -> None:
    stage = Stage("a", "b", "c").ask()
    for name in stage.names:
        stage.full(name, preemptable=True)
        stage.look()
    assert [(event.kind, event.cluster) for event in permits(stage)] == [("Preempt", "a")]
    stage.send()
    stage.target_turn("a")
    stage.target_turn("b")
    may = {n: calls.may_preempt(stage.sides[n][stage.only(n)], stage.target_policy, stage.now) for n in stage.names}
    assert may == {"a": 1, "b": 0, "c": 0}
    stage.full("a", preemptable=True)  # it did not help
    stage.look()
    assert [(event.kind, event.cluster) for event in permits(stage)] == [("Preempt", "a"), ("Preempt", "b")]


def test_h9_a_permit_to_preempt_is_used_up_by_the_node_that_it_brought() -> None:
    stage = Stage("a").ask()
    stage.full("a", preemptable=True)
    stage.look()
    stage.send()
    stage.target_turn("a")
    key = stage.only("a")
    assert calls.may_preempt(stage.sides["a"][key], stage.target_policy, stage.now) == 1
    stage.reserve("a")
    stage.give_up("a")
    assert stage.sides["a"][key].tried == 1
    assert calls.may_preempt(stage.sides["a"][key], stage.target_policy, stage.now) == 0


def test_h9_while_room_is_made_the_permit_holds_and_nobody_else_gets_one() -> None:
    stage = Stage("a", "b").ask()
    for name in stage.names:
        stage.full(name, preemptable=True)
    stage.look()
    stage.send()
    stage.target_turn("a")
    state = stage.sides["a"][stage.only("a")]
    said = calls.not_schedulable(state, stage.target_policy, "0/1", stage.now, preemptable=True, making_room=True)
    assert said is not None
    assert said.tried == 0
    assert calls.not_schedulable(state, stage.target_policy, "0/1", stage.now, preemptable=True).tried == 1
    stage.tick(60).look()
    assert [(event.kind, event.cluster) for event in permits(stage)] == [("Preempt", "a")]
    stage.tick(66).look()
    assert [(event.kind, event.cluster) for event in permits(stage)] == [("Preempt", "a"), ("Preempt", "b")]


def test_h10_a_reservation_without_a_permit_ends_by_itself() -> None:
    stage = Stage("a").ask()
    stage.reserve("a")
    key = stage.only("a")
    assert stage.sides["a"][key].node == "node-a"
    stage.tick(31).target_look("a")
    assert stage.sides["a"][key].node == ""


def test_h11_a_permit_of_an_old_leader_that_comes_late_is_refused() -> None:
    stage = Stage("a", "b").ask()
    stage.reserve("a")
    stage.look()
    late = next(request for key, request in stage.requests().items() if key.startswith("a/"))
    stage.give_up("a")
    stage.target_turn("a")
    with pytest.raises(Refused):
        stage.carry_out("a", late)


def test_h12_a_candidate_stays_until_its_pod_has_stopped_and_so_does_the_next_pod_of_that_name() -> None:
    stage = Stage("a").delegated("a")
    old = stage.only("a")
    stage.home = {"candidates": {}, "pods": {}, "lives": {}}
    stage.look()
    stage.send()
    stage.target_turn("a")
    assert old in stage.stores["a"]["candidates"], "the pod is in its grace period"
    assert "deletionTimestamp" in stage.stores["a"]["pods"][old]["metadata"]
    # A StatefulSet makes the next pod of that name at once.
    stage.home = {"candidates": {}, "pods": {"web": pod(metadata={"uid": "web#2"})}, "lives": {}}
    stage.ask()
    new = next(key for key in stage.sides["a"] if key != old)
    assert new in stage.stores["a"]["pods"]
    event = calls.reserved(stage.sides["a"][new], stage.target_policy, "node-a", 1, stage.now)
    assert event is not None
    stage.target_fold("a", new, event)
    stage.target_turn("a")
    stage.look()
    assert stage.state.permit is None, "not while the one before may still run"
    pods = {key: made for key, made in stage.stores["a"]["pods"].items() if key != old}
    stage.stores["a"] = {**stage.stores["a"], "pods": pods}
    stage.target_turn("a")
    stage.look()
    assert stage.state.permit is not None
    assert stage.state.permit.candidate == new


def test_a_binding_that_nobody_confirmed_is_fenced_before_its_withdrawal_is_acknowledged() -> None:
    stage = Stage("a").permitted("a")
    stage.target_turn("a")
    assert stage.bind("a")
    key = stage.only("a")
    (on_its_way,) = [r for r in stage.target_requests("a") if r.subresource == "binding"]
    stage.target_fold("a", key, BindFailed(number=1, message="504: timeout"))
    stage.target_turn("a")
    with pytest.raises(Refused):
        stage.api.execute(stage.stores["a"], on_its_way)
    assert stage.sides["a"][key].binding is None
    assert stage.bind("a"), "and may be tried again under the same permit"


def test_losers_go_once_one_is_bound_and_a_crash_in_between_changes_nothing() -> None:
    stage = Stage("a", "b", "c").delegated("b")
    dropped = [event.cluster for event in stage.decided if isinstance(event, CandidateDropped)]
    assert dropped == ["a", "c"]
    assert stage.look() == [], "decided and in the log: sent by whoever leads next"
    stage.settle()
    assert (stage.there("a"), stage.there("c")) == ([], [])
    assert bound(stage) == ["b"]


def test_an_unreachable_target_delays_nobody() -> None:
    stage = Stage("a", "b")
    stage.away.add("a")
    stage.permitted("b")
    stage.target_turn("b")
    assert stage.bind("b")
    stage.target_turn("b")
    stage.look()
    assert stage.state.delegate


def test_a_deleted_source_leaves_nothing_anywhere_once_everybody_is_back() -> None:
    stage = Stage("a", "b").ask()
    stage.away.add("b")
    stage.home = {"candidates": {}, "pods": {}, "lives": {}}
    stage.settle()
    assert stage.there("a") == []
    assert stage.there("b")
    stage.away.clear()
    stage.settle()
    assert stage.there("b") == []
    assert stage.state.settled


@pytest.mark.parametrize("policy", [AT_LEAST_ONCE, NEVER_TWICE])
def test_a_delegate_that_was_being_deleted_is_not_waited_for_in_a_target_that_is_forgotten(policy: str) -> None:
    """L4: whoever deleted it there, nobody will ever say that its pod has stopped."""
    stage = Stage("a", "b", execution_policy=policy).delegated("a")
    key, store = stage.only("a"), stage.stores["a"]
    found = store["candidates"][key]
    going = {**found, "metadata": {**found["metadata"], "deletionTimestamp": "now"}}
    stage.stores["a"] = {**store, "candidates": {**store["candidates"], key: going}}
    stage.look()
    assert stage.state.delegate == key
    stage.away.add("a")
    stage.look()
    assert stage.state.delegate == key
    stage.forgotten.add("a")
    said = stage.look()
    assert [event.reason for event in said if isinstance(event, DelegateLost)] == [CandidateReason.TARGET_FORGOTTEN]


def test_a_candidate_that_goes_gives_up_nothing_while_its_binding_may_be_on_its_way() -> None:
    """The reservation is over when the Pod is gone: until then the binding may still be made, and a backup may bring
    the Candidate back.
    """
    stage = Stage("a").permitted("a")
    stage.target_look("a")
    assert stage.bind("a")
    key, store = stage.only("a"), stage.stores["a"]
    found = store["candidates"][key]
    going = {**found, "metadata": {**found["metadata"], "deletionTimestamp": "now"}}
    stage.stores["a"] = {**store, "candidates": {key: going}}
    said = stage.target_look("a")
    assert [type(event) for event in said] == [PodRemoved]
    assert stage.sides["a"][key].held is not None
    stage.stores["a"] = {**stage.stores["a"], "pods": {}}
    said = stage.target_look("a")
    assert [type(event) for event in said] == [Unreserved, FinalizerReleased]


@pytest.mark.parametrize("policy", [AT_LEAST_ONCE, NEVER_TWICE])
def test_a_delegate_whose_pod_is_known_to_be_gone_is_waited_for_by_nobody(policy: str) -> None:
    """L3: what its Candidate says until it is deleted too is not that it runs; least of all once its target cannot be
    reached.
    """
    stage = Stage("a", "b", execution_policy=policy).delegated("a")
    key = stage.only("a")
    stage.lose_pod("a")
    stage.target_turn("a")
    stage.look()
    stage.send()
    stage.look()
    seen = stage.state.candidates[key].seen
    assert isinstance(seen, DelegateMissing)
    assert seen.deleting
    stage.away.add("a")
    stage.target_turn("b")
    stage.reserve("b")
    stage.target_turn("b")
    stage.look()
    assert [event.cluster for event in permits(stage)] == ["a", "b"]
