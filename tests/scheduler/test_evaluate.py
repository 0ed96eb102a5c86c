"""`controlplane scheduler evaluate`, from lines to lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.cli import cli
from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.lines import explained, said
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.controllers.scheduling.framework.configuration import build
from controlplane.controllers.scheduling.framework.configuration import read as read_configuration
from controlplane.controllers.scheduling.framework.plugin import CycleState, FilterPlugin
from controlplane.controllers.scheduling.framework.registry import IN_TREE
from controlplane.controllers.scheduling.framework.status import Status
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST, constraint, node, pod
from tests.scheduler.scenarios import scenarios
from tests.support.deep import examples
from tests.support.rows import each

CODES = {"Success", "Unschedulable", "UnschedulableAndUnresolvable", "Skip", "Error"}
TAINTED = {"taints": [{"key": "k", "effect": "NoSchedule"}]}


def line(**more: Any) -> Json:
    return {
        "id": "one",
        "pod": pod("new", {"app": "a"}, requests={"cpu": "1"}),
        "nodes": [node("a"), node("b")],
        **more,
    }


def run(*lines: Any, flags: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines)
    result = CliRunner().invoke(cli, ["scheduler", "evaluate", *flags], input=text, standalone_mode=False)
    assert result.exception is None, result.output
    return result.return_value, result.stdout.splitlines()


def test_a_line_for_a_line() -> None:
    code, lines = run(line(id=1), "", line(id={"any": "thing"}))
    assert code == 0
    assert [json.loads(one)["id"] for one in lines] == [1, {"any": "thing"}]


def test_files_and_stdin(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps(line(id="file")) + "\n")
    result = CliRunner().invoke(cli, ["scheduler", "evaluate", str(file), "-"], input=json.dumps(line(id="stdin")))
    assert [json.loads(one)["id"] for one in result.stdout.splitlines()] == ["file", "stdin"]


def test_the_shape() -> None:
    found = answer(read(line(nodes=[node("a"), node("b", **TAINTED), node("c")])))
    assert list(found) == ["id", "perPlugin", "combined", "preemption"]
    taints = found["perPlugin"]["TaintToleration"]
    assert list(taints) == ["filter", "preScore", "score"]  # it has no PreFilter
    assert taints["score"] == {"a": [0, 100], "b": [0, 100], "c": [0, 100]}
    skipped = {"preFilter": {"code": "Skip", "reasons": []}, "filter": {}, "preScore": {"code": "Skip"}, "score": {}}
    assert found["perPlugin"]["InterPodAffinity"] == skipped
    combined = found["combined"]
    refused = {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "TaintToleration",
        "reasons": ["node(s) had untolerated taint(s)"],
    }
    assert combined["filter"] == {
        "a": {"code": "Success", "plugin": "", "reasons": []},
        "b": refused,
        "c": {"code": "Success", "plugin": "", "reasons": []},
    }
    assert combined["feasible"] == combined["best"] == ["a", "c"]
    assert "InterPodAffinity" not in combined["scores"]["a"]["plugins"]
    assert sum(combined["scores"]["a"]["plugins"].values()) == combined["scores"]["a"]["total"]
    assert found["preemption"] == {"candidates": {}, "chosen": []}
    assert {"NodeResourcesFit:MostAllocated", "NodeResourcesFit:RequestedToCapacityRatio"} <= set(found["perPlugin"])


def test_a_single_feasible_node_is_not_scored() -> None:
    combined = answer(read(line(nodes=[node("a"), node("b", **TAINTED)])))["combined"]
    assert (combined["feasible"], combined["best"], combined["scores"]) == (["a"], ["a"], {})


@pytest.mark.parametrize("name", ["fitResources", "balancedResources", "rtcrShape", "defaultConstraints"])
def test_an_empty_list_is_as_good_as_none(name: str) -> None:
    assert answer(read(line(**{name: []}))) == answer(read(line(**{name: None}))) == answer(read(line()))


def test_only_names_plugins() -> None:
    names = ["NodeName", "NodeResourcesFit:MostAllocated"]
    assert list(answer(read(line(only=names)))["perPlugin"]) == names
    assert list(answer(read(line(only=[])))["perPlugin"]) == []


def test_simulated_pods_may_be_named() -> None:
    spread = pod("new", {"app": "a"}, topologySpreadConstraints=[constraint(HOST)])
    there = pod("p", {"app": "a"}, on="a")
    asked = line(pod=spread, pods=[there], only=["PodTopologySpread"])
    before = answer(read(asked))["perPlugin"]["PodTopologySpread"]["filter"]
    assert before["a"]["code"] == "Unschedulable"
    for named in ("p", "default/p", "uid-p", there):
        after = answer(read(asked | {"simulate": [{"op": "remove", "pod": named, "node": "a"}]}))
        assert after["perPlugin"]["PodTopologySpread"]["filter"]["a"]["code"] == "Success"
        assert after["combined"]["feasible"] == ["a", "b"]


def test_an_error_ends_the_cycle() -> None:
    broken = constraint(HOST, labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]})
    found = answer(read(line(pod=pod("new", topologySpreadConstraints=[broken]))))
    assert {status["code"] for status in found["combined"]["filter"].values()} == {"Error"}
    assert found["combined"]["error"]["plugin"] == "PodTopologySpread"
    assert found["preemption"] == {"candidates": {}, "chosen": []}


@each(
    ("more", "error"),
    [
        ({"pod": None}, "pod: a line needs the pod"),
        ({"nodes": {}}, "nodes: expected a list of objects, found dict"),
        ({"nodes": [{}]}, "nodes[0].metadata.name: a node needs a name"),
        ({"nodes": [node("a"), node("a")]}, "nodes[1].metadata.name: 'a' stands there twice"),
        ({"nodes": [node("a", allocatable={"cpu": "x"})]}, "nodes[0].status.allocatable[cpu]: not a quantity: 'x'"),
        ({"pods": [pod("p"), pod("p")]}, "pods[1].metadata: 'uid-p' stands there twice"),
        ({"pods": [{"metadata": {"labels": {"a": 1}}}]}, "pods[0].metadata.labels[a]: expected a string, found 1"),
        ({"pod": {"spec": {"priority": "high"}}}, "pod.spec.priority: expected an integer, found 'high'"),
        (
            {"pod": pod("n", requests={"cpu": "lots"})},
            "pod.spec.containers[c].resources.requests[cpu]: not a quantity: 'lots'",
        ),
        ({"pod": {"status": {"startTime": "noon"}}}, "pod.status.startTime: expected a time"),
        ({"pod": {"spec": {"containers": "c"}}}, "pod.spec.containers: expected a list of objects, found 'c'"),
        ({"filteredNodes": ["z"]}, "filteredNodes[0]: there is no node 'z' in nodes"),
        ({"simulate": [{"op": "move"}]}, "simulate[0].op: 'move' is neither add nor remove"),
        ({"simulate": [{"op": "add", "pod": "p"}]}, "simulate[0].pod: there is no pod 'p' in pods"),
        (
            {"simulate": [{"op": "add", "pod": pod("p"), "node": "z"}]},
            "simulate[0].node: there is no node 'z' in nodes",
        ),
        ({"only": ["NodeNames"]}, "only[0]: there is no plugin 'NodeNames'"),
        ({"defaultingType": "Some"}, "defaultingType: 'Some' is neither System nor List"),
        ({"hardPodAffinityWeight": 500}, "hardPodAffinityWeight: 500 is not within 0…100"),
        ({"fitResources": [{"name": 1}]}, "fitResources[0].name: expected `str`, got `int`"),
        ({"rtcrShape": [{"utilization": 0, "score": 11}]}, "rtcrShape[0].score: 11 is not within 0…10"),
        ({"fitResources": [{"name": "cpu", "weight": -1}]}, "fitResources[0].weight: -1 is not within 1…100"),
        ({"fitResources": [{"name": "cpu"}] * 2}, "fitResources: cpu stands there twice"),
        ({"balancedResources": [{"name": "cpu", "weight": 5}]}, "balancedResources[0].weight: 5 is not 1"),
        ({"services": [{"spec": {"selector": []}}]}, "services[0].spec.selector: expected an object"),
    ],
)
def test_a_bad_line_names_its_field_and_the_others_go_on(more: Json, error: str) -> None:
    code, lines = run(line(**more), line(id="next"))
    first, second = map(json.loads, lines)
    assert code == 1
    assert first["id"] == "one"
    assert error in first["error"]
    assert second["id"] == "next"
    assert "error" not in second


@each("text", ["{", "nope", "[]", "1", "null", '{"id": 7}'])
def test_what_is_no_question(text: str) -> None:
    code, lines = run(text, line())
    assert code == 1
    assert json.loads(lines[0])["error"]
    assert json.loads(lines[1])["id"] == "one"


@each(
    ("text", "ident", "error"),
    [
        (b'{"id": "a", "pod": {', "a", "line 4: not JSON: Input data was truncated"),
        (b'{ "id" : -7, "pod": nope}', -7, "line 4: not JSON: "),
        (b'{"id": "a\\"b", "pod": ]', 'a"b', "line 4: not JSON: "),
        (b'{"pod": {}, "id": 1', None, "line 4: not JSON: "),
        (b'{"id": {"a": 1}, ', None, "line 4: not JSON: "),
        (b'{"id": 5, "pod": {"metadata": {"name": "\xff"}}}', 5, "line 4: not UTF-8: "),
        (b'{"id": 6, "pod": ' + b'{"a":' * 100_000, 6, "line 4: nested too deep to be read"),
        (b"[" * 100_000, None, "line 4: nested too deep to be read"),
    ],
)
def test_a_line_that_cannot_be_decoded_keeps_its_id_if_that_stands_first(text: bytes, ident: Any, error: str) -> None:
    ok, encoded = said(text, 4)
    found = json.loads(encoded)
    assert not ok
    assert found["id"] == ident
    assert found["error"].startswith(error)


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    ok, encoded = said(b"\xef\xbb\xbf" + json.dumps(line(id=3)).encode(), 1)
    assert (ok, json.loads(encoded)["id"]) == (True, 3)


def test_for_people() -> None:
    nodes = [node("a"), node("b", **TAINTED), node("c", **TAINTED)]
    wide = pod("new", requests={"cpu": "3"}, priority=5)
    there = pod("p", on="a", requests={"cpu": "2"}, priority=5)
    code, lines = run(line(pod=wide, nodes=nodes, pods=[there]), flags=("--for-people",))
    assert code == 0
    assert lines[0] == (
        "[one] default/new: 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert lines[1].split() == ["a", "NodeResourcesFit:", "Insufficient", "cpu", "(Unschedulable)"]


def test_the_form_that_is_asked_for() -> None:
    asked = (line(id="a"), "{", line(id="b"))
    code, plain = run(*asked)
    assert code == 1
    assert run(*asked, flags=("-o", "json")) == (1, plain)
    assert run(*asked, flags=("-o", "table")) == run(*asked, flags=("--for-people",)) != (1, plain)
    code, documents = run(*asked, flags=("-o", "yaml"))
    assert code == 1
    assert list(yaml.safe_load_all("\n".join(documents))) == [json.loads(one) for one in plain]
    assert run(line(id="a"), line(id="b"), flags=("-o", "jsonpath={.id}")) == (0, ["a", "b"])


def test_for_people_who_can_have_it() -> None:
    _, lines = run(line(), "{", flags=("--for-people",))
    assert lines[0] == "[one] default/new: 2/2 nodes are available; goes to a or b"
    assert lines[1].strip().startswith("a  feasible, score ")
    assert "cannot be evaluated: line 2: not JSON" in lines[3]
    urgent = pod("new", requests={"cpu": "4"}, priority=5)
    there = [pod("p", on="a", requests={"cpu": "2"})]
    _, lines = run(line(pod=urgent, nodes=[node("a")], pods=there), flags=("--for-people",))
    assert lines[0].endswith("1 Insufficient cpu. preemption: would evict pods from a")
    assert lines[-1].strip() == "a  would have room without default/p"


@pytest.mark.generated
@settings(max_examples=examples(15, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_every_answer_has_the_shape(scenario: Json) -> None:
    ok, text = said(json.dumps(scenario).encode(), 1)
    found = json.loads(text)
    assert ok, found
    names = [one["metadata"]["name"] for one in scenario["nodes"]]
    for plugin in found["perPlugin"].values():
        assert plugin.get("preFilter", {"code": "Success"})["code"] in CODES
        assert list(plugin.get("filter", {})) in ([], names)
        assert list(plugin.get("score", {})) in ([], names)
    combined = found["combined"]
    assert list(combined["filter"]) == names
    assert combined["feasible"] == [name for name in names if combined["filter"][name]["code"] == "Success"]
    if "error" not in combined:
        totals = {name: score["total"] for name, score in combined["scores"].items()}
        best = [name for name, total in totals.items() if total == max(totals.values())]
        assert combined["best"] == (best if totals else combined["feasible"])
    assert set(found["preemption"]["chosen"]) <= set(found["preemption"]["candidates"])


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "name", "labels", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.generated
@settings(max_examples=examples(60, 400), deadline=None)
@given(st.dictionaries(st.sampled_from([*line(), "pods", "services", "simulate", "only", "storageClasses"]), JUNK))
def test_junk_never_stops_the_stream(junk: Json) -> None:
    ok, text = said(json.dumps(line() | junk).encode(), 1)
    found = json.loads(text)
    assert ok is ("error" not in found)


class Failing(FilterPlugin):
    name = "Failing"

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        raise RuntimeError("it fails in a way of its own")


@each("ask", [said, explained])
def test_a_plugin_that_fails_in_its_own_way_never_stops_the_stream(ask: Callable[..., tuple[bool, Any]]) -> None:
    profile = {"plugins": {"filter": {"enabled": [{"name": "Failing"}]}}}
    configured = build(read_configuration({"profiles": [profile]}), {**IN_TREE, "Failing": Failing})
    ok, found = ask(json.dumps(line()).encode(), 1, configured)
    assert not ok
    assert "RuntimeError: it fails in a way of its own" in str(found)


def test_the_example_in_the_reference_is_what_it_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parents[2]
    monkeypatch.chdir(root)
    page = (root / "docs/reference/scheduler-evaluate.md").read_text()
    command, _, shown = page.partition("```console\n$ controlplane ")[2].partition("```")[0].partition("\n")
    result = CliRunner().invoke(cli, command.split())
    assert result.stdout == shown
