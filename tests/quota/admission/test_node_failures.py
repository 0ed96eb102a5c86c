"""Nodes that fail: whose names go to `status.unhealthyNodes`, who is evicted, and which pods are let fail. The cases
are those of Kueue's `pkg/controller/tas/node_controller_test.go` (ff69552e), with the gates that are on by default."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.requests import timestamp
from controlplane.kube.topologies import TOPOLOGY_GATE
from tests.quota.admission.placed import HOST, RACK, node, places, with_topology
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each

UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
WORKLOAD = "kueue.x-k8s.io/workload"
PODS = kinds.PODS_OF_TOPOLOGIES
NO_EXECUTE = {"key": "foo", "effect": "NoExecute"}
NO_SCHEDULE = {"key": "foo", "effect": "NoSchedule"}
FOREVER = {"key": "foo", "operator": "Exists"}
FOR_A_WHILE = {**FOREVER, "effect": "NoExecute", "tolerationSeconds": 300}


def admitted(
    scene: Scene,
    *on: str,
    name: str = "w",
    tolerations: tuple[Json, ...] = (),
    flavor: str = "gpu",
    level: str = HOST,
    **status: Any,
) -> None:
    """Have a Workload that is admitted with a pod on each of some nodes."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "tolerations": list(tolerations)}}
    pod_set = {"name": "main", "count": len(on), "template": template, "topologyRequest": {"preferred": RACK}}
    scene.workload(name, "q", podSets=[pod_set])
    values = {"individual": {"roots": list(on)}}
    slices = [{"domainCount": len(on), "valuesPerLevel": [values], "podCounts": {"universal": 1}}]
    given = {
        "name": "main",
        "flavors": {"cpu": flavor},
        "resourceUsage": {"cpu": str(len(on))},
        "count": len(on),
        "topologyAssignment": {"levels": [level], "slices": slices},
    }
    conditions = [
        {"type": one, "status": "True", "reason": one, "message": "", "lastTransitionTime": timestamp(scene.now)}
        for one in ("QuotaReserved", "Admitted", *status.pop("true", ()))
    ]
    admission = {"clusterQueue": "q", "podSetAssignments": [given]}
    scene.put(kinds.WORKLOADS, name, NS, status={"admission": admission, "conditions": conditions, **status})


def running(scene: Scene, name: str = "p", on: str = "n1", of: str = "w", *, placed: bool = True, **also: Any) -> Json:
    notes = {WORKLOAD: of, **({UNCONSTRAINED: "true"} if placed else {})}
    spec = {"nodeName": on, "nodeSelector": {HOST: on}, "containers": []}
    return scene.put(PODS, name, NS, metadata={"annotations": notes, **also}, spec=spec, status={"phase": "Running"})


def leaving(scene: Scene, name: str = "p", on: str = "n1") -> None:
    running(scene, name, on, deletionTimestamp=timestamp(scene.now), finalizers=["kueue.x-k8s.io/managed"])


def waiting(scene: Scene, name: str = "p", on: str = "n1", of: str = "w", *, gated: bool = False) -> Json:
    spec: Json = {"nodeSelector": {} if gated else {HOST: on}, "containers": []}
    if gated:
        spec["schedulingGates"] = [{"name": TOPOLOGY_GATE}]
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    status = {"phase": "Pending", "conditions": conditions}
    notes = {WORKLOAD: of, UNCONSTRAINED: "true"}
    return scene.put(PODS, name, NS, metadata={"annotations": notes}, spec=spec, status=status)


def named(scene: Scene, name: str = "w") -> list[str]:
    return [one["name"] for one in scene.status(name).get("unhealthyNodes") or ()]


def failed(scene: Scene) -> list[str]:
    return sorted(scene.ended)


def fleet(*names: str, cpu: str = "1") -> Scene:
    return with_topology(*((name, "r1", cpu) for name in names or ("n1", "n2", "n3")))


def replaced(scene: Scene) -> None:
    """Let the second pass come: a second after a Workload names a node."""
    scene.settle()
    scene.pass_time(1)


def without_ready(scene: Scene, name: str) -> None:
    """A Node that says nothing of whether it is ready."""
    labels = {RACK: "r1", HOST: name, "pool": "gpu"}
    scene.put(kinds.NODES, name, metadata={"labels": labels}, status={"allocatable": {"cpu": "4", "pods": "10"}})


# --- which node has failed ---

TAINTED = [
    # What the node has, what pods tolerate, what is on it: whether it has failed.
    pytest.param(NO_EXECUTE, (), "running", False, id="NoExecute, a pod runs"),
    pytest.param(NO_EXECUTE, (), "leaving", True, id="NoExecute, the pod is going"),
    pytest.param(NO_EXECUTE, (), "", True, id="NoExecute, no pods"),
    pytest.param(NO_EXECUTE, (), "waiting", True, id="NoExecute, a pod waits for it"),
    pytest.param(NO_EXECUTE, (), "gated", True, id="NoExecute, a pod is gated"),
    pytest.param(NO_EXECUTE, (FOR_A_WHILE,), "running", False, id="NoExecute for a while, a pod runs"),
    pytest.param(NO_EXECUTE, (FOR_A_WHILE,), "leaving", True, id="NoExecute for a while, the pod is going"),
    pytest.param(NO_EXECUTE, (FOREVER,), "leaving", False, id="NoExecute for good"),
    pytest.param(NO_SCHEDULE, (), "running", False, id="NoSchedule, a pod runs"),
    pytest.param(NO_SCHEDULE, (), "waiting", True, id="NoSchedule, a pod waits for it"),
    pytest.param(NO_SCHEDULE, (), "gated", True, id="NoSchedule, a pod is gated"),
    pytest.param(NO_SCHEDULE, (), "", True, id="NoSchedule, no pods"),
    pytest.param(NO_SCHEDULE, (FOREVER,), "", False, id="NoSchedule that is tolerated"),
    pytest.param({"key": "foo", "effect": "PreferNoSchedule"}, (), "", False, id="PreferNoSchedule"),
]


def have(scene: Scene, pods: str) -> None:
    match pods:
        case "running":
            running(scene)
        case "leaving":
            leaving(scene)
        case "waiting":
            waiting(scene)
        case "gated":
            waiting(scene, gated=True)


@each(("taint", "tolerations", "pods", "fails"), TAINTED)
def test_a_node_with_a_taint(taint: Json, tolerations: tuple[Json, ...], pods: str, *, fails: bool) -> None:
    scene = fleet()
    admitted(scene, "n1", tolerations=tolerations)
    have(scene, pods)
    node(scene, "n1", taints=[taint])
    scene.settle()
    assert named(scene) == (["n1"] if fails else [])


@pytest.mark.parametrize(
    ("pods", "fails"),
    [("running", False), ("leaving", True), ("waiting", True), ("gated", True), ("", True)],
)
def test_a_node_that_is_not_ready(pods: str, *, fails: bool) -> None:
    scene = fleet()
    admitted(scene, "n1")
    have(scene, pods)
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == (["n1"] if fails else [])
    assert failed(scene) == (["p"] if pods == "waiting" else [])


def test_a_node_that_is_ready_is_left_alone_whatever_pods_do() -> None:
    for pods in ("running", "leaving", "waiting", "gated", ""):
        scene = fleet()
        admitted(scene, "n1")
        have(scene, pods)
        scene.settle()
        assert named(scene) == failed(scene) == []


@pytest.mark.parametrize("placed", [True, False])
def test_a_node_waits_for_the_last_of_its_pods_also_for_one_that_no_topology_placed(*, placed: bool) -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    for name in ("a", "b"):
        running(scene, name, placed=placed)
    node(scene, "n1", ready=False)
    scene.settle()
    scene.drop((PODS, NS, "a"))
    scene.settle()
    assert named(scene) == []
    running(scene, "b", placed=placed, deletionTimestamp=timestamp(scene.now), finalizers=["x"])
    scene.settle()
    assert named(scene) == ["n1"]


def test_a_node_that_is_gone_or_says_nothing_has_failed_though_pods_run_on_it() -> None:
    for lose in (lambda scene: scene.delete(kinds.NODES, "n1"), lambda scene: without_ready(scene, "n1")):
        scene = fleet()
        admitted(scene, "n1")
        running(scene)
        scene.settle()
        lose(scene)
        scene.settle()
        assert named(scene) == ["n1"]


def test_what_a_flavor_or_an_admission_check_tolerates_counts() -> None:
    scene = fleet()
    flavor = {"nodeLabels": {"pool": "gpu"}, "topologyName": "racks", "tolerations": [FOREVER]}
    scene.put(kinds.RESOURCE_FLAVORS, "gpu", spec=flavor)
    admitted(scene, "n1")
    node(scene, "n1", taints=[NO_SCHEDULE])
    scene.settle()
    assert named(scene) == []
    scene.put(kinds.RESOURCE_FLAVORS, "gpu", spec={**flavor, "tolerations": []})
    scene.settle()
    assert named(scene) == ["n1"]

    other = fleet()
    update = {"name": "main", "tolerations": [FOREVER]}
    check = {"name": "check", "state": "Ready", "message": "", "podSetUpdates": [update]}
    seen = events.AdmissionWorkloadObserved
    admitted(other, "n1", admissionChecks=[{**check, "lastTransitionTime": timestamp(other.now)}])
    node(other, "n1", taints=[NO_SCHEDULE])
    state = other.controller.failures.state(other.controller.index, other.said(seen, "w")[-1], "n1")
    assert state == "takes"


def test_without_its_flavor_nothing_is_known_of_what_is_tolerated() -> None:
    scene = fleet()
    admitted(scene, "n1", flavor="unseen")
    node(scene, "n1", taints=[NO_SCHEDULE])
    scene.settle()
    assert named(scene) == []
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == ["n1"], "that it is not ready needs no flavor"


def test_where_the_lowest_level_is_no_node_nothing_fails() -> None:
    scene = fleet()
    admitted(scene, "n1", level=RACK)
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == []


@pytest.mark.parametrize("over", ["Finished", "Evicted"])
def test_a_workload_that_is_over_is_left_alone(over: str) -> None:
    scene = fleet()
    admitted(scene, "n1", true=(over,))
    waiting(scene)
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == failed(scene) == []


# --- a node that comes back, and a second one ---


def test_a_node_that_recovers_is_named_no_more() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    for _ in range(3):
        node(scene, "n1", ready=False)
        scene.settle()
        assert named(scene) == ["n1"]
        node(scene, "n1")
        scene.settle()
        assert named(scene) == []
    assert places(scene, "w") == {"n1": 1}
    scene.delete(kinds.NODES, "n1")
    scene.settle()
    assert named(scene) == ["n1"]
    node(scene, "n1")
    scene.settle()
    assert named(scene) == []


def test_with_two_that_fail_the_workload_is_evicted_in_kueues_words() -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    scene.settle()
    node(scene, "n1", ready=False)
    node(scene, "n2", ready=False)
    scene.settle()
    evicted = scene.condition("w", "Evicted")
    said = "Workload eviction triggered due to multiple TAS assigned node failures, including: n1, n2"
    assert (evicted["status"], evicted["reason"], evicted["message"]) == ("True", "NodeFailures", said)
    assert named(scene) == []
    assert [(one["reason"], one["note"]) for one in scene.told][-1] == ("EvictedDueToNodeFailures", said)


def test_with_a_second_one_after_the_first_was_replaced_that_is_replaced_too() -> None:
    scene = fleet("n1", "n2", "n3", "n4")
    admitted(scene, "n1", "n2")
    scene.settle()
    node(scene, "n1", ready=False)
    replaced(scene)
    assert places(scene, "w") == {"n2": 1, "n3": 1}
    node(scene, "n2", ready=False)
    replaced(scene)
    assert places(scene, "w") == {"n3": 1, "n4": 1}
    assert named(scene) == []
    assert scene.is_true("w", "Admitted")
    assert not scene.is_true("w", "Evicted")


def test_without_another_place_the_workload_is_evicted() -> None:
    scene = fleet("n1")
    admitted(scene, "n1")
    scene.settle()
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == ["n1"]
    scene.pass_time(1)
    evicted = scene.condition("w", "Evicted")
    said = "Workload was evicted as there was no replacement for unhealthy node(s): n1"
    assert (evicted["status"], evicted["reason"], evicted["message"]) == ("True", "NodeFailures", said)
    assert named(scene) == []


def test_an_eviction_for_something_else_names_no_node_any_more() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    node(scene, "n1", ready=False)
    scene.settle()
    scene.put(kinds.WORKLOADS, "w", NS, spec={**scene.of("w")["spec"], "active": False})
    scene.settle()
    assert scene.condition("w", "Evicted")["reason"] == "Deactivated"
    assert named(scene) == []
