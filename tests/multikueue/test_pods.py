"""Pods and groups of pods: they stay gated on the management cluster, every pod of a group is on the worker once, and
what is seen of it there is shown on its own.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClusterRefused,
    JobCreationDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.pod import Pod
from controlplane.kube.kinds import PODS, WORKLOADS
from tests.multikueue.grouped import ONE, TWO, Pods, pod
from tests.multikueue.observed import metadata, observe, workload
from tests.multikueue.rendered import body
from tests.multikueue.scene import NS

ROLE = "kueue.x-k8s.io/role-hash"


def test_the_role_of_a_pod_is_that_which_kueue_has_noted_and_its_copy_has_the_same() -> None:
    local = pod()
    assert observe("@management", PODS, local).event.role == ""
    local["metadata"]["annotations"] = {ROLE: "1ead"}
    assert observe("@management", PODS, local).event.role == "1ead"
    template = {part: local["metadata"][part] for part in ("labels", "annotations")} | {"spec": local["spec"]}
    copied = JOB_KINDS["pod"].clone(template, "default", "p-0", "gang", "home")
    copied["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert observe("a", PODS, {**copied, "status": {"phase": "Succeeded"}}).event.role == "1ead"
    local["metadata"]["labels"] = {"kueue.x-k8s.io/managed": "true"}
    assert observe("@management", PODS, local).event.role == "", "it is in no group"


def test_a_pod_is_seen_with_its_group_and_its_gates() -> None:
    seen = observe("@management", PODS, pod()).event
    assert (seen.group, seen.suspended, seen.held, seen.inactive) == ("gang", True, False, True)
    held = pod(schedulingGates=[{"name": HELD}])
    assert observe("@management", PODS, held).event.held
    assert observe("@management", PODS, held).event.suspended
    assert not observe("@management", PODS, pod(schedulingGates=[])).event.suspended
    running = {**pod(), "status": {"phase": "Running"}}
    assert not observe("@management", PODS, running).event.inactive


def test_a_workload_with_several_owners_names_them_all() -> None:
    references = [{"apiVersion": "v1", "kind": "Pod", "name": f"p-{at}", "uid": f"u-{at}"} for at in range(2)]
    seen = observe("@management", WORKLOADS, workload(metadata=metadata(ownerReferences=references))).event
    assert (seen.owner.name, seen.owners) == ("p-0", ["u-0", "u-1"])
    assert observe("@management", WORKLOADS, workload()).event.owners == []


def test_a_copy_has_kueues_gate_and_not_the_one_that_holds_it_here() -> None:
    template = {"labels": {}, "annotations": {}, "spec": {"schedulingGates": [{"name": HELD}, {"name": "mine"}]}}
    made = Pod().clone(template, NS, "p-0", "gang", "here")
    assert made["spec"]["schedulingGates"] == [{"name": "mine"}, {"name": "kueue.x-k8s.io/admission"}]


# --- where they may run -----------------------------------------------------------------------------------------------


def test_a_pod_that_kueue_would_start_here_as_well_is_rejected_and_told_what_to_do() -> None:
    scene = Pods("a", names=("p-0",), pod_gate="own")
    (decision,) = scene.decide()
    assert decision.state == "Rejected"  # type: ignore[attr-defined]
    assert "controlplane/dispatched" in decision.message  # type: ignore[attr-defined]
    assert "multikueue.podGate" in decision.message  # type: ignore[attr-defined]


def test_pods_that_are_held_here_are_dispatched_and_one_that_is_not_keeps_its_group_out() -> None:
    scene = Pods("a", pod_gate="own").pod("p-0", held=True)
    assert scene.names() == ["CheckState"]
    assert scene.pod("p-1", held=True).workload(check="Pending").names() == ["Nomination", "Clone a"]


# --- their way --------------------------------------------------------------------------------------------------------


def test_one_pod_goes_its_way_like_any_job() -> None:
    scene = Pods("a", "b", names=("p-0",)).running("a")
    scene.copy("a", "p-0", status=TWO, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "")})
    assert scene.writes() == [("StatusRelay", "")]
    scene.pod("p-0", status=TWO, finished=True, inactive=True).tick(seconds=1)
    assert scene.writes() == [("Finish", "")]
    scene.workload({"Finished": ("Succeeded", "")})
    assert scene.names() == ["Removal Job a"]
    assert scene.copy_gone("a", "p-0").names() == ["Removal Workload a"]


def test_every_pod_of_a_group_is_created_on_the_winner_once() -> None:
    scene = Pods("a", names=("p-0", "p-1", "p-2")).admitted("a")
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
    scene.copy("a", "p-0")
    assert scene.names() == ["CheckState"]
    scene.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    assert scene.writes() == [("JobCreation", "p-1"), ("JobCreation", "p-2")]
    assert scene.writes() == []
    scene.copy("a", "p-1")
    assert scene.writes() == []
    scene.copy("a", "p-2")
    assert scene.writes() == []


def test_a_group_goes_elsewhere_where_the_name_of_one_of_its_pods_is_taken() -> None:
    """Kueue asks the worker again and again, and the rest of the group waits for it there."""
    scene = Pods("a", "b").admitted("a", "b")
    scene.decide()
    scene.clone_gone("b")
    scene.copy("a", "p-0").decide()
    scene.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    (creation,) = scene.decide()
    assert isinstance(creation, JobCreationDecided)
    scene.refuses(creation, 409, "Foreign", timedelta(seconds=1))
    refused, retry = scene.decide()
    assert isinstance(refused, ClusterRefused)
    assert isinstance(retry, CheckStateDecided)
    assert (refused.cluster, refused.reason) == ("a", WorkloadReason.JOB_NAME_TAKEN)
    assert (retry.state, retry.reason) == ("Retry", WorkloadReason.JOB_NAME_TAKEN)
    assert scene.names() == []
    # It is stopped there, has its quota back, and is not offered to that cluster before the pause is over.
    scene.workload({"Evicted": "AdmissionCheck"}, check="Pending", cluster_name="")
    assert scene.names() == ["Deactivation a"]
    scene.clone("a", {"Evicted": "Deactivated", "QuotaReserved": False, "Admitted": False}, active=False)
    scene.copy_gone("a", "p-0")
    scene.workload({"QuotaReserved": False, "Admitted": False})
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a").workload({"QuotaReserved": True, "Evicted": False})
    assert scene.names() == ["Nomination", "Clone b"]
    scene.workload(nominated=["b"]).tick(minutes=6)
    assert scene.names() == ["Nomination", "Clone a"]


def test_a_pods_creation_names_the_pod() -> None:
    scene = Pods("a").admitted("a")
    scene.decide()
    scene.copy("a", "p-0").decide()
    ref, bodies = body({"labels": {}, "annotations": {}, "spec": {"containers": []}})
    scene.pod("p-1", template=ref)
    scene.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    (decision,) = scene.decide()
    assert isinstance(decision, JobCreationDecided)
    assert decision.target == "a/Job/p-1"
    (write,) = scene.fleet.open_writes(scene.stream)
    request = scene.fleet.request(write, bodies, scene.now)
    assert request is not None
    assert (request.verb, request.ref.name, request.body["metadata"]["name"]) == ("create", "p-1", "p-1")


def test_the_statuses_of_all_are_copied_and_the_last_ones_before_the_end() -> None:
    scene = Pods("a").running()
    scene.copy("a", "p-0", status=TWO, finished=True).copy("a", "p-1", status=TWO, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "Pods succeeded: 2/2.")})
    assert sorted(scene.writes()) == [("StatusRelay", ""), ("StatusRelay", "p-1")]
    scene.pod("p-0", status=TWO, finished=True, inactive=True)
    assert scene.writes() == []
    scene.pod("p-1", status=TWO, finished=True, inactive=True).tick(seconds=1)
    assert scene.writes() == [("Finish", "")]
    scene.workload({"Finished": ("Succeeded", "Pods succeeded: 2/2.")})
    assert scene.writes() == [("Removal", "p-1"), ("Removal", "")]


def test_the_last_status_of_every_pod_is_copied_again_when_the_management_cluster_went_back_to_before() -> None:
    """It was what had been written last, and so counted as written: the group was finished, and its pods waited for
    ever."""
    scene = Pods("a").running()
    scene.copy("a", "p-0", status=TWO, finished=True).copy("a", "p-1", status=TWO, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "Pods succeeded: 2/2.")}).decide()
    for name in scene.names_:
        scene.pod(name, status=TWO, finished=True, inactive=True)
    for name in scene.names_:
        scene.pod(name, status=ONE, finished=False, inactive=False)
    assert sorted(scene.tick(seconds=1).writes()) == [("StatusRelay", ""), ("StatusRelay", "p-1")]
    for name in scene.names_:
        scene.pod(name, status=TWO, finished=True, inactive=True)
    assert scene.tick(seconds=1).writes() == [("Finish", "")]


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_pod_whose_copy_was_gone_before_its_end_was_seen_ends_as_its_group(end: str) -> None:
    """Its status would never come, and its user's pod would wait for ever."""
    scene = Pods("a", names=("p-0", "p-1", "p-2")).running()
    scene.copy("a", "p-0", status=TWO, finished=True)
    scene.clone("a", {"Finished": (end, "")})
    scene.copy_gone("a", "p-1")
    assert scene.writes() == [("StatusRelay", "")]
    scene.pod("p-0", status=TWO, finished=True, inactive=True)
    assert scene.writes() == []  # two watches: news of p-2's end, or of p-1's copy, may be a little behind
    scene.copy("a", "p-2", status=TWO, finished=True)
    assert scene.writes() == [("StatusRelay", "p-2")]
    scene.pod("p-2", status=TWO, finished=True, inactive=True).tick(seconds=30)
    (decision,) = scene.decide()
    assert isinstance(decision, StatusRelayDecided)
    assert (decision.member, decision.source, decision.outcome) == ("p-1", "a", end)
    scene.pod("p-1", status="33" * 32, finished=True, inactive=True)
    assert scene.writes() == [("Finish", "")]


def test_the_first_pod_of_a_group_ends_as_its_group_too() -> None:
    scene = Pods("a").running()
    scene.copy("a", "p-1", status=TWO, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "")})
    scene.copy_gone("a", "p-0")
    assert scene.writes() == [("StatusRelay", "p-1")]
    scene.pod("p-1", status=TWO, finished=True, inactive=True)
    assert scene.writes() == []
    (decision,) = scene.tick(seconds=30).decide()
    assert isinstance(decision, StatusRelayDecided)
    assert (decision.member, decision.outcome) == ("", "Succeeded")
    scene.pod("p-0", status="33" * 32, finished=True, inactive=True).tick(seconds=1)
    assert scene.writes() == [("Finish", "")]


def test_the_last_statuses_of_a_group_come_late_where_its_cluster_was_away_for_longer_than_its_grace() -> None:
    scene = Pods("a", names=("p-0", "p-1", "p-2")).running()
    scene.copy("a", "p-0", status=TWO, finished=True).decide()
    scene.clone("a", {"Finished": ("Succeeded", "")})
    scene.pod("p-0", status=TWO, finished=True, inactive=True)
    scene.lose("a")
    assert scene.tick(minutes=16).writes() == [("Finish", "")]
    scene.workload({"Finished": ("Succeeded", "")})
    scene.copy("a", "p-1", status=TWO, finished=True).copy_gone("a", "p-2").connect("a")
    assert ("StatusRelay", "p-1") in scene.writes()
    assert "Removal" not in {type(one).__name__.removesuffix("Decided") for one in scene.decided}
    scene.pod("p-1", status=TWO, finished=True, inactive=True)
    scene.writes()
    scene.pod("p-2", status="33" * 32, finished=True, inactive=True)
    assert ("Removal", "p-1") in scene.writes()


def test_an_end_that_nobody_saw_is_written_as_the_groups_and_says_so() -> None:
    scene = Pods("a").running()
    ours, known = body({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    scene.pod("p-1", status=ours)
    scene.copy("a", "p-0", status=TWO, finished=True)
    scene.clone("a", {"Finished": ("Failed", "")})
    scene.copy_gone("a", "p-1").decide()
    scene.pod("p-0", status=TWO, finished=True, inactive=True).tick(seconds=30).decide()
    (write,) = scene.fleet.open_writes(scene.stream)
    request = scene.fleet.request(write, known, scene.now)
    assert request is not None
    said = "The pod was gone from its worker before its end was seen; its Workload ended as Failed"
    assert request.body == {"status": {"phase": "Failed", "reason": "EndNotSeen", "message": said}}


@pytest.mark.parametrize(("code", "waits"), [(500, True), (503, True), (429, True), (403, False), (422, False)])
def test_the_last_status_of_a_pod_is_written_though_its_api_server_has_trouble_for_a_while(
    code: int, waits: bool
) -> None:
    """It was given up after three errors within three seconds: the group was finished, and its pod waited for ever."""
    scene = Pods("a").running()
    scene.copy("a", "p-0", status=TWO, finished=True).copy("a", "p-1", status=TWO, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "")}).decide()
    scene.pod("p-0", status=TWO, finished=True, inactive=True)
    for failures in (1, 2, 3):
        (write,) = [
            effect.decision
            for effect in scene.state.effects.values()
            if isinstance(effect.decision, StatusRelayDecided)
        ]
        scene.refuses(write, code, "InternalError", timedelta(seconds=1), failures)
        scene.tick(seconds=2).decide()
    assert ("FinishDecided" in [type(one).__name__ for one in scene.decided]) != waits


def test_a_pod_whose_last_status_was_forbidden_keeps_its_copy_until_it_is_written() -> None:
    scene = Pods("a").running()
    scene.copy("a", "p-0", status=TWO, finished=True).copy("a", "p-1", status=TWO, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "")})
    (write,) = [one for one in scene.decide() if isinstance(one, StatusRelayDecided) and one.member == "p-1"]
    scene.pod("p-0", status=TWO, finished=True, inactive=True)
    scene.refuses(write, 403, "Forbidden", timedelta(seconds=1), 3)
    scene.tick(seconds=2)
    assert scene.names() == ["Finish"]
    scene.workload({"Finished": ("Succeeded", "")})
    assert scene.names() == []
    assert scene.wake is not None
    scene.now = scene.wake
    assert scene.names() == ["StatusRelay"]
    scene.pod("p-1", status=TWO, finished=True, inactive=True)
    assert "Removal Job a" in scene.names()


def test_a_gated_pod_keeps_its_own_condition_until_its_copy_is_scheduled() -> None:
    scene = Pods("a").running()
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    ours, known = body({"phase": "Pending", "conditions": [gated]})
    waits, more = body({"phase": "Pending", "conditions": [{**gated, "reason": "Unschedulable"}]})
    scene.pod("p-1", status=ours, inactive=True).copy("a", "p-1", status=waits)
    (decision,) = scene.tick(seconds=2).decide()
    assert isinstance(decision, StatusRelayDecided)
    (write,) = scene.fleet.open_writes(scene.stream)
    assert set(scene.fleet.bodies_needed(write)) == {ours, waits}
    request = scene.fleet.request(write, {**known, **more}, scene.now)
    assert request is not None
    assert (request.ref.name, request.body) == ("p-1", {"status": {}})
    runs = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    assert Pod().shown(runs, {"conditions": [gated]}, suspended=True) == runs


def test_a_pod_that_takes_the_place_of_a_failed_one_is_created_too() -> None:
    scene = Pods("a").running()
    scene.copy("a", "p-1", status=TWO, finished=True)
    assert scene.writes() == [("StatusRelay", "p-1")]
    scene.pod("p-1", status=TWO, finished=True, inactive=True).pod("p-2")
    assert scene.writes() == [("JobCreation", "p-2")]
    # The copy of the failed one is taken away there: it has ended, and is not made again.
    scene.copy("a", "p-2").copy_gone("a", "p-1")
    assert scene.writes() == []


def test_a_pod_that_becomes_the_job_of_its_group_while_its_copy_is_made_is_made_once() -> None:
    """Its creation was open for ever, and carried out again as soon as the copy of the finished group was gone."""
    scene = Pods("a").running()
    scene.copy("a", "p-0", status=TWO, finished=True)
    scene.decide()
    scene.pod("p-0", status=TWO, finished=True, inactive=True).pod("p-2")
    assert ("JobCreation", "p-2") in scene.writes()
    scene.workload({"QuotaReserved": True, "Admitted": True}, **scene.owned("p-2", "p-1"))
    scene.copy("a", "p-2")
    assert [one for one in scene.state.effects if one.endswith("p-2")] == []


@pytest.mark.parametrize("name", ["p-0", "p-1"])
def test_a_pod_that_was_put_back_to_before_it_failed_is_shown_that_again(name: str) -> None:
    """Its group goes on, with another pod in its place, so its Workload does not finish and says nothing of it."""
    scene = Pods("a").running()
    scene.copy("a", name, status=TWO, finished=True, inactive=True)
    assert scene.names() == ["StatusRelay"]
    scene.pod(name, status=TWO, finished=True, inactive=True)
    assert scene.tick(seconds=2).names() == []
    scene.pod(name, status=ONE, finished=False, inactive=False)
    assert scene.names() == ["StatusRelay"]
    scene.pod(name, status=TWO, finished=True, inactive=True)
    assert scene.tick(seconds=2).names() == []
