"""Pods are placed in topologies: one topology, one request, and what comes of it."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import NodeConstraints, PodSet, ResourceFlavor, Workload
from controlplane.controllers.quota.topology.counts import Situation
from controlplane.controllers.quota.topology.fleet import TopologyFleet
from controlplane.controllers.quota.topology.matching import Exclusions
from controlplane.controllers.quota.topology.model import (
    DomainPods,
    Node,
    Placed,
    PodSetSlice,
    PodSetUpdate,
    Topology,
    TopologyAssignment,
    TopologyRequest,
)
from controlplane.controllers.quota.topology.parse import (
    parse_node,
    parse_topology,
    rendered,
    topology_assignment,
    topology_request,
)
from controlplane.controllers.quota.topology.placement import place
from controlplane.controllers.quota.topology.replacement import replacement
from controlplane.controllers.quota.topology.requests import PlacementRequest, Refusal
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import Json
from controlplane.kube.tolerations import Taint, Toleration
from controlplane.kube.well_known import HOSTNAME
from tests.support.rows import each

BLOCK, RACK = "block", "rack"
NODES = {"b1-r1": (2, 1), "b1-r2": (4,), "b2-r1": (3, 3)}
"""The cpus of the nodes of each rack."""


def fleet(*levels: str, nodes: dict[str, tuple[int, ...]] = NODES, **more: Any) -> TopologyFleet:
    found = TopologyFleet()
    found.put_topology(Topology("default", levels or (BLOCK, RACK, HOSTNAME)))
    found.put_flavor(ResourceFlavor("f", topology="default", **more))
    for rack, cpus in nodes.items():
        for n, cpu in enumerate(cpus):
            name, block = f"{rack}-n{n}", rack.split("-")[0]
            labels = {BLOCK: block, RACK: rack, HOSTNAME: name}
            found.put_node(Node(name, labels, (), {"cpu": cpu * 1000, "pods": 110}))
    return found


def asks(count: int, cpu: int = 1, **asked: Any) -> PlacementRequest:
    pod_set = PodSet("main", count, count, {"cpu": cpu * 1000}, topology=TopologyRequest(**asked) if asked else None)
    return PlacementRequest(pod_set, count, "f", implied=not asked)


def placed(of: TopologyFleet, request: PlacementRequest, leader: PlacementRequest | None = None) -> dict[str, int]:
    found = place(of.flavors["f"], request, leader, Situation({}))
    return {",".join(values): pods for values, pods in found["main"]}


@each(
    ("count", "asked", "wanted"),
    [
        (2, {"required": RACK}, {"b1-r1-n0": 2}),
        (4, {"required": RACK}, {"b1-r2-n0": 4}),
        (6, {"required": BLOCK}, {"b2-r1-n0": 3, "b2-r1-n1": 3}),
        (7, {"required": BLOCK}, {"b1-r1-n0": 2, "b1-r1-n1": 1, "b1-r2-n0": 4}),
        (3, {"preferred": HOSTNAME}, {"b2-r1-n0": 3}),
        (8, {"preferred": RACK}, {"b1-r1-n0": 2, "b2-r1-n0": 3, "b2-r1-n1": 3}),
        (2, {"unconstrained": True}, {"b1-r1-n0": 2}),
        (1, {"unconstrained": True}, {"b1-r1-n1": 1}),
        (5, {"unconstrained": True}, {"b1-r1-n0": 2, "b1-r1-n1": 1, "b2-r1-n0": 2}),
        (2, {}, {"b1-r1-n0": 2}),
        (4, {"required": BLOCK, "slices": (PodSetSlice(RACK, 2),)}, {"b2-r1-n0": 3, "b2-r1-n1": 1}),
        (4, {"preferred": BLOCK, "slices": (PodSetSlice(HOSTNAME, 2),)}, {"b2-r1-n0": 2, "b2-r1-n1": 2}),
        (6, {"slices": (PodSetSlice(RACK, 3),)}, {"b2-r1-n0": 3, "b2-r1-n1": 3}),
        (
            4,
            {"required": BLOCK, "slices": (PodSetSlice(RACK, 4), PodSetSlice(HOSTNAME, 2))},
            {"b2-r1-n0": 2, "b2-r1-n1": 2},
        ),
    ],
)
def test_pods_are_placed_as_close_as_asked(count: int, asked: dict[str, Any], wanted: dict[str, int]) -> None:
    assert placed(fleet(), asks(count, **asked)) == wanted


@each(
    ("count", "asked", "told"),
    [
        (7, {"required": RACK}, 'topology "default" allows to fit only 6 out of 7 pod(s)'),
        (14, {"preferred": RACK}, 'topology "default" allows to fit only 13 out of 14 pod(s)'),
        (14, {"unconstrained": True}, 'topology "default" allows to fit only 13 out of 14 pod(s)'),
        (2, {"required": "zone"}, "no requested topology level: zone"),
        (2, {"preferred": RACK, "slices": (PodSetSlice("zone", 2),)}, "no requested topology level for slices: zone"),
        (
            2,
            {"preferred": RACK, "slices": (PodSetSlice(BLOCK, 2),)},
            "podset slice topology block is above the podset topology rack",
        ),
        (2, {"slices": (PodSetSlice(RACK, 0),)}, "slice topology requested, but slice size not provided"),
        (
            1,
            {"preferred": BLOCK, "slices": (PodSetSlice(HOSTNAME, 2),)},
            "the slice size 2 is greater than the number of pods, 1",
        ),
        (
            4,
            {"slices": (PodSetSlice(RACK, 4), PodSetSlice(HOSTNAME, 3))},
            "additional slice layer size 3 must evenly divide parent layer size 4",
        ),
        (
            4,
            {"slices": (PodSetSlice(RACK, 4), PodSetSlice(BLOCK, 2))},
            "additional slice layer topology block must be at a lower level than rack",
        ),
        (
            10,
            {"required": BLOCK, "slices": (PodSetSlice(RACK, 5),)},
            'topology "default" allows to fit only 1 out of 2 slice(s)',
        ),
        (
            16,
            {"required": BLOCK, "slices": (PodSetSlice(RACK, 4), PodSetSlice(HOSTNAME, 2))},
            'topology "default" doesn\'t allow to fit; 1/4 slice(s) fit on level rack; 3/8 slice(s) fit on level '
            + HOSTNAME,
        ),
    ],
)
def test_what_does_not_fit_is_told_in_kueues_words(count: int, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(Refusal) as refused:
        placed(fleet(), asks(count, **asked))
    assert str(refused.value) == told


def test_nodes_that_are_left_out_are_counted_by_reason() -> None:
    of = fleet()
    labels = {BLOCK: "b1", RACK: "b1-r1"}
    of.put_node(Node("t", {**labels, HOSTNAME: "t"}, (Taint("spot", "", "NoSchedule"),), {"cpu": 9000, "pods": 10}))
    request = asks(9, cpu=3, required=BLOCK)
    with pytest.raises(Refusal) as refused:
        placed(of, request)
    assert str(refused.value) == (
        'topology "default" allows to fit only 2 out of 9 pod(s). Total nodes: 6; excluded: resource "cpu": 2, '
        'taint "spot:NoSchedule": 1'
    )
    tolerant = NodeConstraints(tolerations=(Toleration("spot", "Exists"),))
    request = asks(3, cpu=3, required=HOSTNAME)
    pod_set = PodSet("main", 3, 3, {"cpu": 3000}, nodes=tolerant, topology=request.topology)
    assert placed(of, PlacementRequest(pod_set, 3, "f")) == {"t": 3}


def test_labels_are_asked_of_nodes_only_where_those_are_the_lowest_level() -> None:
    nowhere = NodeConstraints(selector=(("zone", "x"),))
    pod_set = PodSet("main", 1, 1, {"cpu": 1000}, nodes=nowhere, topology=TopologyRequest(unconstrained=True))
    request = PlacementRequest(pod_set, 1, "f")
    with pytest.raises(Refusal, match="Total nodes: 5; excluded: nodeSelector: 5"):
        placed(fleet(), request)
    assert placed(fleet(BLOCK, RACK), request) == {"b1,b1-r1": 1}


def test_an_admission_check_narrows_nodes_and_must_not_contradict() -> None:
    asked = asks(1, unconstrained=True)
    narrowed = PlacementRequest(asked.pod_set, 1, "f", updates=(PodSetUpdate("main", ((RACK, "b2-r1"),)),))
    assert placed(fleet(), narrowed) == {"b2-r1-n0": 1}
    pod_set = PodSet(
        "main", 1, 1, {}, NodeConstraints(((RACK, "b1-r1"),)), topology=TopologyRequest(unconstrained=True)
    )
    with pytest.raises(Refusal) as refused:
        placed(fleet(), PlacementRequest(pod_set, 1, "f", updates=narrowed.updates))
    assert str(refused.value) == (
        "invalid podSetUpdate for PodSet main, error: invalid admission check PodSetUpdate: conflict for nodeSelector: "
        "conflict for key=rack, value1=b1-r1, value2=b2-r1"
    )


def test_a_leader_is_placed_with_its_workers() -> None:
    of, leading = fleet(), PodSet("leader", 1, 1, {"cpu": 1000}, topology=TopologyRequest(required=RACK, group="g"))
    found = place(of.flavors["f"], asks(5, required=RACK, group="g"), PlacementRequest(leading, 1, "f"), Situation({}))
    assert [values[0] for values, _ in found["leader"]] == ["b2-r1-n0"]
    assert {values[0]: pods for values, pods in found["main"]} == {"b2-r1-n0": 2, "b2-r1-n1": 3}
    with pytest.raises(Refusal):
        place(of.flavors["f"], asks(6, required=RACK, group="g"), PlacementRequest(leading, 1, "f"), Situation({}))


def test_what_pods_and_workloads_use_is_not_given_twice() -> None:
    of = fleet()
    of.put_pod("ns/p", "b1-r2-n0", {"cpu": 3000})
    of.put_workload("ns/w", (Placed("f", ("b2-r1-n0",), {"cpu": 1000}, 2),))
    assert placed(of, asks(4, required=RACK)) == {"b2-r1-n0": 1, "b2-r1-n1": 3}
    of.drop_workload("ns/w")
    of.drop_pod("ns/p")
    assert placed(of, asks(4, required=RACK)) == {"b1-r2-n0": 4}
    assert of.usage == {}
    assert of.used_by_pods == {}


def test_flavors_of_the_same_nodes_share_what_is_used() -> None:
    of = fleet()
    of.put_flavor(ResourceFlavor("g", topology="default"))
    of.put_workload("ns/w", (Placed("g", ("b1-r2-n0",), {"cpu": 1000}, 4),))
    assert placed(of, asks(4, required=RACK)) == {"b2-r1-n0": 3, "b2-r1-n1": 1}


@pytest.mark.parametrize(
    "changed",
    [{"ready": False}, {"schedulable": False}, {"labels": {BLOCK: "b1", HOSTNAME: "b1-r2-n0"}}],
)
def test_a_node_that_takes_no_pods_is_none_of_the_topologys(changed: dict[str, Any]) -> None:
    of = fleet()
    node = of.nodes["b1-r2-n0"]
    fields = {"labels": node.labels, "allocatable": node.allocatable, **changed}
    assert of.put_node(Node(node.name, **fields)) == ["f"]
    assert placed(of, asks(4, required=RACK)) == {"b2-r1-n0": 3, "b2-r1-n1": 1}


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"required": BLOCK}, {"b1-r2-n0": 1, "b1-r1-n0": 2}),
        ({"preferred": BLOCK}, {"b1-r2-n0": 1, "b1-r1-n0": 2}),
        ({"required": RACK}, None),
    ],
)
def test_only_the_pods_of_a_node_that_failed_are_placed_anew(
    asked: dict[str, Any], wanted: dict[str, int] | None
) -> None:
    of = fleet(nodes={"b1-r1": (2,), "b1-r2": (4, 2), "b2-r1": (3,)})
    given = TopologyAssignment((HOSTNAME,), (DomainPods(("b1-r2-n0",), 1), DomainPods(("b1-r2-n1",), 2)))
    of.drop_node("b1-r2-n1")
    of.put_pod("ns/p", "b1-r2-n0", {"cpu": 3000})
    request, flavor = asks(3, **asked), of.flavors["f"]
    if wanted is None:
        with pytest.raises(Refusal):
            replacement(flavor, request, given, "b1-r2-n1", Situation({}))
        return
    whole, new = replacement(flavor, request, given, "b1-r2-n1", Situation({}))
    assert {values[0]: pods for values, pods in whole} == wanted
    assert [values for values, _ in new] == [("b1-r1-n0",)]


def test_an_assignment_with_a_node_that_is_gone_is_not_mended() -> None:
    of = fleet()
    given = TopologyAssignment((HOSTNAME,), (DomainPods(("gone",), 1), DomainPods(("b1-r1-n0",), 1)))
    with pytest.raises(Refusal, match="it contains the stale domain gone"):
        replacement(of.flavors["f"], asks(2, unconstrained=True), given, "b1-r1-n0", Situation({}))


# What is read and written.


def test_a_topology_and_a_node_are_read() -> None:
    levels = [{"nodeLabel": BLOCK}, {"nodeLabel": HOSTNAME}]
    assert parse_topology({"metadata": {"name": "t"}, "spec": {"levels": levels}}) == Topology("t", (BLOCK, HOSTNAME))
    made: Json = {
        "metadata": {"name": "n", "labels": {BLOCK: "b"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True},
        "status": {"allocatable": {"cpu": "1500m", "pods": "3"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    taints = (Taint("k", "", "NoSchedule"),)
    assert parse_node(made) == Node("n", {BLOCK: "b"}, taints, {"cpu": 1500, "pods": 3}, schedulable=False)
    made["status"]["allocatable"]["cpu"] = "much"
    with pytest.raises(Misfit) as refused:
        parse_node(made)
    assert refused.value.field == "status.allocatable"


def test_slices_are_read_in_both_forms() -> None:
    one = {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": 2}
    several = {"podsetSliceRequiredTopologyConstraints": [{"topology": RACK, "size": 2}]}
    for form in (one, several):
        found = topology_request(form, "x")
        assert found is not None
        assert found.slices == (PodSetSlice(RACK, 2),)
    assert topology_request({}, "x") is None


@pytest.mark.parametrize(
    ("levels", "domains", "slices"),
    [
        (
            (HOSTNAME,),
            [(("a-1",), 2), (("a-2",), 2)],
            [
                {
                    "domainCount": 2,
                    "podCounts": {"universal": 2},
                    "valuesPerLevel": [{"individual": {"prefix": "a-", "roots": ["1", "2"]}}],
                }
            ],
        ),
        (
            (BLOCK, RACK),
            [(("b1", "ababa"), 1), (("b1", "aba"), 3)],
            [
                {
                    "domainCount": 2,
                    "podCounts": {"individual": [1, 3]},
                    "valuesPerLevel": [{"universal": "b1"}, {"individual": {"suffix": "aba", "roots": ["ab", ""]}}],
                }
            ],
        ),
        ((HOSTNAME,), [], []),
    ],
)
def test_an_assignment_is_written_as_kueue_does(
    levels: tuple[str, ...], domains: list[tuple[tuple[str, ...], int]], slices: list[Json]
) -> None:
    assignment = TopologyAssignment(levels, tuple(DomainPods(*one) for one in domains))
    assert rendered(assignment) == {"levels": list(levels), "slices": slices}
    assert topology_assignment(rendered(assignment), "x") == assignment


def test_many_nodes_are_written_in_slices_by_the_prefixes_of_their_names() -> None:
    names = [f"pool-{pool}-node-with-a-long-name-{n:03}" for pool in ("alpha", "beta") for n in range(40)]
    assignment = TopologyAssignment((HOSTNAME,), tuple(DomainPods((name,), 1) for name in names))
    found = rendered(assignment)
    assert [one["domainCount"] for one in found["slices"]] == [40, 40]
    assert topology_assignment(found, "x") == assignment


def test_an_assignment_of_the_older_form_is_read() -> None:
    made = {"levels": [BLOCK], "domains": [{"values": ["b1"], "count": 2}]}
    assert topology_assignment(made, "x") == TopologyAssignment((BLOCK,), (DomainPods(("b1",), 2),))
    with pytest.raises(Misfit, match=r"x.domains.values: a domain has a value at least"):
        topology_assignment({**made, "domains": [{"values": [], "count": 2}]}, "x")


@pytest.mark.parametrize(
    "broken",
    [
        {"domainCount": 2, "podCounts": {"individual": [1]}, "valuesPerLevel": [{"universal": "b"}]},
        {"domainCount": 2, "podCounts": {"universal": 1}, "valuesPerLevel": [{"individual": {"roots": ["b"]}}]},
        {"domainCount": 1, "podCounts": {"universal": 1}, "valuesPerLevel": []},
    ],
)
def test_an_assignment_that_does_not_add_up_is_refused(broken: Json) -> None:
    with pytest.raises(Misfit):
        topology_assignment({"levels": [BLOCK], "slices": [broken]}, "status.x")


def test_a_workload_without_assignment_is_placed_nowhere() -> None:
    assert Info(Workload("ns", "w", "u", "lq", 0, (), 0.0)).placed == ()


def test_what_matches_selectors_that_nobody_has_any_more_is_forgotten() -> None:
    """Where each pod set has a selector of its own, they come without end while the nodes stay."""
    of = fleet()
    before = sum(isinstance(one, Exclusions) for one in gc.get_objects())
    for number in range(400):
        one = PodSet("main", 1, 1, {"cpu": 1}, nodes=NodeConstraints(selector=(("job", str(number)),)))
        with pytest.raises(Refusal, match="excluded: nodeSelector: 5"):
            place(of.flavors["f"], PlacementRequest(one, 1, "f", implied=True), None, Situation({}))
    gc.collect()
    assert sum(isinstance(one, Exclusions) for one in gc.get_objects()) - before <= 128
    assert placed(of, asks(2, required=RACK)) == {"b1-r1-n0": 2}
