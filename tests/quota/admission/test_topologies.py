"""Topologies, Nodes and pods on them are followed where a flavor names a topology; Workloads are placed, and their statuses say where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events, topologies
from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.controllers.quota.engine import model
from controlplane.controllers.quota.engine.rendering import admission_of
from controlplane.controllers.quota.topology.model import DomainPods, TopologyAssignment
from controlplane.kube import kinds
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import Json, Kind
from controlplane.kube.topologies import domains_of
from controlplane.kube.watches import UNENDED_PODS
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import WriteRefusal
from controlplane.runtime.folded import give, taken
from tests.quota.admission.checks import answer
from tests.quota.admission.scene import NS, Scene, quota

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
ALL = (kinds.TOPOLOGIES, kinds.NODES, kinds.PODS_OF_TOPOLOGIES)
IN_USE = "kueue.x-k8s.io/resource-in-use"


def sees(scene: Scene, *seen: Kind) -> Scene:
    """Have kinds in view besides."""
    for kind in seen or ALL:
        event = connectivity.KindSynced(kind=kind.name, count=0, resource_version="1")
        scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=event, cluster=MANAGEMENT))
    return scene


def node(scene: Scene, name: str, rack: str = "r1", cpu: str = "4", *, ready: bool = True, **spec: Any) -> Json:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"allocatable": {"cpu": cpu, "pods": "10"}, "conditions": conditions}
    labels = {RACK: rack, HOST: name, "pool": "gpu"}
    return scene.put(kinds.NODES, name, metadata={"labels": labels}, spec=spec, status=status)


def pod(scene: Scene, name: str, on: str = "n1", cpu: str = "1", phase: str = "Running", **notes: str) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    return scene.put(
        kinds.PODS_OF_TOPOLOGIES, name, NS, metadata={"annotations": notes}, spec=spec, status={"phase": phase}
    )


def with_topology(*nodes: tuple[str, str, str], flavor: str = "gpu", cpu: str = "100", **queue: Any) -> Scene:
    """A ClusterQueue of a flavor with racks and nodes."""
    return have_topology(Scene(), *nodes, flavor=flavor, cpu=cpu, **queue)


def have_topology(
    scene: Scene, *nodes: tuple[str, str, str], flavor: str = "gpu", cpu: str = "100", **queue: Any
) -> Scene:
    sees(scene)
    scene.put(kinds.TOPOLOGIES, "racks", spec={"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]})
    scene.put(kinds.RESOURCE_FLAVORS, flavor, spec={"nodeLabels": {"pool": "gpu"}, "topologyName": "racks"})
    scene.queue("q", **{"resourceGroups": [quota(cpu, flavor)], **queue})
    for name, rack, of_cpu in nodes:
        node(scene, name, rack, of_cpu)
    scene.settle()
    return scene


def submit(scene: Scene, name: str, count: int = 2, cpu: str = "1", **request: Any) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    one = {"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}
    scene.workload(name, "q", podSets=[{**one, "topologyRequest": request or {"required": RACK}}])


def given(scene: Scene, name: str) -> Json:
    (found,) = scene.status(name)["admission"]["podSetAssignments"]
    return dict(found)


def places(scene: Scene, name: str) -> dict[str, int]:
    return {values[-1]: count for values, count in domains_of(given(scene, name)["topologyAssignment"])}


def wanted(scene: Scene) -> Sequence[Kind]:
    return scene.controller.index.needs


# --- what is followed ---


def test_without_a_flavor_that_names_a_topology_nothing_of_it_is_followed() -> None:
    scene = Scene()
    scene.queue("q")
    assert wanted(scene) == ()
    assert scene.controller.index.ready


def test_a_flavor_of_no_queue_has_only_topologies_followed() -> None:
    scene = Scene()
    scene.put(kinds.RESOURCE_FLAVORS, "gpu", spec={"topologyName": "racks"})
    assert wanted(scene) == (kinds.TOPOLOGIES,)
    assert scene.controller.index.unseen == "admission does not see all that quota rests on: topologies.kueue.x-k8s.io"


def test_a_queue_that_places_its_pods_has_nodes_and_pods_followed() -> None:
    scene = Scene()
    scene.put(kinds.RESOURCE_FLAVORS, "gpu", spec={"topologyName": "racks"})
    scene.queue("q", resourceGroups=[quota("10", "gpu")])
    assert wanted(scene) == ALL
    assert not scene.controller.index.ready
    assert scene.decide() == []
    assert sees(scene).controller.index.ready
    assert [topologies.watch_of(kind) for kind in ALL][-1] == UNENDED_PODS


def test_what_multikueue_dispatches_is_placed_on_its_worker() -> None:
    scene = Scene()
    scene.put(kinds.RESOURCE_FLAVORS, "gpu", spec={"topologyName": "racks"})
    checks = {"admissionChecks": [{"name": "mk"}]}
    scene.queue("q", resourceGroups=[quota("10", "gpu")], admissionChecksStrategy=checks)
    assert wanted(scene) == (kinds.TOPOLOGIES,), "a check that is not known yet lets nobody in"
    scene.put(
        kinds.ADMISSION_CHECKS,
        "mk",
        spec={"controllerName": "kueue.x-k8s.io/multikueue"},
        status={"conditions": [{"type": "Active", "status": "True"}]},
    )
    assert wanted(scene) == (kinds.TOPOLOGIES,)


def test_of_a_node_only_what_decides_is_recorded() -> None:
    scene = with_topology(("n1", "r1", "4"))
    before = len(scene.log)
    obj = scene.objects[kinds.NODES, "", "n1"]
    obj["status"]["conditions"].append({"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "now"})
    obj["status"]["images"] = [{"names": ["x"]}]
    obj["metadata"]["annotations"] = {"volumes": "attached"}
    scene.store((kinds.NODES, "", "n1"), obj)
    assert len(scene.log) == before
    node(scene, "n1", ready=False)
    assert [type(one.event) for one in scene.log[before:]] == [of_topology.AdmissionNodeObserved]
    assert not scene.controller.index.engine.snapshot.topology.nodes["n1"].usable


def test_the_usage_of_a_pod_is_recorded_when_it_begins_and_when_it_ends() -> None:
    scene = with_topology(("n1", "r1", "4"))
    before = len(scene.log)
    pod(scene, "p", on="", phase="Pending")
    assert len(scene.log) == before, "it is bound to no node"
    pod(scene, "p", phase="Pending")
    pod(scene, "p")
    pod(scene, "p", phase="Succeeded")
    pod(scene, "p", phase="Succeeded")
    events_ = [one.event for one in scene.log[before:]]
    assert [type(one) for one in events_] == [of_topology.AdmissionPodObserved, of_topology.AdmissionPodGone]
    assert events_[0].requests == {"cpu": 1000}  # type: ignore[attr-defined]
    assert {one.stream for one in scene.log[before:]} == {"admission/node/n1"}
    assert scene.controller.index.nodes.pods == {}


def test_a_pod_that_was_placed_is_counted_by_its_workload_and_not_twice() -> None:
    scene = with_topology(("n1", "r1", "4"))
    before = len(scene.log)
    pod(scene, "p", **{"kueue.x-k8s.io/podset-required-topology": RACK})
    assert len(scene.log) == before


def test_a_pod_that_goes_while_nobody_looks_gives_back_what_it_took() -> None:
    scene = with_topology(("n1", "r1", "4"))
    pod(scene, "p")
    scene.controller = scene.replayed()
    known = scene.controller.places.known(MANAGEMENT, kinds.PODS_OF_TOPOLOGIES.name)
    ((uid, (namespace, name, _)),) = known.items()
    gone = {"metadata": {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "9999"}}
    scene.show(kinds.PODS_OF_TOPOLOGIES, gone, gone=True)
    assert scene.controller.index.engine.snapshot.topology.used_by_pods == {}


def test_another_process_that_is_shown_everything_records_nothing() -> None:
    scene = with_topology(("n1", "r1", "4"))
    pod(scene, "p")
    scene.controller, before = scene.replayed(), len(scene.log)
    for place in ((kinds.NODES, "", "n1"), (kinds.PODS_OF_TOPOLOGIES, NS, "p")):
        scene.store(place, scene.objects[place])
    assert len(scene.log) == before


def test_what_cannot_be_read_is_refused_and_what_was_known_counts_on() -> None:
    scene = with_topology(("n1", "r1", "4"))
    node(scene, "n1", cpu="many")
    (refused,) = scene.said(events.AdmissionInputRefused)
    assert (refused.kind, refused.name) == ("nodes", "n1")
    assert scene.controller.index.engine.snapshot.topology.nodes["n1"].allocatable["cpu"] == 4000
    with pytest.raises(Misfit):
        topologies.observed_node({"metadata": {"name": "n", "uid": "u"}, "spec": {"unschedulable": "yes"}})


def test_the_folded_state_can_be_kept_and_given() -> None:
    scene = with_topology(("n1", "r1", "4"))
    pod(scene, "p")
    other = scene.replayed()
    give(other, taken(scene.controller))
    assert other.index.nodes.pods.keys() == scene.controller.index.nodes.pods.keys()
    assert other.index.engine.snapshot.topology.used_by_pods == {"n1": {"cpu": 1000, "pods": 1}}
    assert other.index.needs == ALL


# --- topologies ---


def test_a_queue_whose_topology_is_missing_is_inactive_in_kueues_words() -> None:
    scene = sees(Scene())
    scene.put(kinds.RESOURCE_FLAVORS, "gpu", spec={"topologyName": "racks"})
    scene.queue("q", resourceGroups=[quota("10", "gpu")])
    scene.settle()
    said = 'Can\'t admit new workloads: there is no Topology "racks" for TAS flavor "gpu".'
    assert scene.active(kinds.CLUSTER_QUEUES, "q") == ("False", "TopologyNotFound", said)
    scene.put(kinds.TOPOLOGIES, "racks", spec={"levels": [{"nodeLabel": HOST}]})
    scene.settle()
    assert scene.active(kinds.CLUSTER_QUEUES, "q")[:2] == ("True", "Ready")


def test_a_topology_stays_while_a_flavor_names_it() -> None:
    scene = with_topology()
    place = (kinds.TOPOLOGIES, "", "racks")
    assert scene.objects[place]["metadata"]["finalizers"] == [IN_USE]
    scene.delete(kinds.TOPOLOGIES, "racks")
    scene.settle()
    assert place in scene.objects
    scene.delete(kinds.CLUSTER_QUEUES, "q")
    scene.settle()
    scene.delete(kinds.RESOURCE_FLAVORS, "gpu")
    scene.settle()
    assert place not in scene.objects


# --- who waits ---


def test_who_waits_is_tried_again_once_for_all_that_ended_within_ten_seconds() -> None:
    scene = with_topology(("n1", "r1", "4"))
    for name in ("a", "b"):
        pod(scene, name, cpu="2")
    submit(scene, "w", count=1, cpu="4")
    scene.settle()
    assert not scene.is_true("w", "QuotaReserved")
    for name in ("a", "b"):
        scene.drop((kinds.PODS_OF_TOPOLOGIES, NS, name))
        scene.pass_time(1)
    assert scene.said(of_topology.NodeRoomFreed) == []
    scene.pass_time(9)
    (freed,) = scene.said(of_topology.NodeRoomFreed)
    assert freed.flavors == ["gpu"]
    assert scene.is_true("w", "Admitted")


def test_where_nobody_waits_nothing_is_said() -> None:
    scene = with_topology(("n1", "r1", "4"))
    pod(scene, "a")
    scene.drop((kinds.PODS_OF_TOPOLOGIES, NS, "a"))
    scene.pass_time(60)
    assert scene.said(of_topology.NodeRoomFreed) == []


# --- placement ---


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
