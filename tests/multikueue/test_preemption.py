"""Orchestrated preemption: copies wait with a closed gate, and one cluster after the other is let preempt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controlplane.controllers.multikueue.events import CloneDecided, GateOpeningDecided
from controlplane.controllers.multikueue.observations import PreemptionGate
from controlplane.kube.kueue_names import PREEMPTION_GATE
from tests.multikueue.rendered import TEMPLATE, body, request_of
from tests.multikueue.scene import NS, STREAM, WL, Scene, stamp
from tests.multikueue.test_leaderworkersets import Sets
from tests.multikueue.test_slices import LARGE, reserved

ON = {"orchestrated_preemption": True}
BLOCKED = "BlockedOnPreemptionGates"
PAUSE = timedelta(minutes=5)


def gates(position: str, at: str = "", **others: str) -> dict[str, Any]:
    """A copy with our gate in its spec, and what its status says of that and of others'."""
    found = [PreemptionGate(name=name, position=state, last_transition_time="t") for name, state in others.items()]
    found += [PreemptionGate(name=PREEMPTION_GATE, position=position, last_transition_time=at)] if position else []
    return {"gated": True, "gates": found}


def asked(*clusters: str, **policy: Any) -> Scene:
    """The copies are there with their gates closed, and none is admitted."""
    scene = Scene(*clusters, policy={**ON, **policy}).nominated(*clusters)
    scene.decide()
    for cluster in clusters:
        scene.clone(cluster, **gates("Closed"))
    return scene


def blocked(scene: Scene, cluster: str) -> Scene:
    return scene.clone(cluster, {BLOCKED: ("PreemptionGated", "it is gated", stamp(scene.now))})


def openings(scene: Scene) -> list[str]:
    return [one.cluster for one in scene.decide() if isinstance(one, GateOpeningDecided)]


def shown(scene: Scene, cluster: str) -> Scene:
    """The gate is open there now."""
    return scene.clone(cluster, **gates("Open", stamp(scene.now)))


@pytest.mark.parametrize(("policy", "gated"), [(ON, True), ({}, False)])
def test_a_copy_is_created_with_its_own_gate_alone(policy: dict[str, Any], gated: bool) -> None:
    ours = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "preemptionGates": [{"name": "home"}]}}
    template, bodies = body(ours)
    scene = Scene("a", policy=policy).job().workload({"QuotaReserved": True}, template=template)
    (decided,) = [one for one in scene.decide() if isinstance(one, CloneDecided)]
    assert decided.gated is gated
    request = request_of(scene, bodies, "CloneDecided")
    assert request.body is not None
    assert request.body["spec"]["preemptionGates"] == [{"name": PREEMPTION_GATE if gated else "home"}]


def test_nobody_is_let_who_did_not_ask() -> None:
    scene = asked("a", "b")
    assert openings(scene) == []


def test_the_one_that_asked_first_is_let_and_the_next_after_five_minutes() -> None:
    scene = asked("a", "b", "c")
    blocked(scene, "b").tick(seconds=3)
    blocked(scene, "a")
    assert openings(scene) == ["b"]
    shown(scene.tick(seconds=1), "b")
    opened = scene.now
    assert openings(scene) == []
    assert scene.wake == opened + PAUSE
    scene.tick(minutes=4, seconds=59)
    assert openings(scene) == []
    scene.tick(seconds=1)
    assert openings(scene) == ["a"]
    shown(scene, "a").tick(hours=1)
    assert openings(scene) == []
    assert scene.wake is None, "the third has not asked"


def test_without_the_setting_nothing_is_opened() -> None:
    assert openings(blocked(asked("a", orchestrated_preemption=False), "a")) == []


def test_a_copy_without_our_gate_holds_nobody_up() -> None:
    """It was made before the setting was on, or is blocked by somebody else's gate."""
    scene = blocked(asked("a", "b"), "a").clone("a", gated=False, gates=[])
    blocked(scene.tick(seconds=1), "b")
    assert openings(scene) == ["b"]


def test_a_copy_that_is_admitted_is_chosen_and_no_gate_opened() -> None:
    scene = blocked(asked("a", "b"), "a").clone("b", {"QuotaReserved": True, "Admitted": True})
    assert openings(scene) == []
    assert scene.state.winner == "b"


def test_an_opening_under_way_is_dropped_when_another_cluster_wins() -> None:
    scene = blocked(asked("a", "b"), "a")
    assert openings(scene) == ["a"]
    scene.clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    assert [write.action for write in scene.fleet.open_writes(STREAM) if write.cluster == "a"] == []
    assert "Removal Workload a" in scene.names(), "the copy goes, and waits for no opening"


def test_a_cluster_that_is_cut_off_while_its_gate_is_opened_has_its_five_minutes() -> None:
    """Nobody knows whether the gate is open there: until then it counts as open."""
    scene = blocked(asked("a", "b"), "a")
    blocked(scene, "b")
    assert openings(scene) == ["a"]
    decided = scene.now
    scene.lose("a").tick(minutes=4)
    assert openings(scene) == []
    assert scene.wake == decided + PAUSE
    scene.tick(minutes=1)
    assert openings(scene) == ["b"]
    assert [write.cluster for write in scene.fleet.open_writes(STREAM) if write.action == "GateOpeningDecided"] == ["b"]
    shown(scene, "b").connect("a")
    assert openings(scene) == [], "it was not opened after all, and its turn comes again"
    scene.tick(minutes=5)
    assert openings(scene) == ["a"]


def test_an_open_gate_on_a_cluster_that_is_away_counts_as_it_was_seen() -> None:
    scene = blocked(asked("a", "b"), "a")
    blocked(scene, "b").decide()
    shown(scene, "a").lose("a").tick(minutes=4, seconds=59)
    assert openings(scene) == []
    scene.tick(seconds=1)
    assert openings(scene) == ["b"]


def test_an_attempt_that_ended_meanwhile_does_not_make_the_next_forget_the_opening() -> None:
    scene = blocked(asked("a", "b"), "a")
    assert openings(scene) == ["a"]
    scene.lose("a").workload({"QuotaReserved": False})
    scene.decide()
    scene.clone_gone("b").workload({"QuotaReserved": True}, nominated=[])
    scene.decide()
    scene.workload(nominated=["b"]).decide()
    blocked(scene.clone("b", **gates("Closed")), "b")
    assert openings(scene) == []
    scene.tick(minutes=5)
    assert openings(scene) == ["b"]


def test_a_copy_that_is_gone_or_was_evicted_lets_the_next_one_preempt_at_once() -> None:
    scene = blocked(asked("a", "b", "c"), "a")
    for cluster in ("b", "c"):
        blocked(scene, cluster)
    scene.decide()
    shown(scene, "a").clone_gone("a")
    assert openings(scene) == ["b"]
    shown(scene, "b").clone("b", {BLOCKED: False}, **gates("Closed", stamp(scene.now)))
    assert openings(scene) == ["c"]


def test_a_cluster_that_was_put_back_to_before_the_opening_is_asked_again() -> None:
    scene = blocked(asked("a", "b"), "a")
    blocked(scene.tick(seconds=1), "b").decide()
    shown(scene, "a").tick(minutes=1)
    scene.clone("a", **gates("Closed"))
    assert openings(scene) == ["a"], "nobody preempts there, and it asked first"


def test_gates_that_are_open_on_two_clusters_have_five_minutes_since_the_newer() -> None:
    """The log was put back to before one of the openings, or another program opened it."""
    scene = asked("a", "b", "c")
    shown(scene, "a").tick(minutes=3)
    shown(scene, "b").tick(minutes=3)
    assert openings(blocked(scene, "c")) == []
    scene.tick(minutes=2)
    assert openings(scene) == ["c"]


@pytest.mark.parametrize("at", ["yesterday", "2031-01-01T00:00:00Z"])
def test_a_time_that_nobody_who_opens_a_gate_writes_holds_nothing_up(at: str) -> None:
    scene = asked("a", "b").clone("a", **gates("Open", at))
    assert openings(blocked(scene, "b")) == ["b"]


def test_a_refusal_lets_the_next_cluster_go_first() -> None:
    scene = blocked(asked("a", "b"), "a")
    blocked(scene.tick(seconds=1), "b")
    (decision,) = [one for one in scene.decide() if isinstance(one, GateOpeningDecided)]
    scene.refuses(decision, 403, "Forbidden", timedelta(minutes=1))
    assert openings(scene) == ["b"]


def test_a_conflict_is_decided_anew_of_the_same_cluster() -> None:
    scene = blocked(asked("a", "b"), "a")
    blocked(scene.tick(seconds=1), "b")
    (decision,) = [one for one in scene.decide() if isinstance(one, GateOpeningDecided)]
    scene.refuses(decision, 409, "Conflict", timedelta(seconds=1))
    assert openings(scene) == []
    scene.tick(seconds=1)
    assert openings(scene) == ["a"]


@pytest.mark.parametrize("changes", [{"deleting": True}, {"active": False}, {"spec_key": "other"}])
def test_a_copy_that_cannot_win_is_not_opened(changes: dict[str, Any]) -> None:
    scene = blocked(asked("a"), "a").clone("a", **changes)
    assert openings(scene) == []


def test_an_evicted_workload_opens_no_gate() -> None:
    scene = blocked(asked("a"), "a").workload({"Evicted": True})
    assert openings(scene) == []


def test_where_a_job_may_run_unseen_nobody_preempts_for_it() -> None:
    scene = Scene("a", "b", policy=ON).running("a").lose("a")
    scene.workload({"QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name="")
    scene.decide()
    scene.workload({"QuotaReserved": True}, nominated=["b"])
    blocked(scene.clone("b", **gates("Closed")), "b")
    assert openings(scene) == []


def test_the_write_opens_one_gate_and_leaves_the_others() -> None:
    scene = asked("a").clone("a", **gates("Closed", "t", concurrent="Closed"))
    blocked(scene, "a").decide()
    request = request_of(scene, action="GateOpeningDecided")
    assert (request.ref.namespace, request.ref.name, request.subresource) == (NS, WL, "status")
    clone = scene.state.remote("a").clone
    assert (request.uid, request.resource_version) == (clone.uid, clone.resource_version)
    assert request.content_type == "application/merge-patch+json"
    assert request.body == {
        "status": {
            "preemptionGates": [
                {"name": "concurrent", "position": "Closed", "lastTransitionTime": "t"},
                {"name": PREEMPTION_GATE, "position": "Open", "lastTransitionTime": stamp(scene.now)},
            ]
        }
    }


def test_an_opening_rests_on_what_the_worker_said() -> None:
    scene = blocked(asked("a"), "a")
    said = scene.position
    (new,) = scene.fleet.decide(STREAM, scene.now).events
    assert isinstance(new.event, GateOpeningDecided)
    assert new.caused_by == said


def test_of_a_job_with_several_workloads_the_first_has_a_gate_and_the_others_follow_it_without() -> None:
    """There is no second cluster that could preempt for them."""
    scene = Sets("a", "b", **ON).running()
    gated = [(one.gated, one.cluster) for one in scene.decided if isinstance(one, CloneDecided)]
    assert gated == [(True, "a"), (True, "b"), (False, "a")]


def test_a_slice_that_follows_its_job_has_a_gate_that_is_opened_there() -> None:
    scene = reserved()
    scene.fleet.index.policy = msgspec.structs.replace(scene.fleet.index.policy, **ON)
    assert scene.names() == ["AttemptBegun"]
    (clone,) = scene.decide()
    assert isinstance(clone, CloneDecided)
    assert clone.gated
    scene.clone("a", spec_key="spec-2", size=LARGE, **gates("Closed"))
    assert openings(scene) == []
    assert openings(blocked(scene, "a")) == ["a"]
