"""`controlplane coscheduling plan`: files in, a plan out, and exit code 1 for what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.__main__ import run as program
from controlplane.controllers.coscheduling.names import placeholder_name
from tests.coscheduling.samples import Json, claim, node, pod, run, stateful_set, task, template

SINGLE = placeholder_name("", "my-pipelinerun")


def flags(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "feature-flags"}, "data": data}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(name: str, *documents: Any) -> str:
        path = tmp_path / name
        path.write_text(documents[0] if isinstance(documents[0], str) else yaml.safe_dump_all(documents))
        return str(path)

    return write


@pytest.fixture
def as_json(capsys: pytest.CaptureFixture[str]) -> Any:
    def as_json(*arguments: str, code: int = 0) -> Json:
        assert program(["coscheduling", "plan", *arguments, "-o", "json"]) == code
        found: Json = json.loads(capsys.readouterr().out)
        return found

    return as_json


def test_the_shape(write: Any, as_json: Any) -> None:
    found = as_json(
        "-f", write("run.yaml", run(template("a"))), "--feature-flags", write("f.yaml", flags(coschedule="disabled"))
    )
    assert list(found) == [
        "mode",
        "error",
        "statefulSets",
        "persistentVolumeClaims",
        "taskRuns",
        "deletions",
        "cleanup",
        "adopted",
        "warnings",
    ]
    assert (found["mode"], found["error"]) == ("disabled", None)
    assert list(found["taskRuns"][0]) == ["task", "kind", "annotations", "workspaces", "podTemplate", "affinity"]


def test_streams_lists_and_several_files(write: Any, as_json: Any) -> None:
    around = {"kind": "List", "items": [stateful_set(SINGLE), {"kind": "PodList", "items": [pod(f"{SINGLE}-0", "n1")]}]}
    first = write("run.yaml", run(template("a")), None, node("n1", cordoned=True))
    config = write("f.yaml", flags(coschedule="pipelineruns"))
    found = as_json("-f", first, "-f", write("around.yaml", around), "--config", config)
    assert [one["metadata"]["name"] for one in found["deletions"]] == [f"{SINGLE}-0"]


def test_a_typed_list_says_what_its_items_are(write: Any, as_json: Any) -> None:
    bare = {key: value for key, value in node("n1", cordoned=True).items() if key not in ("apiVersion", "kind")}
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [bare]}
    files = write("all.yaml", run(), stateful_set(SINGLE), pod(f"{SINGLE}-0", "n1"), nodes)
    found = as_json("-f", files, "--config", write("f.yaml", flags(coschedule="pipelineruns")))
    assert found["deletions"][0]["reason"] == "NodeCordoned"
    broken = write("broken.yaml", {"kind": "NodeList", "items": [5]})
    assert "items[0]: the document: expected a Kubernetes object" in as_json("-f", broken, code=1)["error"]


def test_config_maps_may_be_among_the_objects_or_plain(write: Any, as_json: Any) -> None:
    among = write("all.yaml", run(), flags(coschedule="isolate-pipelinerun"))
    assert as_json("-f", among)["mode"] == "isolate-pipelinerun"
    assert as_json("-f", among, "--config", write("plain.yaml", {"coschedule": "disabled"}))["mode"] == "disabled"
    defaults = write("d.yaml", {"default-pod-template": "nodeSelector: {a: b}"})
    (made,) = as_json("-f", among, "--defaults", defaults)["statefulSets"]
    assert made["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}


def test_the_nop_image(write: Any, as_json: Any) -> None:
    container = {"name": "c", "args": ["-entrypoint-image", "e", "-nop-image", "example/nop:v1"]}
    controller = {
        "kind": "Deployment",
        "metadata": {"name": "tekton-pipelines-controller"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    path = write("all.yaml", run(), controller, flags(coschedule="pipelineruns"))

    def image(*arguments: str) -> str:
        (made,) = as_json("-f", path, *arguments)["statefulSets"]
        return str(made["spec"]["template"]["spec"]["containers"][0]["image"])

    assert image() == "example/nop:v1"
    assert image("--nop-image", "mine") == "mine"


def test_one_of_several_runs(write: Any, as_json: Any) -> None:
    path = write("runs.yaml", run(name="one"), run(name="two"), flags(coschedule="pipelineruns"))
    assert as_json("-f", path)["statefulSets"][0]["metadata"]["name"] == placeholder_name("", "one")
    assert as_json("-f", path, "--run", "two")["statefulSets"][0]["metadata"]["name"] == placeholder_name("", "two")
    assert 'none called "three", only one, two' in as_json("-f", path, "--run", "three", code=1)["error"]


def test_other_versions_and_other_peoples_pipeline_runs(write: Any, as_json: Any) -> None:
    other = run(name="other") | {"apiVersion": "example.dev/v1"}
    found = as_json("-f", write("all.yaml", other, run(), flags(coschedule="pipelineruns")))
    assert (found["statefulSets"][0]["metadata"]["name"], found["warnings"]) == (SINGLE, [])
    newer = as_json("-f", write("newer.yaml", run() | {"apiVersion": "tekton.dev/v2"}))
    assert 'apiVersion "tekton.dev/v2" is not known here: it is read as tekton.dev/v1' in newer["warnings"][0]
    as_json("-f", write("none.yaml", other), code=1)


def test_old_workers(write: Any, as_json: Any) -> None:
    data = {"coschedule": "pipelineruns", "disable-affinity-assistant": "false"}
    arguments = ["-f", write("run.yaml", run()), "--config", write("f.yaml", flags(**data))]
    assert as_json(*arguments)["error"] is None
    refused = as_json(*arguments, "--old-worker", code=1)
    assert (
        "coschedule value pipelineruns is incompatible with disable-affinity-assistant set to false" in refused["error"]
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "it is not YAML"),
        ("\tkind: Pod", "it is not YAML"),
        ("[" * 5000, "it is nested too deep to be read"),
        ("kind: PipelineRun\n---\na: [", "document 2: the document: it is not YAML"),
        ("- a", "expected a Kubernetes object, found a list"),
        ("a: b", "kind: it is not set"),
        ("kind: Pod", "there is none among the files"),
        ("{kind: PipelineRun, metadata: []}", "metadata: expected an object"),
        (
            "{kind: PipelineRun, metadata: {name: x}, spec: {workspaces: 1}}",
            "spec.workspaces: expected a list, found a number",
        ),
    ],
)
def test_what_is_refused(write: Any, as_json: Any, text: str, says: str) -> None:
    path = write("bad.yaml", text)
    found = as_json("-f", path, code=1)
    assert says in found["error"]
    assert "; " in found["error"]
    assert (found["statefulSets"], found["taskRuns"]) == ([], [])
    assert program(["coscheduling", "plan", "-f", path]) == 1


def test_the_exit_code_of_the_program(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("run.yaml", run(claim("a", "x"), claim("b", "y"), tasks=[task("t", "a", "b")]))
    assert program(["coscheduling", "plan", "-f", path, "-o", "json"]) == 1
    assert "more than one PersistentVolumeClaim" in json.loads(capsys.readouterr().out)["error"]
    assert program(["coscheduling", "plan", "-f", write("ok.yaml", run()), "-o", "json"]) == 0


def test_standard_input(write: Any, as_json: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    around = yaml.safe_dump_all([run(), flags(coschedule="isolate-pipelinerun")]).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(around)))
    assert as_json("-f", "-")["mode"] == "isolate-pipelinerun"
    assert program(["coscheduling", "plan", "-f", "-", "--config", "-"]) == 2


def test_what_is_not_utf_8(tmp_path: Path, as_json: Any) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("kind: PipelineRun # ä".encode("latin-1"))
    assert "it is not UTF-8 at byte 20; save it as UTF-8" in as_json("-f", str(path), code=1)["error"]


def test_for_people(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("all.yaml", run(template("a"), tasks=[task("build", "a")]), flags(coschedule="pipelineruns"))
    assert program(["coscheduling", "plan", "-f", path]) == 0
    first, heads, *rows = capsys.readouterr().out.splitlines()
    assert first == "PipelineRun my-pipelinerun: mode pipelineruns"
    assert heads.split() == ["ACTION", "KIND", "NAME", "WHY"]
    assert [row.split()[:3] for row in rows] == [["create", "StatefulSet", SINGLE], ["bind", "TaskRun", "build"]]


def test_times_stay_texts(write: Any, as_json: Any) -> None:
    text = (
        "kind: PipelineRun\nmetadata: {name: r, uid: u, labels: {at: 2026-01-01}}\nspec: {pipelineSpec: {tasks: "
        "[{name: t}]}}"
    )
    found = as_json("-f", write("run.yaml", text), "--config", write("f.yaml", flags(coschedule="pipelineruns")))
    assert found["statefulSets"][0]["metadata"]["labels"]["at"] == "2026-01-01"
