"""The capability around a small API server: groups are made once, pods joined, rollouts shared, refusals told, nothing
written twice.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.events import (
    GroupUpdateDecided,
    GroupWrite,
    OwnerRead,
    OwnerReadFailed,
    OwnerResolved,
    RulesAccepted,
    RulesRefused,
    member_stream,
)
from controlplane.controllers.podgroups.explain import explain_member
from controlplane.controllers.podgroups.index import PodGroupPolicy
from controlplane.controllers.podgroups.objects import CONFIG_MAPS, GROUP_NAME, MIN_MEMBER, POD_GROUPS, PODS
from controlplane.controllers.podgroups.rules import DATA_KEY, DEFAULT_DOCUMENT
from controlplane.kube.kinds import Json, meta
from controlplane.runtime.controller import WriteRefusal
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.podgroups.stage import Stage

RS, NEW_RS, DEPLOYMENT = ref("ReplicaSet", "web-1"), ref("ReplicaSet", "web-2"), ref("Deployment", "web")
WIDGET, TOP, WORKFLOW = ref("Widget", "w"), ref("Widget", "top"), ref("Workflow", "wf")
GROUP = "podgroup-uid-web"
WARNING = "controlplane/podgroup-problem"


def config_map(text: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "volcano-system", "name": "volcano-controller-configmap", "uid": "cm"},
        "data": {DATA_KEY: text},
    }


def sized(cpu: str) -> Json:
    return {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}


def stage(rules: str = DEFAULT_DOCUMENT, **policy: Any) -> Stage:
    made = Stage(**policy)
    made.put(config_map(rules))
    return made.settle()


def web(scene: Stage, *names: str, members: str = "", cpu: str = "500m") -> Stage:
    scene.put(manifest(DEPLOYMENT, spec=sized(cpu), notes={MIN_MEMBER: members} if members else None))
    scene.put(manifest(RS, DEPLOYMENT, spec=sized(cpu)))
    for name in names:
        scene.put(pod_manifest(RS, name, cpu=cpu))
    return scene.settle()


def group_of(scene: Stage, name: str) -> str | None:
    return (meta(scene.get(PODS, name)).get("annotations") or {}).get(GROUP_NAME)


def change(scene: Stage, obj: Json, **fields: Any) -> None:
    stored = scene.objects[obj["apiVersion"], obj["kind"], meta(obj)["namespace"], meta(obj)["name"]]
    scene.put({**stored, **fields})


def test_pods_of_a_deployment_share_a_group_that_is_made_once() -> None:
    scene = web(stage(), "p1", "p2", "p3", members="2")
    (group,) = scene.all(POD_GROUPS)
    assert meta(group)["name"] == GROUP
    assert group["spec"] == {"minMember": 2, "minResources": {"cpu": "1"}}
    assert meta(group)["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": "uid-web",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert {group_of(scene, name) for name in ("p1", "p2", "p3")} == {GROUP}
    assert scene.requests["create", "podgroups.scheduling.volcano.sh"] == 1
    assert scene.requests["patch", "pods"] == 3
    assert scene.reads == {}


def test_nothing_is_written_when_nothing_changes() -> None:
    scene = web(stage(), "p1").later(minutes=5)
    requests, events = scene.requests.total(), len(scene.log)
    scene.later(hours=3)
    assert (scene.requests.total(), len(scene.log)) == (requests, events)


def test_block_owner_deletion_can_be_switched_off() -> None:
    scene = web(stage(block_owner_deletion=False), "p1")
    assert meta(scene.get(POD_GROUPS, GROUP))["ownerReferences"][0]["blockOwnerDeletion"] is False


def test_queue_and_priority_class_come_from_the_pod() -> None:
    scene = stage()
    scene.put(pod_manifest(notes={"scheduling.volcano.sh/queue-name": "q"}, spec={"priorityClassName": "high"}))
    scene.settle()
    spec = scene.get(POD_GROUPS, "podgroup-uid-p")["spec"]
    assert (spec["queue"], spec["priorityClassName"]) == ("q", "high")


def test_unknown_kinds_are_read_once_however_many_pods_wait() -> None:
    scene = stage()
    scene.put(manifest(WIDGET, TOP), watched=False)
    scene.put(manifest(TOP, WORKFLOW), watched=False)
    scene.put(manifest(WORKFLOW), watched=False)
    for number in range(5):
        scene.put(pod_manifest(WIDGET, f"p{number}"))
    scene.settle()
    assert {meta(group)["name"] for group in scene.all(POD_GROUPS)} == {"podgroup-uid-top"}
    assert set(scene.reads.values()) == {1}
    assert len(scene.reads) == 2  # the matched Workflow is only named; the Widget and its owner were read
    scene.put(pod_manifest(WIDGET, "late"))
    scene.settle()
    assert scene.reads.total() == 2


def test_an_old_answer_is_not_believed_for_a_new_pod() -> None:
    scene = stage()
    scene.refused["Widget"] = WriteRefusal(403, "Forbidden", "no")
    scene.put(manifest(WIDGET, WORKFLOW), watched=False)
    scene.put(pod_manifest(WIDGET, "p1"))
    scene.settle()
    assert group_of(scene, "p1") == "podgroup-uid-w"
    del scene.refused["Widget"]
    scene.later(minutes=11).put(pod_manifest(WIDGET, "p2"))
    scene.settle()
    assert scene.reads.total() == 2
    # the level -1 below the Workflow is the Widget: the same group, now by rule
    assert [event.reason for event in scene.recorded(OwnerResolved)] == ["FirstOwner", "RuleMatched"]
    assert group_of(scene, "p2") == group_of(scene, "p1")


def test_forbidden_owners_are_told_on_the_group_and_once_as_an_event() -> None:
    scene = stage()
    scene.refused["Widget"] = WriteRefusal(403, "Forbidden", "no")
    scene.put(pod_manifest(WIDGET))
    scene.settle().later(seconds=5)
    (condition,) = scene.get(POD_GROUPS, "podgroup-uid-w")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("OwnerResolved", "False", "OwnerForbidden")
    (event,) = scene.events
    assert (event["reason"], event["regarding"]["name"], event["type"]) == ("OwnerForbidden", "p", "Warning")


@pytest.mark.parametrize("code", [429, 500, 503])
def test_transient_trouble_creates_nothing_and_is_tried_again(code: int) -> None:
    scene = stage()
    scene.refused["Widget"] = WriteRefusal(code, "Later", "busy")
    scene.put(manifest(WIDGET, WORKFLOW), watched=False)
    scene.put(pod_manifest(WIDGET, "p1"))
    scene.settle().later(seconds=1).later(seconds=2)
    assert scene.all(POD_GROUPS) == []
    assert [event.failures for event in scene.recorded(OwnerReadFailed)] == [1, 2, 3]
    del scene.refused["Widget"]
    scene.later(minutes=1)
    assert group_of(scene, "p1") == "podgroup-uid-w"


def test_a_pod_that_is_seen_before_its_watched_owner_waits_for_a_read() -> None:
    scene = stage()
    scene.put(manifest(RS, DEPLOYMENT), watched=False)
    scene.put(manifest(DEPLOYMENT), watched=False)
    scene.put(pod_manifest(RS, "p1"))
    scene.settle()
    assert group_of(scene, "p1") == GROUP
    assert [event.answer.outcome for event in scene.recorded(OwnerRead)] == ["Found", "Found"]


def test_a_later_rule_renames_no_live_group() -> None:
    scene = web(stage(), "p1")
    scene.put(config_map("podgroup-level-rules: []"))
    scene.settle().put(pod_manifest(RS, "p2"))
    scene.settle()
    assert group_of(scene, "p1") == GROUP
    assert group_of(scene, "p2") == "podgroup-uid-web-1"
    first, second = scene.recorded(OwnerResolved)
    assert (first.resolution.rule.kind, first.resolution.chain[-1]) == ("deployment", DEPLOYMENT)
    assert second.resolution.rule is None


def test_refused_rules_leave_the_last_good_ones_in_force_and_say_so() -> None:
    scene = stage()
    scene.put(config_map("podgroup-level-rules:\n- {kind: job, adjust-level: 1}"))
    web(scene, "p1")
    assert group_of(scene, "p1") == GROUP
    note = meta(scene.objects["v1", "ConfigMap", "volcano-system", "volcano-controller-configmap"])["annotations"]
    assert note["controlplane/podgroup-rules"].startswith("refused, the rules before it stay in force: entry 1: ")
    assert [event["reason"] for event in scene.events] == ["RulesRefused"]
    scene.later(hours=1)
    assert len(scene.recorded(RulesRefused)) == 2  # as it was changed, and with our note on it
    scene.put(config_map(DEFAULT_DOCUMENT) | {"metadata": {**config_map("")["metadata"], "annotations": dict(note)}})
    scene.settle()
    found = scene.get(CONFIG_MAPS, "volcano-controller-configmap", "volcano-system")
    assert meta(found).get("annotations") == {}
    assert len(scene.events) == 1


def test_a_bad_document_at_the_start_means_no_rules() -> None:
    scene = web(stage("- 1"), "p1")
    assert group_of(scene, "p1") == "podgroup-uid-web-1"


def test_a_missing_config_map_means_no_rules() -> None:
    scene = stage()
    scene.remove(config_map(""))
    web(scene, "p1")
    assert group_of(scene, "p1") == "podgroup-uid-web-1"
    assert scene.recorded(RulesAccepted)[-1].rules == []


def test_a_group_of_another_owner_is_left_alone_and_told_once() -> None:
    scene = stage()
    foreign = {**manifest(ref("Widget", GROUP, "g"), WIDGET), "apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
    scene.put(foreign)
    web(scene, "p1").later(hours=1)
    assert group_of(scene, "p1") is None
    assert meta(scene.get(PODS, "p1"))["annotations"][WARNING].startswith("GroupNameTaken: PodGroup podgroup-uid-web")
    assert [event["reason"] for event in scene.events] == ["GroupNameTaken"]
    assert "spec" not in scene.get(POD_GROUPS, GROUP)
    scene.remove(foreign)
    scene.later(minutes=10)
    assert group_of(scene, "p1") == GROUP
    assert WARNING not in meta(scene.get(PODS, "p1"))["annotations"]


def test_a_group_that_volcano_made_is_ours_by_its_owners_uid() -> None:
    scene = stage()
    group = {
        **manifest(ref("Widget", GROUP, "g"), DEPLOYMENT),
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
    }
    scene.put(group | {"spec": {"minMember": 1, "minResources": {"pods": "1"}}})
    web(scene, "p1").later(hours=1)
    assert group_of(scene, "p1") == GROUP
    assert scene.requests["create", "podgroups.scheduling.volcano.sh"] == 0
    assert scene.get(POD_GROUPS, GROUP)["spec"]["minResources"] == {"pods": "1", "cpu": "500m"}
    assert len(scene.recorded(GroupUpdateDecided)) == 1


def test_a_rollout_keeps_the_group_and_the_newest_replica_set_counts() -> None:
    scene = web(stage(), "p1", "p2", members="2")
    newer = manifest(NEW_RS, DEPLOYMENT, spec=sized("2"), metadata={"creationTimestamp": "2026-02-01T00:00:00Z"})
    scene.put(newer)
    scene.put(pod_manifest(NEW_RS, "p3", cpu="2"))
    scene.settle()
    assert scene.get(POD_GROUPS, GROUP)["spec"] == {"minMember": 2, "minResources": {"cpu": "4"}}
    for name in ("p1", "p2"):
        scene.remove(scene.get(PODS, name))
    scene.remove(manifest(RS))
    scene.settle().later(minutes=1)
    assert [meta(one)["name"] for one in scene.all(POD_GROUPS)] == [GROUP]
    assert group_of(scene, "p3") == GROUP
    assert len(scene.recorded(GroupUpdateDecided)) == 1


def test_min_member_follows_its_annotation_and_a_manual_edit_stays() -> None:
    scene = web(stage(), "p1")
    change(scene, manifest(DEPLOYMENT), metadata={**meta(manifest(DEPLOYMENT)), "annotations": {MIN_MEMBER: "3"}})
    scene.settle()
    group = scene.get(POD_GROUPS, GROUP)
    assert group["spec"]["minMember"] == 3
    scene.put(group | {"spec": group["spec"] | {"minMember": 7, "queue": "mine"}})
    scene.settle().put(pod_manifest(RS, "p2"))
    scene.settle().later(hours=1)
    assert scene.get(POD_GROUPS, GROUP)["spec"]["minMember"] == 7
    change(scene, manifest(DEPLOYMENT), metadata={**meta(manifest(DEPLOYMENT)), "annotations": {MIN_MEMBER: "4"}})
    scene.settle()
    assert scene.get(POD_GROUPS, GROUP)["spec"]["minMember"] == 4
    assert scene.get(POD_GROUPS, GROUP)["spec"]["queue"] == "mine"


def test_refused_writes_rest_longer_each_time_and_the_others_go_on() -> None:
    scene = stage()
    scene.refused["write PodGroup"] = WriteRefusal(403, "Forbidden", "no")
    web(scene, "p1")
    tries = scene.requests["create", "podgroups.scheduling.volcano.sh"]
    scene.later(seconds=1).later(seconds=1)
    assert scene.requests["create", "podgroups.scheduling.volcano.sh"] == tries + 1
    scene.refused.clear()
    scene.later(minutes=1)
    assert group_of(scene, "p1") == GROUP


def test_a_group_that_vanishes_under_its_members_is_made_again_slower_each_time() -> None:
    scene = web(stage(), "p1")
    scene.remove(scene.get(POD_GROUPS, GROUP))
    assert scene.settle().all(POD_GROUPS) == []
    assert len(scene.later(seconds=2).all(POD_GROUPS)) == 1


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    scene = stage()
    scene.put(pod_manifest(name="p"))
    scene.settle().remove(scene.get(PODS, "p"))
    scene.put(pod_manifest(name="p", metadata={"uid": "again"}))
    scene.settle()
    assert group_of(scene, "p") == "podgroup-again"


def test_objects_that_do_not_fit_are_recorded_and_the_rest_goes_on() -> None:
    scene = stage()
    scene.put(pod_manifest(name="bad", metadata={"ownerReferences": "x"}))
    web(scene, "p1")
    assert group_of(scene, "p1") == GROUP
    refused = [one.event for one in scene.log if one.stream.startswith("refused/")]
    assert [(event.name, event.field) for event in refused] == [("bad", "metadata.ownerReferences")]


def test_a_replay_gives_the_live_state() -> None:
    scene = stage()
    scene.refused["Widget"] = WriteRefusal(403, "Forbidden", "no")
    scene.put(pod_manifest(WIDGET, "odd"))
    web(scene, "p1", "p2", members="2").later(seconds=9)
    again = PodGroupController(PodGroupPolicy(), "other")
    for recorded in scene.log:
        again.fold(recorded)
    for states in ("members", "groups", "owners", "rules"):
        assert getattr(again.index, states) == getattr(scene.fleet.index, states)
    streams = [*again.index.members, *again.index.groups]
    assert [again.decide(stream, scene.now).events for stream in streams] == [[]] * len(streams)


def test_every_write_has_its_preconditions() -> None:
    scene = web(stage(), "p1", members="2").later(seconds=3)
    writes = scene.recorded(GroupWrite)
    assert writes
    assert all((one.uid and one.resource_version) or type(one).__name__ == "GroupCreationDecided" for one in writes)


def test_a_pod_whose_owner_is_gone_says_that_no_group_is_made_and_why() -> None:
    scene = stage()
    scene.put(pod_manifest(RS, "orphan"))
    scene.settle()
    assert scene.all(POD_GROUPS) == []
    own = [
        one for one in scene.log if one.stream == member_stream(meta(scene.get(PODS, "orphan"))["namespace"], "orphan")
    ]
    around = [one for one in scene.log if one.stream.startswith("owner/")]
    said = explain_member(own, around).sentence
    assert "The group is not made: ReplicaSet web-1 (UID uid-web-1) is not there" in said
    assert "not there yet" not in said
