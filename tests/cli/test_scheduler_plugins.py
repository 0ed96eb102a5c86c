"""Plugins of others, installed as packages with an entry point: each extension point is asked, in `run` and in
`evaluate`.
"""

from __future__ import annotations

import json
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from controlplane.app.scheduler_plugins import registry
from controlplane.controllers.scheduling.framework.registry import GROUP, IN_TREE
from controlplane.kube.kinds import PODS, PRIORITY_CLASSES, Json
from tests.cli.conftest import Here
from tests.cli.installed import POINTS, install
from tests.cli.processes import finished, running, stopped
from tests.scheduler.objects import node, pod
from tests.scheduling.stage import HOST, Cluster, until

ROOT = Path(__file__).parents[2]
ASKED = {"pre_filter", "add_pod", "remove_pod", "filter", "post_filter", "pre_score", "score", "normalize"}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny distribution on the path of every process that is started; where it writes down what was asked of it."""
    found = install(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("TINY_TOLD", str(found))
    return found


def lines(path: Path, *questions: Json) -> str:
    path.write_text("\n".join(json.dumps(question) for question in questions))
    return str(path)


def test_evaluate_asks_an_installed_plugin(told: Path, tmp_path: Path) -> None:
    nodes = [node("best"), node("bad"), node("good")]
    other = pod("other", on="good")
    question = {"pod": pod("new"), "nodes": nodes, "pods": [other], "simulate": [{"op": "remove", "pod": "other"}]}
    adding = {"pod": pod("new"), "nodes": nodes, "simulate": [{"op": "add", "pod": other}]}
    nowhere = {"pod": pod("new"), "nodes": [node("bad")]}
    asked = lines(tmp_path / "lines.jsonl", question, adding, nowhere)
    done = finished("scheduler", "evaluate", "--scheduler-config", str(tmp_path / "profiles.yaml"), asked)
    assert done.returncode == 0, done.stderr + done.stdout
    first, _, third = map(json.loads, done.stdout.splitlines())
    tiny = first["perPlugin"]["Tiny"]
    assert tiny["filter"]["bad"] == {"code": "Unschedulable", "reasons": ["node(s) are bad"]}
    assert tiny["score"] == {"best": [7, 70], "bad": [1, 10], "good": [1, 10]}
    assert first["combined"]["feasible"] == ["best", "good"]
    assert first["combined"]["best"] == ["best"]
    assert first["combined"]["scores"]["best"]["plugins"]["Tiny"] == 7000
    assert third["combined"]["filter"]["bad"]["plugin"] == "Tiny"
    assert set(told.read_text().split()) == ASKED
    people = finished(
        "scheduler", "evaluate", "--for-people", "--scheduler-config", str(tmp_path / "profiles.yaml"), asked
    )
    assert "Tiny: node(s) are bad" in people.stdout
    assert "Tiny 7000" in people.stdout


def test_evaluate_without_a_configuration_is_the_default_profile(told: Path, tmp_path: Path) -> None:
    asked = lines(tmp_path / "lines.jsonl", {"pod": pod("new"), "nodes": [node("bad")]})
    done = finished("scheduler", "evaluate", asked)
    assert json.loads(done.stdout)["combined"]["feasible"] == ["bad"]
    assert told.read_text() == ""


def test_args_stand_in_the_profile_or_in_the_line(told: Path, tmp_path: Path) -> None:
    question = {"pod": pod("new"), "nodes": [node("a")], "hardPodAffinityWeight": 3, "id": 1}
    asked = lines(tmp_path / "lines.jsonl", question, {"pod": pod("new"), "nodes": [node("a")], "only": ["Tiny"]})
    done = finished("scheduler", "evaluate", "--scheduler-config", str(tmp_path / "profiles.yaml"), asked)
    assert done.returncode == 1
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"id": 1, "error": "hardPodAffinityWeight: args stand in the profile; leave it out of the line"}
    assert list(second["perPlugin"]) == ["Tiny"]


def test_evaluate_names_what_is_wrong_with_a_configuration(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "profiles.yaml"
    path.write_text("profiles: [{schedulerName: mine, plugins: {score: {enabled: [{name: Tiny}]}}}]")
    done = here("scheduler", "evaluate", "--scheduler-config", str(path), lines(tmp_path / "l", {"pod": pod("new")}))
    assert done.returncode == 3
    assert f"{path}: profiles[0].plugins.score.enabled[0].name: plugin 'Tiny' is not registered" in done.stderr


def test_the_pods_own_profile_is_asked(told: Path, tmp_path: Path) -> None:
    path = tmp_path / "profiles.yaml"
    found = yaml.safe_load(path.read_text())
    found["profiles"][0]["schedulerName"] = "tiny"
    found["profiles"].insert(
        0,
        {
            "schedulerName": "plain",
            "plugins": {**found["profiles"][0]["plugins"], "filter": {"disabled": [{"name": "Tiny"}]}},
        },
    )
    path.write_text(yaml.safe_dump(found))
    ours = pod("new", schedulerName="tiny")
    asked = lines(tmp_path / "l", {"pod": ours, "nodes": [node("bad")]}, {"pod": pod("new"), "nodes": [node("bad")]})
    done = finished("scheduler", "evaluate", "--scheduler-config", str(path), asked)
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["combined"]["feasible"], second["combined"]["feasible"]) == ([], ["bad"])


async def test_run_asks_an_installed_plugin_at_every_extension_point(
    told: Path, cluster: Cluster, database_url: str, tmp_path: Path
) -> None:
    for name, cpu in (("best", "1"), ("bad", "1"), ("good", "0.5")):
        cluster.node(name, cpu=cpu)
    cluster.store.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    cluster.pod("later", labels={"tiny": "later"})
    arguments = ("--database-url", database_url, "--kubeconfig", str(tmp_path / "kubeconfig"))
    profiles = ("--scheduler-config", str(tmp_path / "profiles.yaml"))
    with running(tmp_path / "errors", "scheduler", "run", *arguments, *profiles, http_port="0") as process:
        cluster.pod("first", cpu="0.1")
        await until(lambda: cluster.on("first"), (tmp_path / "errors").read_text)
        assert cluster.on("first") == "best"
        assert cluster.get("first")["metadata"]["annotations"]["example.com/node"] == "best"
        cluster.pod("drops", cpu="0.1", labels={"tiny": "drops"})
        await until(lambda: cluster.condition("drops").get("message") == "it was dropped")
        cluster.store.delete(PODS, "default", "drops")
        cluster.pod("low", cpu="0.9")
        await until(lambda: cluster.on("low"))
        cluster.pod("none", cpu="0.1", nodeSelector={HOST: "bad"})
        await until(lambda: cluster.condition("none").get("reason") == "Unschedulable")
        assert "1 node(s) are bad" in cluster.condition("none")["message"]
        cluster.pod("high", cpu="1", priorityClassName="high")
        await until(lambda: set(told.read_text().split()) >= POINTS, lambda: POINTS - set(told.read_text().split()))
        assert cluster.on("later") == ""
        assert stopped(process) == 0


def test_the_plugins_that_come_along_are_registered_like_others() -> None:
    """What an installation of this tree registers is what is in it, each by its own name."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    entries = [metadata.EntryPoint(name, value, GROUP) for name, value in written.items()]
    assert {entry.name: entry.load() for entry in entries} == dict(IN_TREE)
    assert registry(entries) == dict(IN_TREE)
