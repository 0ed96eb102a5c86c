"""What a run is charged: its largest wave and its placeholders, on the command line and in the simulated framework's
Workload.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.__main__ import run as program
from controlplane.controllers.coscheduling.feasibility.accounting import account, account_json
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import find_pipeline
from controlplane.job_kinds.pipelinerun import PipelineRun
from controlplane.kube.pod_requests import amounts, effective
from tests.coscheduling.samples import Json, claim, read, run, template
from tests.coscheduling.test_fit import step

TASKS = [step("2", "a"), step("1", "b"), step("4", "c", "a", "b")]


@pytest.mark.parametrize(
    ("mode", "placeholders", "total"),
    [
        ("pipelineruns", 1, {"cpu": "4050m", "memory": "2148Mi", "pods": "3"}),
        ("isolate-pipelinerun", 1, {"cpu": "4050m", "memory": "2148Mi", "pods": "3"}),
        ("workspaces", 2, {"cpu": "4100m", "memory": "2248Mi", "pods": "4"}),
        ("disabled", 0, {"cpu": "4", "memory": "2Gi", "pods": "2"}),
    ],
)
def test_the_account(mode: str, placeholders: int, total: dict[str, str]) -> None:
    obj = run(template("x"), claim("y", "data"), claim("z", "data"), tasks=TASKS)
    found = account_json(account(read(obj), find_pipeline(read(obj), ObjectsByKind()), Mode(mode)))
    assert found == {"placeholders": placeholders, "tasks": {"cpu": "4", "memory": "2Gi", "pods": "2"}, "total": total}


@pytest.fixture
def charged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def charged(obj: Json, *words: str, code: int = 0) -> Any:
        path = tmp_path / "run.yaml"
        path.write_text(yaml.safe_dump(obj))
        assert program(["coscheduling", "charge", "-f", str(path), *words]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if "json" in words else said.out + said.err

    return charged


def test_the_command_line_says_what_a_run_is_charged(charged: Any) -> None:
    obj = run(template("x"), tasks=TASKS, managedBy="kueue.x-k8s.io/multikueue")
    obj["spec"]["status"] = "PipelineRunPending"
    found = charged(obj, "-o", "json")
    assert (found["mode"], found["placeholders"], found["total"]["pods"]) == ("workspaces", 1, "3")
    obj["metadata"]["annotations"] = {"controlplane/coschedule": "disabled"}
    assert charged(obj, "-o", "json")["placeholders"] == 0
    found = charged(obj, "--mode", "pipelineruns", "-o", "json")
    assert found["total"] == {"cpu": "4050m", "memory": "2148Mi", "pods": "3"}
    told = charged(obj, "--mode", "pipelineruns")
    assert "PipelineRun my-pipelinerun: mode pipelineruns, placeholders 1" in told
    assert re.search(r"cpu +4 +4050m", told)


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        (run(tasks=[step("much", "a")]), "not a quantity: 'much'"),
        (run(annotations={"controlplane/coschedule": "all"}), '"all" is not a mode'),
        (run(tasks=[step("1", "a", "b"), step("1", "b", "a")]), "wait for each other in a circle"),
    ],
)
def test_what_cannot_be_reckoned_is_refused(charged: Any, obj: Json, says: str) -> None:
    assert says in charged(obj, code=1)


@pytest.mark.parametrize("mode", [mode.value for mode in Mode])
def test_the_simulated_framework_asks_for_what_the_account_says(mode: str) -> None:
    """Independent code, the same rule. Its levels are waves where no task of one level outlasts the next."""
    even = [step("2", "a"), step("2", "b"), step("1", "c", "a", "b")]
    obj = run(template("x"), claim("y", "data"), tasks=even, annotations={"controlplane/coschedule": mode})
    asked: dict[str, int] = {}
    pods = 0
    for pod_set in PipelineRun().pod_sets(obj):
        one: dict[str, Any] = effective(pod_set["template"]["spec"])
        asked = {name: asked.get(name, 0) + one.get(name, 0) * pod_set["count"] for name in {*asked, *one}}
        pods += pod_set["count"]
    total = account(read(obj), find_pipeline(read(obj), ObjectsByKind()), Mode(mode)).total
    assert {**asked, "pods": pods} == total


def test_amounts_are_exact() -> None:
    found = account(read(run(tasks=TASKS)), find_pipeline(read(run(tasks=TASKS)), ObjectsByKind()), Mode.PIPELINERUNS)
    assert found.total["cpu"] == amounts({"cpu": "4050m"})["cpu"]
