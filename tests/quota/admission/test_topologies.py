"""Topologies, Nodes and pods on them are followed where a flavor names a topology, and who waits for room is tried
again."""

from __future__ import annotations

import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events, topologies
from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.kube import kinds
from controlplane.kube.fields import Misfit
from controlplane.kube.watches import UNENDED_PODS
from controlplane.runtime.folded import give, taken
from tests.quota.admission.placed import ALL, HOST, IN_USE, RACK, node, pod, sees, submit, wanted, with_topology
from tests.quota.admission.scene import NS, Scene, quota

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
