"""Workloads are placed on nodes, at once, late, or again; their statuses say where, and users are told why not."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.controllers.quota.engine import model
from controlplane.controllers.quota.engine.rendering import admission_of
from controlplane.controllers.quota.topology.model import DomainPods, TopologyAssignment
from controlplane.kube import kinds
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.checks import answer
from tests.quota.admission.placed import HOST, given, node, places, pod, submit, with_topology
from tests.quota.admission.scene import NS, Scene


def test_a_workload_is_placed_and_its_status_says_where() -> None:
    scene = with_topology(("n1", "r1", "4"), ("n2", "r2", "4"))
    pod(scene, "other", cpu="3")
    submit(scene, "w", count=3)
    scene.settle()
    assert scene.is_true("w", "Admitted")
    assert given(scene, "w")["topologyAssignment"] == {
        "levels": [HOST],
        "slices": [
            {"domainCount": 1, "valuesPerLevel": [{"universal": "n2"}], "podCounts": {"universal": 3}},
        ],
    }
    other = scene.replayed()
    assert other.index.engine.snapshot.workloads[f"{NS}/w"].placed == (
        scene.controller.index.engine.snapshot.workloads[f"{NS}/w"].placed
    )
    submit(scene, "x", count=2)
    scene.settle()
    assert not scene.is_true("x", "QuotaReserved"), "one pod fits on each node, and no two in a rack"


def test_a_node_that_comes_lets_who_waits_be_placed() -> None:
    scene = with_topology(("n1", "r1", "1"))
    submit(scene, "w")
    scene.settle()
    assert not scene.is_true("w", "QuotaReserved")
    node(scene, "n2")
    scene.settle()
    assert places(scene, "w") == {"n2": 2}


def provisioned(scene: Scene) -> None:
    scene.put(
        kinds.ADMISSION_CHECKS,
        "prov",
        spec={"controllerName": "kueue.x-k8s.io/provisioning-request"},
        status={"conditions": [{"type": "Active", "status": "True"}]},
    )


def delayed(*nodes: tuple[str, str, str]) -> Scene:
    scene = with_topology(*nodes, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    provisioned(scene)
    scene.settle()
    submit(scene, "w")
    scene.settle()
    return scene


def test_where_a_provisioning_request_comes_first_the_placement_waits_for_it() -> None:
    scene = delayed(("n1", "r1", "4"))
    assert scene.is_true("w", "QuotaReserved")
    assert given(scene, "w")["delayedTopologyRequest"] == "Pending"
    assert "topologyAssignment" not in given(scene, "w")
    answer(scene, "w", "Ready")
    scene.settle()
    admitted = scene.condition("w", "Admitted")
    assert (admitted["status"], admitted["reason"]) == ("False", "PendingDelayedTopologyRequests")
    posted = scene.posted()
    scene.pass_time(1)
    assert places(scene, "w") == {"n1": 2}
    assert given(scene, "w")["delayedTopologyRequest"] == "Ready"
    assert scene.is_true("w", "Admitted")
    assert scene.posted() == posted, "the quota is posted once"


def test_a_placement_that_fails_is_tried_again_after_a_while() -> None:
    scene = delayed(("n1", "r1", "1"))
    answer(scene, "w", "Ready")
    scene.settle()
    for seconds in (1, 1, 2, 4):
        scene.pass_time(seconds)
    assert [one.tries for one in scene.said(of_topology.TopologyAssignmentFailed)] == [1, 2, 3]
    assert scene.is_true("w", "QuotaReserved")
    node(scene, "n1", cpu="4")
    scene.pass_time(8)
    assert scene.is_true("w", "Admitted")


def test_a_placement_whose_write_is_lost_or_overtaken_is_decided_again() -> None:
    scene = delayed(("n1", "r1", "4"))
    answer(scene, "w", "Ready")
    scene.settle()
    lost: list[str] = []

    def loses(request: Any) -> bool:
        lost.append(request.verb)
        return len(lost) == 1

    scene.loses = loses
    scene.now += (one := scene.wakes["admission/cycle"] - scene.now)
    assert one.total_seconds() <= 1
    scene.decide()
    scene.carry_out()
    assert scene.controller.index.workload(f"{NS}/w").placement is not None
    scene.put(kinds.WORKLOADS, "w", NS, metadata={"labels": {"touched": "yes"}})
    assert scene.controller.index.workload(f"{NS}/w").placement is None
    scene.pass_time(2)
    assert scene.is_true("w", "Admitted")
    assert len(scene.said(of_topology.TopologyAssignmentDecided)) == 2


def test_an_admission_is_written_as_kueue_writes_it() -> None:
    topology = TopologyAssignment((HOST,), (DomainPods(("n-1",), 1), DomainPods(("n-2",), 1)))
    one = model.PodSetAssignment("main", {"cpu": "gpu"}, {"cpu": 2000}, 2, topology, "Ready")
    (made,) = admission_of(model.QuotaAdmission("q", (one,)))["podSetAssignments"]
    assert made == {
        "name": "main",
        "flavors": {"cpu": "gpu"},
        "resourceUsage": {"cpu": "2"},
        "count": 2,
        "topologyAssignment": {
            "levels": [HOST],
            "slices": [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"prefix": "n-", "roots": ["1", "2"]}}],
                    "podCounts": {"universal": 1},
                }
            ],
        },
        "delayedTopologyRequest": "Ready",
    }


def failed_notices(scene: Scene) -> list[str]:
    told = [one for one in scene.told if one["reason"] == "SecondPassFailed"]
    assert all((one["type"], one["regarding"]["kind"]) == ("Warning", "Workload") for one in told)
    return [one["note"] for one in told]


def test_users_are_told_once_why_the_second_pass_fails() -> None:
    scene = delayed(("n1", "r1", "1"))
    answer(scene, "w", "Ready")
    scene.settle()
    for seconds in (1, 1, 2, 4, 8):
        scene.pass_time(seconds)
    (failure, *others) = scene.said(of_topology.TopologyAssignmentFailed)
    assert others, "it is tried again and again"
    assert failed_notices(scene) == [failure.message]
    node(scene, "n1", cpu="1", ready=False)
    scene.pass_time(30)
    assert len(failed_notices(scene)) == 2, "it says something else now"
    node(scene, "n1", cpu="4")
    scene.pass_time(30)
    assert scene.is_true("w", "Admitted")


def test_an_event_that_is_refused_keeps_nobody_from_being_placed() -> None:
    scene = delayed(("n1", "r1", "1"))
    scene.refuses = lambda request: (
        WriteRefusal(403, "Forbidden", "no Events") if request.ref.kind == kinds.EVENTS else None
    )
    answer(scene, "w", "Ready")
    scene.settle()
    scene.pass_time(1)
    assert failed_notices(scene) == []
    assert len(scene.said(of_topology.SecondPassNoticeDecided)) == 1
    node(scene, "n1", cpu="4")
    scene.pass_time(2)
    assert scene.is_true("w", "Admitted")
