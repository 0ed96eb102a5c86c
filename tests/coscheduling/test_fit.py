"""Which cluster can take a run, its largest wave, and what placeholders are charged."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.coscheduling.feasibility.nodes import (
    CandidateClusterFacts,
    NodeCapacity,
    candidates,
    charge,
    judge,
)
from controlplane.controllers.coscheduling.feasibility.task_groups import (
    ancestors,
    copies,
    demand,
    heaviest_antichain,
    largest_wave,
)
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import find_pipeline
from controlplane.controllers.coscheduling.problems import InputRefused
from controlplane.kube.quantities import nanos
from controlplane.kube.tolerations import Taint
from tests.coscheduling.samples import NS, Json, claim, empty, read, run, template
from tests.support.rows import each


def step(cpu: str, name: str = "t", *after: str, **more: Any) -> Json:
    steps = [{"name": "s", "computeResources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    return {"name": name, "runAfter": list(after), "taskSpec": {"steps": steps}, **more}


def uses(workspace: str, cpu: str, name: str, *after: str) -> Json:
    return step(cpu, name, *after, workspaces=[{"name": workspace}])


def wave(*tasks: Json, final: list[Json] | None = None, **spec: Any) -> tuple[int, int]:
    obj = run(tasks=list(tasks), final=final, **spec)
    found = largest_wave(read(obj), find_pipeline(read(obj), ObjectsByKind()))
    return found["cpu"] // 10**6, found["pods"]


@each(
    ("tasks", "most"),
    [
        ([step("1", "a")], (1000, 1)),
        ([step("1", "a"), step("2", "b", "a")], (2000, 1)),
        ([step("1", "a"), step("2", "b")], (3000, 2)),
        # A diamond, and a long branch beside it that meets both ends.
        ([step("1", "a"), step("2", "b", "a"), step("2", "c", "a"), step("1", "d", "b", "c")], (4000, 2)),
        ([step("5", "a"), step("1", "b", "a"), step("3", "x"), step("4", "y", "x")], (9000, 2)),
        ([step("1", "a", matrix={"params": [{"name": "p", "value": ["x", "y", "z"]}]})], (3000, 3)),
    ],
)
def test_the_largest_wave(tasks: list[Json], most: tuple[int, int]) -> None:
    assert wave(*tasks) == most


def test_results_order_tasks_as_run_after_does() -> None:
    later = step("2", "b", params=[{"name": "p", "value": "$(tasks.a.results.out)"}])
    assert wave(step("1", "a"), later) == (2000, 1)
    later = step("2", "b", when=[{"input": "$(tasks.a.results.out)", "operator": "in", "values": ["x"]}])
    assert wave(step("1", "a"), later) == (2000, 1)


def test_final_tasks_run_together_after_all_others() -> None:
    assert wave(step("3", "a"), final=[step("2", "x"), step("2", "y")]) == (4000, 2)


def test_what_a_task_asks_for() -> None:
    spec = {
        "stepTemplate": {"computeResources": {"requests": {"cpu": "1"}}},
        "steps": [{"name": "a"}, {"name": "b", "computeResources": {"limits": {"memory": "1Gi"}}}],
        "sidecars": [{"name": "c", "computeResources": {"requests": {"cpu": "500m"}}}],
    }
    obj = run(tasks=[{"name": "t", "taskSpec": spec}, {"name": "u", "taskRef": {"name": "unknown"}}])
    known, unknown = find_pipeline(read(obj), ObjectsByKind()).tasks
    assert demand(read(obj), known) == {"cpu": nanos("2500m"), "memory": nanos("1Gi"), "pods": 1}
    assert demand(read(obj), unknown) == {"pods": 1}
    obj["spec"]["taskRunSpecs"] = [{"pipelineTaskName": "t", "computeResources": {"requests": {"cpu": "8"}}}]
    assert demand(read(obj), known)["cpu"] == nanos("8")


@pytest.mark.parametrize(
    ("matrix", "count"),
    [
        (None, 1),
        ({"params": [{"name": "a", "value": ["1", "2"]}, {"name": "b", "value": ["1", "2", "3"]}]}, 6),
        ({"params": [{"name": "a", "value": "$(tasks.x.results.list[*])"}]}, 1),
        ({"include": [{"name": "x"}, {"name": "y"}]}, 2),
    ],
)
def test_a_matrix_fans_out(matrix: Any, count: int) -> None:
    assert copies(matrix) == count


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ([step("1", "a", "b"), step("1", "b", "a")], "tasks wait for each other in a circle: a, b"),
        ([step("1", "a", "gone")], 'task "a" waits for "gone"'),
    ],
)
def test_graphs_that_are_none(tasks: list[Json], says: str) -> None:
    with pytest.raises(InputRefused, match=says):
        wave(*tasks)


@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=7),
    edges=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))),
)
def test_the_heaviest_antichain_is_the_heaviest(weights: list[int], edges: set[tuple[int, int]]) -> None:
    names = [str(number) for number in range(len(weights))]
    waits = {name: {str(a) for a, b in edges if str(b) == name and a < b and b < len(names)} for name in names}
    before = ancestors(waits)

    def free(chosen: tuple[str, ...]) -> bool:
        return all(one not in before[other] for one in chosen for other in chosen)

    weighed = dict(zip(names, weights, strict=True))
    subsets = itertools.chain.from_iterable(itertools.combinations(names, size) for size in range(len(names) + 1))
    best = max(sum(weighed[name] for name in chosen) for chosen in subsets if free(chosen))
    assert heaviest_antichain(weighed, before) == best


# --- accounts ---


@pytest.mark.parametrize(
    ("mode", "count"), [("workspaces", 2), ("pipelineruns", 1), ("isolate-pipelinerun", 1), ("disabled", 0)]
)
def test_the_charge(mode: str, count: int) -> None:
    obj = run(template("a"), claim("b", "data"), claim("c", "data"), empty("d"))
    found = charge(read(obj), Mode(mode))
    assert found.placeholders == found.requests["pods"] == count
    assert found.requests["cpu"] == count * nanos("50m")
    assert found.requests["memory"] == count * nanos("100Mi")
    assert charge(read(run()), Mode(mode)).placeholders == int(Mode(mode).per_run)


# --- candidates ---


def room(name: str = "n", cpu: str = "4", pods: int = 10, **more: Any) -> NodeCapacity:
    return NodeCapacity(name=name, free={"cpu": nanos(cpu), "memory": nanos("64Gi")}, free_pods=pods, **more)


def facts(*nodes: NodeCapacity, mode: str = "pipelineruns", **more: Any) -> CandidateClusterFacts:
    given: dict[str, Any] = {"storage_classes": {"late": True, "early": False}, "default_class": "late"}
    given["claims"] = frozenset({(NS, "data")})
    return CandidateClusterFacts(**{"name": "c", "mode": Mode(mode), "nodes": nodes or (room(),), **given, **more})


def verdict(obj: Json, found: CandidateClusterFacts, mode: str = "pipelineruns") -> str:
    answer = judge(read(obj), find_pipeline(read(obj), ObjectsByKind()), Mode(mode), found)
    assert answer.fits is (answer.reason is None)
    return str(answer.reason.value) if answer.reason else ""


TWO = [step("2", "a"), step("1900m", "b")]


@each(
    ("nodes", "reason"),
    [
        ([room(cpu="3950m")], ""),
        ([room(cpu="3949m")], "NoNodeFits"),
        ([room(cpu="2"), room("m", cpu="2")], "NoNodeFits"),
        ([room(pods=3)], ""),
        ([room(pods=2)], "NoPodSlot"),
        ([room(pods=2), room("m")], ""),
        ([room(cordoned=True)], "NoNodeFits"),
        ([room(taints=(Taint("gpu", "", "NoSchedule"),))], "NoNodeFits"),
        ([room(taints=(Taint("gpu", "", "PreferNoSchedule"),))], ""),
    ],
)
def test_one_node_for_the_wave_with_its_placeholder(nodes: list[NodeCapacity], reason: str) -> None:
    assert verdict(run(tasks=TWO), facts(*nodes)) == reason


@pytest.mark.parametrize(
    ("template_", "node", "reason"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, room(labels={"disk": "ssd"}), ""),
        ({"nodeSelector": {"disk": "ssd"}}, room(), "NoNodeFits"),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, room(taints=(Taint("gpu", "", "NoSchedule"),)), ""),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                            ]
                        }
                    }
                }
            },
            room(labels={"zone": "b"}),
            "NoNodeFits",
        ),
    ],
)
def test_selectors_and_tolerations_are_honoured(template_: Json, node: NodeCapacity, reason: str) -> None:
    assert verdict(run(tasks=TWO, taskRunTemplate={"podTemplate": template_}), facts(node)) == reason


def test_a_task_whose_own_selector_leaves_the_placeholders_node() -> None:
    specs = [{"pipelineTaskName": "a", "podTemplate": {"nodeSelector": {"disk": "ssd"}}}]
    nodes = [room("plain"), room("ssd", cpu="1", labels={"disk": "ssd"})]
    assert verdict(run(tasks=TWO, taskRunSpecs=specs), facts(*nodes)) == "NoNodeFits"


@pytest.mark.parametrize(
    ("obj", "more", "reason"),
    [
        (run(claim("a", "data")), {}, ""),
        (run(claim("a", "elsewhere")), {}, "ClaimMissing"),
        (run(template("a")), {}, ""),
        (run(template("a")), {"default_class": ""}, "StorageClassMissing"),
        (run(template("a")), {"mode": "workspaces"}, "ModeDiffers"),
    ],
)
def test_claims_classes_and_mode(obj: Json, more: Json, reason: str) -> None:
    assert verdict(obj, facts(**more)) == reason


@pytest.mark.parametrize(("wanted", "reason"), [("early", ""), ("gold", "StorageClassMissing"), ("", "")])
def test_the_class_that_a_template_names(wanted: str, reason: str) -> None:
    binding = template("a")
    binding["volumeClaimTemplate"]["spec"]["storageClassName"] = wanted
    assert verdict(run(binding), facts()) == reason


def test_isolated_runs_need_a_node_without_a_placeholder_or_an_autoscaler() -> None:
    taken, free = room(placeholder=True), room("m")
    mode = "isolate-pipelinerun"
    assert verdict(run(), facts(taken, mode=mode), mode) == "EveryNodeHasARun"
    assert verdict(run(), facts(taken, free, mode=mode), mode) == ""
    assert verdict(run(), facts(taken, mode=mode, grows=True), mode) == ""
    assert verdict(run(), facts(taken)) == ""


def test_per_workspace_each_group_needs_a_node_not_the_whole_run() -> None:
    tasks = [uses("a", "2", "one"), uses("b", "2", "two"), step("2", "three")]
    obj, node = run(claim("a", "data"), template("b"), tasks=tasks), room(cpu="2050m")
    assert verdict(obj, facts(node, mode="workspaces"), "workspaces") == ""
    assert verdict(obj, facts(node)) == "NoNodeFits"
    assert verdict(obj, facts(node, mode="disabled"), "disabled") == ""


def test_the_copies_of_a_task_that_nothing_holds_need_no_common_node() -> None:
    matrix = {"params": [{"name": "p", "value": ["x", "y", "z"]}]}
    obj, node = run(tasks=[step("2", "a", matrix=matrix)]), room(cpu="3", pods=1)
    assert verdict(obj, facts(node, mode="disabled"), "disabled") == ""
    assert verdict(obj, facts(node, mode="workspaces"), "workspaces") == ""
    assert verdict(obj, facts(node)) == "NoNodeFits"


def test_what_is_not_known_of_a_cluster_refuses_nothing() -> None:
    obj = run(template("a"), tasks=TWO)
    nothing = CandidateClusterFacts(name="c", mode=None, storage_classes=None, nodes=None)
    for asked in (None, Mode.PIPELINERUNS):
        assert judge(read(obj), find_pipeline(read(obj), ObjectsByKind()), asked, nothing).fits
    # Without a mode nothing need be together; each task has to fit all the same.
    found = judge(read(obj), find_pipeline(read(obj), ObjectsByKind()), None, facts(room(cpu="2"), mode="disabled"))
    assert found.fits
    unknown = CandidateClusterFacts(name="c", mode=None, storage_classes=None, nodes=(room(cpu="1"),))
    assert judge(read(obj), find_pipeline(read(obj), ObjectsByKind()), None, unknown).reason == "NoNodeFits"


def test_the_clusters_own_mode_is_right_where_none_is_asked_for() -> None:
    obj = run(tasks=TWO)
    for mode, reason in (("disabled", None), ("pipelineruns", "NoNodeFits")):
        found = judge(read(obj), find_pipeline(read(obj), ObjectsByKind()), None, facts(room(cpu="3"), mode=mode))
        assert found.reason == reason


def test_a_cluster_that_grows_is_not_judged_by_the_nodes_of_today() -> None:
    assert verdict(run(tasks=TWO), facts(room(cpu="1"), grows=True)) == ""
    assert verdict(run(tasks=TWO), facts(room(pods=1), grows=True)) == ""
    assert verdict(run(claim("a", "elsewhere")), facts(grows=True)) == "ClaimMissing"


def test_what_is_remembered_of_nodes_changes_no_judgement() -> None:
    nodes = (room(cpu="3950m", placeholder=True), room("m", cpu="2", labels={"disk": "ssd"}))
    memo: dict[Any, Any] = {}
    seen = set()
    for mode, grows in itertools.product(Mode, (False, True)):
        for tasks in (TWO, [step("2", "a")], [step("3", "a")]):
            for spec in ({}, {"taskRunTemplate": {"podTemplate": {"nodeSelector": {"disk": "ssd"}}}}):
                obj = run(tasks=tasks, **spec)
                asked = read(obj), find_pipeline(read(obj), ObjectsByKind()), None
                plain = judge(*asked, facts(*nodes, mode=mode.value, grows=grows))
                if not grows:  # a memo is of one cluster, which grows or does not
                    for _ in range(2):
                        assert judge(*asked, facts(*nodes, mode=mode.value, memo=memo)) == plain
                seen.add(plain.reason)
    assert len(memo) > 6
    assert seen >= {None, "NoNodeFits", "EveryNodeHasARun"}


def test_the_reason_names_amounts() -> None:
    obj = run(tasks=TWO)
    found = judge(read(obj), find_pipeline(read(obj), ObjectsByKind()), None, facts(room(cpu="2"), room("m", cpu="1")))
    assert found.detail == (
        "no node has enough cpu: the largest wave of 2 tasks, with its placeholder, needs 3950m, "
        "and the most that a node has is 2"
    )


def test_clusters_that_bind_late_come_first_and_those_that_do_not_fit_last() -> None:
    clusters = [
        facts(name="z-full", mode="workspaces"),
        facts(name="b-early", default_class="early"),
        facts(name="c-late"),
    ]
    obj = run(template("a"))
    found = candidates(read(obj), find_pipeline(read(obj), ObjectsByKind()), Mode.PIPELINERUNS, clusters)
    assert [one.cluster for one in found] == ["c-late", "b-early", "z-full"]
