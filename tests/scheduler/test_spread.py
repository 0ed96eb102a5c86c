"""PodTopologySpread, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST, ZONE, constraint, node, pod
from tests.support.rows import each

SPREAD = "PodTopologySpread"
MISSING = ["node(s) didn't match pod topology spread constraints (missing required label)"]
SKEWED = ["node(s) didn't match pod topology spread constraints"]
SERVICE = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "a"}}}


def spread(incoming: Json, nodes: list[Json], pods: list[Json], **more: Any) -> Json:
    line = {"id": 1, "pod": incoming, "nodes": nodes, "pods": pods, "only": [SPREAD], **more}
    return answer(read(line))["perPlugin"][SPREAD]


def zones(**counts: int) -> tuple[list[Json], list[Json]]:
    """Return a node in each zone, with so many pods of app=a."""
    nodes = [node(f"n-{zone}", {ZONE: zone}) for zone in counts]
    pods = [pod(f"{zone}-{at}", {"app": "a"}, on=f"n-{zone}") for zone, count in counts.items() for at in range(count)]
    return nodes, pods


def codes(found: Json) -> dict[str, str]:
    return {name: status["code"] for name, status in found["filter"].items()}


def incoming(*constraints: Json, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    return pod("new", {"app": "a"} if labels is None else labels, topologySpreadConstraints=list(constraints), **spec)


def test_the_worked_example() -> None:
    """System defaults: soft over hostnames (3) and zones (5); nodes without a zone are one domain more, and not scored
    for it.
    """
    nodes = [node("a", {ZONE: "z1"}), node("b", {ZONE: "z2"}), node("c"), node("d")]
    pods = [pod(f"on-{name}", {"app": "a"}, on=name) for name in "acd"]
    found = spread(pod("new", {"app": "a"}), nodes, pods, services=[SERVICE])
    assert found["preFilter"]["code"] == "Skip"
    assert found["score"] == {"a": [9, 44], "b": [6, 77], "c": [4, 100], "d": [4, 100]}


@pytest.mark.parametrize(
    ("counts", "skew", "refused"),
    [
        ({"z1": 1, "z2": 3, "z3": 3}, 2, {"n-z2", "n-z3"}),  # the example of the seed: 4 - 1 > 2
        ({"z1": 1, "z2": 3, "z3": 3}, 3, set()),
        ({"z1": 0, "z2": 1}, 1, {"n-z2"}),
        ({"z1": 0, "z2": 0}, 1, set()),
    ],
)
def test_skew(counts: dict[str, int], skew: int, refused: set[str]) -> None:
    nodes, pods = zones(**counts)
    found = codes(spread(incoming(constraint(ZONE, skew)), nodes, pods))
    assert {name for name, code in found.items() if code == "Unschedulable"} == refused


def test_a_pod_that_its_selector_does_not_mean_counts_as_nothing_itself() -> None:
    nodes, pods = zones(z1=0, z2=1)
    assert codes(spread(incoming(constraint(ZONE), labels={}), nodes, pods))["n-z2"] == "Success"
    nodes, pods = zones(z1=0, z2=2)
    assert codes(spread(incoming(constraint(ZONE), labels={}), nodes, pods))["n-z2"] == "Unschedulable"


def test_a_node_without_the_label_is_hopeless_and_its_pods_do_not_count() -> None:
    nodes, pods = zones(z1=0, z2=0)
    found = spread(incoming(constraint(ZONE)), [*nodes, node("bare")], [*pods, pod("p", {"app": "a"}, on="bare")])
    assert found["filter"]["bare"] == {"code": "UnschedulableAndUnresolvable", "reasons": MISSING}
    assert codes(found)["n-z1"] == "Success"


def test_the_first_constraint_that_fails_is_told() -> None:
    nodes, pods = zones(z1=0, z2=1)
    both = [constraint(ZONE), constraint("rack")]
    found = spread(incoming(*both), nodes, pods)["filter"]["n-z2"]
    # No node has both keys, so nothing is counted, the skew is 1 and the missing label is what is left.
    assert found == {"code": "UnschedulableAndUnresolvable", "reasons": MISSING}
    racked = [
        {**one, "metadata": {**one["metadata"], "labels": {**one["metadata"]["labels"], "rack": "r"}}} for one in nodes
    ]
    found = spread(incoming(*both), [*racked, node("x", {ZONE: "z2"})], pods)["filter"]["x"]
    assert found == {"code": "Unschedulable", "reasons": SKEWED}


@pytest.mark.parametrize(("domains", "code"), [(1, "Success"), (2, "Success"), (3, "Unschedulable")])
def test_min_domains(domains: int, code: str) -> None:
    nodes, pods = zones(z1=1, z2=1)
    assert codes(spread(incoming(constraint(ZONE, minDomains=domains)), nodes, pods))["n-z1"] == code


def test_the_policies_say_which_nodes_count() -> None:
    nodes, pods = zones(z1=0, z2=1)
    nodes[0]["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    assert codes(spread(incoming(constraint(ZONE)), nodes, pods))["n-z2"] == "Unschedulable"
    honoured = incoming(constraint(ZONE, nodeTaintsPolicy="Honor"))
    assert codes(spread(honoured, nodes, pods))["n-z2"] == "Success"
    nodes[0]["spec"]["taints"] = []
    nodes[1]["metadata"]["labels"]["disk"] = "ssd"
    choosy = incoming(constraint(ZONE), nodeSelector={"disk": "ssd"})
    assert codes(spread(choosy, nodes, pods))["n-z2"] == "Success"
    ignoring = incoming(constraint(ZONE, nodeAffinityPolicy="Ignore"), nodeSelector={"disk": "ssd"})
    assert codes(spread(ignoring, nodes, pods))["n-z2"] == "Unschedulable"


def test_match_label_keys_count_only_pods_of_the_same_revision() -> None:
    nodes, pods = zones(z1=0, z2=1)
    keyed = constraint(ZONE, matchLabelKeys=["rev", "absent"])
    assert codes(spread(incoming(keyed, labels={"app": "a", "rev": "2"}), nodes, pods))["n-z2"] == "Success"
    pods[0]["metadata"]["labels"]["rev"] = "2"
    assert codes(spread(incoming(keyed, labels={"app": "a", "rev": "2"}), nodes, pods))["n-z2"] == "Unschedulable"


@pytest.mark.parametrize("selector", [None, {}])
def test_absent_and_empty_selectors_always_pass(selector: Json | None) -> None:
    nodes, pods = zones(z1=0, z2=5)
    assert set(codes(spread(incoming(constraint(ZONE, labelSelector=selector)), nodes, pods)).values()) == {"Success"}


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    nodes, _ = zones(z1=0, z2=0)
    going = pod("p", {"app": "a"}, on="n-z2", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    other = pod("q", {"app": "a"}, on="n-z2", meta={"namespace": "other", "uid": "q"})
    done = pod("r", {"app": "a"}, on="n-z2", status={"phase": "Succeeded"})
    assert codes(spread(incoming(constraint(ZONE)), nodes, [going, other, done]))["n-z2"] == "Success"


def test_a_terminating_pod_that_is_removed_counts_all_the_same() -> None:
    nodes, pods = zones(z1=1, z2=1)
    going = pod("p", {"app": "a"}, on="n-z1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    change = {"op": "remove", "pod": going, "node": "n-z1"}
    found = codes(spread(incoming(constraint(ZONE)), nodes, [*pods, going], simulate=[change]))
    assert found == {"n-z1": "Success", "n-z2": "Unschedulable"}


def test_a_selector_that_does_not_parse_is_the_pods_error() -> None:
    broken = constraint(ZONE, labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]})
    nodes, pods = zones(z1=0)
    found = spread(incoming(broken), nodes, pods)
    assert found["preFilter"]["code"] == "Error"
    assert (
        "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].values" in found["preFilter"]["reasons"][0]
    )
    assert found["filter"] == {}


@pytest.mark.parametrize(
    ("more", "preferred"),
    [
        ({"defaultingType": "List"}, None),
        ({"defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]}, "n-z1"),
        ({"services": []}, None),
    ],
)
def test_defaults_are_of_the_system_or_of_a_list(more: Json, preferred: str | None) -> None:
    nodes, pods = zones(z1=0, z2=3)
    found = spread(pod("new", {"app": "a"}), nodes, pods, **({"services": [SERVICE]} | more))
    if preferred is None:
        assert found["preScore"]["code"] == "Skip"
        assert found["score"] == {}
    else:
        assert max(found["score"], key=lambda name: found["score"][name][1]) == preferred


def test_a_default_may_be_hard() -> None:
    nodes, pods = zones(z1=0, z2=1)
    hard = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    found = spread(pod("new", {"app": "a"}), nodes, pods, services=[SERVICE], defaultConstraints=hard)
    assert codes(found) == {"n-z1": "Success", "n-z2": "Unschedulable"}
    soft_of_its_own = incoming(constraint(HOST, when="ScheduleAnyway"))
    found = spread(soft_of_its_own, nodes, pods, services=[SERVICE], defaultConstraints=hard)
    assert found["preFilter"]["code"] == "Skip"


@each(
    ("kind", "owner", "selector"),
    [
        ("replicaSets", {"apiVersion": "apps/v1", "kind": "ReplicaSet"}, {"matchLabels": {"app": "a"}}),
        ("statefulSets", {"apiVersion": "apps/v1", "kind": "StatefulSet"}, {"matchLabels": {"app": "a"}}),
        ("replicationControllers", {"apiVersion": "v1", "kind": "ReplicationController"}, {"app": "a"}),
    ],
)
@each("version", ["right", "wrong"])
def test_the_controller_gives_the_selector(kind: str, owner: Json, selector: Json, version: str) -> None:
    nodes, pods = zones(z1=0, z2=3)
    owner = {**owner, "name": "o", "controller": True} | (
        {} if version == "right" else {"apiVersion": "extensions/v1beta1"}
    )
    owned = pod("new", {"app": "a"}, meta={"ownerReferences": [owner]})
    controller = {"metadata": {"name": "o", "namespace": "default"}, "spec": {"selector": selector}}
    found = spread(owned, nodes, pods, **{kind: [controller]})
    assert found["preScore"]["code"] == ("Success" if version == "right" else "Skip")


def test_soft_constraints_ignore_nodes_without_a_key() -> None:
    nodes, pods = zones(z1=1, z2=0)
    found = spread(incoming(constraint(ZONE, when="ScheduleAnyway")), [*nodes, node("bare")], pods)
    assert found["score"]["bare"] == [0, 0]
    assert found["score"]["n-z2"][1] == 100


def test_filtered_nodes_register_the_domains() -> None:
    """Only the domains of the nodes that are scored count towards the weight, but pods are counted everywhere in
    them.
    """
    nodes = [node("a", {ZONE: "z1"}), node("b", {ZONE: "z1"}), node("c", {ZONE: "z2"})]
    pods = [pod(f"p{name}", {"app": "a"}, on=name) for name in "abc"]
    found = spread(incoming(constraint(ZONE, 2, when="ScheduleAnyway")), nodes, pods, filteredNodes=["a"])
    assert found["score"] == {"a": [3, 100]}  # 2 · ln 3 + 1 = 3.197
