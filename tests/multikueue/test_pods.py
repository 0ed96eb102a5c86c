"""Pods and groups of pods: they stay gated on the management cluster, every pod of a group is on the worker once, and what
is seen of it there is shown on its own.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClusterRefused,
    JobCreationDecided,
    RemovalDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.pod import Pod
from controlplane.kube.kinds import PODS, WORKLOADS, Json
from tests.multikueue.observed import metadata, observe, sighting, workload
from tests.multikueue.rendered import body
from tests.multikueue.scene import NS, START, Scene

KUEUE: dict[str, Any] = {"pod_gate": "kueue"}
RUNS = {"QuotaReserved": True, "Admitted": True}
ONE, TWO = "11" * 32, "22" * 32


class Pods(Scene):
    """A group of pods `p-0`, `p-1`, …, whose Workload is owned by all of them; or one pod that is in no group."""

    def __init__(self, *workers: str, names: tuple[str, ...] = ("p-0", "p-1"), **more: Any) -> None:
        super().__init__(*workers, connected=False, policy=KUEUE | more)
        for name in workers:
            self.connect(name)
        self.pods: dict[str, dict[str, Any]] = {}
        self.names_ = names
        for name in names:
            self.pod(name)
        self.workload({"QuotaReserved": True}, **self.owned(*names))

    def owned(self, *names: str) -> dict[str, Any]:
        owner = observations.Owner(api_version="v1", kind="Pod", name=names[0], uid=f"uid-{names[0]}")
        return {"owner": owner, "owners": [f"uid-{name}" for name in names] if len(names) > 1 else []}

    def connect(self, name: str, kinds: tuple[Any, ...] = (WORKLOADS, PODS)) -> Scene:
        return super().connect(name, kinds)

    def pod(self, name: str, **changes: Any) -> Pods:
        group = "" if len(self.names_) == 1 else "gang"
        known = self.pods.setdefault(
            name, {"suspended": True, "group": group, "template": "aa" * 32, "status": "00" * 32}
        )
        known.update(changes)
        seen = observations.JobObserved(
            namespace=NS, name=name, uid=f"uid-{name}", kind=PODS.name, resource_version=self._rv(), **known
        )
        self.fold(f"job/{PODS.name}/{NS}/{name}", seen)
        return self

    def pod_gone(self, name: str) -> Pods:
        self.pods.pop(name)
        gone = observations.JobGone(namespace=NS, name=name, uid=f"uid-{name}", kind=PODS.name)
        self.fold(f"job/{PODS.name}/{NS}/{name}", gone)
        return self

    def copy(self, cluster: str, name: str, **changes: Any) -> Pods:
        fields: dict[str, Any] = {"suspended": False, "status": "00" * 32, "prebuilt": self.wl, **changes}
        seen = observations.RemoteJobObserved(
            namespace=NS, name=name, uid=f"{cluster}-{name}", kind=PODS.name, resource_version=self._rv(), **fields
        )
        self.fold(self.stream, seen, cluster)
        return self

    def copy_gone(self, cluster: str, name: str) -> Pods:
        gone = observations.RemoteJobGone(namespace=NS, name=name, uid=f"{cluster}-{name}", kind=PODS.name)
        self.fold(self.stream, gone, cluster)
        return self

    def admitted(self, *clusters: str) -> Pods:
        self.decide()
        self.workload(nominated=list(clusters))
        self.decide()
        for name in clusters:
            self.clone(name)
        self.clone(clusters[0], RUNS)
        return self

    def running(self, winner: str = "a", *clusters: str) -> Pods:
        """Every pod of the group is on the winner, and runs there."""
        self.admitted(*(clusters or (winner,)))
        self.decide()
        for name in self.names_:
            self.copy(winner, name)
        self.decide()
        self.workload({"Admitted": True}, check="Ready", cluster_name=winner, nominated=[])
        self.decide()
        for name in self.names_:
            self.copy(winner, name, status=ONE, inactive=False)
        self.tick(seconds=1).decide()
        for name in self.names_:
            self.pod(name, status=ONE, inactive=False)
        assert self.names() == []
        return self

    def writes(self) -> list[tuple[str, str]]:
        """One pass; its decisions and which pod each is about."""
        return [
            (type(event).__name__.removesuffix("Decided"), str(getattr(event, "member", ""))) for event in self.decide()
        ]


# --- what is seen of them --------------------------------------------------------------------------------------------


def pod(**spec: Any) -> Json:
    labels = {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/pod-group-name": "gang"}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata("p-0", labels=labels),
        "spec": {"containers": [], "schedulingGates": gates, **spec},
        "status": {"phase": "Pending"},
    }


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
    """It was what had been written last, and so counted as written: the group was finished, and its pods waited for ever."""
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


# --- the way back ------------------------------------------------------------------------------------------------------


def test_all_pods_go_before_the_workloads_copy_goes() -> None:
    scene = Pods("a").running()
    scene.gone()
    assert scene.writes() == [("Removal", "p-1"), ("Removal", "")]
    first, second = scene.decided[-2:]
    assert isinstance(first, RemovalDecided)
    assert isinstance(second, RemovalDecided)
    assert (first.uid, second.uid) == ("a-p-1", "a-p-0")
    scene.copy_gone("a", "p-0")
    assert scene.writes() == []
    scene.copy_gone("a", "p-1")
    assert scene.names() == ["Removal Workload a"]


def test_a_group_that_is_evicted_stops_and_its_pods_are_shown_as_waiting() -> None:
    scene = Pods("a").running()
    scene.workload({"Evicted": "Preempted"}, check="Pending", cluster_name="")
    assert scene.names() == ["Deactivation a"]
    scene.clone("a", {"DeactivationTarget": True, "Evicted": "Deactivated"}, active=False)
    # The worker's Kueue takes the pods away, and one of them fails with that.
    scene.copy("a", "p-0", status=TWO, finished=True, deleting=True)
    assert scene.writes() == []
    scene.copy_gone("a", "p-0").copy_gone("a", "p-1")
    scene.decide()
    rests = [one for one in scene.decided if isinstance(one, StatusRelayDecided) and one.drain]
    assert {one.member for one in rests} == {"", "p-1"}
    assert not any(one.status == TWO for one in scene.decided if isinstance(one, StatusRelayDecided))


def test_a_pod_that_its_worker_takes_away_is_not_shown_as_failed() -> None:
    scene = Pods("a").running()
    scene.copy("a", "p-0", status=TWO, finished=True, inactive=True, deleting=True)
    scene.copy("a", "p-1", status=TWO, finished=True, inactive=True, deleting=True)
    assert scene.tick(seconds=2).names() == []


@pytest.mark.parametrize("seen", ["p-0", "p-1"])
def test_no_pod_is_started_elsewhere_while_any_of_its_group_may_run_on_a_lost_cluster(seen: str) -> None:
    scene = Pods("a", "b").running("a", "a", "b")
    other = "p-1" if seen == "p-0" else "p-0"
    scene.workload({"Evicted": "Preempted", "QuotaReserved": False}, check="Pending", cluster_name="")
    scene.copy_gone("a", other).lose("a")
    scene.workload({"QuotaReserved": True, "Evicted": False})
    assert "Nomination" not in scene.names()
    scene.tick(minutes=15)
    assert scene.names() == ["Nomination"]


def test_the_job_of_a_group_stays_the_same_while_its_pod_owns_the_workload() -> None:
    scene = Pods("a").running()
    scene.workload(**scene.owned("p-1", "p-0"))
    assert scene.state.owner is not None
    assert scene.state.owner.name == "p-0"
    assert scene.names() == []


def test_when_the_first_pod_is_gone_another_takes_its_part_and_none_is_created_twice() -> None:
    scene = Pods("a", names=("p-0", "p-1", "p-2")).running()
    scene.copy("a", "p-0", status=TWO, finished=True, inactive=True).tick(seconds=2).decide()
    scene.pod("p-0", status=TWO, finished=True, inactive=True).pod_gone("p-0")
    scene.workload(**scene.owned("p-1", "p-2"))
    remote = scene.state.remote("a")
    assert remote.job is not None
    assert (remote.job.name, sorted(remote.members)) == ("p-1", ["p-0", "p-2"])
    assert scene.names() == []


def test_the_last_copy_of_a_group_goes_when_another_pod_owns_the_workload_by_then() -> None:
    """The news that it is gone was taken for that of another one, and its removal was tried for ever."""
    group = Pods("a", "b").running("a", "a", "b")
    group.workload({"QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name="")
    assert {"Removal Job a"} <= set(group.names())
    group.copy_gone("a", "p-1").workload(**group.owned("p-1", "p-2"))  # of which p-0 is none any more
    assert "a/Job" not in group.state.effects
    group.copy_gone("a", "p-0")
    assert group.state.remote("a").job is None
    assert not group.state.remote("a").members


def test_a_pod_with_a_queue_that_kueue_does_not_look_after_is_none_of_ours() -> None:
    bare = pod()
    bare["metadata"] = {**bare["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    scene = Scene("a")
    assert scene.fleet.observe(sighting("@management", PODS, bare), START) is None
    assert scene.fleet.observe(sighting("@management", PODS, bare, gone=True), START) is None
