"""The capability beside others who write too: Volcano's own groups, groups that users make, webhooks, servers that
change nothing.
"""

from __future__ import annotations

from controlplane.controllers.podgroups.events import GroupStatusDecided, GroupUpdateDecided
from controlplane.controllers.podgroups.objects import (
    CONFIG_MAPS,
    GROUP_NAME,
    MIN_MEMBER,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
)
from controlplane.kube.kinds import Json, meta
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.podgroups.test_fleet import DEPLOYMENT, GROUP, RS, group_of, stage, web


def test_pods_that_were_annotated_before_we_came_are_members_too() -> None:
    scene = stage()
    owned = {
        **manifest(ref("Widget", GROUP, "g"), DEPLOYMENT),
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
    }
    scene.put(owned | {"spec": {"minMember": 2, "minResources": {"cpu": "1"}}})
    for name in ("old-1", "old-2"):
        scene.put(
            pod_manifest(RS, name, notes={GROUP_NAME: GROUP}, spec={"nodeName": "n1"}, status={"phase": "Running"})
        )
    scene.settle().later(seconds=2)
    assert scene.get(POD_GROUPS, GROUP)["status"]["phase"] == "Running"
    web(scene, "new", members="2").later(seconds=2)
    assert scene.get(POD_GROUPS, GROUP)["status"]["running"] == 2
    assert group_of(scene, "new") == GROUP
    assert scene.requests["create", "podgroups.scheduling.volcano.sh"] == 0


def test_a_group_that_a_pod_names_and_that_is_not_there_is_not_made() -> None:
    scene = stage()
    scene.put(pod_manifest(RS, "p", notes={GROUP_NAME: "mine"}))
    scene.settle().later(hours=1)
    assert scene.all(POD_GROUPS) == []
    assert scene.requests.total() == 0


def test_a_group_of_ones_own_gets_its_phase_and_keeps_its_fields() -> None:
    scene = stage()
    mine = {**manifest(ref("Widget", "mine", "g")), "apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
    scene.put(mine | {"spec": {"minMember": 1}})
    scene.put(pod_manifest(RS, "p", notes={GROUP_NAME: "mine"}))
    web(scene).later(seconds=2)
    assert scene.get(POD_GROUPS, "mine")["spec"] == {"minMember": 1}
    assert scene.get(POD_GROUPS, "mine")["status"]["phase"] == "Pending"


def test_pods_of_other_schedulers_are_not_even_recorded() -> None:
    scene = stage()
    before = len(scene.log)
    scene.put(pod_manifest(name="other", spec={"schedulerName": "default-scheduler"}))
    scene.remove(scene.get(PODS, "other"))
    assert len(scene.log) == before


def test_what_exists_is_told_to_whoever_starts_to_watch() -> None:
    scene = web(stage(), "p1")
    existing = scene.fleet.index.existing
    assert existing(PODS)["uid-p1"][:2] == ("team-a", "p1")
    assert [place[1] for place in existing(POD_GROUPS).values()] == [GROUP]
    assert existing(CONFIG_MAPS)["cm"][1] == "volcano-controller-configmap"
    assert existing(REPLICA_SETS) == {
        "uid-web-1": ("team-a", "web-1", meta(scene.get(REPLICA_SETS, "web-1"))["resourceVersion"])
    }


def test_a_server_that_changes_nothing_is_not_asked_in_a_circle() -> None:
    scene = stage()
    scene.deaf = "PodGroup"  # as if the status could only be written elsewhere
    web(scene, "p1").later(seconds=2)
    for _ in range(100):
        scene.later(seconds=2)
    assert len(scene.recorded(GroupStatusDecided)) <= 2
    assert group_of(scene, "p1") == GROUP


def test_a_webhook_that_undoes_what_we_write_is_met_slower_each_time() -> None:
    scene = web(stage(), "p1")

    def undo(obj: Json) -> Json:
        return {**obj, "spec": obj["spec"] | {"minMember": 1}} if obj["kind"] == "PodGroup" else obj

    scene.webhook = undo
    scene.put(manifest(DEPLOYMENT, notes={MIN_MEMBER: "3"}))
    scene.settle()
    for _ in range(100):
        scene.later(seconds=1)
    assert 2 <= len(scene.recorded(GroupUpdateDecided)) <= 9
