"""The capability in its loop: events in, decisions and requests out, on a cluster small enough to be seen through."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    KindOff,
    KindSynced,
    cluster_stream,
)
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.coscheduling import events, observations
from controlplane.controllers.coscheduling.controller import CoschedulingController, CoschedulingPolicy
from controlplane.controllers.coscheduling.flags import Flags, Mode
from controlplane.controllers.coscheduling.names import claim_name, made_claim_name
from controlplane.controllers.coscheduling.objects import CONFIG_MAPS, read_run
from controlplane.controllers.coscheduling.placement.placeholders import Style, stateful_sets
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import Controller, WriteRefusal
from tests.coscheduling.samples import DONE, NS, UID, claim, empty, run, task, task_pod, template
from tests.coscheduling.scene import Scene, config
from tests.coscheduling.started import MODES, RUN, SINGLE, finish, names, pod, started


def test_it_is_a_capability_whose_events_go_through_the_log() -> None:
    room: Controller = CoschedulingController(CoschedulingPolicy(), "me")
    codec = Codec(room.types)
    scene = started()
    for event in scene.events():
        name, schema, text = codec.encode(event)
        assert codec.decode(name, schema, text) == event


def test_a_run_from_its_start_to_its_end() -> None:
    scene = Scene("pipelineruns")
    scene.put(run(template("a"), tasks=[task("t", "a")]))
    assert names(scene) == ["ClusterChosen", "ModePinned"]
    assert names(scene) == ["PlaceholderCreationDecided"]
    assert names(scene) == []  # its write is open
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]
    assert scene.names("PersistentVolumeClaim") == [made_claim_name("", "a", UID, SINGLE)]
    finish(scene)
    assert scene.names("StatefulSet") == scene.names("Pod") == scene.names("PersistentVolumeClaim") == []
    assert [type(one).__name__ for one in scene.events(events.CoschedulingDecision)] == [
        "ClusterChosen",
        "ModePinned",
        "PlaceholderCreationDecided",
        "RunCompleted",
        "PlaceholderRemovalDecided",
        "ClaimRemovalDecided",
        "ClaimReleaseDecided",
    ]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_created_is_what_the_dry_run_says(mode: str) -> None:
    obj = run(template("a", "base"), claim("b", "data"), empty("c"), tasks=[task("t", "a")])
    scene = Scene(mode)
    scene.put(obj)
    scene.settle()
    wanted = stateful_sets(read_run(obj), Mode(mode), Style(flags=Flags(mode=Mode(mode))))
    bodies = [one.body for one in scene.requests if one.ref.kind.kind == "StatefulSet"]
    assert bodies == wanted
    claims = [one.ref.name for one in scene.requests if one.ref.kind.kind == "PersistentVolumeClaim"]
    assert claims == ([] if Mode(mode).per_run else [claim_name("base", "a", UID)])


def test_a_quiet_cluster_gets_no_requests_and_the_log_no_events() -> None:
    scene = started()
    requests, position = len(scene.requests), len(scene.log)
    for _ in range(5):
        assert scene.decide() == []
        scene.carry_out()
    assert (len(scene.requests), len(scene.log)) == (requests, position)


def test_nothing_is_decided_before_everything_is_in_view() -> None:
    scene = Scene()
    kinds = scene.log[0].event.kinds
    scene.room.connection = Connection(name=MANAGEMENT)
    scene.put(run(template("a")))
    assert names(scene) == []
    scene.append(NewEvent(stream=cluster_stream(MANAGEMENT), event=ClusterConnected(kinds=kinds)))
    assert names(scene) == ["ClusterChosen", "ModePinned"]


def test_the_mode_is_pinned_for_the_life_of_the_run() -> None:
    scene = started("pipelineruns")
    scene.put(config("feature-flags", coschedule="workspaces"))
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]
    finish(scene)
    assert scene.names("StatefulSet") == scene.names("PersistentVolumeClaim") == []


def test_no_mode_is_pinned_while_the_flag_is_not_in_view() -> None:
    """It may have changed since it was seen last."""
    scene = Scene(flag="workspaces")
    scene.append(
        NewEvent(
            stream=cluster_stream(MANAGEMENT), event=KindOff(kind=CONFIG_MAPS.name, reason="Forbidden", message="no")
        )
    )
    scene.put(run())
    scene.settle()
    assert scene.events(events.ModePinned) == []
    scene.put(config("feature-flags", coschedule="pipelineruns"))
    synced = KindSynced(kind=CONFIG_MAPS.name, count=1, resource_version="1")
    scene.append(NewEvent(stream=cluster_stream(MANAGEMENT), event=synced))
    scene.settle()
    assert [one.mode for one in scene.events(events.ModePinned)] == ["pipelineruns"]


def test_a_bad_flag_keeps_the_last_good_and_is_said_once() -> None:
    scene = Scene("isolate-pipelinerun")
    scene.put(config("feature-flags", coschedule="isolate-pipelineruns"))
    scene.settle()
    scene.put(config("feature-flags", coschedule="isolate-pipelineruns"))
    scene.put(run(template("a")))
    scene.settle()
    (said,) = scene.events(events.FlagsRefused)
    assert 'data.coschedule: "isolate-pipelineruns" is not a mode' in said.message
    (pinned,) = scene.events(events.ModePinned)
    assert pinned.mode == "isolate-pipelinerun"


def test_defaults_are_those_of_the_start_and_bad_ones_do_not_count() -> None:
    scene = Scene("pipelineruns")
    scene.put(config("config-defaults", **{"default-pod-template": "nodeSelector: {a: b}"}))
    scene.put(config("config-defaults", **{"default-pod-template": "nodeSelector: nonsense"}))
    scene.put(run())
    scene.settle()
    (made,) = scene.of("StatefulSet")
    assert made["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert len(scene.events(events.FlagsRefused)) == 1


def test_a_mode_of_its_own_where_tekton_places_nothing() -> None:
    scene = Scene("disabled", mode=Mode.PIPELINERUNS)
    scene.put(run(template("a")))
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]


@pytest.mark.parametrize("spec", [{"managedBy": "kueue.x-k8s.io/multikueue"}, {"status": "PipelineRunPending"}])
def test_an_inert_run_gets_nothing(spec: dict[str, str]) -> None:
    scene = Scene()
    obj = run(template("a"))
    obj["spec"] |= spec
    scene.put(obj)
    scene.settle()
    assert scene.requests == []


def test_a_refused_run_is_told_once_and_gets_nothing() -> None:
    scene = Scene("workspaces")
    obj = run(template("a"), claim("b", "data"), tasks=[task("t", "a", "b")])
    scene.put(obj)
    scene.settle()
    scene.change("PipelineRun", NS, RUN, status={"childReferences": []})
    scene.settle()
    (told,) = scene.requests
    (condition,) = told.body["status"]["conditions"]
    assert (told.verb, told.ref.kind.kind, condition["type"]) == ("patch", "PipelineRun", "Coscheduled")
    assert "more than one PersistentVolumeClaim is bound" in condition["message"]
    assert scene.names("StatefulSet") == scene.names("PersistentVolumeClaim") == []


def test_a_refusal_and_a_move_are_announced() -> None:
    scene = Scene("workspaces")
    scene.put(run(template("a"), claim("b", "data"), tasks=[task("t", "a", "b")]))
    scene.decide()
    scene.decide()
    (write,) = scene.room.open_writes(f"pipelinerun/{NS}/{RUN}")
    request = scene.room.announcement(write, scene.now)
    assert request is not None
    assert (request.body["type"], request.body["reason"]) == ("Warning", "CoschedulingRefused")
    assert request.body["regarding"]["uid"] == UID


# --- nodes ---


@pytest.mark.parametrize("mode", ["workspaces", "pipelineruns", "isolate-pipelinerun"])
def test_a_cordoned_node_is_left_once_for_each_cordon(mode: str) -> None:
    scene = started(mode)
    assert pod(scene)["spec"]["nodeName"] == "n1"
    scene.change("Node", "", "n1", spec={"unschedulable": True})
    scene.settle()
    assert pod(scene)["spec"]["nodeName"] == "n2"
    scene.change("Node", "", "n2", metadata={"labels": {"x": "y"}}, spec={"unschedulable": True})
    scene.settle()
    assert [one.node for one in scene.events(events.PlaceholderEvicted)] == ["n1", "n2"]
    assert scene.names("Pod") == []  # waits for a node
    scene.change("Node", "", "n1", spec={"unschedulable": False})
    scene.settle()
    assert pod(scene)["spec"]["nodeName"] == "n1"
    scene.change("Node", "", "n1", spec={"unschedulable": True})
    scene.settle()
    assert len(scene.events(events.PlaceholderEvicted)) == 3


def test_a_pod_that_comes_back_to_the_cordoned_node_is_not_chased() -> None:
    scene = started()
    scene.change("Node", "", "n1", spec={"unschedulable": True})
    scene.decide()
    scene.carry_out()
    (placeholder,) = scene.of("StatefulSet")
    scene.place(placeholder)
    moved = pod(scene)
    moved["spec"]["nodeName"] = "n1"  # it tolerates the cordon, and was placed there again
    scene.put(moved)
    scene.settle()
    assert len(scene.events(events.PlaceholderEvicted)) == 1


def test_a_write_that_was_lost_is_carried_out_again() -> None:
    scene = started()
    scene.change("Node", "", "n1", spec={"unschedulable": True})
    scene.decide()
    scene.carry_out(lose=True)
    scene.change("Pod", NS, f"{SINGLE}-0", status={"message": "something else changed"})
    scene.settle()
    assert pod(scene)["spec"]["nodeName"] == "n2"


def test_a_taint_that_is_not_tolerated() -> None:
    scene = started(
        "pipelineruns", taskRunTemplate={"podTemplate": {"tolerations": [{"key": "ok", "operator": "Exists"}]}}
    )
    scene.change("Node", "", "n1", spec={"taints": [{"key": "ok", "effect": "NoSchedule"}]})
    scene.settle()
    assert scene.events(events.PlaceholderEvicted) == []
    scene.change("Node", "", "n1", spec={"taints": [{"key": "gone", "effect": "NoExecute"}], "unschedulable": True})
    scene.settle()
    (evicted,) = scene.events(events.PlaceholderEvicted)
    assert evicted.reason == "NodeCordoned"


def test_the_last_pod_slot_is_given_up_ever_more_rarely() -> None:
    scene = started()
    scene.put(task_pod("t", SINGLE, complaint="0/2 nodes are available: 1 Too many pods."))
    scene.settle()
    scene.settle()  # the new one landed on the same node
    assert len(scene.events(events.PlaceholderEvicted)) == 1
    scene.wait(minutes=1)
    scene.settle()
    assert len(scene.events(events.PlaceholderEvicted)) == 2
    scene.wait(minutes=1)
    scene.settle()
    assert len(scene.events(events.PlaceholderEvicted)) == 2
    scene.wait(minutes=1)
    scene.settle()
    assert len(scene.events(events.PlaceholderEvicted)) == 3


# --- attempts ---


def test_a_run_that_is_made_again_under_its_name_is_another_attempt() -> None:
    scene = started()
    scene.drop("PipelineRun", NS, RUN)
    scene.put(run(template("a"), tasks=[task("t", "a")], uid="second"))
    scene.settle()
    assert [one.uid for one in scene.events(events.AttemptFenced)] == [UID]
    assert [(one.uid, one.attempt) for one in scene.events(events.ClusterChosen)] == [(UID, 1), ("second", 2)]
    assert scene.of("StatefulSet")[0]["metadata"]["ownerReferences"][0]["uid"] == "second"
    assert scene.names("PersistentVolumeClaim") == [made_claim_name("", "a", "second", SINGLE)]


def test_claims_of_a_run_that_is_deleted_early_do_not_leak() -> None:
    scene = started()
    for obj in scene.of("PersistentVolumeClaim"):
        obj["metadata"].pop("ownerReferences")  # as Tekton makes them
        scene.put(obj)
    scene.drop("PipelineRun", NS, RUN)
    scene.settle()
    assert scene.names("PersistentVolumeClaim") == scene.names("StatefulSet") == []
    assert scene.room.runs == {}


def test_per_workspace_claims_stay_until_they_are_asked_for() -> None:
    scene = started("workspaces")
    finish(scene)
    assert scene.names("PersistentVolumeClaim") == [claim_name("", "a", UID)]
    scene = started("workspaces", annotations={"tekton.dev/auto-cleanup-pvc": "true"})
    finish(scene)
    assert scene.names("PersistentVolumeClaim") == []


def test_another_process_goes_on_where_the_first_was() -> None:
    scene = started()
    scene.change("Node", "", "n1", spec={"unschedulable": True})
    scene.decide()
    before = scene.room.runs
    scene.restart()
    assert scene.room.runs == before
    scene.settle()
    assert pod(scene)["spec"]["nodeName"] == "n2"


def test_claims_go_after_the_placeholder_whose_controller_would_make_them_again() -> None:
    scene = started()
    scene.refuse["delete", "StatefulSet"] = WriteRefusal(403, "Forbidden", "not now")
    scene.change("PipelineRun", NS, RUN, status=DONE)
    for _ in range(5):
        scene.decide()
        scene.carry_out()
    assert scene.events(events.ClaimRemovalDecided) == []
    scene.refuse.clear()
    scene.wait(minutes=10)
    scene.settle()
    assert scene.names("StatefulSet") == scene.names("PersistentVolumeClaim") == []


@pytest.mark.parametrize(
    "change",
    [{"spec": []}, {"status": {"conditions": "x"}}, {"status": "text"}, {"spec": {"workspaces": 3}}],
)
def test_an_object_without_its_shape_is_named_and_the_rest_goes_on(change: Any) -> None:
    scene = Scene()
    obj = run(template("a"), name="bad", uid="bad")
    scene.put({**obj, **change})
    scene.put(
        {
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": NS, "labels": {"tekton.dev/pipelineRun": "x"}},
            "spec": 1,
        }
    )
    scene.put(run(template("a")))
    scene.settle()
    assert scene.names("StatefulSet")[0] == SINGLE
    refused = {one.name for one in scene.events(observations.SightingRefused)} | {
        one.name for one in scene.events(events.RunRefused)
    }
    assert refused == ({"p"} if change == {"status": {"conditions": "x"}} else {"bad", "p"})
