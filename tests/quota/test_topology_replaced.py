"""Pods in slices are placed anew after a node has failed; and a fleet is copied, so that what is tried on it is tried
apart."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.topology.counts import Situation
from controlplane.controllers.quota.topology.model import DomainPods, Placed, PodSetSlice, TopologyAssignment
from controlplane.controllers.quota.topology.replacement import replacement
from controlplane.controllers.quota.topology.requests import Refusal
from controlplane.kube.well_known import HOSTNAME
from tests.quota.test_topology import RACK, asks, fleet, placed


def test_the_pods_of_a_node_that_failed_fill_up_the_slice_that_they_were_taken_from() -> None:
    """Both other racks have room, and the lone pod that is left has to have its other one beside it."""
    of = fleet(nodes={"b1-r1": (2, 2), "b1-r2": (4, 2), "b2-r1": (1,)})
    given = TopologyAssignment(
        (HOSTNAME,),
        (DomainPods(("b1-r1-n0",), 2), DomainPods(("b1-r2-n0",), 1), DomainPods(("b1-r2-n1",), 1)),
    )
    of.drop_node("b1-r2-n1")
    request = asks(4, unconstrained=True, slices=(PodSetSlice(RACK, 2),))
    whole, new = replacement(of.flavors["f"], request, given, "b1-r2-n1", Situation({}))
    assert {values[0]: pods for values, pods in whole} == {"b1-r1-n0": 2, "b1-r2-n0": 2}
    assert list(new) == [DomainPods(("b1-r2-n0",), 1)]


def test_a_slice_that_cannot_be_filled_up_where_it_is_is_not_mended() -> None:
    of = fleet(nodes={"b1-r1": (2, 2), "b1-r2": (1, 2)})
    given = TopologyAssignment((HOSTNAME,), (DomainPods(("b1-r2-n0",), 1), DomainPods(("b1-r2-n1",), 1)))
    of.drop_node("b1-r2-n1")
    of.put_pod("ns/p", "b1-r2-n0", {"cpu": 1000})
    request = asks(2, unconstrained=True, slices=(PodSetSlice(RACK, 2),))
    with pytest.raises(Refusal):
        replacement(of.flavors["f"], request, given, "b1-r2-n1", Situation({}))


def test_a_slice_within_another_stays_whole_where_the_outer_one_is_filled_up() -> None:
    """Of four pods in a rack, two at a time on a node, one node's two have failed: both go to one node of that rack."""
    of = fleet(nodes={"b1-r1": (4,), "b1-r2": (2, 2, 1, 1, 3)})
    given = TopologyAssignment((HOSTNAME,), (DomainPods(("b1-r2-n0",), 2), DomainPods(("b1-r2-n1",), 2)))
    of.drop_node("b1-r2-n1")
    of.put_pod("ns/p", "b1-r2-n0", {"cpu": 2000})
    request = asks(4, unconstrained=True, slices=(PodSetSlice(RACK, 4), PodSetSlice(HOSTNAME, 2)))
    whole, new = replacement(of.flavors["f"], request, given, "b1-r2-n1", Situation({}))
    assert list(new) == [DomainPods(("b1-r2-n4",), 2)]
    assert {values[0]: pods for values, pods in whole} == {"b1-r2-n0": 2, "b1-r2-n4": 2}


def test_whole_slices_that_have_failed_may_go_anywhere() -> None:
    of = fleet(nodes={"b1-r1": (2,), "b1-r2": (2, 2)})
    given = TopologyAssignment((HOSTNAME,), (DomainPods(("b1-r2-n0",), 2), DomainPods(("b1-r2-n1",), 2)))
    of.drop_node("b1-r2-n1")
    of.put_pod("ns/p", "b1-r2-n0", {"cpu": 2000})
    request = asks(4, unconstrained=True, slices=(PodSetSlice(RACK, 2),))
    _, new = replacement(of.flavors["f"], request, given, "b1-r2-n1", Situation({}))
    assert list(new) == [DomainPods(("b1-r1-n0",), 2)]


def test_a_copy_of_a_fleet_changes_without_the_first_one() -> None:
    of = fleet()
    of.put_workload("ns/w", (Placed("f", ("b1-r2-n0",), {"cpu": 1000}, 2),))
    of.put_pod("ns/p", "b2-r1-n0", {"cpu": 1000})
    before = placed(of, asks(2, required=RACK)), placed(of, asks(5, required=RACK))
    made = of.copied()
    assert made.flavors["f"].fleet is made
    assert (placed(made, asks(2, required=RACK)), placed(made, asks(5, required=RACK))) == before
    made.put_workload("ns/v", (Placed("f", ("b2-r1-n1",), {"cpu": 1000}, 3),))
    made.put_pod("ns/q", "b2-r1-n0", {"cpu": 1000})
    made.drop_workload("ns/w")
    made.drop_pod("ns/p")
    assert (placed(of, asks(2, required=RACK)), placed(of, asks(5, required=RACK))) == before
    assert placed(made, asks(4, required=RACK)) == {"b1-r2-n0": 4}
    made.drop_node("b1-r2-n0")
    assert placed(of, asks(2, required=RACK)) == before[0]
    of.drop_node("b2-r1-n0")
    assert placed(made, asks(2, required=RACK)) == {"b2-r1-n0": 2}
    assert (sorted(of._placed), sorted(made._placed)) == (["ns/w"], ["ns/v"])


def test_a_fleet_is_copied_before_anybody_has_looked_at_its_trees() -> None:
    made = fleet().copied()
    assert placed(made, asks(4, required=RACK)) == {"b1-r2-n0": 4}
