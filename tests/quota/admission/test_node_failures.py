"""Nodes that fail: whose names go to `status.unhealthyNodes`, who is evicted, and which pods are let fail. The cases are those of Kueue's
`pkg/controller/tas/node_controller_test.go` (ff69552e), with the gates that are on by default."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.requests import timestamp
from controlplane.kube.topologies import TOPOLOGY_GATE
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import WriteRefusal
from controlplane.runtime.folded import give, taken
from tests.quota.admission.scene import NS, Scene
from tests.quota.admission.test_topologies import HOST, RACK, have_topology, node, places, submit, with_topology

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


@pytest.mark.parametrize(("taint", "tolerations", "pods", "fails"), TAINTED)
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


# --- what was never seen, or cannot be read ---


def test_a_node_that_was_never_seen_has_not_failed() -> None:
    scene = fleet()
    admitted(scene, "n9")
    waiting(scene, on="n9")
    scene.settle()
    assert named(scene) == failed(scene) == []


@pytest.mark.parametrize("kind", [kinds.NODES, PODS])
def test_while_nodes_or_pods_are_not_in_view_nothing_is_decided(kind: kinds.Kind) -> None:
    scene = fleet()
    admitted(scene, "n1")
    waiting(scene)
    scene.settle()
    lost = connectivity.KindOff(kind=kind.name, reason="Forbidden", message="no")
    scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=lost, cluster=MANAGEMENT))
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == failed(scene) == []
    synced = connectivity.KindSynced(kind=kind.name, count=1, resource_version="1")
    scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=synced, cluster=MANAGEMENT))
    scene.settle()
    assert named(scene) == ["n1"]
    assert failed(scene) == ["p"]


def test_a_node_that_cannot_be_read_has_neither_failed_nor_recovered() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    node(scene, "n1", cpu="many", ready=False)
    scene.settle()
    assert named(scene) == []
    node(scene, "n1", ready=False)
    scene.settle()
    node(scene, "n1", cpu="many")
    scene.settle()
    assert named(scene) == ["n1"]
    node(scene, "n1")
    scene.settle()
    assert named(scene) == []


def test_a_node_that_can_be_read_again_is_known_again_though_it_says_what_it_said() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    node(scene, "n1", cpu="many")
    assert scene.controller.index.nodes.unfit == {"n1"}
    scene.controller = scene.replayed()
    node(scene, "n1", cpu="1")
    assert scene.controller.index.nodes.unfit == set()
    node(scene, "n1", ready=False)
    scene.settle()
    assert named(scene) == ["n1"]


class Batched(Scene):
    """Observations are appended in batches, as the recorder does: an object changes again before the first change is folded."""

    batch: list[NewEvent] | None = None

    def record(self, new: NewEvent) -> None:
        if self.batch is None:
            super().record(new)
        else:
            self.batch.append(new)

    def append(self) -> None:
        batch, self.batch = self.batch or [], None
        for new in batch:
            self.record(new)


def test_a_node_that_flaps_within_a_batch_is_known_as_it_is_in_the_end() -> None:
    for last in (True, False):
        scene = Batched()
        have_topology(scene, ("n1", "r1", "1"))
        node(scene, "n1", ready=last, cpu="1")
        scene.batch = []
        node(scene, "n1", ready=not last, cpu="1")
        node(scene, "n1", ready=last, cpu="1")
        scene.append()
        assert scene.controller.index.nodes.nodes["n1"].ready is last
        assert scene.replayed().index.nodes.nodes["n1"].ready is last
        before = len(scene.log)
        node(scene, "n1", ready=last, cpu="1")
        assert len(scene.log) == before, "it says nothing new"


@pytest.mark.parametrize("placed", [True, False])
def test_a_pod_that_comes_and_goes_within_a_batch_is_gone(*, placed: bool) -> None:
    scene = Batched()
    have_topology(scene, ("n1", "r1", "1"))
    scene.batch = []
    running(scene, "p", placed=placed)
    scene.drop((PODS, NS, "p"))
    scene.append()
    assert scene.controller.index.nodes.pods == {}
    assert scene.controller.failures.pods.states == {}
    assert len(scene.said(of_topology.AdmissionPlacedPodGone)) == int(placed)
    assert len(scene.said(of_topology.AdmissionPodGone)) == int(not placed)


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


# --- crashes ---


def test_another_process_goes_on_where_the_first_one_died() -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    waiting(scene)
    node(scene, "n1", ready=False)
    while scene.decide() or scene.carry_out():
        scene.controller = scene.replayed()
        scene.controller.index.all_dirty()
        scene.controller.index.mark(scene.controller.failures.pods.states)
    scene.pass_time(1)
    assert places(scene, "w") == {"n2": 1, "n3": 1}
    assert failed(scene) == ["p"]
    assert len(scene.said(of_topology.PodFailureDecided)) == len(scene.said(of_topology.TopologyAssignmentDecided)) == 1


class Mortal(Scene):
    """A process that is killed after an event of the log, by its number; another one goes on from the log."""

    dies_after = 0

    def record(self, new: NewEvent) -> None:
        super().record(new)
        if len(self.log) == self.dies_after:
            self.controller = self.replayed()
            self.controller.index.all_dirty()
            self.controller.index.mark(self.controller.failures.pods.states)


def story(dies_after: int) -> Mortal:
    """A node fails on which one pod runs and one waits; then another one goes, and nothing is left but the first, which recovers."""
    scene = Mortal()
    scene.dies_after = dies_after
    have_topology(scene, *((name, "r1", "1") for name in ("n1", "n2", "n3")))
    admitted(scene, "n1", "n2")
    running(scene, "a", "n2")
    waiting(scene, "b", "n1")
    scene.settle()
    node(scene, "n1", taints=[NO_SCHEDULE])
    replaced(scene)
    waiting(scene, "c", "n3")
    node(scene, "n1")
    scene.settle()
    scene.delete(kinds.NODES, "n3")
    replaced(scene)
    return scene


def test_wherever_in_the_log_a_process_dies_the_end_is_the_same_and_nothing_is_done_twice() -> None:
    alive = story(0)
    assert places(alive, "w") == {"n1": 1, "n2": 1}
    assert failed(alive) == ["b"]
    once = [type(one.event).__name__ for one in alive.log]
    for position in range(1, len(alive.log)):
        dead = story(position)
        assert [type(one.event).__name__ for one in dead.log] == once, position
        assert dead.status("w") == alive.status("w")
        assert failed(dead) == failed(alive)
        assert dead.written == alive.written


def test_what_is_known_of_failures_can_be_kept_and_given() -> None:
    scene = fleet()
    admitted(scene, "n1", "n2")
    waiting(scene)
    running(scene, "other", "n2", placed=False)
    node(scene, "n1", ready=False)
    scene.delete(kinds.NODES, "n3")
    scene.decide()
    other = Scene().controller
    give(other, taken(scene.controller))
    assert taken(other).keys() == taken(scene.controller).keys()
    scene.controller = other
    scene.settle()
    assert named(scene) == ["n1"]
    assert failed(scene) == ["p"]


def test_a_write_that_is_refused_is_made_again() -> None:
    scene = fleet()
    admitted(scene, "n1")
    scene.settle()
    scene.refuses = lambda request: WriteRefusal(500, "InternalError", "no")
    node(scene, "n1", ready=False)
    scene.decide()
    scene.carry_out()
    assert named(scene) == []
    scene.refuses = lambda request: None
    scene.pass_time(2)
    assert places(scene, "w") in ({"n1": 1}, {"n2": 1})
    scene.pass_time(2)
    assert places(scene, "w") == {"n2": 1}


def test_submitted_workloads_are_replaced_like_any() -> None:
    scene = fleet("n1", "n2", cpu="4")
    submit(scene, "w", count=2, cpu="2")
    scene.settle()
    (on,) = places(scene, "w")
    node(scene, on, ready=False)
    replaced(scene)
    assert on not in places(scene, "w")
