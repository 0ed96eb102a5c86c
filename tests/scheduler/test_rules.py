"""The other plugins, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST, ZONE, node, pod, term
from tests.support.rows import each

MI = 2**20


def ask(plugin: str, incoming: Json, nodes: list[Json], pods: list[Json] | None = None, **more: Any) -> Json:
    line = {"id": 1, "pod": incoming, "nodes": nodes, "pods": pods or [], "only": [plugin], **more}
    return answer(read(line))["perPlugin"][plugin]


def of(found: Json, name: str = "n") -> tuple[str, list[str]]:
    status = found["filter"][name]
    return status["code"], status["reasons"]


FIT = "NodeResourcesFit"
HOPELESS, TIGHT, FINE = "UnschedulableAndUnresolvable", "Unschedulable", "Success"


@each(
    ("requests", "room", "code", "reasons"),
    [
        ({"cpu": "1"}, {}, FINE, []),
        ({"cpu": "3"}, {}, TIGHT, ["Insufficient cpu"]),
        ({"cpu": "2"}, {}, FINE, []),
        ({"cpu": "5"}, {}, HOPELESS, ["Insufficient cpu"]),
        ({"cpu": "3", "memory": "9Gi"}, {}, HOPELESS, ["Insufficient cpu", "Insufficient memory"]),
        ({"cpu": "1"}, {"pods": "1"}, TIGHT, ["Too many pods"]),
        ({}, {"pods": "1"}, TIGHT, ["Too many pods"]),
        ({"cpu": "9"}, {"pods": "0"}, HOPELESS, ["Too many pods", "Insufficient cpu"]),
        ({"example.com/gpu": "1"}, {}, HOPELESS, ["Insufficient example.com/gpu"]),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, FINE, []),
        ({"example.com/gpu": "0"}, {}, FINE, []),
        ({"unknown": "1"}, {}, FINE, []),
        ({"hugepages-2Mi": "2Mi"}, {}, HOPELESS, ["Insufficient hugepages-2Mi"]),
    ],
)
def test_fit(requests: dict[str, str], room: dict[str, str], code: str, reasons: list[str]) -> None:
    there = pod("there", on="n", requests={"cpu": "2"})
    assert of(ask(FIT, pod("new", requests=requests), [node("n", allocatable=room)], [there])) == (code, reasons)


def test_a_node_that_names_no_pods_takes_none() -> None:
    bare = node("n")
    del bare["status"]["allocatable"]["pods"]
    assert of(ask(FIT, pod("new"), [bare])) == (TIGHT, ["Too many pods"])


@each(
    ("plugin", "requests", "score"),
    [
        # 4 cpu and 8 GiB with 2 cpu and 2 GiB taken.
        (FIT, {"cpu": "1", "memory": "2Gi"}, (25 + 50) // 2),
        (FIT, {}, (47 + 72) // 2),  # 100m and 200 MiB are assumed: 1900·100/4000 = 47, (6144 - 200)·100/8192 = 72
        (FIT, {"cpu": "0", "memory": "0"}, (50 + 75) // 2),
        (FIT, {"cpu": "9", "memory": "2Gi"}, (0 + 50) // 2),
        (f"{FIT}:MostAllocated", {"cpu": "1", "memory": "2Gi"}, (75 + 50) // 2),
        (f"{FIT}:MostAllocated", {"cpu": "9", "memory": "2Gi"}, (100 + 50) // 2),
    ],
)
def test_fit_scores(plugin: str, requests: dict[str, str], score: int) -> None:
    there = pod("there", on="n", requests={"cpu": "2", "memory": "2Gi"})
    assert ask(plugin, pod("new", requests=requests), [node("n")], [there])["score"]["n"] == [score, score]


def test_fit_scores_a_pod_level_request_as_if_it_were_not_there() -> None:
    whole = pod("new", resources={"requests": {"cpu": "2", "memory": "4Gi"}})
    assert ask(FIT, whole, [node("n")])["score"] == ask(FIT, pod("new"), [node("n")])["score"]
    there = pod("there", on="n", resources={"requests": {"cpu": "2", "memory": "4Gi"}})
    assert ask(FIT, pod("new", requests={"cpu": "0", "memory": "0"}), [node("n")], [there])["score"]["n"] == [50, 50]
    assert of(ask(FIT, pod("new", resources={"requests": {"cpu": "5"}}), [node("n")]))[0] == HOPELESS


def test_scalar_resources_score_only_for_pods_that_ask_for_them() -> None:
    weights = [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 3}]
    room = node("n", allocatable={"example.com/gpu": "4"})
    asks = pod("new", requests={"cpu": "1", "example.com/gpu": "1"})
    assert ask(FIT, asks, [room], fitResources=weights)["score"]["n"][0] == (75 + 3 * 75) // 4
    asks = pod("new", requests={"cpu": "2", "example.com/gpu": "1"})
    assert ask(FIT, asks, [room], fitResources=weights)["score"]["n"][0] == (50 + 3 * 75) // 4
    assert ask(FIT, pod("new", requests={"cpu": "2"}), [room], fitResources=weights)["score"]["n"][0] == 50


@each(
    ("shape", "cpu", "score"),
    [
        ([(0, 0), (100, 10)], "1", 25),
        ([(0, 10), (100, 0)], "1", 75),
        ([(0, 10), (100, 1)], "1", 78),  # 100 + (10 - 100)·25/100 = 100 - 22.5, truncated towards zero: -22
        ([(20, 3), (40, 9)], "500m", 30),
        ([(20, 3), (40, 9)], "4", 90),
        ([(0, 0), (100, 0)], "1", 0),
    ],
)
def test_requested_to_capacity_ratio(shape: list[tuple[int, int]], cpu: str, score: int) -> None:
    points = [{"utilization": u, "score": s} for u, s in shape]
    plugin = f"{FIT}:RequestedToCapacityRatio"
    cpu_only = [{"name": "cpu", "weight": 1}]
    found = ask(plugin, pod("new", requests={"cpu": cpu}), [node("n")], rtcrShape=points, fitResources=cpu_only)
    assert found["score"]["n"] == [score, score]


@pytest.mark.parametrize(
    ("requests", "there", "score"),
    [
        ({"cpu": "2", "memory": "4Gi"}, {}, 75),  # even before and after
        ({"cpu": "4", "memory": "0"}, {}, 50),  # 50 + (50 + 50 - 100)//2
        ({"cpu": "2", "memory": "0"}, {"cpu": "0", "memory": "4Gi"}, 87),  # 75 before, 100 after
        ({"cpu": "8"}, {}, 50),  # more than there is counts as all
    ],
)
def test_balanced_allocation(requests: dict[str, str], there: dict[str, str], score: int) -> None:
    found = ask(
        "NodeResourcesBalancedAllocation",
        pod("new", requests=requests),
        [node("n")],
        [pod("p", on="n", requests=there)],
    )
    assert found["score"]["n"] == [score, score]


def test_balanced_allocation_skips_pods_that_ask_for_nothing() -> None:
    found = ask("NodeResourcesBalancedAllocation", pod("new"), [node("n")])
    assert (found["preScore"], found["score"]) == ({"code": "Skip"}, {})


def affinity(*terms: Json, kind: str = "required") -> Json:
    if kind == "required":
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    weighted = [{"weight": 10 * at, "preference": one} for at, one in enumerate(terms, start=1)]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


def label(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def name_is(*names: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


@each(
    ("spec", "pre", "code"),
    [
        ({}, "Skip", None),
        ({"nodeSelector": {}}, FINE, FINE),
        ({"nodeSelector": {"disk": "ssd"}}, FINE, FINE),
        ({"nodeSelector": {"disk": "hdd"}}, FINE, HOPELESS),
        ({"affinity": affinity()}, FINE, HOPELESS),
        ({"affinity": affinity({})}, FINE, HOPELESS),
        ({"affinity": affinity(label("disk", "In", "ssd"))}, FINE, FINE),
        ({"affinity": affinity(label("disk", "Gt", "x"), label("disk", "Exists"))}, FINE, FINE),
        ({"affinity": affinity(label("disk", "In"))}, FINE, HOPELESS),
        ({"affinity": affinity(name_is("n"))}, FINE, FINE),
        ({"affinity": affinity(name_is("n", "m"))}, HOPELESS, None),
    ],
)
def test_node_affinity(spec: Json, pre: str, code: str | None) -> None:
    found = ask("NodeAffinity", pod("new", **spec), [node("n", {"disk": "ssd"})])
    assert found["preFilter"]["code"] == pre
    assert (of(found)[0] if found["filter"] else None) == code


def test_conflicting_names_are_told() -> None:
    found = ask("NodeAffinity", pod("new", affinity=affinity(name_is("n", "m"))), [node("n")])
    assert found["preFilter"]["reasons"] == ["pod affinity terms conflict"]


def test_node_affinity_prefers() -> None:
    wishes = affinity(label("disk", "In", "ssd"), label("rack", "Exists"), {}, kind="preferred")
    nodes = [node("a", {"disk": "ssd"}), node("b", {"rack": "1"}), node("c")]
    found = ask("NodeAffinity", pod("new", affinity=wishes), nodes)
    assert found["score"] == {"a": [10, 50], "b": [20, 100], "c": [0, 0]}
    assert ask("NodeAffinity", pod("new", affinity=affinity(kind="preferred")), nodes)["preScore"] == {"code": FINE}
    broken = pod("new", affinity=affinity(label("disk", "In"), kind="preferred"))
    assert ask("NodeAffinity", broken, nodes)["preScore"]["code"] == "Error"


def test_taints() -> None:
    nodes = [
        node("a", taints=[{"key": "k", "effect": "NoExecute"}]),
        node("b", taints=[{"key": "k", "effect": "PreferNoSchedule"}, {"key": "l", "effect": "PreferNoSchedule"}]),
        node("c", taints=[{"key": "l", "effect": "PreferNoSchedule"}]),
        node("d"),
    ]
    found = ask("TaintToleration", pod("new"), nodes)
    assert of(found, "a") == (HOPELESS, ["node(s) had untolerated taint(s)"])
    assert {name: pair for name, pair in found["score"].items() if name != "a"} == {
        "b": [2, 0],
        "c": [1, 50],
        "d": [0, 100],
    }
    tolerant = pod("new", tolerations=[{"key": "l", "operator": "Exists", "effect": "PreferNoSchedule"}])
    assert ask("TaintToleration", tolerant, nodes)["score"]["b"] == [1, 0]
    blind = pod("new", tolerations=[{"operator": "Exists", "effect": "NoExecute"}])
    assert ask("TaintToleration", blind, nodes)["score"]["b"] == [2, 0]


def test_cordoned_nodes() -> None:
    nodes = [node("n", unschedulable=True)]
    assert of(ask("NodeUnschedulable", pod("new"), nodes)) == (HOPELESS, ["node(s) were unschedulable"])
    key = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert of(ask("NodeUnschedulable", pod("new", tolerations=[key]), nodes))[0] == FINE


def test_the_name_in_the_spec() -> None:
    found = ask("NodeName", pod("new", on="m"), [node("n"), node("m")])
    assert of(found) == (HOPELESS, ["node(s) didn't match the requested node name"])
    assert of(found, "m")[0] == FINE


def with_port(name: str, port: int, ip: str = "", on: str = "", protocol: str = "") -> Json:
    made = pod(name, on=on)
    made["spec"]["containers"][0]["ports"] = [{"hostPort": port, "hostIP": ip, "protocol": protocol}]
    return made


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (with_port("new", 80), TIGHT),
        (with_port("new", 81), FINE),
        (with_port("new", 80, protocol="UDP"), FINE),
        (with_port("new", 80, ip="10.0.0.2"), FINE),
        (with_port("new", 80, ip="10.0.0.1"), TIGHT),
    ],
)
def test_host_ports(wanted: Json, code: str) -> None:
    found = ask("NodePorts", wanted, [node("n")], [with_port("p", 80, "10.0.0.1", on="n")])
    assert of(found)[0] == code
    assert ask("NodePorts", pod("new"), [node("n")])["preFilter"]["code"] == "Skip"


def near(*terms: Json, kind: str = "podAffinity") -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def test_affinity_to_others_and_to_oneself() -> None:
    nodes = [node("a", {ZONE: "z1"}), node("b", {ZONE: "z2"}), node("bare")]
    wish = pod("new", {"app": "b"}, **near(term(ZONE)))
    found = ask("InterPodAffinity", wish, nodes, [pod("p", {"app": "a"}, on="a")])
    assert of(found, "a")[0] == FINE
    assert of(found, "b") == (HOPELESS, ["node(s) didn't match pod affinity rules"])
    alone = pod("new", {"app": "a"}, **near(term(ZONE)))
    found = ask("InterPodAffinity", alone, nodes)
    assert [of(found, name)[0] for name in ("a", "b", "bare")] == [FINE, FINE, HOPELESS]


def test_anti_affinity_of_either_side() -> None:
    nodes = [node("a", {ZONE: "z1"}), node("b", {ZONE: "z2"})]
    shy = pod("new", {"app": "b"}, **near(term(ZONE), kind="podAntiAffinity"))
    there = pod("p", {"app": "a"}, on="a")
    assert of(ask("InterPodAffinity", shy, nodes, [there]), "a") == (
        TIGHT,
        ["node(s) didn't match pod anti-affinity rules"],
    )
    hostile = pod("p", {"app": "b"}, on="a", **near(term(ZONE), kind="podAntiAffinity"))
    told = ["node(s) didn't satisfy existing pods anti-affinity rules"]
    assert of(ask("InterPodAffinity", pod("new", {"app": "a"}), nodes, [hostile]), "a") == (TIGHT, told)


@each(
    ("where", "code"),
    [
        ({}, HOPELESS),
        ({"namespaces": ["other"]}, FINE),
        ({"namespaceSelector": {}}, FINE),
        ({"namespaceSelector": {"matchLabels": {"team": "t"}}}, FINE),
        ({"namespaceSelector": {"matchLabels": {"team": "u"}}}, HOPELESS),
        ({"namespaces": [], "namespaceSelector": None}, HOPELESS),
    ],
)
def test_namespaces_of_a_term(where: Json, code: str) -> None:
    there = pod("p", {"app": "a"}, on="n", meta={"namespace": "other", "uid": "p"})
    named = [{"metadata": {"name": "other", "labels": {"team": "t"}}}]
    wish = pod("new", {"app": "b"}, **near(term(HOST, **where)))
    assert of(ask("InterPodAffinity", wish, [node("n")], [there], namespaces=named))[0] == code


@pytest.mark.parametrize(("weight", "scores"), [(1, [1, 100]), (7, [7, 100]), (0, None)])
def test_required_terms_of_existing_pods_attract(weight: int, scores: list[int] | None) -> None:
    friend = pod("p", {"app": "b"}, on="a", **near(term(HOST)))
    found = ask(
        "InterPodAffinity", pod("new", {"app": "a"}), [node("a"), node("b")], [friend], hardPodAffinityWeight=weight
    )
    assert found["score"].get("a") == scores
    assert found["preScore"]["code"] == ("Skip" if scores is None else FINE)


def test_images() -> None:
    big = [{"names": ["big:latest"], "sizeBytes": 1000 * MI}]
    found = ask("ImageLocality", pod("new", image="big"), [node("a", images=big), node("b")])
    # Half of the nodes have it: 500 MiB of it count, (500 - 23)/(1000 - 23).
    assert found["score"] == {"a": [48, 48], "b": [0, 0]}


def test_image_volumes_count_but_raise_no_threshold() -> None:
    big = [{"names": ["big:1"], "sizeBytes": 500 * MI}]
    with_volume = pod("new", volumes=[{"name": "v", "image": {"reference": "big:1"}}])
    found = ask("ImageLocality", with_volume, [node("n", images=big)])
    assert found["score"] == {"n": [48, 48]}  # of one container: (500 - 23)/(1000 - 23)


def test_of_an_image_listed_twice_the_first_size_counts() -> None:
    twice = [{"names": ["app:latest"], "sizeBytes": size * MI} for size in (500, 900)]
    assert ask("ImageLocality", pod("new"), [node("n", images=twice)])["score"] == {"n": [48, 48]}


def test_a_pod_that_is_to_be_scheduled_asks_for_what_its_spec_says() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}
    resized = pod("new", requests={"cpu": "1"}, status=status)
    assert of(ask(FIT, resized, [node("n")])) == (FINE, [])
    there = pod("there", on="n", requests={"cpu": "1"}, status=status)
    assert of(ask(FIT, pod("new", requests={"cpu": "1"}), [node("n")], [there])) == (TIGHT, ["Insufficient cpu"])


@pytest.mark.parametrize("huge", ["9Ei", "9223372036854775807", "1e30"])
def test_amounts_that_no_machine_has_are_cut_off(huge: str) -> None:
    asking = pod("new", requests={"cpu": huge, "memory": huge})
    there = [pod(f"p{at}", on="n", requests={"cpu": huge, "example.com/gpu": huge}) for at in range(3)]
    vast = node("n", allocatable={"cpu": huge, "memory": huge, "example.com/gpu": huge})
    assert of(ask(FIT, asking, [vast], there)) == (TIGHT, ["Insufficient cpu"])
    assert of(ask(FIT, asking, [node("n")], there)) == (HOPELESS, ["Insufficient cpu", "Insufficient memory"])
    assert ask(FIT, pod("new"), [vast])["score"]["n"] == [100 - 1, 100 - 1]


BROKEN = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}
ONE_BROKEN = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term(ZONE)],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": BROKEN}],
    }
}


def test_a_term_that_does_not_parse_is_the_pods_own_fault() -> None:
    found = ask("InterPodAffinity", pod("new", affinity=ONE_BROKEN), [node("n", {ZONE: "z"})])
    assert found["preFilter"]["code"] == HOPELESS
    assert "labelSelector.matchExpressions[0].operator" in found["preFilter"]["reasons"][0]
    assert found["preScore"]["code"] == "Error"


def test_of_an_existing_pod_the_other_kinds_of_terms_still_count() -> None:
    there = pod("there", on="n", affinity=ONE_BROKEN)
    found = ask("InterPodAffinity", pod("new", {"app": "a"}), [node("n", {ZONE: "z"})], [there])
    assert of(found) == (TIGHT, ["node(s) didn't satisfy existing pods anti-affinity rules"])


def test_node_affinity_skips_whatever_is_scored() -> None:
    found = ask("NodeAffinity", pod("new"), [node("n")], filteredNodes=[])
    assert (found["preScore"], found["score"]) == ({"code": "Skip"}, {})
