"""A member of a gang says on its Pod which cluster it comes from, also one whose Pod an earlier version has made."""

from __future__ import annotations

import re

import msgspec

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.events import CandidateObserved, PodAmended, PodMade
from controlplane.controllers.candidates.target.observe import candidate
from controlplane.controllers.candidates.target.render import target_render
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.kube.candidate_pods import SOURCE, SOURCE_UID
from controlplane.kube.kinds import Json
from controlplane.kube.pod_groups import GROUP_NAME, QUORUM
from tests.candidates.stage import Stage
from tests.support.rows import each


def notes(stage: Stage) -> Json:
    found: Json = stage.stores["a"]["pods"][stage.only("a")]["metadata"]["annotations"]
    return found


def made_before(stage: Stage, uid: str = "") -> None:
    """Have the Candidate ask for a gang of two, of which its Pod, which an earlier version made, says the number."""
    key, store = stage.only("a"), stage.stores["a"]
    candidate, found = store["candidates"][key], store["pods"][key]
    if uid:
        candidate = {**candidate, "metadata": {**candidate["metadata"], "annotations": {SOURCE_UID: uid}}}
    metadata = found["metadata"]
    said = {**metadata["annotations"], GROUP_NAME: "g", QUORUM: "2"}
    stage.stores["a"] = {
        **store,
        "candidates": {key: {**candidate, "spec": {**candidate["spec"], "minMember": 2}}},
        "pods": {key: {**found, "metadata": {**metadata, "annotations": said}}},
    }


def test_a_pod_of_before_is_told_its_source_before_it_is_bound_and_once() -> None:
    stage = Stage("a").permitted("a")
    made_before(stage)
    (amended,) = [one for one in stage.target_look("a") if isinstance(one, PodAmended)]
    assert amended.source == "home"
    assert not stage.bind("a")  # it would be bound on the version that is being moved on
    stage.target_turn("a")
    assert notes(stage)[SOURCE] == "home"
    assert notes(stage)[QUORUM] == "2"
    assert not [one for one in stage.target_look("a") if isinstance(one, PodAmended)]
    assert stage.bind("a")


def test_one_that_runs_is_told_too() -> None:
    stage = Stage("a").delegated("a").settle()
    made_before(stage)
    stage.target_turn("a")
    assert notes(stage)[SOURCE] == "home"


def test_a_pod_of_no_group_says_nothing() -> None:
    stage = Stage("a").delegated("a").settle()
    assert SOURCE not in notes(stage)


def test_a_new_pod_says_it_from_the_beginning() -> None:
    stage = Stage("a").ask()
    made_before(stage)
    stage.target_look("a")
    (state,) = stage.sides["a"].values()
    assert isinstance(state, TargetState)
    assert state.seen is not None
    decision = PodMade(template=state.seen.template, token=False, reason="ToBeScheduled")
    body = target_render(state, decision, stage.bodies, stage.target_policy, stage.now).body
    assert body["metadata"]["annotations"][SOURCE] == "home"
    alone = msgspec.structs.replace(state, seen=msgspec.structs.replace(state.seen, least=0))
    body = target_render(alone, decision, stage.bodies, stage.target_policy, stage.now).body
    assert SOURCE not in body["metadata"]["annotations"]


def test_a_member_of_which_an_earlier_version_noted_nothing_is_told_too() -> None:
    stage = Stage("a").delegated("a").settle()
    key, store = stage.only("a"), stage.stores["a"]
    found = store["pods"][key]
    said = {**found["metadata"]["annotations"], GROUP_NAME: "g"}
    stage.stores["a"] = {**store, "pods": {key: {**found, "metadata": {**found["metadata"], "annotations": said}}}}
    state = stage.sides["a"][key]
    assert state.seen is not None
    seen = msgspec.structs.replace(state.seen, changeable=None)
    stage.sides["a"][key] = msgspec.structs.replace(state, seen=seen)
    stage.target_turn("a")
    assert notes(stage)[SOURCE] == "home"


def test_it_says_which_cluster_of_that_name_once_its_candidate_does() -> None:
    stage = Stage("a").delegated("a").settle()
    made_before(stage)
    stage.target_turn("a")
    assert SOURCE_UID not in notes(stage)
    made_before(stage, uid="u1")
    stage.target_turn("a")
    assert (notes(stage)[SOURCE], notes(stage)[SOURCE_UID]) == ("home", "u1")
    assert not [one for one in stage.target_look("a") if isinstance(one, PodAmended)]


def test_a_new_pod_says_which_cluster_made_it_and_one_of_no_group_does_not() -> None:
    stage = Stage("a").ask()
    (found,) = stage.stores["a"]["candidates"].values()
    uid = {"annotations": {SOURCE_UID: "u1"}}
    for least, said in ((2, "u1"), (0, None)):
        spec = {**found["spec"], **({"minMember": least} if least else {})}
        event = candidate(stage.api.shown({**found, "metadata": {**found["metadata"], **uid}, "spec": spec}))[1]
        assert isinstance(event, CandidateObserved)
        (state,) = stage.sides["a"].values()
        assert isinstance(state, TargetState)
        decision = PodMade(template=event.template, token=False, reason=TargetReason.TO_BE_SCHEDULED)
        seen = msgspec.structs.replace(state, seen=event)
        body = target_render(seen, decision, stage.bodies, stage.target_policy, stage.now).body
        assert body["metadata"]["annotations"].get(SOURCE_UID) == said


@each("said", ["a/b", "x" * 64, "-", "ü"])
def test_what_is_no_uid_is_told_apart_all_the_same(said: str) -> None:
    """Streams are named by it."""
    stage = Stage("a").ask()
    (found,) = stage.stores["a"]["candidates"].values()
    shown = {**found, "metadata": {**found["metadata"], "annotations": {SOURCE_UID: said}}}
    event = candidate(stage.api.shown({**shown, "spec": {**found["spec"], "minMember": 2}}))[1]
    assert isinstance(event, CandidateObserved)
    assert re.fullmatch("[0-9a-f]{32}", event.source_uid)
