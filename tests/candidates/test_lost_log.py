"""A source's log that was lost, or put back to before a placement: what runs runs on, and nobody is permitted beside
it, also where it cannot be seen or read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.controllers.candidates.objects import CANDIDATES, HINT_CLUSTER, HINT_POD, PODS
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.decision_pass import PodContext
from controlplane.controllers.candidates.source.delegate_status import restarts_of
from controlplane.controllers.candidates.source.events import (
    CandidateDropped,
    PermitGranted,
    PermitRevoked,
    PlacementFound,
    StatusShown,
)
from controlplane.controllers.candidates.source.observations import CandidateObservationRefused, SourcePodObserved
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE
from controlplane.controllers.candidates.source.state import SourceState
from tests.candidates.stage import NS, Stage, pod

POLICIES = pytest.mark.parametrize("policy", [AT_LEAST_ONCE, NEVER_TWICE])


class LostLogStage(Stage):
    """A stage whose source forgets what its log had. What is `unreadable` of a target is never read; `unread_pod`: what
    is wrong with the source pod."""

    def __init__(self, *targets: str, **policy: Any) -> None:
        super().__init__(*targets, **policy)
        self.unreadable: set[str] = set()
        self.unread_pod: CandidateObservationRefused | None = None

    def lose_the_log(self) -> LostLogStage:
        """Begin with nothing."""
        self.state = SourceState.initial(f"sourcepod/{NS}/web")
        self.decided.clear()
        return self

    def see(self, name: str, store: Any = None) -> None:
        if name not in self.unreadable:
            super().see(name, store)

    @property
    def context(self) -> PodContext:
        unread = {
            name: refusal(CANDIDATES.name, key)
            for name in sorted(self.unreadable)
            for key in self.stores[name]["candidates"]
        }
        return msgspec.structs.replace(super().context, unread={"web": unread}, unread_pod=self.unread_pod)

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.decided if isinstance(event, kind)]


def refusal(kind: str, name: str, uid: str = "web#1") -> CandidateObservationRefused:
    return CandidateObservationRefused(
        kind=kind,
        namespace=NS,
        name=name,
        uid=uid,
        resource_version="1",
        field="status.message",
        error="status.message: expected a string, found int",
        object="",
        pod="web" if kind == CANDIDATES.name else "",
    )


def bound_in_a(**policy: Any) -> LostLogStage:
    stage = LostLogStage("a", "b", **policy)
    stage.delegated("a")
    return stage


@POLICIES
def test_a_delegate_that_the_log_does_not_know_goes_on(policy: str) -> None:
    stage = bound_in_a(execution_policy=policy).lose_the_log()
    stage.look()
    (found,) = stage.told(PlacementFound)
    assert (found.cluster, found.bound, found.reason) == ("a", True, CandidateReason.PERMIT_UNKNOWN)
    assert stage.state.delegate == stage.only("a")
    assert not stage.told(PermitGranted)
    assert not [one for one in stage.told(CandidateDropped) if one.cluster == "a"]


@POLICIES
def test_a_permit_that_the_log_does_not_know_is_waited_for_and_used(policy: str) -> None:
    stage = LostLogStage("a", "b", execution_policy=policy)
    stage.permitted("a")
    stage.reserve("b")
    stage.lose_the_log().look()
    assert stage.state.permit is not None
    assert stage.state.permit.cluster == "a"
    assert not stage.told(PermitGranted)
    stage.target_look("a")
    assert stage.bind("a")
    stage.target_send("a")
    stage.target_turn("a")
    stage.look()
    assert stage.state.delegate == stage.only("a")


@POLICIES
def test_a_permit_that_the_log_does_not_know_is_taken_back_before_another_is_given(policy: str) -> None:
    stage = LostLogStage("a", "b", execution_policy=policy)
    stage.permitted("a")
    stage.reserve("b")
    stage.lose_the_log().look()
    number = stage.told(PlacementFound)[0].number
    stage.tick(60).look()
    assert [one.number for one in stage.told(PermitRevoked)] == [number]
    assert not stage.told(PermitGranted)
    stage.send()
    stage.target_turn("a")
    stage.target_turn("b")
    stage.reserve("b")
    stage.look()
    stage.look()
    assert [one.number > number for one in stage.told(PermitGranted)] == [True]


@POLICIES
def test_who_is_bound_without_a_permit_is_waited_for(policy: str) -> None:
    """Somebody else's scheduler put its Pod on a node: it goes, and until then nobody else is permitted."""
    stage = LostLogStage("a", "b", execution_policy=policy)
    stage.ask()
    key = stage.only("a")
    made = stage.stores["a"]["pods"][key]
    spoiled = {
        **made,
        "spec": {**made["spec"], "nodeName": "n"},
        "metadata": {**made["metadata"], "resourceVersion": "99"},
    }
    stage.stores["a"] = {**stage.stores["a"], "pods": {key: spoiled}}
    stage.target_turn("a")
    stage.reserve("b")
    stage.look()
    assert [one.reason for one in stage.told(CandidateDropped)] == [CandidateReason.BOUND_WITHOUT_PERMIT]
    assert not stage.told(PermitGranted)


def test_an_earlier_pod_that_was_permitted_without_the_logs_knowing_is_waited_for() -> None:
    stage = LostLogStage("a", "b")
    stage.permitted("a")
    stage.home = {**stage.home, "pods": {"web": pod(metadata={"uid": "web#2"})}}
    stage.lose_the_log().look()
    stage.send()
    stage.target_turn("b")
    stage.reserve("b")
    stage.look()
    assert not stage.told(PermitGranted)
    assert not stage.told(PlacementFound)
    assert [one.cluster for one in stage.told(CandidateDropped)] == ["a", "b"]


def say_where(stage: LostLogStage) -> None:
    hints = {HINT_CLUSTER: "a", HINT_POD: stage.only("a")}
    stage.home = {**stage.home, "pods": {"web": pod(metadata={"annotations": hints})}}


@POLICIES
def test_the_target_that_the_pod_names_is_waited_for_while_it_cannot_be_seen(policy: str) -> None:
    stage = bound_in_a(execution_policy=policy).lose_the_log()
    say_where(stage)
    stage.away.add("a")
    stage.ask()
    stage.reserve("b")
    stage.look()
    assert not stage.told(PermitGranted)
    shown = stage.told(StatusShown)[-1]
    assert (shown.reason, "runs in a" in shown.message) == (CandidateReason.DELEGATE_UNSEEN, True)
    stage.away.clear()
    stage.look()
    assert stage.state.delegate == stage.only("a")
    assert not stage.told(PermitGranted)


@POLICIES
def test_so_it_is_where_the_log_knows_that_it_was_asked(policy: str) -> None:
    stage = LostLogStage("a", "b", execution_policy=policy)
    stage.ask()
    asked = stage.state
    stage.delegated("a")
    assert stage.state.delegate == stage.only("a")
    stage.state = asked  # the log was put back to then
    stage.decided.clear()
    say_where(stage)
    stage.away.add("a")
    stage.reserve("b")
    stage.look()
    assert not stage.told(PermitGranted)
    stage.away.clear()
    stage.look()
    assert stage.state.delegate == stage.only("a")


@POLICIES
def test_a_target_that_the_pod_names_and_that_was_given_up_holds_nothing(policy: str) -> None:
    stage = bound_in_a(execution_policy=policy).lose_the_log()
    say_where(stage)
    stage.away.add("a")
    stage.forgotten.add("a")
    stage.ask()
    stage.reserve("b")
    stage.look()
    assert [one.cluster for one in stage.told(PermitGranted)] == ["b"]


@POLICIES
def test_a_candidate_that_was_never_read_is_waited_for(policy: str) -> None:
    stage = bound_in_a(execution_policy=policy).lose_the_log()
    stage.unreadable.add("a")
    stage.ask()
    stage.reserve("b")
    stage.look()
    assert not stage.told(PermitGranted)
    shown = stage.told(StatusShown)[-1]
    assert shown.reason == CandidateReason.CANDIDATE_UNREAD
    assert f"Candidate {NS}/{stage.only('a')} of a cannot be read" in shown.message
    assert "status.message: expected a string, found int" in shown.message
    stage.unreadable.clear()
    stage.look()
    assert stage.state.delegate == stage.only("a")
    assert not stage.told(PermitGranted)


def test_a_candidate_that_was_never_read_on_a_target_that_was_given_up_holds_nothing() -> None:
    stage = bound_in_a().lose_the_log()
    stage.unreadable.add("a")
    stage.forgotten.add("a")
    stage.ask()
    stage.reserve("b")
    stage.look()
    assert [one.cluster for one in stage.told(PermitGranted)] == ["b"]


@pytest.mark.parametrize(("uid", "dropped"), [("web#1", []), ("web#2", ["a", "b"])])
def test_the_candidates_of_a_pod_that_was_never_read_stay(uid: str, dropped: list[str]) -> None:
    """Those of one that had its name before go."""
    stage = bound_in_a().lose_the_log()
    stage.home = {**stage.home, "pods": {}}
    stage.unread_pod = refusal(PODS.name, "web", uid)
    stage.look()
    assert [one.cluster for one in stage.told(CandidateDropped)] == dropped


def test_a_pod_on_a_virtual_node_is_bound_to_it_for_the_log_too() -> None:
    stage = bound_in_a(virtual_nodes=True).lose_the_log()
    stage.home = {**stage.home, "pods": {"web": pod(spec={"nodeName": "candidates-a"})}}
    stage.look()
    assert stage.state.delegate == stage.only("a")
    assert stage.state.committed == "web#1"
    assert isinstance(stage.state.pod, SourcePodObserved)


def test_what_a_pod_has_shown_counts_where_the_log_went_back_to_a_delegate_before() -> None:
    """It had lost that one, and runs by another one that the log does not know."""
    stage = LostLogStage("a", "b").delegated("a")
    stage.home["pods"]["web"]["spec"]["restartPolicy"] = "Always"
    stage.run("a", restarts=1)
    stage.settle()
    stage.lose_pod("a")
    stage.settle()
    before = stage.state
    shown = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 5}]}
    stage.home["pods"]["web"]["status"] |= shown
    stage.state = before
    stage.ask()
    stage.full("a")
    stage.full("b")
    stage.settle()
    assert restarts_of(stage.home["pods"]["web"]["status"]) == {"c": 5}


@POLICIES
def test_so_it_is_where_the_log_knows_of_a_delegate_before(policy: str) -> None:
    """It was lost in `a` and is in `b` since, and the log was put back to when it was in `a`."""
    stage = LostLogStage("a", "b", execution_policy=policy).delegated("a")
    stage.home["pods"]["web"]["spec"]["restartPolicy"] = "Always"
    stage.settle()
    known = stage.state
    stage.lose_pod("a")
    stage.moved("b")
    assert stage.state.delegate == stage.only("b")
    stage.state = known
    stage.decided.clear()
    stage.away.add("b")
    stage.settle()
    stage.reserve("a")
    stage.look()
    assert not stage.told(PermitGranted)
    stage.away.clear()
    stage.look()
    assert stage.state.delegate == stage.only("b")


@POLICIES
def test_a_delegate_that_runs_on_for_a_pod_that_has_ended_is_withdrawn(policy: str) -> None:
    """Its target was given up, so the pod failed; then the log was put back to before, and the target is back."""
    stage = LostLogStage("a", "b", execution_policy=policy).delegated("a")
    stage.home["pods"]["web"]["spec"]["restartPolicy"] = "Never"
    stage.run("a")
    stage.settle()
    known = stage.state
    stage.away.add("a")
    stage.forgotten.add("a")
    stage.settle()
    assert stage.phase() == "Failed"
    stage.state = known
    stage.decided.clear()
    stage.forgotten.clear()
    stage.settle()
    assert not stage.told(CandidateDropped)  # it cannot be seen
    stage.away.clear()
    stage.settle()
    dropped = [(one.cluster, one.reason) for one in stage.told(CandidateDropped)]
    assert dropped == [("a", CandidateReason.SOURCE_TERMINAL)]
    stage.lose_pod("a")  # its kubelet has stopped it
    stage.settle()
    assert stage.there("a") == stage.there("b") == []


def test_a_delegate_that_has_ended_too_stays_for_its_logs() -> None:
    stage = bound_in_a()
    stage.run("a")
    stage.settle()
    known = stage.state
    stage.run("a", "Succeeded")
    stage.settle()
    assert stage.phase() == "Succeeded"
    stage.state = known  # the log was put back to when it ran
    stage.decided.clear()
    stage.settle()
    assert not stage.told(CandidateDropped)
    assert stage.there("a") == [stage.only("a")]
