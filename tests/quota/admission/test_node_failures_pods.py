"""Pods that wait for a node that has failed: which of them fail, and what becomes of a single pod's Workload."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.kube import kinds
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.placed import node, places
from tests.quota.admission.scene import NS, Scene
from tests.quota.admission.test_node_failures import (
    NO_SCHEDULE,
    PODS,
    admitted,
    failed,
    fleet,
    named,
    replaced,
    running,
    waiting,
    without_ready,
)

# --- pods that wait ---


def test_a_pod_that_waits_for_a_node_that_failed_fails_as_kueue_lets_it() -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    waiting(scene, "a", "n1")
    waiting(scene, "b", "n2")
    node(scene, "n1", taints=[NO_SCHEDULE])
    scene.settle()
    assert named(scene) == ["n1"]
    assert failed(scene) == ["a"]
    status = scene.ended["a"]["status"]
    assert status["phase"] == "Failed"
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("PodScheduled", "False", "Unschedulable"),
        ("TerminatedByKueue", "True", "UnschedulableOnAssignedNode"),
    ]
    (told,) = [one for one in scene.told if one["regarding"]["kind"] == "Pod"]
    said = "Pod terminated by Kueue NodeController due to node taint"
    assert (told["type"], told["reason"], told["action"], told["note"]) == (
        "Normal",
        "PodTerminatedByKueue",
        "PodTerminated",
        said,
    )
    (request,) = [one for one in scene.written if one.ref.kind == kinds.PODS]
    assert (request.subresource, request.uid) == ("status", scene.ended["a"]["metadata"]["uid"])
    assert request.resource_version


def test_a_pod_fails_only_once_its_workload_names_the_node() -> None:
    """The one that is made in its place waits then for another domain, and does not fail again."""
    scene = fleet()
    admitted(scene, "n1")
    waiting(scene)
    scene.settle()
    node(scene, "n1", ready=False)
    scene.settle()
    at = {type(one.event): one.position for one in scene.log}
    decided = next(
        one.position
        for one in scene.log
        if isinstance(one.event, events.WorkloadStatusDecided) and "unhealthyNodes" in one.event.changes
    )
    assert decided < at[of_topology.PodFailureDecided]
    shown = next(one for one in scene.log if one.position > decided and one.stream == f"admission/workload/{NS}/w")
    assert shown.position < at[of_topology.PodFailureDecided]


def test_pods_that_wait_fail_also_while_others_run_on_the_node() -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    running(scene, "a")
    waiting(scene, "b")
    node(scene, "n1", taints=[NO_SCHEDULE])
    scene.settle()
    assert named(scene) == []
    assert failed(scene) == ["b"]


@pytest.mark.parametrize("ready", [True, False])
def test_a_pod_that_comes_late_fails_where_its_workload_is_placed_no_more(*, ready: bool) -> None:
    scene = fleet()
    admitted(scene, "n2")
    waiting(scene, "late", "n1")
    node(scene, "n1", ready=ready)
    scene.settle()
    assert failed(scene) == ["late"]
    assert named(scene) == []


@pytest.mark.parametrize("gone", [True, False])
def test_a_late_pod_of_a_node_that_is_gone_stays_as_with_kueue(*, gone: bool) -> None:
    scene = fleet()
    admitted(scene, "n2")
    waiting(scene, "late", "n1")
    if gone:
        scene.delete(kinds.NODES, "n1")
    else:
        without_ready(scene, "n1")
    scene.drop((PODS, NS, "late"))
    waiting(scene, "late", "n1")
    scene.decide()
    assert named(scene) == []


def test_a_pod_of_a_workload_without_admission_fails_and_one_of_none_does_not() -> None:
    scene = fleet()
    scene.workload("w", "q", cpu="1000")
    waiting(scene, "stray")
    waiting(scene, "alone", of="nobody")
    scene.settle()
    assert failed(scene) == ["stray"]


def test_a_pod_that_was_bound_meanwhile_does_not_fail() -> None:
    scene = fleet()
    admitted(scene, "n2")
    waiting(scene, "late", "n1")
    scene.decide()
    assert scene.said(of_topology.PodFailureDecided)
    scene.refuses = lambda request: WriteRefusal(409, "Conflict", "it has changed") if request.subresource else None
    scene.carry_out()
    scene.refuses = lambda request: None
    running(scene, "late", "n1")
    scene.settle()
    assert failed(scene) == []
    assert len(scene.said(of_topology.PodFailureDecided)) == 1


# --- the pods of a single pod's Workload, and what does not end ---


def of_pod(scene: Scene, **notes: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-p"}
    scene.put(kinds.WORKLOADS, "w", NS, metadata={"ownerReferences": [owner], "annotations": notes})


def test_a_single_pods_workload_stays_where_it_is_and_is_not_tried_for_ever() -> None:
    scene = fleet()
    admitted(scene, "n1")
    of_pod(scene)
    scene.settle()
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == ["n1"]
    for _ in range(5):
        scene.pass_time(10)
        assert named(scene) == []
    assert places(scene, "w") == {"n1": 1}
    assert len(scene.said(of_topology.TopologyAssignmentDecided)) == 1
    node(scene, "n1")
    scene.settle()
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == ["n1"], "it has failed anew"


def test_the_workload_of_a_group_of_one_pod_is_placed_anew() -> None:
    scene = fleet()
    admitted(scene, "n1")
    of_pod(scene, **{"kueue.x-k8s.io/is-group-workload": "true"})
    scene.settle()
    node(scene, "n1", ready=False)
    replaced(scene)
    assert places(scene, "w") == {"n2": 1}


def test_a_group_that_waits_for_pods_in_the_place_of_failed_ones_is_placed_anew() -> None:
    """Its pods have failed with their node, so that it says that it waits for others; it has its quota all the same."""
    scene = fleet()
    admitted(scene, "n1")
    of_pod(scene, **{"kueue.x-k8s.io/is-group-workload": "true"})
    scene.settle()
    node(scene, "n1", ready=False)
    scene.settle()
    scene.set_condition("w", "WaitingForReplacementPods", "True", "PodsFailed")
    scene.pass_time(2)
    assert places(scene, "w") == {"n2": 1}
    assert named(scene) == []
