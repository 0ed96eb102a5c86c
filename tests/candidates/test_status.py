"""The source pod's status: its delegate's, monotone, never back from the end; and what happens to it when a delegate is
lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.objects import HINT_CLUSTER, HINT_NAMESPACE, HINT_POD
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.delegate_status import DELEGATED, later, mirrored, rank
from controlplane.controllers.candidates.source.events import DelegateLost
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE
from tests.candidates.stage import NS, Stage, pod

PHASES = ["Pending", "Running", "Succeeded", "Failed", "Unknown", ""]


@given(st.lists(st.sampled_from(PHASES), max_size=12))
def test_a_phase_never_goes_back_and_an_end_stays(said: list[str]) -> None:
    shown = "Pending"
    for phase in said:
        after = later(shown, phase)
        assert rank(after) >= rank(shown)
        assert rank(shown) < 2 or after == shown
        shown = after


@given(st.lists(st.tuples(st.sampled_from(["run", "lose", "look", "late"]), st.integers(0, 3)), max_size=8))
def test_whatever_happens_the_source_pod_only_goes_forward(story: list[tuple[str, int]]) -> None:
    stage = Stage("a", "b").delegated("a")
    stage.home["pods"]["web"]["spec"]["restartPolicy"] = "Always"
    stage.settle()
    seen = [stage.phase()]
    for what, number in story:
        where = next(
            (n for n in stage.names if any(p["spec"].get("nodeName") for p in stage.stores[n]["pods"].values())), ""
        )
        if what == "run" and where:
            stage.run(where, "Running", number)
        elif what == "lose" and where:
            stage.lose_pod(where)
        elif what == "late" and where:
            stage.tick(1)
        stage.settle()
        for name in stage.names:
            if not where or stage.state.delegate:
                break
            if stage.sides[name] and not stage.sides[name][stage.only(name)].held:
                stage.reserve(name)
                stage.settle()
                stage.bind(name)
                stage.settle()
        seen.append(stage.phase())
    ranks = [rank(phase) for phase in seen]
    assert ranks == sorted(ranks)


def test_the_delegates_status_is_shown_with_where_it_is() -> None:
    stage = Stage("a", "b").delegated("a")
    stage.run("a", "Running", 2)
    stage.settle()
    shown = stage.home["pods"]["web"]
    assert shown["status"]["phase"] == "Running"
    assert shown["status"]["containerStatuses"][0]["restartCount"] == 2
    conditions = {entry["type"]: entry["status"] for entry in shown["status"]["conditions"]}
    assert conditions == {DELEGATED: "True", "PodScheduled": "True", "Ready": "True"}
    hints = {HINT_CLUSTER: "a", HINT_NAMESPACE: NS, HINT_POD: stage.only("a")}
    assert shown["metadata"]["annotations"] == hints
    assert stage.look() == []
    assert stage.requests() == {}


@pytest.mark.parametrize(("policy", "phase", "epoch"), [("Never", "Failed", 1), ("Always", "Running", 2)])
def test_a_started_pod_whose_delegate_is_lost(policy: str, phase: str, epoch: int) -> None:
    stage = Stage("a", "b")
    stage.home["pods"]["web"] = pod(spec={"restartPolicy": policy})
    stage.delegated("a")
    stage.run("a", "Running", 4)
    stage.settle()
    stage.lose_pod("a")
    stage.settle()
    status = stage.home["pods"]["web"]["status"]
    assert (status["phase"], stage.state.epoch) == (phase, epoch)
    conditions = {entry["type"]: entry["status"] for entry in status["conditions"]}
    assert conditions["Ready"] == "False"
    assert conditions.get("DisruptionTarget") == ("True" if policy == "Never" else None)
    if policy == "Never":
        assert stage.there("a") == []
        return
    assert status["containerStatuses"][0]["restartCount"] == 4
    stage.reserve("b")
    stage.settle()
    assert stage.bind("b")
    stage.settle()
    stage.run("b", "Running", 1)
    stage.settle()
    assert stage.home["pods"]["web"]["status"]["containerStatuses"][0]["restartCount"] == 6, "4, the loss, and 1"


@pytest.mark.parametrize(("policy", "epoch"), [(AT_LEAST_ONCE, 2), (NEVER_TWICE, 1)])
def test_a_delegate_on_a_target_that_answers_and_shows_nothing_is_lost_after_the_same_time(
    policy: str, epoch: int
) -> None:
    stage = Stage("a", "b", execution_policy=policy).delegated("a")
    stage.settle()
    stage.hidden["a"], bound = stage.now, stage.only("a")
    after = stage.policy.lost_after
    stage.tick(int(after.total_seconds()) - 1).look()
    assert stage.state.epoch == 1
    assert stage.wake == (stage.now + timedelta(seconds=1) if policy == AT_LEAST_ONCE else None)
    stage.tick(1).look()
    assert stage.state.epoch == epoch
    assert bound in stage.there("a"), "it may still run there"
    stage.hidden.clear()
    stage.settle()
    going = "deletionTimestamp" in stage.stores["a"]["candidates"][bound]["metadata"]
    assert going == (policy == AT_LEAST_ONCE)


def test_a_pod_that_had_not_started_is_placed_again_whatever_its_restart_policy() -> None:
    stage = Stage("a", "b")
    stage.home["pods"]["web"] = pod(spec={"restartPolicy": "Never"})
    stage.delegated("a").settle()
    stage.lose_pod("a")
    stage.settle()
    assert (stage.phase(), stage.state.epoch) == ("Pending", 2)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_keeps_its_delegate_for_its_logs_and_never_lives_again(phase: str) -> None:
    stage = Stage("a", "b").delegated("a")
    stage.run("a", phase)
    stage.settle()
    assert stage.phase() == phase
    assert stage.there("a") == [stage.only("a")]
    stage.run("a", "Running")
    stage.settle()
    assert stage.phase() == phase


def test_only_what_the_source_pod_has_is_shown_and_no_address_of_another_network() -> None:
    delegate: dict[str, Any] = {
        "podIP": "10.0.0.1",
        "hostIP": "10.0.0.2",
        "containerStatuses": [{"name": "c", "restartCount": 1}, {"name": "injected", "restartCount": 9}],
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
    }
    shown = mirrored(delegate, "Running", {"c"}, {"c": 2}, with_network=False)
    assert [(c["name"], c["restartCount"]) for c in shown["containerStatuses"]] == [("c", 3)]
    assert [entry["type"] for entry in shown["conditions"]] == ["Ready"]
    assert "podIP" not in shown
    assert mirrored(delegate, "Running", {"c"}, {}, with_network=True)["podIP"] == "10.0.0.1"


@pytest.mark.parametrize("policy", [AT_LEAST_ONCE, NEVER_TWICE])
@pytest.mark.parametrize("restart", ["Never", "Always"])
def test_a_delegate_that_its_kubelet_rejects_ends_the_epoch_and_not_the_pod(policy: str, restart: str) -> None:
    """No container of it was started: another cluster may have room."""
    stage = Stage("a", "b", execution_policy=policy)
    stage.home["pods"]["web"] = pod(spec={"restartPolicy": restart})
    stage.delegated("a")
    stage.settle()
    stage.reject("a")
    stage.settle()
    (lost,) = [event for event in stage.decided if isinstance(event, DelegateLost)]
    assert (lost.reason, lost.cluster) == (CandidateReason.POD_REJECTED, "a")
    assert lost.message.startswith("OutOfcpu: Pod was rejected: ")
    assert (stage.state.epoch, stage.phase(), stage.state.electing) == (2, "Pending", True)
    stage.reserve("b")
    stage.settle()
    assert stage.bind("b")
    stage.settle()
    stage.run("b", "Running")
    stage.settle()
    assert (stage.phase(), stage.state.chosen and stage.state.chosen.cluster) == ("Running", "b")
    assert stage.there("a") == []


def test_a_delegate_that_ran_before_it_was_rejected_has_ended() -> None:
    """A kubelet that was restarted judges again what it has run: then the pod has failed, as it would have here."""
    stage = Stage("a", "b").delegated("a")
    stage.run("a", "Running")
    stage.settle()
    stage.reject("a")
    stage.settle()
    assert (stage.phase(), stage.state.epoch) == ("Failed", 1)
    assert not [event for event in stage.decided if isinstance(event, DelegateLost)]


@pytest.mark.parametrize(
    ("policy", "phase", "again"),
    [
        ("Always", "Failed", True),
        ("Always", "Succeeded", True),
        ("OnFailure", "Failed", True),
        ("OnFailure", "Succeeded", False),
        ("Never", "Failed", False),
        ("Never", "Succeeded", False),
    ],
)
def test_a_delegate_that_somebody_deletes_in_its_target_has_not_ended_by_itself(
    policy: str, phase: str, again: bool
) -> None:
    """A kubelet says an end of it before it is gone (Kubernetes 1.27): a node that was drained once ended its pods."""
    stage = Stage("a", "b")
    stage.home["pods"]["web"] = pod(spec={"restartPolicy": policy})
    stage.delegated("a")
    stage.run("a", "Running")
    stage.settle()
    key, store = stage.only("a"), stage.stores["a"]
    there = store["pods"][key]
    going = {**there, "metadata": {**there["metadata"], "deletionTimestamp": "now"}, "status": {"phase": phase}}
    stage.stores["a"] = {**store, "pods": {key: going}}
    stage.settle()
    assert stage.phase() == ("Running" if again else phase)
    stage.lose_pod("a")
    stage.settle()
    assert (stage.phase(), stage.state.epoch) == (("Running", 2) if again else (phase, 1))
